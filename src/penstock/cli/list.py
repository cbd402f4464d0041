"""penstock list"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click

from penstock.connectors import SINKS, SOURCES
from penstock.errors import CallError
from penstock.options import Options
from penstock.steps import STEPS

_ROLES: dict[str, Mapping[str, Any]] = {"source": SOURCES, "step": STEPS, "sink": SINKS}


def _kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    return sorted({name for known in _ROLES.values() for name in known if name.startswith(incomplete)})


@click.command(name="list", short_help="Show the connectors and kinds of steps, or the options of one.")
@click.argument("kind", required=False, shell_complete=_kinds)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(kind: str | None, as_json: bool) -> None:
    """Show every connector and kind of step; with KIND, its options.

    Example: penstock list kafka
    """
    kinds = sorted({name for known in _ROLES.values() for name in known})
    if kind is not None and kind not in kinds:
        near = get_close_matches(kind, kinds, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(kinds)}"
        raise CallError(f"there is no connector or step {kind!r}; {hint}")
    chosen = [
        (role, options)
        for role, known in _ROLES.items()
        for name, options in sorted(known.items())
        if kind in (None, name)
    ]
    if as_json:
        click.echo(json.dumps([_described(role, options) for role, options in chosen], indent=2))
        return
    for role, options in chosen:
        first = (options.__doc__ or "").strip().splitlines()[0]
        click.echo(f"{options.kind:<15}{role:<8}{first}")
        if kind is not None:
            _print_options(options)


def _print_options(options: type[Options]) -> None:
    for field in described(options):
        default = "required" if field["required"] else f"default {json.dumps(field['default'])}"
        click.echo(f"  {field['name']:<20} {field['description']} ({field['type']}; {default})")
    promise = getattr(options, "promise", None)
    if promise:
        click.echo(f"  promise: {promise}")
    modes = getattr(options, "modes", None)
    if modes:
        click.echo(f"  modes: {', '.join(sorted(modes))}")
    click.echo()


def _described(role: str, options: type[Options]) -> dict[str, Any]:
    says = (options.__doc__ or "").strip()
    return {"kind": options.kind, "role": role, "says": says, "options": described(options)}


def described(options: type[Options]) -> list[dict[str, Any]]:
    """The options of a class, as the file writes them: name, type, description, whether needed, default."""
    schema = options.model_json_schema(by_alias=True)
    hidden = {name for name, field in options.model_fields.items() if field.exclude}
    return [
        {
            "name": name,
            "type": _type(told),
            "description": told.get("description", ""),
            "required": name in schema.get("required", []),
            "default": told.get("default"),
        }
        for name, told in schema["properties"].items()
        if name not in hidden
    ]


def _type(told: dict[str, Any]) -> str:
    if "enum" in told or "const" in told:
        return " | ".join(str(value) for value in told.get("enum", [told.get("const")]))
    if "anyOf" in told:
        return " | ".join(dict.fromkeys(_type(part) for part in told["anyOf"] if part.get("type") != "null"))
    if told.get("type") == "array":
        return f"list of {_type(told.get('items', {'type': 'values'}))}"
    if "$ref" in told:
        return "mapping"
    names = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "true | false",
        "object": "mapping",
    }
    return names.get(str(told.get("type")), str(told.get("type", "value")))
