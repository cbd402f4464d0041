"""From a file to rows: what `penstock preview`, `penstock sql` and the page's Explore have in common."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from penstock import jars
from penstock.checks import check
from penstock.engine.prepare import prepare
from penstock.errors import CheckError
from penstock.load import load
from penstock.model import Pipeline, errors
from penstock.preview.query import SELECT_NAME, Limits, Preview, find_stream, preview, subgraph
from penstock.preview.select import with_select
from penstock.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    # Quick to start and small: a preview must not take from the pipeline that runs meanwhile.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    "spark.sql.shuffle.partitions": "1",
    # A SELECT from outside may not name files as tables; here Spark itself would not open one either.
    "spark.sql.runSQLOnFiles": "false",
    "spark.driver.memory": "1g",
}
_MASTER = "local[2]"


@dataclass(frozen=True)
class PreviewRequest:
    """What to show."""

    file: str
    step: str | None = None
    sql: str = ""
    start: Literal["latest", "earliest"] = "latest"
    bad: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class ResolvedPreview:
    """The part of a pipeline that is needed, and the stream that is shown."""

    pipeline: Pipeline
    name: str


def resolve(wanted: PreviewRequest) -> ResolvedPreview:
    """Find what a request means, and check it; needs no Spark."""
    pipeline = load(wanted.file)
    if wanted.sql:
        pipeline, name = with_select(pipeline, wanted.sql), SELECT_NAME
    else:
        name = find_stream(pipeline, wanted.step)
    needed = subgraph(pipeline, name, wanted.start, wanted.limits)
    if wrong := errors(check(needed)):
        raise CheckError(wrong)
    return ResolvedPreview(needed, name)


@contextmanager
def open_preview(
    wanted: PreviewRequest, print_status: Callable[[str], None], enough: Callable[[], bool] = lambda: False
) -> Iterator[Preview]:
    """The rows of a request, in a separate Spark that ends with them."""
    ready = resolve(wanted)
    prepared = prepare(ready.pipeline, print_status)
    with tempfile.TemporaryDirectory(prefix="penstock-preview-") as folder:
        spark = _session(prepared, Path(folder, "driver.log"))
        try:
            with preview(prepared, spark, ready.name, wanted.limits, bad=wanted.bad, enough=enough) as found:
                yield found
        finally:
            spark.stop()


def messages(preview: Preview) -> Iterator[dict[str, Any]]:
    """A preview as JSON messages: the columns, rows as they arrive, and why they ended."""
    columns = [{"name": name, "type": kind} for name, kind in preview.columns]
    yield {"what": "columns", "columns": columns, "mode": preview.mode}
    for batch in preview.rows:
        yield {
            "what": "rows",
            "batch": batch.batch,
            "rows": batch.rows,
            "replaces": batch.replaces,
            "left_out": batch.left_out,
        }
    yield {"what": "end", "why": preview.why()}


def _session(pipeline: Pipeline, log: Path) -> SparkSession:
    settings = {key: value for key, value in pipeline.session_settings.items() if not key.startswith("spark.driver.")}
    return session(
        f"preview of {pipeline.name}",
        master=_MASTER,
        asked={**_SETTINGS, **settings},
        jars=jars.paths(pipeline.jar_groups),
        log=log,
    )
