"""python -m penstock.driver: started by `penstock run`, never by hand."""

from __future__ import annotations

import os
import signal
import socket
import sys

from penstock.driver.channel import SupervisorChannel
from penstock.supervise.protocol import Channel, RunOptions


def main() -> None:
    """Import what takes long, wait for the start order, run; the exit code says only whether it ended well."""
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    # The JVM must not inherit the channel: its end tells the supervisor that the driver is gone.
    os.set_inheritable(channel.fileno(), False)
    options = RunOptions.parse(sys.argv[2])
    supervisor = SupervisorChannel(channel)
    signal.signal(signal.SIGTERM, lambda *_: supervisor.request_drain("SIGTERM"))
    import pyspark.sql  # noqa: F401  the supervisor checks the file and takes the lease meanwhile

    from penstock.driver.driver import run

    order = supervisor.wait_for_start()
    sys.exit(run(options, order, supervisor) if order is not None else 0)


main()
