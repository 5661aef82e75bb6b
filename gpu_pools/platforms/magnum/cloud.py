"""What a stack on Magnum needs of its OpenStack, held against what that says it has: before a deploy, all problems at once.

Only judges: whoever asks the cloud (gpu_pools.components.magnum.check) hands over what it said as a `Cloud`. What it did not say
is not judged, and named instead. Needed is what is still to be made. What the cluster uses already is not asked for: a keypair
belongs to one user and a flavor may be withdrawn, and neither is a reason to stop whoever deploys to a cluster that lives.

Sources: which names Magnum looks up, and how, is magnum/api/attr_validator.py (23.0.0); the microversions of the requests are
those of terraform-provider-openstack (containerinfra_shared_v1.go). No rule here says more than Magnum would, except for the
image of a node group and Nova's quota, on which Magnum's drivers fail only after minutes.
"""

from __future__ import annotations

import difflib
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.platforms.judgement import Judgement, Unread
from gpu_pools.platforms.magnum.answers import Cloud, Image, Kind, MachineFlavor, Magnum, Named, matching
from gpu_pools.platforms.magnum.drivers import CLUSTER_API_NETWORK_DRIVERS
from gpu_pools.platforms.magnum.found import judge_found, notes_on_found
from gpu_pools.platforms.magnum.living import judge_living
from gpu_pools.platforms.magnum.placement import placement_of
from gpu_pools.platforms.magnum.replacements import as_declared, judge_third_replacement
from gpu_pools.platforms.magnum.scaling import judge_scaling
from gpu_pools.reading.later import Later
from gpu_pools.text.errors import Problems, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_pools.platforms.magnum.cluster import MagnumSettings
    from gpu_pools.platforms.magnum.replacements import ReplacedPool
    from gpu_pools.stack.pools import Pool

_NODE_GROUPS: Final = (1, 9)
_EMPTY_GROUPS: Final = (1, 10)
_MIB: Final = 1024
_SHOWN_NAMES: Final = 8
_CLUSTER: Final = "gpu-pools:cluster"


@dataclass(frozen=True)
class Need:
    """A thing that the stack names: what, how it is called, and where in the stack file."""

    kind: Kind
    name: str
    path: str


def needs(cluster: MagnumSettings, pools: Sequence[Pool]) -> tuple[Need, ...]:
    """What a stack names, in the order of its file; what only the deploy will know cannot be asked for."""
    named = (*_of_cluster(cluster), *_of_pools(pools))
    return tuple(Need(kind, name, path) for kind, name, path in named if name is not None and not isinstance(name, Later))


def _of_cluster(cluster: MagnumSettings) -> Iterator[tuple[Kind, str | None, str]]:
    if cluster.existing:
        return
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
        yield "flavor", placement_of(pool).flavor, f"{pool.path}.flavor"
        yield "image", placement_of(pool).image, f"{pool.path}.image"


def judge(
    cluster: MagnumSettings, pools: Sequence[Pool], cloud: Cloud, owner: str = "", replaced_pools: Sequence[ReplacedPool] = ()
) -> Judgement:
    """Hold what a stack needs against what the cloud has; nothing is judged where Magnum itself could not be read.

    Args:
        cluster: of the stack.
        pools: all that are known.
        cloud: what it said.
        owner: in a cluster that is there, what the label of this stack's node groups says.
        replaced_pools: the pools with ``replace``.
    """
    magnum = cloud.magnum
    if isinstance(magnum, Unread):
        return Judgement((), (f"anything ({magnum.why})",))
    problems = Problems()
    judge_third_replacement(replaced_pools, magnum, cluster.driver, problems)
    magnum = as_declared(magnum, replaced_pools)
    wanted = [need for need in needs(cluster, pools) if (need.kind, need.name) not in magnum.in_use]
    for need in wanted:
        _judge_need(need, _things(cloud, magnum, need.kind), problems)
    _judge_template_image(cluster, cloud, magnum, problems)
    _judge_version(pools, magnum, problems)
    if cluster.existing:
        judge_found(cluster.existing, cluster.driver, pools, magnum, owner, problems)
    elif cluster.name not in magnum.clusters:
        _judge_quota(magnum, problems)
        _judge_given_template(cluster, magnum, problems)
    _judge_room(cluster, pools, cloud, magnum, problems)
    notes = judge_living(cluster, pools, magnum, cloud.images, problems)
    notes += judge_scaling(cluster, pools, magnum, problems)
    if cluster.existing:
        notes += tuple(notes_on_found(pools, magnum))
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


