"""Kinds of transformation, one file each."""

from __future__ import annotations

from penstock.options import StepOptions
from penstock.steps.python import PythonStep
from penstock.steps.sql import SqlStep

STEPS: dict[str, type[StepOptions]] = {step.kind: step for step in (PythonStep, SqlStep)}
