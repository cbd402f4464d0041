"""Copies a topic to another: a bare script, restarted by a shell loop."""

import os
import sys

servers, topic, output, checkpoint, jars = sys.argv[1:6]
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import SparkSession  # noqa: E402

settings = {
    "spark.master": "local[*]",
    "spark.jars": jars,
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
builder = SparkSession.builder.appName("bare")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
read = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
rows = spark.readStream.format("kafka").options(**read, maxOffsetsPerTrigger="200").load()
write = {"kafka.bootstrap.servers": servers, "topic": output, "checkpointLocation": checkpoint}
query = rows.selectExpr("value").writeStream.format("kafka").options(**write).start()
query.awaitTermination()
