"""Streaming rules: what Spark cannot compute over rows that keep coming, found without Spark.

Spark's own checker (UnsupportedOperationChecker) refuses the same queries when they start; some of these pass it and
fail while they run.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.checks.plan import Column, Plan
from penstock.checks.plan_of_pipeline import analyse
from penstock.model import Finding, Pipeline, Sink, Source
from penstock.options import quote
from penstock.sql import find_watermark
from penstock.steps.join import JoinStep
from penstock.steps.running import RunningStep
from penstock.text import join_words

_IDS = "monotonically_increasing_id"
_CLOCKS = frozenset({"now", "current_timestamp", "current_date", "curdate", "localtimestamp"})
_CONTINUOUS = frozenset({"scan", "project", "filter"})


def _queries(pipeline: Pipeline) -> Iterator[tuple[Sink, Plan]]:
    """Each sink with the plan of what it reads."""
    known = analyse(pipeline).plans
    return ((sink, known[sink.reads]) for sink in pipeline.sinks if sink.reads in known)


def complete_has_aggregation(pipeline: Pipeline) -> Iterator[Finding]:
    """Mode complete rewrites the whole result, so there is an aggregation."""
    for sink, plan in _queries(pipeline):
        if sink.mode == "complete" and plan.streams and plan.is_known and not plan.aggregations:
            says = f"sink {sink.name!r} has mode 'complete', and {sink.reads!r} does not aggregate"
            fix = "use append, or GROUP BY in a step"
            yield Finding("complete-has-aggregation", pipeline.where(sink, "mode"), says, fix)


def append_has_watermark(pipeline: Pipeline) -> Iterator[Finding]:
    """Mode append writes a group when it is final: the event time with the watermark is one of its columns."""
    for sink, plan in _queries(pipeline):
        if sink.mode != "append" or not plan.aggregations:
            continue
        top = plan.aggregations[0]
        keys = top.columns if top.operator == "distinct" else top.keys
        if keys is None or any(key.has_watermark is not False for key in keys):
            continue
        what = "DISTINCT" if top.operator == "distinct" else "GROUP BY" if top.keys else "an aggregation over all rows"
        says = f"step {top.step!r} has {what} without an event time, and sink {sink.name!r} appends"
        yield Finding("append-has-watermark", top.at, f"{says}: no group is ever final", _append_fix(top))


def _append_fix(top: Plan) -> str:
    times = _times(top)
    if not times:
        return "add 'watermark' to the source and group by a window of that column, or use mode update or complete"
    if top.operator == "distinct":
        return f"use a dedupe step, or keep the column {quote(times[0])}, which has the watermark"
    return f"add window({quote(times[0])}, '10 minutes') to GROUP BY, or use mode update or complete"


def _times(plan: Plan) -> list[str]:
    """The columns with a watermark that an operator reads."""
    below = [column for child in plan.children for column in _nearest_columns(child)]
    return [column.name for column in below if column.has_watermark]


def _nearest_columns(plan: Plan) -> tuple[Column, ...]:
    if plan.columns is not None:
        return plan.columns
    return tuple(column for child in plan.children for column in _nearest_columns(child))


def windows_end(pipeline: Pipeline) -> Iterator[Finding]:
    """State of time windows is dropped after a watermark has passed them, so a source has one."""
    for sink, plan in _queries(pipeline):
        # Mode complete keeps every window by design, and mode append is refused without a watermark.
        for each in plan.find("aggregate") if sink.mode == "update" else ():
            windows = [key for key in each.keys or () if key.name in ("window", "session_window")]
            if each.streams and windows and all(key.has_watermark is False for key in each.keys or ()):
                says = f"step {each.step!r} groups by windows without a watermark: its state grows without limit"
                fix = "add 'watermark' to the source, on the column of the window"
                yield Finding("windows-end", each.at, says, fix, "warning")


def sessions_fit(pipeline: Pipeline) -> Iterator[Finding]:
    """Session windows have a key besides, and are not written in mode update."""
    for sink, plan in _queries(pipeline):
        for each in plan.aggregations:
            keys = each.keys or ()
            if not any(key.is_session for key in keys):
                continue
            if sink.mode == "update":
                says = f"step {each.step!r} groups by session windows, and sink {sink.name!r} has mode 'update'"
                yield Finding("sessions-fit", each.at, says, "use mode append, or complete")
            elif len(keys) == 1:
                says = f"step {each.step!r} groups by a session window alone"
                yield Finding("sessions-fit", each.at, says, "group by a key as well, like a user's id")


def streams_are_not_sorted(pipeline: Pipeline) -> Iterator[Finding]:
    """Only the result of an aggregation in mode complete is sorted."""
    for sink, plan in _queries(pipeline):
        for each in plan.find("sort"):
            if each.streams and not (sink.mode == "complete" and any(_of(each, "aggregate"))):
                says = f"step {each.step!r} sorts a stream with {each.says}, which has no end"
                fix = "remove it and sort where the rows are read, or use mode complete with a GROUP BY"
                yield Finding("streams-are-not-sorted", each.at, says, fix)


def _of(plan: Plan, kind: str) -> list[Plan]:
    return [each for each in plan.walk() if each.operator == kind and each.streams]


_INSTEAD_OF_OVER = (
    "use a 'running' step for totals, 'top' or 'latest' for the best or newest rows, 'dedupe' for the first"
)


def streams_are_not_windowed(pipeline: Pipeline) -> Iterator[Finding]:
    """OVER (...) is not used on a stream."""
    for _, plan in _queries(pipeline):
        for each in _of(plan, "over"):
            says = f"step {each.step!r} computes {each.says} OVER a stream, which Spark cannot do"
            fix = f"use a step {{{each.instead}}}" if each.instead else _INSTEAD_OF_OVER
            yield Finding("streams-are-not-windowed", each.at, says, fix)


def streams_are_whole(pipeline: Pipeline) -> Iterator[Finding]:
    """A stream is not limited in mode update, nor sampled or read from an offset."""
    for sink, plan in _queries(pipeline):
        for each in plan.find("limit", "offset", "sample") if plan.streams else ():
            if each.operator == "offset":
                says, fix = f"step {each.step!r} has OFFSET, which streaming queries cannot have", "remove it"
            elif each.operator == "limit" and each.streams and sink.mode == "update":
                says = f"step {each.step!r} has LIMIT, and sink {sink.name!r} has mode 'update'"
                fix = "use max_by(row, column, n) for the n best, or another mode"
            elif each.operator == "sample" and each.streams:
                says, fix = f"step {each.step!r} has TABLESAMPLE of a stream", "write WHERE rand() < 0.1"
            else:
                continue
            yield Finding("streams-are-whole", each.at, says, fix)


def streams_are_combined(pipeline: Pipeline) -> Iterator[Finding]:
    """Streams are combined with UNION ALL of streams, or with joins."""
    for _, plan in _queries(pipeline):
        for each in plan.find("union", "except", "intersect"):
            streaming = [child.streams for child in each.children]
            if each.operator == "union" and len(set(streaming)) == 2:
                says = f"step {each.step!r} has a UNION of a stream and a static table"
                yield Finding("streams-are-combined", each.at, says, "read the table as a stream, without 'static'")
            elif (each.operator == "except" and streaming[1]) or (each.operator == "intersect" and any(streaming)):
                word = each.operator.upper()
                fix = "join the streams with a time bound, or look the rows up in a static table with NOT EXISTS"
                yield Finding("streams-are-combined", each.at, f"step {each.step!r} has {word} of streams", fix)


def distinct_is_approximate(pipeline: Pipeline) -> Iterator[Finding]:
    """An aggregate over a stream has no DISTINCT."""
    for _, plan in _queries(pipeline):
        for each in plan.find("aggregate"):
            if each.says and each.children[0].streams:
                says = f"step {each.step!r} computes {each.says}, and streaming aggregates cannot be DISTINCT"
                fix = "use approx_count_distinct(x), or size(collect_set(x)) for the exact number"
                yield Finding("distinct-is-approximate", each.says_at, says, fix)


def subqueries_are_static(pipeline: Pipeline) -> Iterator[Finding]:
    """A subquery in an expression reads a static table."""
    for _, plan in _queries(pipeline):
        for each in plan.find("subquery"):
            says = f"step {each.step!r} has a subquery over a stream in an expression"
            yield Finding("subqueries-are-static", each.at, says, "write it as a join, with a time bound")


def ids_come_from_records(pipeline: Pipeline) -> Iterator[Finding]:
    """A streaming query numbers no rows by itself."""
    for _, plan in _queries(pipeline):
        for each in plan.walk():
            if plan.streams and _IDS in each.calls:
                says = f"step {each.step!r} calls {_IDS}(), which streaming queries cannot have"
                fix = "with 'metadata: true', build an id from the record's topic, partition and offset"
                yield Finding("ids-come-from-records", each.at, says, fix)


def joins_keep_streams(pipeline: Pipeline) -> Iterator[Finding]:
    """An outer join with a static table keeps the rows of the stream."""
    for _, plan in _queries(pipeline):
        for each in _of(plan, "join"):
            left, right = (child.streams for child in each.children)
            wrong = each.side == "full" if left != right else False
            wrong |= left and not right and each.side == "right"
            wrong |= right and not left and each.side in ("left", "semi", "anti")
            if wrong:
                says = f"step {each.step!r} keeps rows of a static table that the stream of {each.says} may match later"
                fix = "put the stream on the side that is kept: stream LEFT JOIN table"
                yield Finding("joins-keep-streams", each.at, says, fix)


def joins_of_streams_end(pipeline: Pipeline) -> Iterator[Finding]:
    """A join of two streams has an equality, and an outer one a watermark and a bound that end the wait."""
    yield from _joins_without_watermark(pipeline)
    for sink, plan in _queries(pipeline):
        for each in _of(plan, "join"):
            if all(child.streams for child in each.children) and (found := _stream_join(each, sink)):
                yield Finding("joins-of-streams-end", each.at, f"step {each.step!r}: {found[0]}", found[1])


def _joins_without_watermark(pipeline: Pipeline) -> Iterator[Finding]:
    known = analyse(pipeline).plans
    for step in pipeline.steps:
        for name in step.reads if isinstance(step.what, JoinStep) else ():
            plan = known.get(name)
            if plan is not None and not plan.streams:
                says = f"step {step.name!r} joins {name!r}, which is a static table"
                fix = "join it in SQL: SELECT ... FROM stream JOIN table"
            elif plan is not None and plan.columns is not None and _have_no_watermark(plan.columns):
                says, fix = (
                    f"step {step.name!r} joins {name!r}, which has no watermark",
                    "add 'watermark' to its source",
                )
            else:
                continue
            yield Finding("joins-of-streams-end", step.at, says, fix)


def _stream_join(join: Plan, sink: Sink) -> tuple[str, str] | None:
    """What is wrong with a join of two streams, and what to write instead."""
    kind, on = join.side, join.on
    what = f"a {kind} join of the streams {join.says}"
    if kind == "anti":
        return f"{what}: Spark has none", "use LEFT JOIN with a time bound and WHERE right.key IS NULL"
    if kind in ("left", "right", "full") and sink.mode != "append":
        return f"{what}, and sink {sink.name!r} has mode {sink.mode!r}", "use mode append"
    if sink.mode == "complete":
        return f"{what}, and sink {sink.name!r} has mode 'complete'", "use mode append or update"
    if on is not None and not on.has_keys:
        return f"{what} has no equality of a column of each", "add one to ON, like a.id = b.id"
    if on is None or kind in ("inner", "cross"):
        return None
    ends = {"left": on.ends_left, "semi": on.ends_left, "right": on.ends_right, "full": on.ends_left or on.ends_right}
    if on.has_time_key or ends[kind]:
        return None
    return f"{what} never knows that a row has no match", _bound_fix(join)


def _bound_fix(join: Plan) -> str:
    left, right = (_nearest_columns(child) for child in join.children)
    times = [next((column.name for column in side if column.has_watermark), "") for side in (left, right)]
    if not all(times):
        side = "both sources" if not any(times) else "the other source as well"
        return f"add 'watermark' to {side}, and a bound: AND b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR"
    own, other = (times[0], times[1]) if join.side != "right" else (times[1], times[0])
    bound = f"{own} BETWEEN {other} - INTERVAL 1 HOUR AND {other} + INTERVAL 1 HOUR"
    return f"add a bound to ON, with the tables' names before the columns: AND {bound}"


def state_ends(pipeline: Pipeline) -> Iterator[Finding]:
    """Rows and keys that a query remembers are dropped some day."""
    for sink, plan in _queries(pipeline):
        for each in plan.walk():
            if each.operator == "dedupe" and each.streams and each.mode == "forever":
                says = f"step {each.step!r} remembers every key forever: its state grows without limit"
                yield Finding(
                    "state-ends", each.at, says, "set 'remember: watermark' if keys come again soon", "warning"
                )
            elif each.operator == "join" and each.is_stateful and not _stream_join(each, sink):
                kept = _kept_forever(each)
                if kept:
                    says = f"step {each.step!r} joins the streams {each.says} and keeps every row of {kept}"
                    yield Finding(
                        "state-ends", each.at, f"{says}: its state grows without limit", _bound_fix(each), "warning"
                    )


def _kept_forever(join: Plan) -> str:
    """Which sides of a join of streams are never dropped, for a message."""
    if join.on is None or join.on.has_time_key:
        return ""
    sides = {"the left side": join.on.ends_left, "the right side": join.on.ends_right}
    kept = [name for name, ends in sides.items() if not ends]
    return "both" if len(kept) == 2 else "".join(kept)


def chains_append(pipeline: Pipeline) -> Iterator[Finding]:
    """A stateful operator over the result of an aggregation is in mode append."""
    for sink, plan in _queries(pipeline):
        for each in plan.walk() if sink.mode != "append" else ():
            below = next((child for child in each.children if child.has_aggregation), None)
            if each.is_stateful and below is not None:
                says = f"step {each.step!r} keeps state over the aggregation of step {below.aggregations[0].step!r}"
                yield Finding(
                    "chains-append", each.at, f"{says}, and sink {sink.name!r} has mode {sink.mode!r}", "use append"
                )
                break


def dedupe_has_watermark(pipeline: Pipeline) -> Iterator[Finding]:
    """A dedupe step reads rows with a watermark, or remembers keys forever."""
    for _, plan in _queries(pipeline):
        for each in _of(plan, "dedupe"):
            columns = each.children[0].columns
            if each.mode == "watermark" and columns is not None and _have_no_watermark(columns):
                says = f"step {each.step!r} forgets keys by the watermark, and its rows have none"
                fix = "add 'watermark' to the source and keep its column, or set 'remember: forever'"
                yield Finding("dedupe-has-watermark", each.at, says, fix)


def _have_no_watermark(columns: tuple[Column, ...]) -> bool:
    return all(column.has_watermark is False for column in columns)


def running_has_watermark(pipeline: Pipeline) -> Iterator[Finding]:
    """A running step orders by the column with the watermark."""
    known = analyse(pipeline).plans
    for step in pipeline.steps:
        below = known.get(step.reads[0]) if isinstance(step.what, RunningStep) else None
        if not isinstance(step.what, RunningStep) or below is None or below.columns is None or not below.streams:
            continue
        column = below.column(step.what.order_by)
        if column is not None and column.has_watermark is False:
            says = f"step {step.name!r} orders by {step.what.order_by!r}, which has no watermark"
            times = [each.name for each in below.columns if each.has_watermark]
            fix = f"order by {times[0]!r}" if times else "add 'watermark' to the source, on that column"
            yield Finding("running-has-watermark", pipeline.where(step, "running", "order_by"), says, fix)


def watermark_is_set_once(pipeline: Pipeline) -> Iterator[Finding]:
    """A watermark in SQL is over rows that have none yet."""
    known = analyse(pipeline).plans
    for step in pipeline.steps:
        start = find_watermark(step.text) if step.text else None
        streams = [name for name in step.reads if name in known and known[name].streams]
        if any(each.is_stateful for name in streams for each in known[name].walk()):
            # The result of an operator that keeps state may have another watermark.
            continue
        if start is not None and streams and all(_sets_watermark(pipeline, name) for name in streams):
            says = f"step {step.name!r} has WATERMARK, and its rows have a watermark already"
            yield Finding("watermark-is-set-once", step.locate(start), says, "remove one of the two")


def _sets_watermark(pipeline: Pipeline, name: str) -> bool:
    nodes = [pipeline.streams[each] for each in pipeline.upstream(name)]
    return any(
        node.watermark is not None if isinstance(node, Source) else find_watermark(node.text) is not None
        for node in nodes
    )


def state_has_one_event_time(pipeline: Pipeline) -> Iterator[Finding]:
    """The rows of an operator that keeps state have at most one column with a watermark."""
    for sink, plan in _queries(pipeline):
        if not sink.trigger.has_micro_batches or plan.find("union"):
            # Another rule's, and columns of a UNION have several origins.
            continue
        for each, needed in _with_needed_times(plan):
            names = next((names for names in _event_times(each, needed, sink) if len(names) > 1), [])
            if names:
                says = f"step {each.step!r} keeps state of rows with several event times, {join_words(names, 'and')}"
                fix = "select only one of them before, or change the others: at + INTERVAL 0 SECONDS has no watermark"
                yield Finding("state-has-one-event-time", each.at, says, fix)


def _with_needed_times(plan: Plan) -> Iterator[tuple[Plan, frozenset[int]]]:
    """Each operator with the event times that it and those above it surely need; Spark drops the others before."""
    waiting = [(plan, _times_of(plan))]
    seen: set[int] = set()
    while waiting:
        each, needed = waiting.pop()
        needed |= each.uses
        if each.operator == "join":
            # A source on both sides: which of its two columns is needed is unknown.
            needed -= frozenset.intersection(*map(_times_of, each.children))
        yield each, needed
        waiting += [(child, needed) for child in each.children if id(child) not in seen]
        seen.update(map(id, each.children))


def _event_times(plan: Plan, needed: frozenset[int], sink: Sink) -> list[list[str]]:
    """The event times that the rows of each input of a stateful operator have, by name."""
    if not plan.streams:
        return []
    if plan.operator == "aggregate":
        inputs = [plan.keys or ()] if sink.mode != "complete" else []
    elif plan.operator == "distinct":
        inputs = [plan.columns or ()] if sink.mode != "complete" else []
    elif plan.operator == "stateful" or (plan.operator == "dedupe" and plan.mode == "watermark"):
        # Spark drops no column before these.
        inputs = [child.columns or () for child in plan.children]
    elif plan.operator == "dedupe" or (plan.operator == "join" and plan.is_stateful):
        keys = frozenset().union(*(key.times for key in plan.keys or ()))
        inputs = [_with_times(child, needed | keys) for child in plan.children]
    else:
        inputs = []
    return [
        list({column.times: column.name for column in columns if column.has_watermark}.values()) for columns in inputs
    ]


def _times_of(plan: Plan) -> frozenset[int]:
    return frozenset().union(*(column.times for column in plan.columns or ()))


def _with_times(plan: Plan, times: frozenset[int]) -> tuple[Column, ...]:
    return tuple(column for column in plan.columns or () if column.times & times)


def trigger_fits_steps(pipeline: Pipeline) -> Iterator[Finding]:
    """A continuous query selects and filters without the clock; a real-time one has no state and joins by equality."""
    for sink, plan in _queries(pipeline):
        if sink.trigger.has_micro_batches:
            continue
        for each in plan.walk():
            what = _not_continuous(each) if sink.trigger.is_continuous else _not_real_time(each)
            if what and each.operator != "watermark":
                says = f"step {each.step!r} {what}, which trigger '{sink.trigger}' of sink {sink.name!r} cannot do"
                yield Finding("trigger-fits-steps", each.at, says, "use a duration like '1 second' as trigger")


_WORDS = {
    "aggregate": "groups rows",
    "distinct": "has DISTINCT",
    "join": "joins",
    "union": "has a UNION",
    "cte": "has a WITH",
    "generate": "has a LATERAL VIEW",
    "limit": "has a LIMIT",
    "sort": "sorts",
    "dedupe": "drops duplicates",
    "stateful": "keeps state",
}


def _not_continuous(plan: Plan) -> str:
    if plan.calls & _CLOCKS:
        return f"calls {min(plan.calls & _CLOCKS)}()"
    return "" if plan.operator in _CONTINUOUS else _WORDS.get(plan.operator, "")


def _not_real_time(plan: Plan) -> str:
    if plan.operator == "union":
        one, other = ({id(scan) for scan in child.find("scan")} for child in plan.children)
        return "has a UNION of rows of the same source" if one & other else ""
    if plan.operator == "join" and plan.streams and plan.on is not None and not plan.on.has_keys:
        # Spark compares every row with every row of the table, by an operator that real-time mode does not have.
        return "joins without an equality"
    return _WORDS.get(plan.operator, "") if plan.is_stateful or plan.operator in ("dedupe", "limit") else ""
