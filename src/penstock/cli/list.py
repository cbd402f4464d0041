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


@click.command(name="list", short_help="List connectors and kinds of step, or the options of one.")
@click.argument("kind", required=False, shell_complete=_kinds)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(kind: str | None, as_json: bool) -> None:
    """List every connector and kind of step; with KIND, show its options.

    Example: penstock list kafka
    """
    kinds = sorted({name for known in _ROLES.values() for name in known})
    if kind is not None and kind not in kinds:
        near = get_close_matches(kind, kinds, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(kinds)}"
        raise CallError(f"unknown connector or step {kind!r}; {hint}")
    chosen = [
        (role, options)
        for role, known in _ROLES.items()
        for name, options in sorted(known.items())
        if kind in (None, name)
    ]
    if as_json:
        click.echo(json.dumps([_describe(role, options) for role, options in chosen], indent=2))
        return
    for role, options in chosen:
        first = (options.__doc__ or "").strip().splitlines()[0]
        click.echo(f"{options.kind:<15}{role:<8}{first}")
        if kind is not None:
            _print_options(options)


def _print_options(options: type[Options]) -> None:
    for option in describe_options(options):
        default = "required" if option["required"] else f"default {json.dumps(option['default'])}"
        click.echo(f"  {option['name']:<20} {option['description']} ({option['type']}; {default})")
    promise = getattr(options, "promise", None)
    if promise:
        click.echo(f"  promise: {promise}")
    modes = getattr(options, "modes", None)
    if modes:
        click.echo(f"  modes: {', '.join(sorted(modes))}")
    click.echo()


def _describe(role: str, options: type[Options]) -> dict[str, Any]:
    says = (options.__doc__ or "").strip()
    return {"kind": options.kind, "role": role, "says": says, "options": describe_options(options)}


def describe_options(options: type[Options]) -> list[dict[str, Any]]:
    """The options of a class as written in a file: name, type, description, required, default."""
    schema = options.model_json_schema(by_alias=True)
    hidden = {name for name, field in options.model_fields.items() if field.exclude}
    return [
        {
            "name": name,
            "type": _type(field),
            "description": field.get("description", ""),
            "required": name in schema.get("required", []),
            "default": field.get("default"),
        }
        for name, field in schema["properties"].items()
        if name not in hidden
    ]


def _type(field: dict[str, Any]) -> str:
    if "enum" in field or "const" in field:
        return " | ".join(str(value) for value in field.get("enum", [field.get("const")]))
    if "anyOf" in field:
        return " | ".join(dict.fromkeys(_type(part) for part in field["anyOf"] if part.get("type") != "null"))
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {'type': 'values'}))}"
    if "$ref" in field:
        return "mapping"
    names = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "true | false",
        "object": "mapping",
    }
    return names.get(str(field.get("type")), str(field.get("type", "value")))
