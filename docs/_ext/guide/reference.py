"""Pages and tables of the reference, generated from the code as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import click

from penstock.checks.silences import NOT_SILENCED
from penstock.cli import COMMANDS, format_finding, penstock
from penstock.cli.explain import example
from penstock.cli.explain import rules as all_rules
from penstock.cli.list import describe_options
from penstock.connector import MICRO_BATCHES, MODES
from penstock.connectors import SINKS, SOURCES
from penstock.events import CATALOGUE
from penstock.options import Options
from penstock.steps import STEPS
from penstock.watch.metrics import METRICS


def connectors() -> str:
    """Every source, step and sink, with its options."""
    parts = []
    for role, kinds in (("source", SOURCES), ("step", STEPS), ("sink", SINKS)):
        parts.append(f"## {role.capitalize()}s\n")
        for kind in sorted(kinds):
            parts += [f"({role}-{kind})=\n### {kind} ({role})\n", *_connector(role, kinds[kind])]
    return "\n".join(parts)


def _connector(role: str, options: type[Options]) -> Iterator[str]:
    yield f"{_plain(options.__doc__ or '')}\n"
    yield _fields(options) if options.model_fields else "No options.\n"
    promise, modes = getattr(options, "promise", ""), getattr(options, "modes", ())
    if promise:
        yield f"Promise: {promise}.\n"
    if modes:
        yield f"Modes: {', '.join(sorted(modes))}.\n"
    triggers = getattr(options, "triggers", ())
    if triggers and role != "step":
        yield f"Triggers: {', '.join(sorted(triggers))}.\n"


def promises() -> str:
    """The promise of each source and sink, as `penstock list` prints it."""
    sinks = [
        (f"[`{kind}`](connectors.md#sink-{kind})", SINKS[kind].promise, ", ".join(sorted(SINKS[kind].modes)))
        for kind in sorted(SINKS)
    ]
    sources = [(f"[`{kind}`](connectors.md#source-{kind})", SOURCES[kind].promise) for kind in sorted(SOURCES)]
    return "\n".join(
        [
            "## Sinks\n",
            _table(("sink", "promise", "modes"), sinks),
            "## Sources\n",
            _table(("source", "promise"), sources),
        ]
    )


#: Pages about single sinks.
_SINK_PAGES = {
    "cassandra": "cassandra.md",
    "delta": "delta.md",
    "eventhubs": "security.md",
    "foreach": "targets.md",
    "foreach_batch": "targets.md",
    "jdbc": "jdbc.md",
}


def sinks() -> str:
    """The table of sinks in docs/file.md: modes, triggers and promise of each."""
    rows = [
        (
            f"[`{kind}`]({_SINK_PAGES[kind]})" if kind in _SINK_PAGES else f"`{kind}`",
            ", ".join(mode for mode in MODES if mode in SINKS[kind].modes),
            ", ".join(["micro-batches", *sorted(SINKS[kind].triggers - MICRO_BATCHES)]),
            SINKS[kind].promise,
        )
        for kind in sorted(SINKS)
    ]
    return _table(("sink", "modes", "triggers", "promise"), rows)


def rules() -> str:
    """Every rule with its claim, its reason, a file that breaks it, the output of `check`, and a file that keeps it."""
    parts = []
    for rule in all_rules().values():
        parts.append(f"({rule.name})=\n## {rule.name}\n\n{rule.claim}\n\n{rule.why}\n")
        if rule.wrong:
            says = "\n".join(format_finding(finding) for finding in example(rule))
            parts += [f"`{file}`:\n\n```python\n{text.rstrip()}\n```\n" for file, text in rule.modules.items()]
            parts.append(f"Wrong:\n\n```yaml\n{rule.wrong.rstrip()}\n```\n\n```text\n{says}\n```\n")
            parts.append(f"Right:\n\n```yaml\n{rule.right.rstrip()}\n```\n")
    return "\n".join(parts)


def silences() -> str:
    """The rules whose errors cannot be silenced, and why."""
    rows = [(f"[`{name}`](../reference/rules.md#{name})", why) for name, why in NOT_SILENCED.items()]
    return _table(("errors of", "why they stay"), rows)


def cli() -> str:
    """Every command with its usage, its help, its arguments and options."""
    parts = []
    context = click.Context(penstock, info_name="penstock")
    for verb in COMMANDS:
        command = penstock.get_command(context, verb)
        assert command is not None
        parts += _command(command, click.Context(command, info_name=verb, parent=context), 2)
    return "\n".join(parts)


def _command(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    yield f"(cli-{context.command_path.replace(' ', '-')})=\n{'#' * level} {context.command_path}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {usage}\n```\n"
    text, _, sample = (command.help or "").partition("Example:")
    yield f"{_plain(text)}\n"
    if sample:
        yield f"```sh\n{sample.strip()}\n```\n"
    options = [each for each in command.params if isinstance(each, click.Option)]
    rows = [(f"`{', '.join(each.opts)}`", _value(each), (each.help or "").strip()) for each in options]
    if rows:
        yield _table(("option", "default", "what"), rows)
    if isinstance(command, click.Group):
        for name, inner in sorted(command.commands.items()):
            yield from _command(inner, click.Context(inner, info_name=name, parent=context), level + 1)


def _value(option: click.Option) -> str:
    if option.is_flag or option.default in (None, "", ()) or callable(option.default) or not option.show_default:
        return ""
    return f"`{option.default}`"


def metrics() -> str:
    """Every metric with its labels."""
    rows = [(f"`{each.name}`", each.kind, ", ".join(each.labels), each.help) for each in METRICS]
    return _table(("metric", "type", "labels", "what"), rows)


def events() -> str:
    """Every event with its fields and its sentence, from the catalogue."""
    rows = [
        (f"`{each.name}`", each.level, ", ".join(f"`{name}`" for name in each.fields), f"`{each.sentence}`")
        for each in CATALOGUE.values()
    ]
    return _table(("event", "level", "fields", "sentence"), rows)


def file() -> str:
    """Every key of the file."""
    from penstock.load import nodes
    from penstock.load.document import KEYS
    from penstock.load.settings import _Restart, _Webhook
    from penstock.testing.parse import KEYS as TEST_KEYS

    return "\n".join(
        [
            "## Top level\n",
            _table(("key", "what"), [(f"`{key}`", says) for key, says in KEYS.items()]),
            "## A source\n",
            "One connector, one decoder, and:\n",
            _fields(nodes._SourceSettings),
            "`watermark`:\n",
            _fields(nodes._Watermark),
            "`static`, `true` or:\n",
            _fields(nodes._Static),
            f"Decoders: {_join(f'`{key}`' for key in nodes._DECODE_KEYS)}.\n",
            "## A step\n",
            f"SQL as text, or one of {_join(f'[`{kind}`](connectors.md#step-{kind})' for kind in sorted(STEPS))}.\n",
            "## A sink\n",
            "One connector, or a list of targets under `to`, and:\n",
            _fields(nodes._SinkSettings),
            "A target under `to` is one connector, and:\n",
            _fields(nodes._TargetSettings),
            "## restart\n",
            _fields(_Restart),
            "## webhooks\n",
            _fields(_Webhook),
            "## tests\n",
            f"Keys of a test: {_join(f'`{key}`' for key in TEST_KEYS)}. What they mean: [Testing](../testing.md).\n",
        ]
    )


def _fields(options: type[Options]) -> str:
    rows = [
        (f"`{each['name']}`", each["type"], _default(each), each["description"]) for each in describe_options(options)
    ]
    return _table(("option", "type", "default", "what"), rows)


def _default(field: dict[str, Any]) -> str:
    if field["required"]:
        return "required"
    return "" if field["default"] in (None, "", [], {}) else f"`{json.dumps(field['default'])}`"


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in lines)


def _join(words: Iterable[str]) -> str:
    return ", ".join(words)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _plain(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


PARTS = {
    "cli": cli,
    "connectors": connectors,
    "events": events,
    "file": file,
    "metrics": metrics,
    "promises": promises,
    "rules": rules,
    "silences": silences,
    "sinks": sinks,
}
