def test_x(project):
    project.put("input/a.json", '{"a": 1, "b": "x"}\n{"a": "zz", "b": "y"}\n')
    import time

    for i in range(4):
        t = time.time()
        run = project.run(f"""
        name: p{i}
        sources:
          rows: {{files: {{path: input, format: json, schema: "a int NOT NULL, b string", glob: "*.json"}}, bad_records: drop}}
        sinks:
          out: {{from: rows, memory: {{}}}}
        """)
        print(time.time() - t, project.rows("out"), run.bad, run.batches)
    assert 0
