"""A class-data archive of the JVM: Spark's classes loaded from one mapped file, a third less start-up time.

It holds Spark's own classes. The JVM takes it when its class path begins with the one that the archive was made
with, which is why connector jars come last on ours; otherwise it starts as if there were none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from penstock import jars
from penstock.errors import PenstockError
from penstock.java import find_java

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


def java_options() -> list[str]:
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
