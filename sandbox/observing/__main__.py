"""``python -m sandbox.observing``: a Prometheus of a sandbox's cluster, the way to it, and live dashboards, until told to stop.

It listens at three ports of 127.0.0.1, for its own user only (sandbox.system.peers): the page, Prometheus' HTTP API, and what
leads to the pods. They are written to observing.json in the sandbox's folder.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpu_pools.dashboards.server import Live, Server
from gpu_pools.observing.prometheus import Prometheus
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.terminal import guarded
from sandbox.observing.door import Door
from sandbox.observing.observer import PROGRAMS, Observer
from sandbox.observing.pod_network import PodNetwork
from sandbox.system import peers
from sandbox.system.errors import SandboxError
from sandbox.system.files import write_json
from sandbox.system.own_code import own_code

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORD: Final = "observing.json"
_STEP_SECONDS: Final = 1.0
_OVER: Final = "15m"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; the exit status is 1 for what a user can mend."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.observing", description=__doc__)
    parser.add_argument("--sandbox", type=Path, required=True, help="the folder of the sandbox")
    parser.add_argument("--stack", required=True, help="name of the stack")
    parser.add_argument("--file", type=Path, required=True, help="the stack file, with gpu-pools:observability")
    for name in PROGRAMS:
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="FOLDER", help="where the program is")
    for name in ("page", "prometheus"):
        parser.add_argument(f"--{name}-port", type=int, default=0, help="where it was before; another where that is taken")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    try:
        return _run(options)
    except SandboxError as error:
        print(f"{error.message}\n{error.remedy}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    plan = plan_config(read_stack_file(options.file), complete=False)
    record = options.sandbox / RECORD
    pods = peers.listening(0)
    programs = {name: getattr(options, name.replace("-", "_")) for name in PROGRAMS}
    interval = f"{plan.settings.observability.interval_seconds}s"
    observer = Observer(options.sandbox, programs, pods.getsockname()[1], interval)
    PodNetwork(pods, observer.answer)
    door = Door(_at(options.prometheus_port), observer.connected)
    live = Live(options.stack, plan, Prometheus(door.url), _OVER)
    with Server(live, _at(options.page_port)) as page:
        threading.Thread(target=page.serve_forever, name="page", daemon=True).start()
        ports = {"page": page.server_port, "prometheus": door.port}
        write_json(record, {"pid": os.getpid(), "ports": ports, "code": own_code()})
        try:
            while not stop.wait(_STEP_SECONDS):
                observer.step()
        finally:
            record.unlink(missing_ok=True)
            observer.stop()
            page.shutdown()
    return 0


def _at(port: int) -> peers.OwnersSocket:
    """That port, so that who knows it goes on; another one where it is taken."""
    try:
        return peers.listening(port)
    except OSError:
        return peers.listening(0)


if __name__ == "__main__":
    # Its log is read on terminals, and holds what others have named.
    with guarded():
        sys.exit(main())
