"""The SparkSession, made once, with settings that fit one machine or a cluster, and an archive of classes for its JVM.

The archive holds Spark's own classes, loaded from one mapped file: a third less start-up time. The JVM takes it when
its class path begins with the one that the archive was made with, which is why connector jars come last on ours;
otherwise it starts as if there were none.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import importlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import jars
from penstock.errors import PenstockError
from penstock.java import find_java
from penstock.redaction import java_pattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"

_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.killEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # `${...}` is ours, and replaced when the file is loaded.
    "spark.sql.variable.substitute": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.driver.memory": "2g",
    # What is kept is a batch, for a few seconds: packing it costs more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "15s",
}

# What Spark hides in its pages, its event log and its plans: settings and options whose name or value looks like this.
_HIDDEN = (
    "(?i)secret|password|passwd|pwd|token|access[.]?key|jaas|credential|sas[l.]|sig=|keystore|truststore|private.?key"
)

# Last, so that nothing in a file undoes them: Kafka's client calls no URL, loads no login module that looks up names
# elsewhere, and reads no file or variable that an option's value mentions.
_KAFKA_STAYS_HOME = (
    "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=",
    "-Dorg.apache.kafka.disallowed.login.modules="
    "com.sun.security.auth.module.JndiLoginModule,com.sun.security.auth.module.LdapLoginModule",
    "-Dorg.apache.kafka.automatic.config.providers=none",
)


def _java_options(log: Path, level: str, *, archived: bool) -> list[str]:
    return [
        # A driver that is out of memory must end, not linger half alive.
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:+UseParallelGC",
        f"-Dpenstock.log={log}",
        f"-Dpenstock.log.level={level}",
        # Shuffle files and all else that Spark puts into a temporary folder; `spark.local.dir` of the file wins.
        f'"-Djava.io.tmpdir={local_dir()}"',
        f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
        *(archive_options() if archived else ()),
    ]


def is_local(master: str) -> bool:
    """Whether everything runs inside the driver's own process."""
    return master.startswith("local") and not master.startswith("local-cluster")


def settings(
    master: str, asked: Mapping[str, str], jars: Sequence[Path], java_options: Sequence[str]
) -> dict[str, str]:
    """Every setting of the session: ours, then what the file asks for."""
    ours = {**_ALWAYS, "spark.master": master}
    if is_local(master):
        ours |= _one_machine(master)
    else:
        ours |= _cluster(master, jars)
    given = {key if key.startswith("spark.") else f"spark.{key}": value for key, value in asked.items()}
    given.pop("spark.master", None)
    own = given.pop("spark.driver.extraJavaOptions", "")
    executors = given.pop("spark.executor.extraJavaOptions", "")
    return {
        **ours,
        **given,
        "spark.redaction.regex": "|".join(filter(None, [_HIDDEN, given.get("spark.redaction.regex")])),
        "spark.driver.extraJavaOptions": " ".join(filter(None, [*java_options, own, *_KAFKA_STAYS_HOME])),
        "spark.executor.extraJavaOptions": " ".join(filter(None, [executors, *_KAFKA_STAYS_HOME])),
    }


def _one_machine(master: str) -> dict[str, str]:
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.sql.shuffle.partitions": str(cores(master)),
        # Plain renames: a fifth less time per small batch on a local disk than the default's file contexts.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
    }


def _cluster(master: str, jars: Sequence[Path]) -> dict[str, str]:
    ours = {"spark.jars": ",".join(str(jar) for jar in jars)} if jars else {}
    if "//127.0.0.1:" in master or "//localhost:" in master:
        ours |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return ours


def cores(master: str) -> int:
    """How many tasks run at once with a local master."""
    inside = master.partition("[")[2].rstrip("]").split(",")[0]
    if inside == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(inside) if inside.isdigit() else 1


def session(
    name: str,
    *,
    master: str = "local[*]",
    asked: Mapping[str, str] | None = None,
    jars: Sequence[Path] = (),
    log: Path = Path("driver.log"),
    verbose: bool = False,
    archived: bool = True,
    keep: Sequence[int] = (),
) -> SparkSession:
    """A new SparkSession; Spark's own talk goes to `log`, more of it and the JVM's to the screen when verbose.

    `keep` are open files that the JVM holds for as long as it lives.
    """
    find_java()
    from pyspark.sql import SparkSession

    _import_without_pandas()
    log = log.absolute()
    log.parent.mkdir(parents=True, exist_ok=True)
    # Python workers must be this interpreter, not the first `python3` of the PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    # By the environment, which only we can read: settings are on the command line for all to see.
    os.environ["PENSTOCK_HIDDEN"] = java_pattern() or "(?!)"
    # Last on the class path from the start: quicker than spark.jars, and the archive still fits.
    os.environ["SPARK_DIST_CLASSPATH"] = ":".join(str(jar) for jar in jars)
    builder = SparkSession.builder.appName(name)
    java_options = _java_options(log, "info" if verbose else "warn", archived=archived)
    for key, value in settings(master, asked or {}, jars, java_options).items():
        builder = builder.config(key, value)
    with _errors_to(None if verbose else log.with_suffix(".err")):
        try:
            if keep:
                _launch(master, builder._options, keep)
            spark = builder.getOrCreate()
        except Exception as error:
            raise PenstockError(
                f"Spark did not start with master {master!r}: {_first_line(error)}; see {log}"
            ) from error
    _silence_python_log()
    if not is_local(master) and "spark.sql.shuffle.partitions" not in (asked or {}):
        spark.conf.set("spark.sql.shuffle.partitions", str(_cluster_cores(spark)))
    return spark


