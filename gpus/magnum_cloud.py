"""What a stack on Magnum needs of its OpenStack, held against what that says it has: before a deploy, all problems at once.

Only judges: whoever asks the cloud (components.openstack_check) hands over what it said as a `Cloud`. What it did not say is
not judged, and named instead. Needed is what is still to be made. What the cluster uses already is not asked for: a keypair
belongs to one user and a flavor may be withdrawn, and neither is a reason to stop whoever deploys to a cluster that lives.

Sources: which names Magnum looks up, and how, is magnum/api/attr_validator.py (23.0.0); the microversions of the requests are
those of terraform-provider-openstack (containerinfra_shared_v1.go). No rule here says more than Magnum would, except for the
image of a node group and Nova's quota, on which Magnum's drivers fail only after minutes.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from gpus.errors import Problem, Problems, show
from gpus.pools import MagnumPlacement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpus.clusters import MagnumSettings
    from gpus.pools import Pool

Kind = Literal["flavor", "image", "keypair", "external network", "cluster template"]

_NODE_GROUPS: Final = (1, 9)
_EMPTY_GROUPS: Final = (1, 10)
#: The driver has refused since 18.0.0 (commit 2fd3059f); 17.0.0 speaks 1.11 as well, 1.12 is of 2025.2.
_HEAT_REFUSES: Final = (1, 12)
_MIB: Final = 1024
_SHOWN_NAMES: Final = 8
_CLUSTER: Final = "gpu-pools:cluster"


@dataclass(frozen=True)
class Unread:
    """Something that the cloud did not say, and why."""

    why: str


@dataclass(frozen=True)
class Named:
    """A thing of the cloud, to be named by either of the two."""

    id: str
    name: str


@dataclass(frozen=True)
class MachineFlavor(Named):
    """A flavor of Nova; memory in MiB."""

    vcpus: int
    memory: int


@dataclass(frozen=True)
class Image(Named):
    """An image of Glance; `distro` is its property os_distro, empty where it has none."""

    distro: str


@dataclass(frozen=True)
class Template(Named):
    """A cluster template; its flavors by name or id, empty where it names none."""

    flavor: str
    master_flavor: str
    load_balancer: bool


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
        groups: its node groups and how many nodes each has.
        made_of: its template; None where there is no such cluster.
    """

    newest: tuple[int, int]
    templates: Sequence[Template]
    clusters: Sequence[str]
    limit: int | Unread
    in_use: frozenset[tuple[Kind, str]] = frozenset()
    groups: Mapping[str, int] = field(default_factory=dict)
    made_of: MadeOf | None = None


@dataclass(frozen=True)
class Cloud:
    """What an OpenStack says of itself to the project that deploys."""

    magnum: Magnum | Unread
    flavors: Sequence[MachineFlavor] | Unread
    images: Sequence[Image] | Unread
    keypairs: Sequence[Named] | Unread
    networks: Sequence[Named] | Unread
    free: Free | Unread


@dataclass(frozen=True)
class Need:
    """A thing that the stack names: what, how it is called, and where in the stack file."""

    kind: Kind
    name: str
    path: str


@dataclass(frozen=True)
class Judgement:
    """What is wrong, what could not be told (each with the reason), and what is worth knowing before."""

    problems: tuple[Problem, ...]
    unchecked: tuple[str, ...]
    notes: tuple[str, ...] = ()


def needs(cluster: MagnumSettings, pools: Sequence[Pool]) -> tuple[Need, ...]:
    """What a stack names, in the order of its file."""
    return tuple(Need(kind, name, path) for kind, name, path in (*_of_cluster(cluster), *_of_pools(pools)) if name is not None)


def _of_cluster(cluster: MagnumSettings) -> Iterator[tuple[Kind, str | None, str]]:
    template = cluster.template
    if template is None:
        yield "cluster template", cluster.template_id, f"{_CLUSTER}.templateId"
    else:
        where = f"{_CLUSTER}.template"
        yield "image", template.image, f"{where}.image"
        yield "external network", template.external_network, f"{where}.externalNetwork"
        yield "flavor", template.flavor, f"{where}.flavor"
        # Where none is written it is that of the workers.
        yield "flavor", template.master_flavor if template.master_flavor != template.flavor else None, f"{where}.masterFlavor"
    yield "keypair", cluster.keypair, f"{_CLUSTER}.keypair"
    yield "flavor", cluster.worker_flavor, f"{_CLUSTER}.workerFlavor"


def _of_pools(pools: Sequence[Pool]) -> Iterator[tuple[Kind, str | None, str]]:
    for pool in pools:
        if isinstance(pool.placement, MagnumPlacement):
            yield "flavor", pool.placement.flavor, f"{pool.path}.flavor"
            yield "image", pool.placement.image, f"{pool.path}.image"


