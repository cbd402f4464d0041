"""The trades job as an expert would tune it: all of Penstock's settings, and nothing else.

It leaves out records that cannot be decoded and counts them, as the pipeline does. With `bare` as its last argument it
does not look, and bad records become nulls: less than the same job, to show what looking costs.
"""

import os
import sys
from pathlib import Path

servers, topic, output, checkpoint, jars, archive = sys.argv[1:7]
bare = sys.argv[7:] == ["bare"]
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_DIST_CLASSPATH"] = jars.replace(",", ":")

from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402, N812

java = ["-XX:+UseParallelGC", "-XX:+ExitOnOutOfMemoryError"]
if Path(archive).exists():
    java += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
settings = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": " ".join(java),
    "spark.sql.shuffle.partitions": str(len(os.sched_getaffinity(0))),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
builder = SparkSession.builder.appName("hand-tuned")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()

read = {
    "kafka.bootstrap.servers": servers,
    "subscribe": topic,
    "startingOffsets": "earliest",
    "kafka.max.poll.records": "5000",
    "kafka.max.partition.fetch.bytes": "8388608",
    "kafka.fetch.max.bytes": "67108864",
    "kafka.receive.buffer.bytes": "1048576",
}
write = {
    "kafka.bootstrap.servers": servers,
    "topic": output,
    "checkpointLocation": checkpoint,
    "kafka.linger.ms": "5",
    "kafka.batch.size": "262144",
    "kafka.compression.type": "lz4",
}
schema = "CreatedTime timestamp, Type string, Amount int, BrokerCode string"
raw = spark.readStream.format("kafka").options(**read).load()
if bare:
    value = F.from_json(F.col("value").cast("string"), schema).alias("value")
    trades = raw.select(value).select("value.*")
else:
    value = F.from_json(F.col("value").cast("string"), f"{schema}, _corrupt_record string").alias("value")
    required = "value.CreatedTime IS NULL OR value.Type IS NULL OR value.Amount IS NULL"
    bad = F.expr(f"value IS NULL OR value._corrupt_record IS NOT NULL OR {required}").alias("bad")
    flagged = raw.select(value).select("value.*", bad).drop("_corrupt_record")
    trades = flagged.observe("bad", F.count_if("bad").alias("bad")).where("NOT bad").drop("bad")
trades.withWatermark("CreatedTime", "30 minutes").createOrReplaceTempView("trades")
totals = spark.sql(
    """
    SELECT window.start, window.end,
           sum(CASE WHEN Type = 'BUY'  THEN Amount ELSE 0 END) AS TotalBuy,
           sum(CASE WHEN Type = 'SELL' THEN Amount ELSE 0 END) AS TotalSell
    FROM trades GROUP BY window(CreatedTime, '15 minutes')
    """
)
records = totals.select(F.col("start").cast("string").alias("key"), F.to_json(F.struct("*")).alias("value"))
query = records.writeStream.format("kafka").options(**write).outputMode("update").trigger(availableNow=True).start()
query.awaitTermination()
print(sum(batch["durationMs"]["triggerExecution"] for batch in query.recentProgress) / 1000)
spark.stop()
