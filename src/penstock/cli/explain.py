"""penstock explain"""

from __future__ import annotations

import textwrap

import click

from penstock.cli import format_finding
from penstock.cli._rules import example, rules
from penstock.errors import CallError
from penstock.text import nearest


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    return [name for name in rules() if name.startswith(incomplete)]


@click.command(short_help="Explain a rule of `check`, with a file that breaks it.")
@click.argument("rule", required=False, shell_complete=_names)
def command(rule: str | None) -> None:
    """Explain why a RULE of `penstock check` exists, with a file that breaks it; without RULE, list the rules.

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
        click.echo(f"\nwrong.yaml:\n{textwrap.indent(found.wrong.rstrip(), '    ')}\n")
        for finding in example(found):
            click.echo(format_finding(finding))
