"""A world with a judge for each of the faults."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.faults.world import World
from tests.services.fixtures import Kafka


@pytest.fixture
def seed() -> int:
    """What chance begins with: printed, and taken from FAULT_SEED when a failure is to be seen again."""
    found = int(os.environ.get("FAULT_SEED", random.randrange(2**31)))
    print(f"FAULT_SEED={found}")
    return found


@pytest.fixture
def world(tmp_path: Path, kafka: Kafka) -> World:
    """Topics, a folder with a pipeline, and the ids that went in."""
    return World(tmp_path, kafka)