def _import_without_pandas() -> None:
    """Import `pyspark.testing.utils` without pandas and pyarrow: 0.25 s and 70 MB less for most drivers.

    PySpark 4.2 asks that module for `have_numpy` whenever a value goes to Java, and the module imports both packages
    only to check their versions, which our own requirements already pin.
    """
    from pyspark.sql.pandas import utils

    checks = ("require_minimum_pandas_version", "require_minimum_pyarrow_version")
    originals = {name: getattr(utils, name) for name in checks}
    try:
        for name in checks:
            setattr(utils, name, lambda: None)
        importlib.import_module("pyspark.testing.utils")
    finally:
        for name, original in originals.items():
            setattr(utils, name, original)


def _launch(master: str, options: Mapping[str, str], keep: Sequence[int]) -> None:
    """Start the JVM as PySpark does, with files that it keeps open."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setMaster(master)
    for key, value in options.items():
        conf.set(key, value)
    gateway = launch_gateway(conf, {"pass_fds": tuple(keep)})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _cluster_cores(spark: SparkSession) -> int:
    # Executors register one after the other; a first small job begins when enough of them are there.
    spark.sparkContext.parallelize(range(2), 2).count()
    return max(2, spark.sparkContext.defaultParallelism)


def _silence_python_log() -> None:
    # PySpark logs each refused query as a line of JSON on standard error; we say it in a sentence.
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    # Py4J raises when the JVM is gone or one of our functions fails, and prints the same with a traceback.
    logging.getLogger("py4j").propagate = False
    logging.getLogger().addFilter(_not_py4j)


def _not_py4j(record: logging.LogRecord) -> bool:
    return record.module not in ("java_gateway", "clientserver")


@contextmanager
def _errors_to(path: Path | None) -> Iterator[None]:
    # The JVM inherits standard error when it starts and prints warnings there that no setting turns off.
    if path is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


_PREFIX = "penstock-spark-"


@cache
def local_dir() -> Path:
    """The folder of this process, mode 0700, removed when the process ends."""
    remove_leftovers()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        if _lock(folder):
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            return folder


def remove_leftovers() -> None:
    """Remove the folders of this user's processes that no longer live."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            # Another user's, or removed meanwhile.
            continue
        try:
            if os.fstat(opened).st_uid == os.getuid():
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            # Its owner lives.
            continue
        finally:
            os.close(opened)


def _lock(folder: Path) -> bool:
    """Lock the folder for the life of this process; False if it was removed as a leftover before the lock was ours."""
    try:
        opened = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return False
    fcntl.flock(opened, fcntl.LOCK_EX)
    if folder.exists():
        return True
    os.close(opened)
    return False


_WARM_UP_SECONDS = 180
_WARM_UP = """
import sys
from pathlib import Path
from penstock.spark.session import session

spark = session("warm-up", asked={"spark.driver.extraJavaOptions": "-XX:ArchiveClassesAtExit=" + sys.argv[1]},
                log=Path(sys.argv[2]), archived=False)
rows = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
rows.createOrReplaceTempView("rows")
totals = spark.sql(
    "SELECT window(timestamp, '1 second').start, from_json('{\\"a\\":1}', 'a int').a AS a, to_json(struct(count(*))) "
    "FROM rows GROUP BY window(timestamp, '1 second'), value"
)
query = totals.writeStream.format("memory").queryName("totals").outputMode("append")
query = query.trigger(availableNow=True).option("checkpointLocation", sys.argv[2] + ".checkpoint").start()
query.awaitTermination()
spark.table("totals").collect()
jvm = spark.sparkContext._gateway.proc
spark.stop()
jvm.stdin.close()
jvm.wait()
"""


def archive_file() -> Path:
    """Where this machine's archive is, or would be: one for each Java and each Spark."""
    program = find_java().resolve()
    made_for = f"{program}:{program.stat().st_mtime_ns}:{metadata.version('pyspark')}:{sys.prefix}"
    name = hashlib.sha256(made_for.encode()).hexdigest()[:16]
    return jars.cache_folder().parent / "archives" / f"{name}.jsa"


def archive_options() -> list[str]:
    """What makes the JVM use the archive; nothing while there is none."""
    file = archive_file()
    quiet = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
    return [f"-XX:SharedArchiveFile={file}", "-Xshare:auto", *quiet] if file.exists() else []


def make_archive() -> Path:
    """Make the archive by running a small query; about 20 seconds, 100 to 200 MB."""
    file = archive_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(f".{os.getpid()}")
    log = Path(f"{unfinished}.log")
    command = [sys.executable, "-c", _WARM_UP, str(unfinished), str(log)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=_WARM_UP_SECONDS, check=False)
    if said.returncode or not unfinished.exists():
        reason = (said.stderr.strip().splitlines() or ["the JVM wrote nothing"])[-1]
        raise PenstockError(f"the start-up archive was not made: {reason}; see {log}")
    unfinished.replace(file)
    for left in file.parent.glob(f"{unfinished.name}.*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return file
