"""``python -m sandbox.machines <cluster folder>``: runs the machines of one simulated cluster until it is told to stop.

The folder needs a kubeconfig of an administrator; machine groups are read from its machines.json
(sandbox.cluster.machine_groups).
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from pathlib import Path

from gpu_pools.text.terminal import guarded
from sandbox.machines.daemon import Daemon
from sandbox.system.errors import SandboxError


def main() -> int:
    """Run until SIGTERM or SIGINT; the exit status is 1 for what a user can mend."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.machines", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the simulated cluster")
    folder: Path = parser.parse_args().folder
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # The transport warns about its own pool whenever a watch ends.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: stop.set())
    # Under nohup it is ignored, and so it would be by all that starts here: config-manager tells operands by it what has changed.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        Daemon(folder.resolve()).run(stop)
    except SandboxError as error:
        logging.getLogger("sandbox.machines").error("%s %s", error.message, error.remedy)  # noqa: TRY400
        return 1
    return 0


if __name__ == "__main__":
    # Its log is read on terminals, and holds what others have named.
    with guarded():
        sys.exit(main())
