"""penstock explain"""

from __future__ import annotations

import tempfile
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path

import click
import yaml

from penstock.checks import RULES
from penstock.cli import findings_of, format_finding
from penstock.errors import CallError
from penstock.model import Finding
from penstock.text import nearest


@dataclass(frozen=True)
class Rule:
    """One rule: what it requires and why."""

    name: str
    claim: str
    why: str
    wrong: str = ""
    """A file that breaks the rule; empty if one file cannot show it."""
    right: str = ""
    """The same file with the rule kept."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """Python modules next to both, by file name."""


@cache
def rules() -> dict[str, Rule]:
    """Every rule that a finding can name, in the order of the reference."""
    texts = yaml.safe_load((resources.files("penstock.cli") / "rules.yaml").read_text(encoding="utf-8"))
    claims = {rule.__name__.replace("_", "-"): (rule.__doc__ or "").strip() for rule in RULES}
    return {
        name: Rule(
            name,
            each.get("claim") or claims[name],
            each["why"].strip(),
            each.get("wrong", ""),
            each.get("right", ""),
            each.get("modules", {}),
        )
        for name, each in texts.items()
    }


def example(rule: Rule) -> list[Finding]:
    """The findings in the file that breaks the rule, as if it were `wrong.yaml` in this folder."""
    return _check_example(rule, "wrong.yaml", rule.wrong)


def right_example(rule: Rule) -> list[Finding]:
    """The findings in the file that keeps the rule, as if it were `right.yaml` in this folder."""
    return _check_example(rule, "right.yaml", rule.right)


def _check_example(rule: Rule, name: str, text: str) -> list[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        for file, content in {**rule.modules, name: text}.items():
            Path(folder, file).write_text(content, encoding="utf-8")
        return [
            Finding(each.rule, replace(each.at, file=name), each.says, each.fix, each.severity)
            for each in findings_of(Path(folder, name))[1]
        ]


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    return [name for name in rules() if name.startswith(incomplete)]


@click.command(short_help="Explain a rule of `check`, with a file that breaks it and one that keeps it.")
@click.argument("rule", required=False, shell_complete=_names)
def command(rule: str | None) -> None:
    """Explain why a RULE of `penstock check` exists, with a file that breaks it and one that keeps it.

    Without RULE, list the rules.

    Findings end with the name of their rule in brackets.

    Example: penstock explain names-exist
    """
    known = rules()
    if rule is None:
        width = max(map(len, known))
        for each in known.values():
            click.echo(f"{each.name:<{width}}  {each.claim}")
        return
    name = rule.strip("[]")
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near!r}?" if near else "`penstock explain` lists them"
        raise CallError(f"unknown rule {name!r}; {hint}")
    found = known[name]
    click.echo(f"{found.name}: {found.claim}\n")
    click.echo(textwrap.fill(found.why, 100))
    if found.wrong:
        _print_example(found)


def _print_example(rule: Rule) -> None:
    for file, text in {**rule.modules, "wrong.yaml": rule.wrong}.items():
        _print_file(file, text)
    click.echo()
    for finding in example(rule):
        click.echo(format_finding(finding))
    _print_file("right.yaml", rule.right)


def _print_file(name: str, text: str) -> None:
    click.echo(f"\n{name}:\n{textwrap.indent(text.rstrip(), '    ')}")
