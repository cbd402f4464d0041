"""A driver does not import pandas until a pipeline uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import sys
from pathlib import Path
from penstock.engine import session

spark = session("light", master="local[1]", log=Path("light.log"))
from pyspark.sql import functions as F

rows = spark.range(3).withColumn("n", F.lit(7)).where("id > 0")
assert [tuple(row) for row in rows.collect()] == [(1, 7), (2, 7)]
print("pandas" in sys.modules, "pyarrow" in sys.modules)

import numpy

assert rows.select(F.lit(numpy.int64(5)).alias("n")).dtypes == [("n", "bigint")]
assert rows.select(F.lit(numpy.array([1, 2])).alias("n")).dtypes == [("n", "array<bigint>")]
from pyspark.testing import assertDataFrameEqual

assertDataFrameEqual(rows, rows)
assert rows.toPandas()["n"].tolist() == [7, 7]
print("pandas" in sys.modules)
spark.stop()
"""


def test_numpy_and_pandas_work_once_they_are_imported(tmp_path: Path):
    ran = subprocess.run([sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.stdout == "False False\nTrue\n", ran.stderr
