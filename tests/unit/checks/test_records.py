from __future__ import annotations

import pytest

TEXT = """
sources:
  ticks: {{rate: {{}}}}
steps:
  records: {sql}
sinks:
  out: {{from: records, kafka: {{servers: "localhost:9092", topic: t{options}}}}}
"""


@pytest.mark.parametrize(
    ("sql", "options", "says"),
    [
        (
            "SELECT string(value) AS key, to_json(struct(*)) AS value FROM ticks",
            "",
            'sends {"key": ..., "value": ...} without a key; add \'key: key, value_column: value\' ',
        ),
        (
            "SELECT string(value) AS key, to_json(struct(*)) AS value FROM ticks",
            ", key: key",
            'sends {"key": ..., "value": ...} as the value; add \'value_column: value\' ',
        ),
        ("SELECT to_json(struct(*)) AS value FROM ticks", "", 'sends {"value": ...} as the value; add '),
    ],
)
def test_the_columns_of_sparks_own_kafka_sink_are_a_warning(findings, sql, options, says):
    (finding,) = findings(TEXT.format(sql=sql, options=options))

    assert finding.startswith(f"a.yaml:7:24: warning: sink 'out': kafka {says}")


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        ("SELECT string(value) AS key, to_json(struct(*)) AS value FROM ticks", ", key: key, value_column: value"),
        ("SELECT value, timestamp FROM ticks", ""),
        ("SELECT * FROM ticks", ""),
    ],
)
def test_rows_that_are_meant_as_they_are_written_are_not(findings, sql, options):
    assert findings(TEXT.format(sql=sql, options=options)) == []
