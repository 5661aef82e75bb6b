"""Magnum's word on the stack's living cluster, held against the stack: what an `up` would break, or leave as it is in silence.

The plugin keeps what failed in its state as if it had been made, and the next `up` then has nothing to do: a group without
nodes, which no verification waits for, would end green. It takes a key that is written no more for "as it is". And not every
driver can do what Magnum's API accepts. All of it is told here, before anything is done.

Sources: terraform-provider-openstack 3.4.0 (containerinfra resources: `Computed` keys, waits), read; what the plugin makes of a
failed creation, seen with it. vexxhost/magnum-cluster-api 3890a36 (driver.py, update_cluster and upgrade_cluster), read: it
writes the label kube_tag into the version of a topology, of which Cluster API refuses some (kubernetes-sigs/cluster-api 010d0a00,
internal/webhooks/cluster.go, validateTopologyVersion). openstack/magnum-capi-helm a8b82c2 (driver.py), read: it takes the version
from the template's image, and asks nobody whether the cluster can go there; its clusters have no topology, but their control
plane is refused where it would skip a minor version (kubernetes-sigs/cluster-api ae7ff047,
controlplane/kubeadm/webhooks/admission/kubeadmcontrolplane.go, validateVersion). An older one nobody refuses there, and
Kubernetes supports none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.operands import parse_version
from gpu_pools.platforms.judgement import Unread
from gpu_pools.platforms.magnum.answers import matching
from gpu_pools.platforms.magnum.placement import placement_of
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.platforms.magnum.answers import Image, MadeOf, Magnum
    from gpu_pools.platforms.magnum.cluster import MagnumSettings
    from gpu_pools.stack.pools import Pool
    from gpu_pools.text.errors import Problems

_CLUSTER: Final = "gpu-pools:cluster"
_WORKERS: Final = "default-worker"
#: Only these: a refresh of everything forgets Helm releases that failed (docs/decisions, 32).
_REFRESH: Final = "`pulumi refresh --target '**openstack:**'`"
#: The heat driver has refused upgrades since 18.0.0 (commit 2fd3059f); 17.0.0 speaks 1.11 as well, 1.12 is of 2025.2.
_HEAT_REFUSES: Final = (1, 12)
#: What magnum-cluster-api reads of a template that a cluster is upgraded to.
_KUBE_TAG: Final = "kube_tag"


def judge_living(
    cluster: MagnumSettings, pools: Sequence[Pool], magnum: Magnum, images: Sequence[Image] | Unread, problems: Problems
) -> tuple[str, ...]:
    """Add what must be put right before a deploy can end as declared; returns what is worth knowing before."""
    _judge_half_made(cluster, pools, magnum, problems)
    upgrades: tuple[str, ...] = ()
    if cluster.existing is None:
        _judge_workers(cluster, magnum, problems)
        upgrades = _judge_upgrade(cluster, pools, magnum, () if isinstance(images, Unread) else images, problems)
    return (
        *upgrades,
        *_failed_updates(cluster, pools, magnum),
        *_kept(cluster, pools, magnum),
    )


def _judge_half_made(cluster: MagnumSettings, pools: Sequence[Pool], magnum: Magnum, problems: Problems) -> None:
    if cluster.existing is None and _is_no_base(magnum.status):
        command = f"cluster delete {cluster.name}"
        _add_half_made(f"{_CLUSTER}.name", f"cluster {cluster.name}", (magnum.status, magnum.reason), command, problems)
    for pool in pools:
        group = magnum.groups.get(pool.name)
        if group is not None and _is_no_base(group.status):
            called = group.called or pool.name
            command = f"nodegroup delete {cluster.name} {called}"
            _add_half_made(pool.path, f"node group {called}", (group.status, group.reason), command, problems)


def _is_no_base(status: str) -> bool:
    return status == "CREATE_FAILED" or status.startswith("DELETE_")


def _add_half_made(path: str, what: str, ended: tuple[str, str], command: str, problems: Problems) -> None:
    status, reason = ended
    first = "Wait until it is gone" if status == "DELETE_IN_PROGRESS" else f"`openstack coe {command}`"
    problems.add(
        path,
        f"the {what} is {status}{f': {reason}' if reason else ''} (W82)",
        allowed="one that was made, or none: the plugin takes a half-made one for made, and an `up` would change nothing",
        remedy=f"{first}, then {_REFRESH} and `pulumi up`.",
    )


def _judge_workers(cluster: MagnumSettings, magnum: Magnum, problems: Problems) -> None:
    """The plugin asks for another number of workers by a request that magnum-cluster-api does not implement."""
    workers = magnum.groups.get(_WORKERS)
    scaled = cluster.autoscales or magnum.autoscales
    if cluster.driver != "magnum-cluster-api" or workers is None or scaled or workers.nodes == cluster.workers:
        return
    problems.add(
        f"{_CLUSTER}.workers",
        f"{cluster.workers} are asked for and {workers.nodes} there, and magnum-cluster-api cannot change that this way (W83)",
        allowed=f"{workers.nodes}, as there are",
        remedy=f"`openstack coe cluster resize {cluster.name} {cluster.workers}`, then {_REFRESH} and `pulumi up`.",
    )


def _judge_upgrade(
    cluster: MagnumSettings, pools: Sequence[Pool], magnum: Magnum, images: Sequence[Image], problems: Problems
) -> tuple[str, ...]:
    """A cluster that lives and another template: Magnum calls it an upgrade, and not every driver can."""
    changed = _changed(cluster, magnum.made_of)
    if not changed:
        return ()
    if cluster.driver == "magnum-cluster-api" and not _has_kube_tag(cluster, magnum):
        problems.add(
            f"{_CLUSTER}.template.labels" if cluster.template else f"{_CLUSTER}.templateId",
            f"the cluster {cluster.name} would be upgraded to a template without the label {_KUBE_TAG}: the driver fails (W84)",
            allowed=f"a template whose labels say {_KUBE_TAG}",
            remedy=f"Add it, e.g. `{_KUBE_TAG}: v1.34.2`: the Kubernetes version of the template's image.",
        )
        return ()
    version = _version_of(cluster, magnum, images)
    if version and (allowed := _refused_step(*version.values)):
        old, new = version.values
        problems.add(
            f"{_CLUSTER}.{version.key}",
            f"the cluster {cluster.name} has Kubernetes {old}, and cannot go to {new}: a version is never lowered, "
            "and raised by one minor version at a time",
            allowed=allowed,
            remedy=f"Take a template whose {version.what} is of these, and go on from there in deploys of their own.",
        )
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
    own = [pool.name for pool in pools if placement_of(pool).image]
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
        "httpProxy": template.http_proxy,
        "httpsProxy": template.https_proxy,
        "noProxy": template.no_proxy,
    }
    changed = [key for key, value in written.items() if value is not None and made_of.says.get(key) != value]
    return changed + (["labels"] if dict(template.labels) != made_of.says.get("labels") else [])


def _has_kube_tag(cluster: MagnumSettings, magnum: Magnum) -> bool:
    """Of a template that is not known: yes, since it is a problem already."""
    labels = _labels(cluster, magnum)
    return labels is None or bool(labels.get(_KUBE_TAG))


def _labels(cluster: MagnumSettings, magnum: Magnum) -> Mapping[str, str] | None:
    """Of the stack's template; None where it is not known."""
    if cluster.template is not None:
        return cluster.template.labels
    template = magnum.template(cluster.template_id)
    return template.labels if template else None


