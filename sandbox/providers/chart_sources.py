"""Where a chart comes from: a path, its repository, a Go module that has the same chart, or the sandbox's stand-in for it.

The repository is always tried first. Whether one can be reached is decided once per process and host, in about two
seconds, so that a machine without a network doesn't wait for every release. Only then does the stand-in of the same
name and version take its place, and says so, for versions of gpu-operator that differ from it in a known way too
(older_charts.py). Any other version gets the error that the repository would have given: another one in its place would be
another set of values and defaults.

The chart of NVIDIA's DRA driver is in the driver's Go module, so it has no stand-in. Its public address is
oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu; the same chart is in https://helm.ngc.nvidia.com/nvidia
(install.md and upgrade.md in site/content/docs of kubernetes-sigs/dra-driver-nvidia-gpu; kubernetes/k8s.io promotes charts, as in
its pull request 9475).
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import yaml

from sandbox.providers.older_charts import NAME as OPERATOR
from sandbox.providers.older_charts import older_versions, write_older
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built
from sandbox.toolchain.programs import DRA_CHART, DRA_DRIVER_CHART, pinned_version, program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STAND_INS: Final = Path(__file__).resolve().parents[1] / "charts"
#: The charts that are in a Go module -> what the toolchain calls them.
_OF_MODULES: Final = {DRA_CHART: DRA_DRIVER_CHART}
_PROBE_SECONDS = 2.0
_PULL_SECONDS = 120.0


class ChartError(Exception):
    """The chart cannot be had."""


@dataclass(frozen=True)
class ChartRequest:
    """What a release asks for.

    Attributes:
        chart: a path, an OCI address, or a name in the repository.
        version: the version; "" for the newest.
        repository: the repository's address ("" for none).
    """

    chart: str
    version: str = ""
    repository: str = ""

    @property
    def oci(self) -> bool:
        """Whether the chart is in an OCI registry."""
        return self.chart.startswith("oci://") or self.repository.startswith("oci://")

    @property
    def name(self) -> str:
        """The chart's own name."""
        return self.chart.rstrip("/").rsplit("/", 1)[-1]

    @property
    def source(self) -> str:
        """The address that is asked for the chart."""
        return self.repository or self.chart


@dataclass(frozen=True)
class Chart:
    """A chart on this machine.

    Attributes:
        path: a folder or an archive.
        stand_in: whether it is the sandbox's own.
        of_module: whether it is the real one, out of a Go module.
    """

    path: Path
    stand_in: bool = False
    of_module: bool = False

    def version(self) -> str:
        """The chart's own version, whatever was asked for.

        Raises:
            ChartError: this is not a chart.
        """
        try:
            if self.path.is_dir():
                text = (self.path / "Chart.yaml").read_text(encoding="utf-8")
            else:
                with tarfile.open(self.path) as archive:
                    (name,) = [name for name in archive.getnames() if Path(name).match("*/Chart.yaml") and name.count("/") == 1]
                    file = archive.extractfile(name)
                    text = file.read().decode() if file else ""
            return str(yaml.safe_load(text)["version"])
        except (OSError, ValueError, KeyError, TypeError, tarfile.TarError, yaml.YAMLError) as error:
            message = f"{self.path} is not a chart: {error}"
            raise ChartError(message) from error


