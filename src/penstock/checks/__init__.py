"""Checks a pipeline without Spark.

One topic per module, one rule per function: its name states the rule, and it yields the violations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.checks.exposure import (
    driver_stays_on_loopback,
    outputs_stay_in_their_folders,
    passwords_travel_encrypted,
    secrets_are_not_in_the_file,
    spark_ui_is_off,
)
from penstock.checks.names import everything_is_read, names_exist, no_cycle, sort_by_cause
from penstock.checks.places import (
    cluster_has_storage,
    sinks_do_not_feed_sources,
    sinks_write_apart,
    storage_is_no_input,
)
from penstock.checks.python_code import functions_fit, modules_exist, modules_parse, objects_exist
from penstock.checks.queries import (
    columns_fit_sink,
    columns_mean_what_they_say,
    keys_come_again,
    mode_fits_sink,
    targets_can_share,
    trigger_fits_mode,
    trigger_fits_sink,
    trigger_fits_sources,
    trigger_is_long_enough,
)
from penstock.checks.silences import Checked, SilencedFinding, apply_silences, find_malformed
from penstock.checks.sources import (
    decoding_fits_source,
    keys_are_there,
    lookups_are_into_tables,
    schemas_parse,
    sinks_read_streams,
    sources_can_be_read_again,
    static_sources_are_tables,
    watermark_column_exists,
)
from penstock.checks.sql import (
    columns_are_unambiguous,
    columns_exist,
    functions_exist,
    groups_are_complete,
    sql_calls_no_java,
    sql_comments_are_plain,
    sql_is_one_select,
    sql_is_understood,
    sql_reads_streams_only,
    sql_stays_as_written,
    sql_uses_spark_windows,
    types_fit,
)
from penstock.checks.streaming import (
    append_has_watermark,
    chains_append,
    complete_has_aggregation,
    dedupe_has_watermark,
    distinct_is_approximate,
    ids_come_from_records,
    joins_keep_streams,
    joins_of_streams_end,
    running_has_watermark,
    sessions_fit,
    state_ends,
    state_has_one_event_time,
    streams_are_combined,
    streams_are_not_sorted,
    streams_are_not_windowed,
    streams_are_whole,
    subqueries_are_static,
    trigger_fits_steps,
    watermark_is_set_once,
    windows_end,
)
from penstock.model import Finding, Pipeline

__all__ = ["RULES", "Checked", "SilencedFinding", "check", "check_all", "sort_by_cause"]

RULES: tuple[Callable[[Pipeline], Iterator[Finding]], ...] = (
    names_exist,
    no_cycle,
    everything_is_read,
    schemas_parse,
    decoding_fits_source,
    keys_are_there,
    watermark_column_exists,
    sources_can_be_read_again,
    static_sources_are_tables,
    sinks_read_streams,
    lookups_are_into_tables,
    modules_exist,
    modules_parse,
    objects_exist,
    functions_fit,
    sql_is_one_select,
    sql_calls_no_java,
    sql_reads_streams_only,
    sql_stays_as_written,
    sql_comments_are_plain,
    sql_is_understood,
    sql_uses_spark_windows,
    columns_exist,
    columns_are_unambiguous,
    functions_exist,
    types_fit,
    groups_are_complete,
    mode_fits_sink,
    targets_can_share,
    complete_has_aggregation,
    append_has_watermark,
    windows_end,
    sessions_fit,
    joins_keep_streams,
    joins_of_streams_end,
    state_ends,
    chains_append,
    streams_are_not_sorted,
    streams_are_not_windowed,
    streams_are_whole,
    streams_are_combined,
    distinct_is_approximate,
    subqueries_are_static,
    ids_come_from_records,
    dedupe_has_watermark,
    running_has_watermark,
    watermark_is_set_once,
    state_has_one_event_time,
    keys_come_again,
    columns_mean_what_they_say,
    columns_fit_sink,
    trigger_fits_sink,
    trigger_fits_sources,
    trigger_fits_mode,
    trigger_fits_steps,
    trigger_is_long_enough,
    sinks_write_apart,
    sinks_do_not_feed_sources,
    storage_is_no_input,
    cluster_has_storage,
    secrets_are_not_in_the_file,
    passwords_travel_encrypted,
    driver_stays_on_loopback,
    spark_ui_is_off,
    outputs_stay_in_their_folders,
)


_NAMES = frozenset(rule.__name__.replace("_", "-") for rule in RULES)


def check(pipeline: Pipeline) -> list[Finding]:
    """All violations of the rules that the file does not silence, errors and warnings: causes first, in file order."""
    return check_all(pipeline).findings


def check_all(pipeline: Pipeline) -> Checked:
    """The same, with the silenced ones."""
    found = dict.fromkeys(finding for rule in RULES for finding in rule(pipeline))
    checked = apply_silences(pipeline, found, _NAMES)
    kept = [*checked.findings, *find_malformed(pipeline, _NAMES)]
    return Checked(sort_by_cause(pipeline, kept), checked.silenced)