@dataclass(frozen=True)
class _Version:
    """Where a template tells its Kubernetes version, what that is called, and what the cluster's and the stack's template say."""

    key: str
    what: str
    values: tuple[str, str]


def _version_of(cluster: MagnumSettings, magnum: Magnum, images: Sequence[Image]) -> _Version | None:
    """None of a driver that does not go by one."""
    says = dict(magnum.made_of.says) if magnum.made_of else {}
    if cluster.driver == "magnum-cluster-api":
        key = f"template.labels.{_KUBE_TAG}" if cluster.template else "templateId"
        wanted = (_labels(cluster, magnum) or {}).get(_KUBE_TAG)
        return _Version(key, f"label {_KUBE_TAG}", (str(at(says, "labels", _KUBE_TAG) or ""), str(wanted or "")))
    if cluster.driver == "capi-helm":
        key = "template.image" if cluster.template else "templateId"
        given = cluster.template or magnum.template(cluster.template_id)
        has, wanted = _of_image(str(says.get("image", "")), images), _of_image(given.image if given else "", images)
        return _Version(key, "image's kube_version", (has, wanted))
    return None


def _of_image(name: str, images: Sequence[Image]) -> str:
    """Empty where it has none, is not known, or several of that name say different ones."""
    found = {image.kube_version for image in matching(name, images)}
    return found.pop() if len(found) == 1 else ""


def _refused_step(has: str, wanted: str) -> str:
    """What is allowed, where Cluster API, or Kubernetes, refuses the step; no version is no step."""
    old, new = parse_version(has), parse_version(wanted)
    if old is None or new is None or old <= new < (old[0], old[1] + 2):
        return ""
    return f"{has} to v{old[0]}.{old[1] + 1}"


def _failed_updates(cluster: MagnumSettings, pools: Sequence[Pool], magnum: Magnum) -> Iterator[str]:
    groups = ((pool.name, magnum.groups[pool.name]) for pool in pools if pool.name in magnum.groups)
    living = [(f"cluster {cluster.name}", magnum.status, magnum.reason)]
    living += [(f"node group {name}", group.status, group.reason) for name, group in groups]
    for what, status, reason in living:
        if status == "UPDATE_FAILED":
            why = f" ({reason})" if reason else ""
            yield f"the last change of the {what} failed{why}: {_REFRESH} shows what there is (W82)."


def _kept(cluster: MagnumSettings, pools: Sequence[Pool], magnum: Magnum) -> Iterator[str]:
    """Keys that were given once and are no more: the plugin leaves them as they are."""
    if cluster.driver == "capi-helm" or magnum.made_of is None:
        # That driver looks at neither.
        return
    says = magnum.made_of.says
    for pool in pools:
        group, placement = magnum.groups.get(pool.name), placement_of(pool)
        if group is None:
            continue
        for key, written, has in (
            ("image", placement.image, group.image),
            ("dockerVolumeSize", placement.docker_volume_size, group.volume),
        ):
            template = says.get(key)
            if written is None and has and template and has != template:
                yield f"pool {pool.name} keeps {key} {has}: taking the key away changes nothing. Write `{key}: {template}` (W85)."
