"""When batches run, and going on after a restart."""

from __future__ import annotations


def pipeline(trigger: str, limit: str = "files_per_trigger: 1") -> str:
    return f"""
    name: p
    sources:
      rows: {{files: {{path: input, {limit}}}}}
    sinks:
      out: {{from: rows, files: {{path: output, format: text}}, trigger: {trigger}}}
    """


def numbers(project, *names: int) -> None:
    for name in names:
        project.put(f"input/{name}.txt", f"{name}\n", at=name)


def written(project) -> list[str]:
    return [row[0] for row in project.written("output", "text")]


def test_the_default_trigger_reads_on_as_files_appear(project):
    numbers(project, 1, 2)

    with project.started(project.load(pipeline("default"))) as (queries, run):
        next(iter(queries)).processAllAvailable()
        numbers(project, 3)
        next(iter(queries)).processAllAvailable()

    assert written(project) == ["1", "2", "3"]
    assert [batch.rows_in for batch in run.batches] == [1, 1, 1]


def test_an_interval_reads_on_as_files_appear(project):
    numbers(project, 1)

    with project.started(project.load(pipeline("100 milliseconds"))) as (queries, _):
        next(iter(queries)).processAllAvailable()
        numbers(project, 2)
        next(iter(queries)).processAllAvailable()

    assert written(project) == ["1", "2"]


def test_once_reads_everything_in_one_batch_and_ends(project):
    numbers(project, 1, 2, 3)

    run = project.watch(project.load(pipeline("once")))

    assert written(project) == ["1", "2", "3"]
    assert [batch.rows_in for batch in run.batches] == [3]


def test_available_now_reads_everything_in_batches_as_limited_and_ends(project):
    numbers(project, 1, 2, 3)

    run = project.watch(project.load(pipeline("available-now")))

    assert written(project) == ["1", "2", "3"]
    assert [batch.rows_in for batch in run.batches] == [1, 1, 1]


def test_a_run_once_ends_whatever_the_trigger(project):
    numbers(project, 1)

    project.run_once(project.load(pipeline("1 hour")))

    assert written(project) == ["1"]


def test_a_restart_reads_only_what_is_new(project):
    numbers(project, 1, 2)
    project.run(pipeline("default"))
    numbers(project, 3)

    run = project.run(pipeline("default"))

    assert written(project) == ["1", "2", "3"]
    assert [(batch.batch, batch.rows_in) for batch in run.batches] == [(2, 1)]


def test_counts_go_on_after_a_restart(project):
    text = """
        name: p
        sources:
          rows: {files: {path: input}}
        steps:
          counts: SELECT count(*) AS count FROM rows
        sinks:
          out: {from: counts, memory: {}, mode: complete}
        """
    numbers(project, 1, 2)
    project.run(text)
    numbers(project, 3)

    project.run(text)

    assert project.rows("out") == [(3,)]


def test_waiting_ends_when_it_has_been_enough(project):
    numbers(project, 1)
    pipeline_ = project.load(pipeline("default"))

    with project.started(pipeline_) as (queries, run):
        queries.wait(lambda: bool(run.batches))

        assert next(iter(queries)).isActive
    assert not next(iter(queries)).isActive


def test_the_checkpoint_of_another_pipeline_is_refused(project, refusal):
    numbers(project, 1)
    project.run(pipeline("default"))
    other = pipeline("default").replace("files: {path: input, files_per_trigger: 1}", "rate: {}")

    said = refusal(project.run, other.replace("rows,", "lines,").replace("rows:", "lines:"), checked=False)

    assert said == (
        f"{project.folder}/pipeline.yaml:6:3: sink 'out': the checkpoint {project.folder}/.penstock/p/checkpoints/out "
        "belongs to sink 'out' of pipeline 'p' reading rows (files), "
        "not to sink 'out' of pipeline 'p' reading lines (rate); "
        "give this sink or pipeline another name, or 'storage' another place"
    )


def test_one_pipeline_has_a_query_for_each_sink(project):
    numbers(project, 1)

    run = project.run("""
        name: p
        sources:
          rows: {files: {path: input}}
        sinks:
          first: {from: rows, memory: {}}
          second: {from: rows, files: {path: output, format: text}}
        """)

    assert project.rows("first") == [("1",)]
    assert written(project) == ["1"]
    assert {batch.query for batch in run.batches} == {"first", "second"}
