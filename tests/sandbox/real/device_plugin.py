"""nvidia-device-plugin on a simulated GPU node, as tests start it, listen to it and ask it.

The kubelet's part is played as far as listing goes: the sockets are read, nothing is registered or allocated. The MPS daemon is
proprietary and needs a GPU; its control program is played by three lines of shell.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
from typing import TYPE_CHECKING, Any, Final

import grpc

from sandbox.cluster.gpu_host import DEVICE_PLUGINS
from sandbox.machines.device_manager import devices
from sandbox.system.files import write_atomic
from sandbox.system.patience import Patience

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from sandbox.cluster.gpu_host import GpuHost

_SECONDS: Final = 60.0
_LAST_WORDS: Final = re.compile(r"Waiting indefinitely|Retrying in 30s")


class Plugin:
    """nvidia-device-plugin on a node."""

    def __init__(self, host: GpuHost, program: Path) -> None:
        self.host = host
        self._program = program
        self.log = host.folder / "plugin.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, config: str, *options: str, resources: int = 1, environment: Mapping[str, str] | None = None) -> Plugin:
        """Start it, and wait until it has said what there is to say: ended, given up, or serving that many resources."""
        self.stop()
        self.log.unlink(missing_ok=True)
        write_atomic(self.host.folder / "config.yaml", config)
        argv = (self._program, "--config-file", self.host.folder / "config.yaml", "--kubelet-socket=", *options)
        self._process = self.host.start(argv, self.log, environment=environment)
        # What it serves is counted before it is asked whether it has given up: it may begin to serve in between.
        self.until(lambda: self.ended or len(self.served) >= resources or (not self.served and _LAST_WORDS.search(self.said)))
        return self

    def until(self, holds: Callable[[], object]) -> None:
        end = Patience(_SECONDS)
        while not holds():
            assert not end.is_over(), self.said
            time.sleep(0.01)

    def hang_up(self) -> None:
        """SIGHUP: read everything anew."""
        assert self._process is not None
        self.host.signal(self._process, signal.SIGHUP)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None

    @property
    def status(self) -> int | None:
        assert self._process is not None
        return self._process.wait(_SECONDS) if self.ended else None

    @property
    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    @property
    def config(self) -> dict[str, Any]:
        """The configuration that it says it runs with."""
        _, _, rest = self.said.partition("Running with config:\n")
        return dict(json.JSONDecoder().raw_decode(rest)[0])

    @property
    def served(self) -> set[str]:
        return set(re.findall(r"Registered device plugin for '(.+)' with Kubelet", self.said))

    @contextlib.contextmanager
    def listing(self, resource: str) -> Iterator[Iterator[dict[str, str]]]:
        """What it lists for a resource, id -> health: now, and again whenever it changes."""
        socket = self.host.outside(f"{DEVICE_PLUGINS}/nvidia-{resource.removeprefix('nvidia.com/')}.sock")
        with grpc.insecure_channel(f"unix:{socket}") as channel:
            call = channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch", request_serializer=bytes)
            yield (devices_of(response) for response in call(b"", timeout=_SECONDS))

    def devices(self, resource: str) -> dict[str, str]:
        """What it lists now; one that is just starting its servers anew, told late of the kubelet's socket, is asked again."""
        end = Patience(_SECONDS)
        while True:
            try:
                with self.listing(resource) as listed:
                    return next(listed)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE or end.is_over():
                    raise
                time.sleep(0.05)


def devices_of(response: bytes) -> dict[str, str]:
    """Id -> health of a ListAndWatchResponse."""
    return {device.decode(): health.decode() for device, health in devices(response).items()}


def put_mps_daemon(host: GpuHost) -> None:
    script = "#!/bin/sh\ncat > /dev/null\necho 50.0\n"
    write_atomic(host.folder / "bin" / "nvidia-cuda-mps-control", script, mode=0o755)
