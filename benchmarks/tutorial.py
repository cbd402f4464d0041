"""The trades job as in a tutorial: Spark's defaults, jars by spark.jars."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

servers, topic, output, checkpoint, jars = sys.argv[1:6]
spark = SparkSession.builder.appName("tutorial").config("spark.jars", jars).getOrCreate()
raw = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
value = F.from_json(F.col("value").cast("string"), "CreatedTime string, Type string, Amount int, BrokerCode string")
trades = (
    raw.option("startingOffsets", "earliest")
    .load()
    .select(value.alias("value"))
    .select("value.*")
    .withColumn("CreatedTime", F.to_timestamp("CreatedTime", "yyyy-MM-dd HH:mm:ss"))
    .withColumn("Buy", F.expr("case when Type == 'BUY' then Amount else 0 end"))
    .withColumn("Sell", F.expr("case when Type == 'SELL' then Amount else 0 end"))
    .withWatermark("CreatedTime", "30 minutes")
)
totals = trades.groupBy(F.window("CreatedTime", "15 minutes")).agg(
    F.sum("Buy").alias("TotalBuy"), F.sum("Sell").alias("TotalSell")
)
rows = totals.select("window.start", "window.end", "TotalBuy", "TotalSell")
records = rows.select(F.col("start").cast("string").alias("key"), F.to_json(F.struct("*")).alias("value"))
query = (
    records.writeStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("topic", output)
    .option("checkpointLocation", checkpoint)
    .outputMode("update")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
print(sum(batch["durationMs"]["triggerExecution"] for batch in query.recentProgress) / 1000)
