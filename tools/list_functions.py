"""python -m tools.list_functions: write the functions of the installed Spark to src/penstock/checks/functions.txt."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

FILE = Path(__file__).parents[1] / "src/penstock/checks/functions.txt"


def list_functions(spark: Any) -> str:
    """A line for each group of Spark's functions: `group: name name`."""
    catalyst = spark._jvm.org.apache.spark.sql.catalyst.analysis
    groups: dict[str, list[str]] = defaultdict(list)
    for registry in (catalyst.FunctionRegistry.builtin(), catalyst.TableFunctionRegistry.builtin()):
        names = registry.listFunction()
        for place in range(names.size()):
            name = names.apply(place)
            info = registry.lookupFunction(name).get()
            groups[info.getGroup() or "other"].append(name.funcName())
    return "".join(f"{group}: {' '.join(sorted(set(names)))}\n" for group, names in sorted(groups.items()))


if __name__ == "__main__":
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    FILE.write_text(list_functions(session), encoding="utf-8")
    session.stop()
