"""Real services on this machine, for `embedded`, demos and tests."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.services.kafka import KafkaBroker
from penstock.services.process import Status

__all__ = ["SERVICES", "KafkaBroker", "Status", "dev_folder"]

SERVICES = {service.name: service for service in (KafkaBroker,)}


def dev_folder() -> Path:
    """Where services keep their data: $PENSTOCK_DEV, or .penstock/dev in the current directory."""
    return Path(os.environ.get("PENSTOCK_DEV") or Path(".penstock", "dev")).expanduser().absolute()