def _judge_need(need: Need, things: Sequence[Named] | Unread, problems: Problems) -> None:
    if isinstance(things, Unread):
        return
    found = matching(need.name, things)
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


def _judge_template_image(cluster: MagnumSettings, cloud: Cloud, magnum: Magnum, problems: Problems) -> None:
    """What Magnum and its drivers read of the image of a template that is still to be made."""
    if cluster.template is None or isinstance(cloud.images, Unread) or ("image", cluster.template.image) in magnum.in_use:
        return
    name = cluster.template.image
    found = [image for image in matching(name, cloud.images) if isinstance(image, Image)]
    if len(found) != 1:
        return
    wanted = [("os_distro", found[0].distro, "Magnum chooses its driver by it", "e.g. ubuntu or fedora-coreos")]
    if cluster.driver == "capi-helm":
        # magnum-capi-helm 1.4.0, _get_kube_version: else the cluster ends in CREATE_FAILED.
        wanted.append(("kube_version", found[0].kube_version, "the driver capi-helm installs that version", "e.g. v1.34.2"))
    for key, value, why, example in wanted:
        if not value:
            problems.add(
                f"{_CLUSTER}.template.image",
                f"the image {show(name)} has no property {key}",
                allowed=f"an image that has it: {why}",
                remedy=f"`openstack image set --property {key}=… {shlex.quote(name)}`, {example}.",
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
            remedy="Delete a cluster, or ask the cloud's operators for more (`openstack coe quotas show --project-id ID "
            "--resource Cluster`).",
        )


def _judge_given_template(cluster: MagnumSettings, magnum: Magnum, problems: Problems) -> None:
    template = magnum.template(cluster.template_id)
    if template is None:
        return
    if cluster.masters > 1 and not (template.load_balancer or cluster.options.master_load_balancer):
        problems.add(
            f"{_CLUSTER}.masters",
            f"{cluster.masters} masters need a load balancer, which the template {show(cluster.template_id)} has not",
            allowed="1, or a template with master_lb_enabled",
            remedy="Write `masterLoadBalancer: true`, or choose another template, or one master.",
        )
    network = template.network_driver
    if cluster.driver == "magnum-cluster-api" and network and network not in CLUSTER_API_NETWORK_DRIVERS:
        problems.add(
            f"{_CLUSTER}.templateId",
            f"the template {show(cluster.template_id)} has the network driver {network}, on which magnum-cluster-api fails (W81)",
            allowed=f"a template with {' or '.join(CLUSTER_API_NETWORK_DRIVERS)}",
            remedy="Choose another template, or ask the cloud's operators.",
        )


def _judge_room(cluster: MagnumSettings, pools: Sequence[Pool], cloud: Cloud, magnum: Magnum, problems: Problems) -> None:
    """Hold the machines that are still to be made against Nova's quota; where a flavor is not known, it is a problem already."""
    if isinstance(cloud.flavors, Unread) or isinstance(cloud.free, Unread):
        return
    new = _new_machines(cluster, pools, magnum)
    found = [(count, flavor) for count, name in new for flavor in matching(name, cloud.flavors)[:1]]
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
    if cluster.existing is None and cluster.name not in magnum.clusters:
        given, made = magnum.template(cluster.template_id), cluster.template
        workers = cluster.worker_flavor or (made.flavor if made else given.flavor if given else "")
        yield cluster.masters, made.master_flavor if made else given.master_flavor if given else ""
        yield cluster.workers, workers
    for pool in pools:
        group = magnum.groups.get(pool.name)
        more = pool.min_nodes - group.nodes if group else pool.first_nodes
        if more > 0:
            yield more, placement_of(pool).flavor
