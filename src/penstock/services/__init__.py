"""Real services on this machine, for `embedded`, demos and tests."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.services.kafka import KafkaBroker
from penstock.services.process import Status

__all__ = ["SERVICES", "KafkaBroker", "Status", "dev_folder"]

SERVICES = {service.name: service for service in (KafkaBroker,)}


def dev_folder() -> Path:
    """Where services keep their data: $PENSTOCK_DEV, else the nearest .penstock/dev from here up, else one here."""
    own = os.environ.get("PENSTOCK_DEV")
    if own:
        return Path(own).expanduser().absolute()
    here = Path.cwd()
    near = (folder / ".penstock" / "dev" for folder in (here, *here.parents))
    return next((folder for folder in near if folder.is_dir()), here / ".penstock" / "dev")
