"""Steps by kind, one file each."""

from __future__ import annotations

from penstock.connector import StepOptions
from penstock.steps.dedupe import DedupeStep
from penstock.steps.join import JoinStep
from penstock.steps.lookup import LookupStep
from penstock.steps.processor import ProcessorStep
from penstock.steps.python import PythonStep
from penstock.steps.running import RunningStep
from penstock.steps.sql import SqlStep
from penstock.steps.top import LatestStep, TopStep

STEPS: dict[str, type[StepOptions]] = {
    step.kind: step
    for step in (DedupeStep, JoinStep, LatestStep, LookupStep, ProcessorStep, PythonStep, RunningStep, SqlStep, TopStep)
}
