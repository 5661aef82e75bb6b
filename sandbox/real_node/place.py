"""Where a real node's things are: a folder below its cluster's, which is all that it has on this machine beside its cgroups.

Outside, `root/` of the folder is what the node sees as its root, so its logs can be read from there while it runs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sandbox.system import cgroups
from sandbox.system.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FOLDER: Final = "real"
_RECORD: Final = "node.json"
#: Of the service `kubernetes`, and the node's own.
SERVICE_ADDRESS, NODE_ADDRESS = "10.96.0.1", "10.99.0.1"
API_PORT: Final = 443
REGISTRY_PORT: Final = 5000
PROGRAMS: Final = "/opt/gpu-pools"
LOGS: Final = "/var/log/gpu-pools"
IMAGES: Final = "/opt/images"


@dataclass(frozen=True)
class Place:
    """One node's folder.

    Attributes:
        cluster: the cluster's folder.
        node: the node's name.
    """

    cluster: Path
    node: str

    @property
    def folder(self) -> Path:
        """All that is the node's."""
        return self.cluster / _FOLDER / self.node

    @property
    def root(self) -> Path:
        """What the node sees as its root."""
        return self.folder / "root"

    @property
    def logs(self) -> Path:
        """What its programs say; it stays when the node has ended."""
        return self.folder / "logs"

    @property
    def registry(self) -> Path:
        """The images that it can pull."""
        return self.folder / "registry"

    @property
    def process(self) -> str:
        """The name of its process among the cluster's."""
        return f"real-node-{self.node}"

    @property
    def group(self) -> str:
        """The name of its cgroups."""
        return cgroups.name_of(self.cluster, self.node)


def places(cluster: Path) -> list[Place]:
    """The real nodes of a cluster, whether they run or not."""
    return [Place(cluster, path.parent.name) for path in sorted((cluster / _FOLDER).glob(f"*/{_RECORD}"))]


@dataclass(frozen=True)
class Record:
    """What a node is made of, as whoever starts it has found it.

    Attributes:
        programs: name of a folder in the node -> the folder outside with programs.
        snapshotter: how containerd puts images' layers together.
        files: path in the node -> text, before anything runs there.
        devices: path in the node -> major and minor number.
        arguments: more of the kubelet's.
        pci: a folder that is the node's PCI bus; empty: this machine's.
        shown: path in the node -> folder of this machine that is shown there, read-only.
    """

    programs: Mapping[str, str]
    snapshotter: str
    files: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    pci: str = ""
    shown: Mapping[str, str] = field(default_factory=dict)


def write(place: Place, record: Record) -> None:
    """Write a node's record; it holds a key, and is its owner's alone."""
    write_json(place.folder / _RECORD, asdict(record))


def read(place: Place) -> Record:
    """Read a node's record."""
    raw: dict[str, Any] = read_json(place.folder / _RECORD)
    devices = {path: (int(numbers[0]), int(numbers[1])) for path, numbers in raw["devices"].items()}
    return Record(raw["programs"], raw["snapshotter"], raw["files"], devices, tuple(raw["arguments"]), raw["pci"], raw["shown"])
