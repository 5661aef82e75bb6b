"""One entry of ``gpu-pools:pools``: how many nodes, how they are labelled and tainted, which sharing.

Where its nodes come from is in placements.py, what GPUs they have in node_hardware.py. Rules that involve the sharing declaration
or other pools are in gpu_pools/plan/planning.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from gpu_pools.reading.fields import BY_PLATFORM, Kind, Row, inner, one_of, read, reads, row, text, whole_number
from gpu_pools.reading.node_count import RANGE, NodeCount, parse_node_count
from gpu_pools.stack.allocation import ALLOCATION, POOL_DOC, POOL_SAYS
from gpu_pools.stack.kubernetes_names import check_labels, parse_taint
from gpu_pools.stack.platform_reader import PoolContext, PoolSection
from gpu_pools.stack.pool_labels import check_distinct
from gpu_pools.stack.rollout import ROLLOUT, Rollout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.node import Hardware
    from gpu_pools.stack.allocation import Allocation
    from gpu_pools.stack.cluster import Placement
    from gpu_pools.stack.kubernetes_names import Taint

DriverOwner = Literal["operator", "preinstalled"]
#: How a pool is replaced when something changes that the cloud fixes at creation.
ReplacementMode = Literal["surge", "inPlace"]

#: NVIDIA's own: a branch, or branch and release.
_DRIVER_VERSION: Final = r"\d{1,6}(\.\d{1,6}){0,2}"
_CUDA_VERSION: Final = r"\d{1,3}\.\d{1,3}"
_DRAIN_SECONDS: Final = 600
_REPLACEMENT_MODE: Final = one_of(("surge", "inPlace"))
_SECONDS: Final = whole_number(1, 86_400)


# The readers of single fields.


def _makes_nodes(section: PoolSection) -> bool:
    return section.context.platform.cluster.makes_nodes


def _name(section: PoolSection, one: Row) -> str:
    pattern, allowed = section.context.platform.pool_names
    remedy = "Choose a shorter or simpler name; it is never cut, since two pools could then collide."
    raw = section.raw(one.key)
    name = section.text(one.key, required=True, pattern=pattern, allowed=allowed, remedy=remedy if raw is not None else "")
    return name or (raw if isinstance(raw, str) else "")


def _placed(section: PoolSection, _one: Row) -> object:
    return section.context.platform.place(section)


def _nodes(section: PoolSection, _one: Row) -> NodeCount:
    default = None if _makes_nodes(section) else NodeCount(1, None, autoscaled=True)
    return parse_node_count(section, default=default)


def _sharing(section: PoolSection, one: Row) -> str | None:
    names = section.context.sharing_names
    value = section.raw(one.key)
    if isinstance(value, dict):
        section.problems.add(
            section.at(one.key),
            "a declaration is written into the pool",
            allowed="the name of a declaration",
            remedy="Move it to gpu-pools:sharing under a name, and give that name here.",
        )
        return None
    # Without declarations the section is the problem, once.
    known = " | ".join(names or ()) or "the name of a declaration"
    remedy = "" if value is not None else "Add `sharing: <name>`; use a declaration `{exclusive: {}}` for whole GPUs."
    return section.text(one.key, required=True, choices=names, allowed=known, remedy=remedy)


def _labels(section: PoolSection, one: Row) -> dict[str, str]:
    labels = section.texts(one.key)
    check_labels(labels, section.at(one.key), section.problems)
    section.context.platform.check_labels(labels, section)
    return labels


def _taints(section: PoolSection, one: Row) -> tuple[Taint, ...]:
    taints = section.each(one.key, lambda value, where: parse_taint(value, where, section.problems), what="a list of taints")
    check_distinct(taints, section)
    section.context.platform.check_taints(taints, section)
    return taints


def _protect(section: PoolSection, one: Row) -> bool | None:
    # Nodes that are there already are nobody's to replace.
    return section.flag(one.key) if _makes_nodes(section) else None


def _adopted(section: PoolSection, one: Row) -> bool | None:
    # Nodes of a cluster that exists are never made by the stack.
    return section.flag(one.key) if _makes_nodes(section) else None


def _replacement_mode(section: PoolSection, one: Row) -> object:
    # Nodes of a cluster that exists are nobody's to make.
    return _REPLACEMENT_MODE.read(section, one) if _makes_nodes(section) else None


def _drain_seconds(section: PoolSection, one: Row) -> object:
    if not _makes_nodes(section):
        return None
    if section.raw(one.key) is not None and section.raw("replace") is None:
        section.problems.add(
            section.at(one.key),
            "would have no effect: without `replace` nobody drains the pool",
            allowed="drainTimeoutSeconds with replace",
            remedy="Write `replace: surge` or `replace: inPlace` beside it, or leave it out.",
        )
    return _SECONDS.read(section, one)


@dataclass(frozen=True)
class Minimum:
    """The oldest driver and CUDA version that a pool's workloads can use; None: any."""

    driver: str | None = row(
        "A driver version, e.g. 570.124.06.", text(_DRIVER_VERSION, 'a driver version in quotes, e.g. "570.124.06"')
    )
    cuda: str | None = row(
        "The newest CUDA version that the driver must know at least, e.g. 12.8.",
        text(_CUDA_VERSION, 'a CUDA version in quotes, e.g. "12.8"'),
    )