def judge(cluster: MagnumSettings, pools: Sequence[Pool], cloud: Cloud) -> Judgement:
    """Hold what a stack needs against what the cloud has; nothing is judged where Magnum itself could not be read."""
    magnum = cloud.magnum
    if isinstance(magnum, Unread):
        return Judgement((), (f"anything ({magnum.why})",))
    problems, wanted = Problems(), [need for need in needs(cluster, pools) if (need.kind, need.name) not in magnum.in_use]
    for need in wanted:
        _judge_need(need, _things(cloud, magnum, need.kind), problems)
    _judge_version(pools, magnum, problems)
    if cluster.name not in magnum.clusters:
        _judge_quota(magnum, problems)
        _judge_load_balancer(cluster, magnum, problems)
    _judge_room(cluster, pools, cloud, magnum, problems)
    notes = _judge_upgrade(cluster, pools, magnum, problems)
    return Judgement(problems.found, tuple(_unchecked(cloud, magnum, wanted)), notes)


def _things(cloud: Cloud, magnum: Magnum, kind: Kind) -> Sequence[Named] | Unread:
    found: dict[Kind, Sequence[Named] | Unread] = {
        "flavor": cloud.flavors,
        "image": cloud.images,
        "keypair": cloud.keypairs,
        "external network": cloud.networks,
        "cluster template": magnum.templates,
    }
    return found[kind]


def _unchecked(cloud: Cloud, magnum: Magnum, wanted: Sequence[Need]) -> Iterator[str]:
    for kind in dict.fromkeys(need.kind for need in wanted):
        things = _things(cloud, magnum, kind)
        if isinstance(things, Unread):
            yield f"{kind}s ({things.why})"
    if isinstance(magnum.limit, Unread):
        yield f"Magnum's quota ({magnum.limit.why})"
    if isinstance(cloud.free, Unread):
        yield f"Nova's quota ({cloud.free.why})"


def _matching(name: str, things: Sequence[Named]) -> list[Named]:
    """As OpenStack looks things up: an id comes before a name."""
    return [thing for thing in things if thing.id == name] or [thing for thing in things if thing.name == name]


def _judge_need(need: Need, things: Sequence[Named] | Unread, problems: Problems) -> None:
    if isinstance(things, Unread):
        return
    found = _matching(need.name, things)
    if not found:
        known = sorted({thing.name or thing.id for thing in things})
        near = difflib.get_close_matches(need.name, known, n=1)
        choose = "Choose one of those, or have it made first." if known else "Have it made first."
        problems.add(
            need.path,
            f"this cloud has no {need.kind} {show(need.name)} for this project and user",
            allowed=_shortened(known) or f"nothing: there is no {need.kind} at all",
            remedy=f"Did you mean `{near[0]}`?" if near else choose,
        )
    elif len(found) > 1:
        problems.add(
            need.path,
            f"{len(found)} {need.kind}s are called {show(need.name)}",
            allowed=_shortened([thing.id for thing in found]),
            remedy="Write the id of the one that you mean.",
        )
    elif need.path.startswith(_CLUSTER) and isinstance(found[0], Image) and not found[0].distro:
        problems.add(
            need.path,
            f"the image {show(need.name)} has no property os_distro",
            allowed="an image that has it: Magnum chooses its driver by it",
            remedy=f"`openstack image set --property os_distro=… {need.name}`, e.g. ubuntu or fedora-coreos.",
        )


