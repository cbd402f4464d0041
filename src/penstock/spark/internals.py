"""The one door to Spark's internals: everything that reaches through Py4J into classes that Spark may move.

Each function here has a test that fails when Spark moves what it uses (tests/spark/test_internals.py). At the start of
a driver `find_missing` asks the JVM for the classes and methods by name:

    LATE_ROWS   missing: the query runs, and its late rows are not counted
    DRAIN       missing: a running batch is waited for, never interrupted
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from subprocess import Popen

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"
_BATCH_METHOD = "executeOneBatch"

LATE_ROWS = {
    "org.apache.spark.sql.catalyst.expressions.objects.Invoke": (),
    "org.apache.spark.sql.catalyst.expressions.PreciseTimestampConversion": (),
    f"{_RUNTIME}.MicroBatchExecution": ("offsetLog", "getLatestExecutionContext"),
}
DRAIN = {
    f"{_RUNTIME}.MicroBatchExecution": (_BATCH_METHOD, "state", "queryExecutionThread"),
    f"{_RUNTIME}.INITIALIZING$": (),
    f"{_RUNTIME}.ACTIVE$": (),
    f"{_RUNTIME}.TERMINATED$": (),
}


def find_missing(spark: SparkSession, wanted: dict[str, tuple[str, ...]]) -> list[str]:
    """The classes and methods of `wanted` that this Spark does not have."""
    from py4j.protocol import Py4JJavaError

    missing = []
    for name, methods in wanted.items():
        try:
            found = jvm(spark).java.lang.Class.forName(name, False, _class_loader(spark))
        except Py4JJavaError:
            missing.append(name)
            continue
        known = _method_names(found)
        missing += [f"{name}.{method}" for method in methods if method not in known]
    return missing


def _method_names(java_class: Any) -> set[str]:
    name = str(java_class.getName())
    if name not in _known_methods:
        names: set[str] = set()
        while java_class is not None:
            # Private methods of Scala traits and classes carry their class in their name.
            names |= {str(method.getName()).rsplit("$$", 1)[-1] for method in java_class.getDeclaredMethods()}
            java_class = java_class.getSuperclass()
        _known_methods[name] = names
    return _known_methods[name]


#: By class: asking costs a call to the JVM for each method, and classes do not change.
_known_methods: dict[str, set[str]] = {}


def _class_loader(spark: SparkSession) -> Any:
    return jvm(spark).org.apache.spark.util.Utils.getContextOrSparkClassLoader()


def jvm(spark: SparkSession) -> Any:
    """The driver's JVM as Py4J shows it; outside of this room only for public Java classes (`java.sql`)."""
    return spark._jvm


def active_jvm() -> Any:
    """The JVM of the session that runs in this process."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    return jvm(running)


def jvm_process(spark: SparkSession) -> Popen[bytes]:
    """The operating system's process of the driver's JVM."""
    process: Popen[bytes] = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    return process


def wait_for_listeners(spark: SparkSession, most_seconds: float) -> bool:
    """Wait until every listener has received every event; False if that takes longer, as on a busy machine."""
    from py4j.protocol import Py4JJavaError

    bus: Any = spark._jsparkSession.sparkContext().listenerBus()
    try:
        bus.waitUntilEmpty(int(most_seconds * 1000))
    except Py4JJavaError as error:
        if "TimeoutException" not in str(error.java_exception):
            raise
        return False
    return True


# Sessions and plans


def clone_session(spark: SparkSession) -> SparkSession:
    """A session with the same settings and views, which can then be changed apart from the other."""
    from pyspark.sql import SparkSession

    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def move_to_session(rows: DataFrame, spark: SparkSession) -> DataFrame:
    """The same rows, planned with the settings of another session."""
    return to_dataframe(spark, rows._jdf.logicalPlan())


def parse_plan(spark: SparkSession, text: str) -> Any:
    """The tree that Spark's own parser makes of a statement; a `ParseException` if it makes none."""
    return spark._jsparkSession.sessionState().sqlParser().parsePlan(text)


def analyze(rows: DataFrame) -> Any:
    """The analyzed plan of a DataFrame."""
    return rows._jdf.queryExecution().analyzed()


def to_dataframe(spark: SparkSession, plan: Any) -> DataFrame:
    """A DataFrame of a plan; Spark analyzes the plan first."""
    from pyspark.sql.classic.dataframe import DataFrame

    dataset = jvm(spark).org.apache.spark.sql.classic.Dataset
    return DataFrame(dataset.ofRows(spark._jsparkSession, plan), spark)