@dataclass(frozen=True)
class Pool:
    """A GPU node pool as declared.

    Attributes:
        path: where it stands in the stack file.
        name: unique in the stack.
        placed: the GPUs of each node, None where they could not be told (a problem was reported); and the platform's part.
        nodes: how many; their most is None where the cloud decides.
        sharing: name of a declaration.
        allocation: through what pods get its GPUs; None: as the cluster says.
        labels: the user's own node labels.
        taints: node taints, without those that the cloud adds.
        driver: who installs driver and toolkit; None: as the stack's default says.
        minimum: what each node's driver must be at least.
        protect: whether the cloud's resource must be neither deleted nor replaced.
        adopted: whether somebody else has made it, and the stack took it over (`gpu-pools adopt`).
        rollout: how its living nodes change in place; None: their labels change all at once.
        replacement: what happens when it has to be made anew; None: it is deleted with its pods and made again.
        drain_seconds: how long the pods on the nodes of the old pool may take to go then.
    """

    path: str
    name: str = row(
        BY_PLATFORM,
        Kind(_name, "str"),
        "",
        needed=True,
        sets=BY_PLATFORM,
        change=BY_PLATFORM,
        doc="Unique, and never cut. AKS: 1 to 12 lower-case letters and digits; else 1 to 40, and dashes.",
    )
    placed: tuple[Hardware | None, Placement] = reads(Kind(_placed, ""))
    nodes: NodeCount = row(
        "A fixed number of nodes; or `nodes`.",
        Kind(_nodes, "int"),
        key="count",
        needed=True,
        either="nodes",
        sets=BY_PLATFORM,
        change=BY_PLATFORM,
        doc="A fixed number of nodes. On an existing cluster neither is needed: at least one by default.",
        or_else=Row(
            "nodes",
            "Bounds for the autoscaler; or `count`.",
            RANGE,
            needed=True,
            either="count",
            sets=BY_PLATFORM,
            change=BY_PLATFORM,
            doc="`{min, max}`: the autoscaler owns the number, also where both are the same.",
        ),
    )
    sharing: str = row(
        'A sharing component, or a mapping like {"timeSlicing": {"replicas": 4}}.',
        Kind(_sharing, "pulumi.Input[Sharing]"),
        "",
        needed=True,
        sets=BY_PLATFORM,
        doc="The name of a declaration.",
    )
    allocation: Allocation | None = row(POOL_SAYS, ALLOCATION, doc=POOL_DOC)
    labels: Mapping[str, str] = row(
        "Node labels besides those of the plan.",
        Kind(_labels, "dict[str, str]"),
        {},
        sets=BY_PLATFORM,
        change=BY_PLATFORM,
        doc="Node labels besides those of the plan; on AKS not below `kubernetes.azure.com`, `kubernetes.io` and "
        "`k8s.io` (but `node.`, `kubelet.` and `node-role.` of the latter two), and changed there by the stack alone.",
    )
    taints: tuple[Taint, ...] = row(
        BY_PLATFORM,
        Kind(_taints, "list[str]"),
        (),
        sets=BY_PLATFORM,
        change=BY_PLATFORM,
        doc="`key=value:Effect`, on AKS not below `kubernetes.azure.com`; operands tolerate them by themselves. On "
        "existing clusters they are tolerated, not set.",
    )
    driver: DriverOwner | None = row(
        BY_PLATFORM,
        one_of(("operator", "preinstalled")),
        sets=BY_PLATFORM,
        change=BY_PLATFORM,
        doc="Who installs the GPU driver: `operator` or `preinstalled`; the same for all pools of a cluster.",
    )
    minimum: Minimum = row(
        "The oldest driver and CUDA version that will do.",
        inner(Minimum, "a mapping with driver or cuda"),
        Minimum(),
        doc='The oldest driver and CUDA version that will do: `{driver: "570.124.06", cuda: "12.8"}`, one or both, in quotes. '
        "The [verification](#gpu-poolsverification) holds each node against it. A driver that the operator installs "
        "(`values.driver.version`, else the chart's own) is held against it in the plan; what CUDA version a driver knows, and "
        "what an image has, only the node can tell.",
    )
    protect: bool = row(
        BY_PLATFORM,
        Kind(_protect, "bool"),
        default=False,
        doc="Refuse to delete or replace the pool, unless that is [acknowledged](#gpu-poolsacknowledged).",
    )
    adopted: bool = row(
        BY_PLATFORM,
        Kind(_adopted, "bool"),
        default=False,
        doc="The pool was made by hand, and imported ([`gpu-pools adopt`](commands.md#adopt) writes it): what the stack does not "
        "say of it stays as it is, and is no reason to replace it. For pools in a cluster that is `existing`.",
    )
    rollout: Rollout | None = row(
        "How the pool's nodes change in place, a few at a time; without it all at once.",
        ROLLOUT,
        doc="A change of the sharing reaches the pool's living nodes [a few at a time](../operations.md#node-by-node): each is "
        "cordoned, emptied of pods that hold GPUs, changed, proven and given back. It needs the "
        "[verification](#gpu-poolsverification). Without it all nodes change at once, and nothing is drained.",
    )

    replacement: ReplacementMode | None = row(
        BY_PLATFORM,
        Kind(_replacement_mode, "str"),
        key="replace",
        doc="`surge`: where something changes that the cloud fixes at a pool's creation, the new pool is [made "
        "first](../operations.md#replace-a-pool-surge), under another name in the cloud. Once it is proven the old one is "
        "drained, and then deleted; it needs the [verification](#gpu-poolsverification). With `nodes` it begins with a node, "
        "also where `min` is 0. `inPlace`: the old one is drained, and then replaced. Without it the old pool is deleted first, "
        "with the pods on it. Not with `protect` or `adopted`.",
    )
    drain_seconds: int = row(
        BY_PLATFORM,
        Kind(_drain_seconds, "int"),
        _DRAIN_SECONDS,
        key="drainTimeoutSeconds",
        doc="With `replace`: how long the pods on the old pool's nodes may take to go, in seconds. Where they do not go the "
        "deploy fails, nothing of the old pool is deleted, and the next deploy goes on.",
    )

    @property
    def hardware(self) -> Hardware | None:
        """The GPUs of each node."""
        return self.placed[0]

    @property
    def placement(self) -> Placement:
        """The platform's part."""
        return self.placed[1]

    @property
    def min_nodes(self) -> int:
        """Fewest nodes."""
        return self.nodes.fewest

    @property
    def first_nodes(self) -> int:
        """With how many it begins: one that replaces another, and may be empty, with one node, so that there is a proof."""
        return max(self.min_nodes, 1) if self.replacement == "surge" and self.autoscaled else self.min_nodes

    @property
    def max_nodes(self) -> int | None:
        """Most nodes; equal to min_nodes for a fixed size, None where the cloud decides."""
        return self.nodes.most

    @property
    def autoscaled(self) -> bool:
        """Whether the number of nodes may change by itself."""
        return self.nodes.autoscaled


def parse_pool(value: object, path: str, context: PoolContext) -> Pool | None:
    """One pool; None where it is not even a mapping."""
    section = PoolSection(value, path, context)
    if not section.readable:
        return None
    pool = read(Pool, section, path=path)
    section.finish()
    return pool