def _shortened(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _judge_version(pools: Sequence[Pool], magnum: Magnum, problems: Problems) -> None:
    speaks = f"Magnum speaks at most microversion {magnum.newest[0]}.{magnum.newest[1]} here"
    if pools and magnum.newest < _NODE_GROUPS:
        problems.add(
            "gpu-pools:pools",
            f"{speaks}; node groups came with 1.9",
            allowed="a cloud whose Magnum has node groups (since the release Train)",
            remedy="Make the cluster by other means, and use `platform: existing`.",
        )
    elif magnum.newest < _EMPTY_GROUPS:
        for pool in pools:
            if pool.min_nodes == 0:
                problems.add(
                    pool.path,
                    f"{speaks}; node groups of no nodes came with 1.10",
                    allowed="at least one node",
                    remedy="Write `count: 1` or more, or `min: 1`.",
                )


def _judge_quota(magnum: Magnum, problems: Problems) -> None:
    if isinstance(magnum.limit, int) and 0 <= magnum.limit <= len(magnum.clusters):
        problems.add(
            f"{_CLUSTER}.name",
            f"there is no such cluster yet, and the project has {len(magnum.clusters)} of the {magnum.limit} that it may have",
            allowed=_shortened(sorted(magnum.clusters)) or "no cluster",
            remedy="Delete a cluster, or ask the cloud's operators for more (`openstack coe quotas show`).",
        )


def _template(cluster: MagnumSettings, magnum: Magnum) -> Template | None:
    """The template that the stack names, if it names one and there is one."""
    found = [one for one in magnum.templates if cluster.template_id in {one.id, one.name}]
    return found[0] if cluster.template_id and found else None


def _judge_load_balancer(cluster: MagnumSettings, magnum: Magnum, problems: Problems) -> None:
    template = _template(cluster, magnum)
    if template is not None and cluster.masters > 1 and not template.load_balancer:
        problems.add(
            f"{_CLUSTER}.masters",
            f"{cluster.masters} masters need a load balancer, which the template {show(cluster.template_id)} has not",
            allowed="1, or a template with master_lb_enabled",
            remedy="Choose another template, or one master.",
        )


def _judge_upgrade(cluster: MagnumSettings, pools: Sequence[Pool], magnum: Magnum, problems: Problems) -> tuple[str, ...]:
    """A cluster that lives and another template: Magnum calls it an upgrade, and not every driver can."""
    changed = _changed(cluster, magnum.made_of)
    if not changed:
        return ()
    if cluster.driver != "heat" or magnum.newest < _HEAT_REFUSES:
        text = f"the cluster {cluster.name} is upgraded in place to another template ({', '.join(changed)})."
        return (text + _habit(cluster, pools),)
    problems.add(
        f"{_CLUSTER}.template" if cluster.template else f"{_CLUSTER}.templateId",
        f"the cluster {cluster.name} was made of another template ({', '.join(changed)}), and the heat driver cannot upgrade it",
        allowed="the template that it was made of",
        remedy="Make a second cluster of the new template and move the work there; drivers for Cluster API can upgrade.",
    )
    return ()


def _habit(cluster: MagnumSettings, pools: Sequence[Pool]) -> str:
    """What the driver does besides: vexxhost's upgrade_cluster writes the template's image into every node group."""
    own = [pool.name for pool in pools if isinstance(pool.placement, MagnumPlacement) and pool.placement.image]
    if cluster.driver == "heat":
        return " A heat driver since Magnum 18 (2024.1) refuses that."
    if cluster.driver == "magnum-cluster-api" and own:
        return f" The driver then gives the template's image to {', '.join(own)}, too, which a refresh shows as a change."
    return ""


def _changed(cluster: MagnumSettings, made_of: MadeOf | None) -> list[str]:
    """The keys in which the stack's template differs from the one that its cluster was made of; what is not written does not."""
    template = cluster.template
    if made_of is None:
        return []
    if template is None:
        return [] if cluster.template_id in made_of.names else ["templateId"]
    written: dict[str, object] = {
        "image": template.image,
        "flavor": template.flavor,
        "masterFlavor": template.master_flavor,
        "externalNetwork": template.external_network,
        "networkDriver": template.network_driver,
        "dockerVolumeSize": template.docker_volume_size,
        "dnsNameserver": template.dns_nameserver,
    }
    changed = [key for key, value in written.items() if value is not None and made_of.says.get(key) != value]
    return changed + (["labels"] if dict(template.labels) != made_of.says.get("labels") else [])


def _judge_room(cluster: MagnumSettings, pools: Sequence[Pool], cloud: Cloud, magnum: Magnum, problems: Problems) -> None:
    """Hold the machines that are still to be made against Nova's quota; where a flavor is not known, it is a problem already."""
    if isinstance(cloud.flavors, Unread) or isinstance(cloud.free, Unread):
        return
    new = _new_machines(cluster, pools, magnum)
    found = [(count, flavor) for count, name in new for flavor in _matching(name, cloud.flavors)[:1]]
    sizes = [(count, flavor) for count, flavor in found if isinstance(flavor, MachineFlavor)]
    asked = (
        ("machines", sum(count for count, _ in sizes), cloud.free.machines, 1),
        ("vCPUs", sum(count * flavor.vcpus for count, flavor in sizes), cloud.free.vcpus, 1),
        ("GiB of memory", sum(count * flavor.memory for count, flavor in sizes), cloud.free.memory, _MIB),
    )
    for what, wanted, left, unit in asked:
        if left is not None and wanted > left:
            problems.add(
                "gpu-pools:pools",
                f"{wanted / unit:g} more {what} are asked for in all, and Nova's quota leaves {left / unit:g}",
                allowed=f"at most {left / unit:g} more {what}",
                remedy="Ask for fewer or smaller nodes, or the operators for more (`openstack limits show --absolute`).",
            )


def _new_machines(cluster: MagnumSettings, pools: Sequence[Pool], magnum: Magnum) -> Iterator[tuple[int, str]]:
    """How many machines are to be made, and of which flavor: the fewest that pools may have."""
    if cluster.name not in magnum.clusters:
        given, made = _template(cluster, magnum), cluster.template
        workers = cluster.worker_flavor or (made.flavor if made else given.flavor if given else "")
        yield cluster.masters, made.master_flavor if made else given.master_flavor if given else ""
        yield cluster.workers, workers
    for pool in pools:
        more = pool.min_nodes - magnum.groups.get(pool.name, 0)
        if isinstance(pool.placement, MagnumPlacement) and more > 0:
            yield more, pool.placement.flavor
