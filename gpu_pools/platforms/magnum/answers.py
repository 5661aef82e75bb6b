"""What an OpenStack cloud says of itself, as far as a stack on Magnum needs it; read by components/magnum/check.py.

Only data: it is judged in gpu_pools/platforms/magnum/cloud.py, and of a cluster that lives in
gpu_pools/platforms/magnum/living.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.platforms.judgement import Unread

#: Label of a cluster, of all drivers.
AUTOSCALER: Final = "auto_scaling_enabled"
Kind = Literal["flavor", "image", "keypair", "external network", "cluster template"]


def is_on(label: object) -> bool:
    """As oslo_utils.strutils.bool_from_string reads it, which Magnum and its drivers use."""
    return str(label).strip().lower() in {"true", "t", "yes", "y", "on", "1"}


@dataclass(frozen=True)
class Named:
    """A thing of the cloud, to be named by either of the two."""

    id: str
    name: str


_Thing = TypeVar("_Thing", bound=Named)


def matching(name: str, things: Sequence[_Thing]) -> list[_Thing]:
    """As OpenStack looks things up: an id comes before a name."""
    return [thing for thing in things if thing.id == name] or [thing for thing in things if thing.name == name]


@dataclass(frozen=True)
class MachineFlavor(Named):
    """A flavor of Nova; memory in MiB."""

    vcpus: int
    memory: int


@dataclass(frozen=True)
class Image(Named):
    """An image of Glance; its properties os_distro and kube_version, empty where it has none."""

    distro: str
    kube_version: str = ""


@dataclass(frozen=True)
class Template(Named):
    """A cluster template; its flavors and its image by name or id, and its network driver, empty where it names none."""

    flavor: str
    master_flavor: str
    load_balancer: bool
    labels: Mapping[str, str] = field(default_factory=dict)
    network_driver: str = ""
    image: str = ""


@dataclass(frozen=True)
class Group:
    """A node group of the stack's cluster.

    Attributes:
        nodes: how many it has.
        status: Magnum's, e.g. CREATE_COMPLETE.
        reason: why, where it failed.
        image: name or id; empty where Magnum does not say.
        volume: GiB of its docker volume.
        labels: those that Magnum's driver gets.
        flavor: its flavor, as it was asked for.
        called: what Magnum calls it, where that is not the pool's name.
        fewest: its lower limit.
        most: its upper limit; None where it has none.
    """

    nodes: int
    status: str = "CREATE_COMPLETE"
    reason: str = ""
    image: str = ""
    volume: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    flavor: str = ""
    called: str = ""
    fewest: int = 0
    most: int | None = None


@dataclass(frozen=True)
class MadeOf:
    """The cluster template of the stack's cluster: how it is called, and what it says, in the words of the stack file."""

    names: frozenset[str]
    says: Mapping[str, object]


@dataclass(frozen=True)
class Free:
    """What Nova's quota leaves to the project; memory in MiB, None where there is no limit."""

    machines: int | None
    vcpus: int | None
    memory: int | None


@dataclass(frozen=True)
class Magnum:
    """What Magnum says.

    Attributes:
        newest: the newest microversion that it speaks.
        templates: cluster templates that the project can use.
        clusters: names of the project's clusters.
        limit: how many the project may have, negative for any number.
        in_use: what the stack's cluster was made of: kind and name or id.
        groups: its node groups by name, Magnum's own among them.
        made_of: its template; None where there is no such cluster.
        status: of the stack's cluster; empty where there is none.
        reason: why, where it failed.
        labels: of the stack's cluster.
        namesakes: UUIDs of all clusters that are called as the stack's.
    """

    newest: tuple[int, int]
    templates: Sequence[Template]
    clusters: Sequence[str]
    limit: int | Unread
    in_use: frozenset[tuple[Kind, str]] = frozenset()
    groups: Mapping[str, Group] = field(default_factory=dict)
    made_of: MadeOf | None = None
    status: str = ""
    reason: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    namesakes: Sequence[str] = ()

    @property
    def autoscales(self) -> bool:
        """Whether the labels of the stack's cluster turn its autoscaler on."""
        return is_on(self.labels.get(AUTOSCALER, ""))

    def template(self, name: str | None) -> Template | None:
        """The template of that name or id."""
        return next((one for one in self.templates if name in {one.id, one.name}), None)


@dataclass(frozen=True)
class Cloud:
    """What an OpenStack says of itself to the project that deploys."""

    magnum: Magnum | Unread
    flavors: Sequence[MachineFlavor] | Unread
    images: Sequence[Image] | Unread
    keypairs: Sequence[Named] | Unread
    networks: Sequence[Named] | Unread
    free: Free | Unread