def to_column(spark: SparkSession, expression: Any) -> Column:
    """A Column of an expression."""
    from pyspark.sql.classic.column import Column

    return Column(jvm(spark).org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def replace_children(spark: SparkSession, plan: Any, children: list[Any]) -> Any:
    """The same node over other children."""
    return plan.withNewChildren(jvm(spark).PythonUtils.toSeq(children))


def class_name(node: Any) -> str:
    """The simple name of a plan's or expression's class."""
    return str(node.getClass().getSimpleName())


def to_list(sequence: Any) -> list[Any]:
    """A Scala sequence as a list."""
    return [sequence.apply(number) for number in range(sequence.length())]


def walk(plan: Any) -> Iterator[Any]:
    """A plan or an expression and everything below it, from the top."""
    yield plan
    for child in to_list(plan.children()):
        yield from walk(child)


def streaming_leaves(plan: Any) -> list[Any]:
    """The sources of a query, once for each place where they are read."""
    return [leaf for leaf in to_list(plan.collectLeaves()) if leaf.isStreaming()]


_STATEFUL = re.compile(r"Aggregate|Distinct|Deduplicate\w*|FlatMapGroups\w*WithState|TransformWithState\w*")
_ATTRIBUTE = re.compile(r"([^\s(),\[\]]*)#(\d+)L?(?:-T\w+)?")


def stateful_operators(rows: DataFrame) -> list[str]:
    """What each stateful operator of a query computes, as text over the columns of its sources.

    Two queries whose texts differ give state of the same types another meaning. Filters are left out: what they let
    through is not what the state means. Functions of Python are known by their name only.
    """
    meanings: dict[str, str] = {}
    found = []
    # Children first: parents are made of what they name.
    for node in reversed(list(walk(analyze(rows)))):
        kind = class_name(node)
        for attribute, text in _definitions(kind, node, meanings):
            meanings[str(attribute.exprId().id())] = text
        if node.isStreaming() and (_STATEFUL.fullmatch(kind) or _joins_streams(kind, node)):
            how = f" {node.joinType().toString()}" if kind == "Join" else ""
            texts = [_meaning(each, meanings) for each in _state_expressions(kind, node)]
            found.append(f"{kind}{how}({', '.join(dict.fromkeys(texts))})")
    return found


def _meaning(expression: Any, meanings: dict[str, str]) -> str:
    """An expression's text, with each column replaced by what it was computed from."""
    return _ATTRIBUTE.sub(lambda found: meanings.get(found[2], found[1]), str(expression.toString()))


def _definitions(kind: str, node: Any, meanings: dict[str, str]) -> Iterator[tuple[Any, str]]:
    """The columns that a node adds, and what they are computed from."""
    for each in to_list(node.expressions()):
        if class_name(each) == "Alias":
            yield each, _meaning(each.child(), meanings)
    if kind == "Generate":
        for each in to_list(node.generatorOutput()):
            yield each, f"{_meaning(node.generator(), meanings)}.{each.name()}"
    if kind == "Union":
        inputs = [to_list(child.output()) for child in to_list(node.children())]
        for each, *columns in zip(to_list(node.output()), *inputs, strict=True):
            yield each, " or ".join(_meaning(column, meanings) for column in columns)


def _state_expressions(kind: str, node: Any) -> list[Any]:
    """Keys and aggregates; what is computed from an aggregate's result is not in the state."""
    if kind != "Aggregate":
        return [each for each in to_list(node.expressions()) if class_name(each) != "Alias"]
    results = [each for result in to_list(node.aggregateExpressions()) for each in walk(result)]
    return [
        *to_list(node.groupingExpressions()),
        *(each for each in results if class_name(each) == "AggregateExpression"),
    ]


def _joins_streams(kind: str, node: Any) -> bool:
    return kind == "Join" and bool(node.left().isStreaming() and node.right().isStreaming())


def source_id(spark: SparkSession, leaf: Any) -> int:
    """The identity of the source behind a leaf: the same when Spark copies the leaf for a second branch."""
    behind = leaf
    if class_name(leaf) == "StreamingRelationV2":
        behind = leaf.table()
    elif class_name(leaf) == "StreamingRelation":
        behind = leaf.dataSource()
    return int(jvm(spark).java.lang.System.identityHashCode(behind))


def refresh_file_listings(rows: DataFrame) -> None:
    """Let Spark list the folders of a DataFrame again; it remembers which files there were."""
    for leaf in to_list(analyze(rows).collectLeaves()):
        if class_name(leaf) == "LogicalRelation" and class_name(leaf.relation()) == "HadoopFsRelation":
            leaf.relation().location().refresh()


def is_java_object(value: object) -> bool:
    """Whether a value lives in the JVM, not in Python."""
    from py4j.java_gateway import JavaObject

    return isinstance(value, JavaObject)


def check_streaming(rows: DataFrame, mode: str, *, continuous: bool = False, real_time: bool = False) -> None:
    """Ask Spark's streaming checkers, which `start()` asks first, and its planner; raises what Spark raises."""
    spark = rows.sparkSession
    checker = jvm(spark).org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    output_mode = getattr(jvm(spark).org.apache.spark.sql.streaming.OutputMode, mode.capitalize())()
    checks = [checker.checkForContinuous if continuous else checker.checkForStreaming]
    if real_time:
        checks.append(checker.checkAdditionalRealTimeModeConstraints)
    for check in checks:
        check(analyze(rows), output_mode)
    plan_batch(rows)


def plan_batch(rows: DataFrame) -> Any:
    """The query as its batches execute it; raises what only Spark's planner refuses, like a join without equality."""
    # Of the analyzed plan: the parsed one of a SELECT does not know yet that its tables are streams.
    execution = to_dataframe(rows.sparkSession, analyze(rows))._jdf.queryExecution().queryExecutionForExplain()
    execution.sparkPlan()
    return execution


# Late rows: expressions that read the watermark of the running batch


def end_of_group(spark: SparkSession, time: Any) -> Column:
    """When the group of a row is closed, in microseconds: the end of its window, or its own time."""
    expressions, types = _catalyst(spark), jvm(spark).org.apache.spark.sql.types
    none = getattr(getattr(jvm(spark).scala, "None$"), "MODULE$")
    is_window = time.dataType().typeName() == "struct"
    end = expressions.GetStructField(time, 1, none) if is_window else time
    converted = expressions.PreciseTimestampConversion(end, end.dataType(), types.DataTypes.LongType)
    return to_column(spark, converted)


@dataclass(frozen=True)
class SharedLong:
    """A number in the JVM that a plan reads by reference, so that changing it compiles no new code."""

    spark: SparkSession
    array: Any

    @classmethod
    def create(cls, spark: SparkSession) -> SharedLong:
        """A number that is 0."""
        return cls(spark, jvm(spark).java.util.concurrent.atomic.AtomicLongArray(1))

    def set(self, value: int) -> None:
        """Change it for the tasks that start from now on."""
        self.array.set(0, value)

    def read(self) -> Column:
        """A Column that reads it for each row."""
        integer = jvm(self.spark).org.apache.spark.sql.types.DataTypes.IntegerType
        first = _catalyst(self.spark).Literal(0, integer)
        name = "java.util.concurrent.atomic.AtomicLongArray"
        return _invoke(self.spark, self.array, name, "get", [first], is_folded=False)


def call_while_planning(spark: SparkSession, function: Callable[[], None], name: str) -> Column:
    """A Column of zeros whose evaluation calls a Python function once for each batch, while the batch is planned."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    supplier = _Supplier(function, name)
    return _invoke(spark, supplier, "java.util.function.LongSupplier", "getAsLong", [], is_folded=True)


class _Supplier:
    """A `java.util.function.LongSupplier` that returns 0."""

    def __init__(self, function: Callable[[], None], name: str) -> None:
        self._function, self._name = function, name

    def getAsLong(self) -> int:  # noqa: N802
        """Called by the JVM."""
        self._function()
        return 0

    def hashCode(self) -> int:  # noqa: N802
        """Plans are compared and put into maps."""
        return id(self) % 2**31

    def equals(self, other: object) -> bool:
        """Each query has its own."""
        return self is other

    def toString(self) -> str:  # noqa: N802
        """As it is shown in a plan."""
        return self._name

    class Java:
        """The interface that it implements for Py4J."""

        implements = ("java.util.function.LongSupplier",)


def _invoke(
    spark: SparkSession, target: Any, interface: str, method: str, arguments: Sequence[Any], *, is_folded: bool
) -> Column:
    types, python_utils = jvm(spark).org.apache.spark.sql.types, jvm(spark).PythonUtils
    literal = _catalyst(spark).Literal(target, types.ObjectType(jvm(spark).java.lang.Class.forName(interface)))
    given, none = python_utils.toSeq(list(arguments)), python_utils.toSeq([])
    long = types.DataTypes.LongType
    call = _catalyst(spark).objects.Invoke(literal, method, long, given, none, True, False, is_folded)
    return to_column(spark, call)


def _catalyst(spark: SparkSession) -> Any:
    return jvm(spark).org.apache.spark.sql.catalyst.expressions


# Running queries


def batch_watermark(query: StreamingQuery) -> int:
    """The watermark, in milliseconds, by which Spark decides what is late in the batch that is planned now."""
    execution = _execution(query)
    before = execution.offsetLog().get(execution.getLatestExecutionContext().batchId() - 1)
    return int(before.get().metadataOpt().get().batchWatermarkMs()) if before.isDefined() else 0


def recent_progress(query: StreamingQuery) -> list[Any]:
    """The newest reports of a query as Java objects, oldest first; `.json()` of each is its text."""
    return list(query._jsq.recentProgress())


def has_batches(query: StreamingQuery) -> bool:
    """Whether the query runs in micro-batches."""
    return "Continuous" not in class_name(_execution(query))


def forbid_next_batch(spark: SparkSession, query: StreamingQuery) -> None:
    """Let the running batch end and be committed, and no other begin.

    Spark's own way to end after a batch, which `available-now` uses: the state TERMINATED is checked before a batch and
    after one, never inside. A query that is still initialising becomes ACTIVE only if it is INITIALIZING.
    """
    runtime = jvm(spark).org.apache.spark.sql.execution.streaming.runtime
    names = ("INITIALIZING$", "ACTIVE$", "TERMINATED$")
    initialising, active, terminated = (getattr(getattr(runtime, name), "MODULE$") for name in names)
    state = _execution(query).state()
    # In this order: between the two it may become active.
    if not state.compareAndSet(initialising, terminated):
        state.compareAndSet(active, terminated)


def is_in_batch(query: StreamingQuery) -> bool:
    """Whether the query's thread is inside of a batch; True if this Spark does not let us know."""
    execution = _execution(query)
    if _BATCH_METHOD not in _method_names(execution.getClass()):
        return True
    frames = execution.queryExecutionThread().getStackTrace()
    return any(str(frame.getMethodName()).rsplit("$$", 1)[-1] == _BATCH_METHOD for frame in frames)


def is_thread_alive(query: StreamingQuery) -> bool:
    """Whether the thread that runs the query's batches is alive."""
    return bool(_execution(query).queryExecutionThread().isAlive())


def _execution(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()


class MemoryStream:
    """Spark's own source for tests: rows that are added become batches, without files or time."""

    def __init__(self, spark: SparkSession, schema: Any = None) -> None:
        """Rows of a `StructType`, or of one text column `value`."""
        self._spark = spark
        encoders = jvm(spark).org.apache.spark.sql.Encoders
        if schema is None:
            encoder = encoders.STRING()
        else:
            encoder = encoders.row(jvm(spark).org.apache.spark.sql.types.DataType.fromJson(schema.json()))
        memory = jvm(spark).org.apache.spark.sql.execution.streaming.runtime.MemoryStream
        self._stream = memory.apply(encoder, spark._jsparkSession)

    def read(self) -> DataFrame:
        """The stream."""
        from pyspark.sql import DataFrame

        return DataFrame(self._stream.toDF(), self._spark)

    def add(self, texts: list[str]) -> None:
        """Rows for the next batch, of a stream of texts."""
        convert = jvm(self._spark).scala.jdk.javaapi.CollectionConverters
        self._stream.addData(convert.asScala(texts).toSeq())


@dataclass(frozen=True)
class HadoopFiles:
    """The file systems that Spark writes to, through Hadoop's public interface."""

    spark: SparkSession

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        system, found = self._locate(path)
        return bool(system.exists(found))

    def rename(self, path: str, new: str) -> bool:
        """Move a file or folder in one step; False if the file system refuses."""
        system, found = self._locate(path)
        return bool(system.rename(found, self._path(new)))

    def _locate(self, path: str) -> tuple[Any, Any]:
        found = self._path(path)
        return found.getFileSystem(self.spark._jsparkSession.sessionState().newHadoopConf()), found

    def _path(self, path: str) -> Any:
        return jvm(self.spark).org.apache.hadoop.fs.Path(path)
