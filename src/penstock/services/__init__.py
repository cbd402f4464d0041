"""Real services on this machine, for `embedded`, demos and tests."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.services.cassandra import Cassandra
from penstock.services.kafka import KafkaBroker
from penstock.services.process import Status
from penstock.services.service import Service

__all__ = ["SERVICES", "Cassandra", "KafkaBroker", "Service", "Status", "dev_folder"]

SERVICES: dict[str, type[Service]] = {service.name: service for service in (KafkaBroker, Cassandra)}


def dev_folder() -> Path:
    """The data folder of services: $PENSTOCK_DEV, else the nearest .penstock/dev from here up, else one here."""
    own = os.environ.get("PENSTOCK_DEV")
    if own:
        return Path(own).expanduser().absolute()
    here = Path.cwd()
    near = (folder / ".penstock" / "dev" for folder in (here, *here.parents))
    return next((folder for folder in near if folder.is_dir()), here / ".penstock" / "dev")
