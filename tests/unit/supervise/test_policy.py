"""When to start again is arithmetic."""

from __future__ import annotations

from penstock.model import Restart
from penstock.spark.errors import is_retryable, is_transient_at_start
from penstock.supervise.supervisor import Restarts, Watchdog

STEADY = Restart(limit=4, within_seconds=100, backoff_seconds=1, most_seconds=5, jitter=0, healthy_seconds=50)


def test_waits_double_up_to_the_longest_and_end_at_the_limit():
    restarts = Restarts(STEADY)

    waits = [restarts.wait_seconds(float(now), 1.0) for now in range(5)]

    assert waits == [1, 2, 4, 5, None]


def test_restarts_that_are_long_ago_do_not_count():
    restarts = Restarts(STEADY)
    for now in range(4):
        restarts.wait_seconds(float(now), 1.0)

    assert restarts.wait_seconds(50.0, 1.0) is None
    assert restarts.wait_seconds(200.0, 1.0) is not None


def test_a_healthy_run_forgets_what_was_before():
    restarts = Restarts(STEADY)
    for now in range(4):
        restarts.wait_seconds(float(now), 1.0)

    assert restarts.wait_seconds(60.0, ran_seconds=55.0) == 1
    assert restarts.count == 1


def test_chance_moves_a_wait_by_its_part_and_no_more():
    policy = Restart(backoff_seconds=10, jitter=0.2)

    assert Restarts(policy, chance=lambda: 0.0).wait_seconds(0.0, 0.0) == 8
    assert Restarts(policy, chance=lambda: 1.0).wait_seconds(0.0, 0.0) == 12


def test_no_restart_is_allowed_with_a_limit_of_zero():
    assert Restarts(Restart(limit=0)).wait_seconds(0.0, 0.0) is None


def test_errors_that_no_retry_can_help_are_known_by_their_condition_or_class():
    for condition in (
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        "CAST_INVALID_INPUT",
        "KAFKA_DATA_LOSS.PARTITIONS_DELETED",
        "USER_RAISED_EXCEPTION",
    ):
        assert not is_retryable(condition, "")
    assert not is_retryable("", "Caused by: org.apache.kafka.common.errors.SaslAuthenticationException: no")
    assert is_retryable("", "org.apache.kafka.common.errors.TimeoutException: topic not present")
    assert is_retryable("TASK_WRITE_FAILED", "java.io.IOException: No space left on device")
    assert is_retryable("", "something new")


def test_what_spark_refuses_at_the_start_it_refuses_again_unless_a_disk_or_a_network_is_at_fault():
    assert is_transient_at_start("", "java.io.IOException: No space left on device")
    assert not is_transient_at_start("UNRESOLVED_COLUMN.WITH_SUGGESTION", "AnalysisException: no such column")
    assert not is_transient_at_start("", "ZeroDivisionError: division by zero")


def test_a_batch_is_stuck_when_it_takes_many_times_the_usual_and_not_before_the_least():
    dog = Watchdog(Restart(stalled_seconds=30, stalled_times=10))
    dog.beat(0.0)
    for seconds in (1.0, 2.0, 30.0):
        dog.batch("slow", 10.0)
        dog.batch("quick", seconds)

    assert dog.complaint(1.0, {"slow": 99.0, "quick": 29.0}) == ""
    assert "'slow' has not finished a batch for 101 s" in dog.complaint(1.0, {"slow": 101.0})
    assert "'quick'" in dog.complaint(1.0, {"quick": 31.0})
    assert "'new'" in dog.complaint(1.0, {"new": 31.0})


def test_a_driver_that_says_nothing_is_stuck():
    dog = Watchdog(Restart())
    dog.beat(0.0)

    assert dog.complaint(59.0, {}) == ""
    assert dog.complaint(61.0, {}) == "the driver has not been heard of for 61 s"