class ChartSources:
    """Finds charts; remembers which hosts answer and what was pulled.

    Args:
        helm: gives the helm program's path when it is needed.
        stand_ins: the folder of the stand-in charts.
        reachable: decides whether an address answers; by default it is asked.
    """

    def __init__(
        self,
        helm: Callable[[], str],
        stand_ins: Path = STAND_INS,
        reachable: Callable[[str], bool] | None = None,
    ) -> None:
        self._helm = helm
        self._stand_ins = stand_ins
        self._asks = reachable or answers
        self._hosts: dict[str, bool] = {}
        self._pulled: dict[tuple[str, str, str], Chart] = {}
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # made by the first pull

    def find(self, request: ChartRequest, env: Mapping[str, str]) -> Chart:
        """Return a chart for a release.

        Args:
            request: which chart.
            env: the environment for helm.

        Raises:
            ChartError: there is none.
        """
        path = Path(request.chart).expanduser()
        if not request.oci and path.exists():
            return Chart(path.resolve())
        if not request.oci and not request.repository:
            raise ChartError(
                f"chart {request.chart!r} not found: it is neither a folder nor an archive on this machine, "
                "and repositoryOpts.repo is not set"
            )
        with self._lock:  # one pull at a time, and one for all who want the same
            if self._answers(request.source):
                return self._pull(request, env)
            return self._stand_in(request)

    def _answers(self, address: str) -> bool:
        host = urlsplit(address).netloc
        if host not in self._hosts:
            self._hosts[host] = self._asks(address)
        return self._hosts[host]

    def _pull(self, request: ChartRequest, env: Mapping[str, str]) -> Chart:
        key = (request.chart, request.version, request.repository)
        if request.version and key in self._pulled:
            return self._pulled[key]
        target = self._new_folder()
        command = [self._helm(), "pull", *_address(request), "--destination", str(target)]
        command += ["--version", request.version] if request.version else []
        try:
            done = subprocess.run(
                command,
                env=dict(env),
                capture_output=True,
                text=True,
                timeout=_PULL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ChartError(f"chart {request.name!r}: {request.source} did not answer within {_PULL_SECONDS:g} s") from error
        archives = sorted(target.glob("*.tgz"))
        if done.returncode != 0 or not archives:
            raise ChartError(done.stderr.strip().removeprefix("Error: ") or _not_found(request))
        self._pulled[key] = Chart(archives[0])
        return self._pulled[key]

    def _new_folder(self) -> Path:
        if self._folder is None or not Path(self._folder.name).exists():  # machines clean their /tmp at times
            self._folder = tempfile.TemporaryDirectory(prefix="gpu-pools-charts-")
        return Path(tempfile.mkdtemp(dir=self._folder.name))

    def _stand_in(self, request: ChartRequest) -> Chart:
        real = module_chart(request)
        if real is not None:
            return Chart(real, of_module=True)
        folder = stand_in_of(request, self._stand_ins)
        if folder is not None:
            return Chart(folder, stand_in=True)
        older = older_versions(self._stand_ins) if request.name == OPERATOR else ()
        if (version := f"v{request.version.removeprefix('v')}") in older:
            key = (request.name, version, "")
            if key not in self._pulled or not self._pulled[key].path.exists():
                self._pulled[key] = Chart(write_older(self._stand_ins, version, self._new_folder()), stand_in=True)
            return self._pulled[key]
        known = ", ".join(filter(None, (version_of(self._stand_ins / request.name), *older)))
        offer = f"only a stand-in of version {known}" if known else "no stand-in for this chart"
        if request.name in _OF_MODULES:
            offer = f"only version {_module_version(request.name)}, out of its Go module"
        raise ChartError(f"{_not_found(request)} (it cannot be reached from here, and the sandbox has {offer})")


def stand_in_of(request: ChartRequest, stand_ins: Path = STAND_INS) -> Path | None:
    """The folder of the stand-in for a chart; None where there is none of that version."""
    known = version_of(stand_ins / request.name)
    # For Helm, v26.7.0 and 26.7.0 are one version.
    return stand_ins / request.name if known and request.version.removeprefix("v") in {"", known.removeprefix("v")} else None


def module_chart(request: ChartRequest) -> Path | None:
    """The folder of a chart that a Go module has; None where there is none of that name and version.

    Raises:
        ChartError: the module cannot be had.
    """
    known = request.name in _OF_MODULES and _module_version(request.name)
    if not known or request.version.removeprefix("v") not in {"", known}:
        return None
    try:
        return find_built(_OF_MODULES[request.name], Progress()) / request.name
    except SandboxError as error:
        raise ChartError(f"{error.message} {error.remedy}") from error


def _module_version(chart: str) -> str:
    """The version of a chart that is in a Go module: its module's."""
    return pinned_version(program(_OF_MODULES[chart])).removeprefix("v")


def version_of(folder: Path) -> str:
    """The version of a chart in a folder; "" where there is none."""
    file = folder / "Chart.yaml"
    return str(yaml.safe_load(file.read_text(encoding="utf-8"))["version"]) if file.exists() else ""


def _address(request: ChartRequest) -> list[str]:
    if request.chart.startswith("oci://"):
        return [request.chart]
    if request.repository.startswith("oci://"):
        return [f"{request.repository.rstrip('/')}/{request.chart}"]
    return [request.chart, "--repo", request.repository]


def _not_found(request: ChartRequest) -> str:
    version = f' version "{request.version}"' if request.version else ""
    return f'chart "{request.name}"{version} not found in {request.source} repository'


def answers(address: str) -> bool:
    """Whether anything at all answers at an address, within about two seconds; proxies are respected."""
    url = address.replace("oci://", "https://", 1)
    if urlsplit(url).scheme not in {"http", "https"}:
        return False
    result = [False]

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=_PROBE_SECONDS).close()  # noqa: S310
        except urllib.error.HTTPError:
            result[0] = True  # even a refusal is an answer of the repository
        except (OSError, ValueError):
            return
        else:
            result[0] = True

    # A name server that is silent is not bound by the timeout: so a thread that nobody waits for.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_PROBE_SECONDS + 0.5)
    return result[0]
