"""Spellings of things that a SELECT from outside may not do, as someone would write them who wants them to pass.

Each is a forbidden thing, inside a query that would be fine without it, with gaps between its words that Spark takes
for white space and other lexers do not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

#: The four that ran before SQL was judged by Spark's own parser.
KNOWN_ATTACKS = (
    "SELECT java_method--x\r('java.lang.System','getenv','HOME') AS h FROM trades",
    "SELECT s.value AS v FROM trades AS text --\\\n/*\nCROSS JOIN text.`/etc/passwd` s --*/",
    "--\\\nSELECT Amount /*\nINSERT OVERWRITE DIRECTORY '/tmp/penstock-attack' USING text SELECT 'x' --*/ FROM trades",
    "SELECT y FROM trades CROSS JOIN (SELECT TRANSFORM(x) USING--\r'id' AS (y) FROM VALUES (1) t(x))",
)

# All of them are white space for Spark's lexer.
_GAPS = (
    *(" ", "\n", "\t", "\r", "\r\n", "\f", "\x0b", "\u00a0", "\u2003", "\u2028", "\u3000"),
    *("/**/", "/* x */", "/*/**/*/", "/* ' */", '/* " */', "/* ` */", "/* -- */", "/*\n*/"),
    *("--\n", "--x\r", "-- '\n", "--\\\n x\n", "-- /*\n", "--*/\r", "--\r\n"),
)

# `~` is a gap that may be anything above.
_EXPRESSIONS = (
    *(
        f"{name}~(~'java.lang.System'~,~'getenv'~,~'HOME'~)"
        for name in ("java_method", "reflect", "try_reflect", "`reflect`", "`java_method`", "JAVA_METHOD", "Reflect")
    ),
    *(
        f"{owner}~.~{name}~('java.lang.System', 'getenv')"
        for owner in ("builtin", "system~.~builtin", "`system`.`builtin`", "session", "spark_catalog.default")
        for name in ("reflect", "`java_method`")
    ),
    "IDENTIFIER~('ref'~||~'lect')('java.lang.System', 'getenv')",
    "transform(array(1), x -> reflect~('java.lang.System', 'getenv'))",
    "CASE WHEN true THEN java_method~('java.lang.System', 'getenv') END",
    "from_xml~('<a/>', 'a string', map('rowValidationXSDPath', '/etc/passwd'))",
    "from_avro~(X'00', 'x', map('avroSchemaUrl', 'file:///etc/passwd'))",
    "from_protobuf~(X'00', 'x', '/etc/passwd')",
    "to_protobuf~(Amount, 'x', '/etc/passwd')",
    "schema_of_xml~('<a/>', map('rowValidationXSDPath', '/etc/passwd'))",
    "xpath_string~('<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>', 'a')",
    "input_file_name~(~)",
    "repeat~('x', 1000000000)",
    "repeat(repeat('x', 10000)~,~10000)",
    "repeat('x', Amount)",
    "space~(1000000000)",
    "lpad~('x',~1000000000)",
    "format_string~('%1000000000d', 1)",
    "array_repeat~(1, 1000000000)",
    "array_insert~(array(1), 1000000000, 1)",
    "sequence~(1,~1000000000)",
    "sequence~(1, Amount)",
    "size(sequence(-1000000000~,~1))",
    "(SELECT max(value) FROM text~.~`/etc/passwd`)",
    "EXISTS (SELECT 1 FROM csv~.~`/etc/passwd`)",
    ":name",
    "?",
)
_RELATIONS = (
    *(
        f"{name}~.~`{path}`"
        for name in ("text", "csv", "`json`", "binaryFile", "parquet", "orc", "delta", "avro", "jdbc")
        for path in ("/etc/passwd", "file:///etc/passwd")
    ),
    "spark_catalog~.~default~.~secrets",
    "global_temp~.~secrets",
    "system~.~session~.~secrets",
    "IDENTIFIER~('text.`/etc/passwd`')",
    "range~(1000000000)",
    "LATERAL~range(1000000000)",
    "LATERAL~(SELECT * FROM range(1000000000))",
    "explode~(sequence(1, 1000000000))",
    "python_worker_logs~(~)",
    "read_files~('/etc')",
    "stack~(1000000000,~1)",
    "trades~VERSION AS OF 1",
    "trades~WITH~(path = '/etc/passwd')",
    "(SELECT TRANSFORM~(Amount)~USING~'id' AS (y)~FROM trades)",
    "(FROM trades MAP~Amount~USING~'id' AS (y))",
    "(FROM trades REDUCE~Amount~USING~'id' AS (y))",
    "trades other",
)
_STATEMENTS = (
    "INSERT~OVERWRITE~DIRECTORY '/tmp/x' USING text SELECT 'x'",
    "INSERT~INTO~trades SELECT 1",
    "FROM trades~INSERT~INTO x SELECT * INSERT INTO y SELECT *",
    "WITH a AS (SELECT 1)~INSERT~INTO x SELECT * FROM a",
    "CREATE~TABLE x AS SELECT 1",
    "CREATE~TEMPORARY~VIEW x AS SELECT 1",
    "CREATE~FUNCTION f AS 'x' USING JAR 'x.jar'",
    "CREATE~TABLE x USING csv OPTIONS (path '/etc/passwd')",
    *("DROP~TABLE trades", "SET~spark.sql.x=1", "ADD~JAR '/x.jar'", "ADD~FILE '/etc/passwd'", "LIST~JARS"),
    *("CACHE~TABLE trades", "USE~default", "SHOW~TABLES", "DESCRIBE~trades", "EXPLAIN~SELECT 1", "RESET"),
    *("LOAD~DATA INPATH '/etc/passwd' INTO TABLE x", "TRUNCATE~TABLE x", "REFRESH~'/etc'", "CLEAR~CACHE"),
    *(
        "UPDATE~trades SET Amount = 1",
        "DELETE~FROM trades",
        "MERGE~INTO trades USING trades t ON true WHEN MATCHED THEN DELETE",
    ),
    *(
        "EXECUTE~IMMEDIATE 'SELECT 1'",
        "BEGIN~SELECT 1; END",
        "DECLARE~x INT",
        "CALL~system.x()",
        "ANALYZE~TABLE trades COMPUTE STATISTICS",
    ),
    "WITH~RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
    "SELECT~/*+ REPARTITION(1000000) */ * FROM trades",
    "WITH a AS (SELECT * FROM trades~UNION ALL SELECT * FROM trades UNION ALL SELECT * FROM trades),"
    " b AS (SELECT * FROM a~UNION ALL SELECT * FROM a UNION ALL SELECT * FROM a UNION ALL SELECT * FROM a),"
    " c AS (SELECT * FROM b~UNION ALL SELECT * FROM b UNION ALL SELECT * FROM b UNION ALL SELECT * FROM b),"
    " d AS (SELECT * FROM c~UNION ALL SELECT * FROM c) SELECT * FROM d",
    "SELECT * FROM trades;~SELECT 1",
)
_AROUND_EXPRESSION = (
    "SELECT~{} AS x FROM trades",
    "SELECT Amount FROM trades WHERE~{} IS NOT NULL",
    "SELECT count(*) FROM trades GROUP BY~{}",
    "SELECT * FROM (SELECT~{} AS x FROM trades) t",
    "WITH a AS (SELECT~{} AS x FROM trades) SELECT * FROM a",
    "SELECT 1 AS x FROM trades UNION ALL SELECT~{} AS x FROM trades",
    "FROM trades |> EXTEND~{} AS x",
    "SELECT x FROM trades LATERAL VIEW explode(array(~{}~)) t AS x",
    "--\\\nSELECT Amount /*\nSELECT {} AS x FROM trades --*/ FROM trades",
    "SELECT /*+ BROADCAST(trades) */~{} AS x FROM trades",
)
_AROUND_RELATION = (
    "SELECT * FROM~{}",
    "SELECT 1 AS x FROM trades CROSS JOIN~{}",
    "SELECT 1 AS x FROM trades,~{}",
    "SELECT 1 AS x FROM trades JOIN~{}",
    "WITH a AS (SELECT * FROM~{}) SELECT 1 AS x FROM trades JOIN a",
    "SELECT Amount FROM trades UNION ALL SELECT 1 FROM~{}",
    "SELECT s.x AS v FROM trades AS text --\\\n/*\nCROSS JOIN {} --*/",
)


def forbidden(seed: int = 1) -> Iterator[str]:
    """Every forbidden thing in every surrounding, each with gaps of its own; always the same for a seed."""
    rnd = random.Random(seed)
    for expression in _EXPRESSIONS:
        yield from (_fill(around.format(expression), rnd) for around in _AROUND_EXPRESSION)
    for relation in _RELATIONS:
        # On its own a second name for a stream is fine.
        arounds = _AROUND_RELATION[1:4] if relation == "trades other" else _AROUND_RELATION
        yield from (_fill(around.format(relation), rnd) for around in arounds)
    for statement in _STATEMENTS:
        yield from (_fill(statement, rnd) for _ in range(3))


def _fill(text: str, rnd: random.Random) -> str:
    parts = text.split("~")
    return parts[0] + "".join(rnd.choice(_GAPS) + part for part in parts[1:])
