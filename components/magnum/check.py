"""Holds a stack on Magnum against its cloud before anything is made, also in a preview: what is missing comes all at once.

Reads what the stack needs from Magnum, Nova, Glance and Neutron at the same time; gpu_pools.platforms.magnum.cloud judges. A
cloud that cannot be asked (a fork without a login, a service that refuses) stops nothing: a warning says what was not checked,
and why.
"""

import re
import urllib.parse
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pulumi

from gpu_pools.components.engine import log
from gpu_pools.components.engine.stack_owner import stack_owner
from gpu_pools.components.magnum.session import NotThereError, Session, UnreadError, log_in
from gpu_pools.platforms.judgement import Unread
from gpu_pools.platforms.magnum.answers import (
    Cloud,
    Free,
    Group,
    Image,
    Kind,
    MachineFlavor,
    MadeOf,
    Magnum,
    Named,
    Template,
)
from gpu_pools.platforms.magnum.cloud import Need, judge, needs
from gpu_pools.platforms.magnum.cluster import MagnumSettings
from gpu_pools.platforms.magnum.replacements import ReplacedPool
from gpu_pools.stack.pools import Pool
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.verifier.api import MALFORMED

_T = TypeVar("_T")

_NODE_GROUPS = (1, 9)
_SERVICES = 6
#: Keys of `template` in a stack file -> Magnum's.
_TEMPLATE_KEYS = {
    "image": "image_id",
    "flavor": "flavor_id",
    "masterFlavor": "master_flavor_id",
    "externalNetwork": "external_network_id",
    "networkDriver": "network_driver",
    "dockerVolumeSize": "docker_volume_size",
    "dnsNameserver": "dns_nameserver",
    "httpProxy": "http_proxy",
    "httpsProxy": "https_proxy",
    "noProxy": "no_proxy",
    "labels": "labels",
}
_UUID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")


def check_cloud(
    cluster: MagnumSettings, pools: Sequence[Pool], parent: pulumi.Resource, replaced_pools: Sequence[ReplacedPool] = ()
) -> None:
    """Hold a cluster and its pools against the cloud of a component's openstack provider, unless it is told not to.

    Args:
        cluster: what is wanted of the cluster.
        pools: all of its pools that are known.
        parent: the component; its warnings are shown there.
        replaced_pools: those with `replace`.

    Raises:
        InvalidStackError: with everything that the cloud does not have.
    """
    if not cluster.check_cloud:
        return
    try:
        cloud = read_cloud(log_in(parent), needs(cluster, pools), cluster.name)
    except UnreadError as error:
        why = Unread(str(error))
        cloud = Cloud(why, why, why, why, why, why)
    judgement = judge(cluster, pools, cloud, stack_owner(), replaced_pools)
    if judgement.unchecked:
        log.warn(f"not checked before the deploy: {'; '.join(judgement.unchecked)}", parent)
    for note in judgement.notes:
        log.info(note, parent)
    if judgement.problems:
        raise InvalidStackError(judgement.problems)


def read_cloud(session: Session, wanted: Sequence[Need], cluster: str) -> Cloud:
    """Ask all services at the same time.

    Args:
        session: a login.
        wanted: what the stack names.
        cluster: the name of its cluster, or its UUID.
    """
    with ThreadPoolExecutor(max_workers=_SERVICES, thread_name_prefix="openstack") as pool:
        magnum = pool.submit(_said, lambda: _magnum(session, wanted, cluster))
        flavors = pool.submit(_said, lambda: _flavors(session))
        images = pool.submit(_said, lambda: _images(session, wanted))
        keypairs = pool.submit(_said, lambda: _keypairs(session))
        networks = pool.submit(_said, lambda: _networks(session))
        free = pool.submit(_said, lambda: _free(session))
    return Cloud(magnum.result(), flavors.result(), images.result(), keypairs.result(), networks.result(), free.result())


def _said(read: Callable[[], _T]) -> _T | Unread:
    try:
        return read()
    except UnreadError as error:
        return Unread(str(error))
    except MALFORMED as error:
        # An answer that is not as the API reference has it.
        return Unread(f"the answer was not understood: {error!r}")


def _named(wanted: Sequence[Need], kind: Kind) -> set[str]:
    return {need.name for need in wanted if need.kind == kind}


# ---------------------------------------------------------------- Nova, Glance, Neutron


def _flavors(session: Session) -> list[MachineFlavor]:
    return [
        MachineFlavor(one["id"], one["name"], int(one["vcpus"]), int(one["ram"]))
        for one in session.pages("Nova", "flavors/detail", "flavors")
    ]


def _keypairs(session: Session) -> list[Named]:
    # Names are their ids.
    return [Named(one["keypair"]["name"], one["keypair"]["name"]) for one in session.pages("Nova", "os-keypairs", "keypairs")]


def _free(session: Session) -> Free:
    limits = session.get("Nova", "limits")[0]["limits"]["absolute"]

    def left(most: str, used: str) -> int | None:
        return None if int(limits[most]) < 0 else max(0, int(limits[most]) - int(limits[used]))

    return Free(
        machines=left("maxTotalInstances", "totalInstancesUsed"),
        vcpus=left("maxTotalCores", "totalCoresUsed"),
        memory=left("maxTotalRAMSize", "totalRAMUsed"),
    )


def _images(session: Session, wanted: Sequence[Need]) -> list[Image]:
    listed = [_image(one) for one in session.pages("Glance", "images?limit=1000", "images")]
    known = {image.id for image in listed}
    # Hidden ones and those of communities are in no list, but can be named by their id.
    return listed + [
        _image(found)
        for id_ in sorted(_named(wanted, "image") - known)
        if _UUID.fullmatch(id_) and (found := _one(session, "Glance", f"images/{id_}"))
    ]


def _image(one: dict[str, Any]) -> Image:
    return Image(one["id"], one.get("name") or "", one.get("os_distro") or "", one.get("kube_version") or "")


def _networks(session: Session) -> list[Named]:
    listed = session.pages("Neutron", "networks?router:external=true&fields=id&fields=name", "networks")
    return [Named(one["id"], one.get("name") or "") for one in listed]


def _one(session: Session, service: str, path: str) -> dict[str, Any] | None:
    try:
        return session.get(service, path)[0]
    except NotThereError:
        return None


# ---------------------------------------------------------------- Magnum


def _magnum(session: Session, wanted: Sequence[Need], cluster: str) -> Magnum:
    _, headers = session.get("Magnum", "clusters?limit=1")
    newest = _newest(headers.get("OpenStack-API-Maximum-Version", ""))
    clusters = list(session.pages("Magnum", "clusters", "clusters"))
    mine = [one["uuid"] for one in clusters if cluster in (one["name"], one["uuid"])]
    templates = _templates(session, wanted)
    names, limit = tuple(one["name"] for one in clusters), _said(lambda: _limit(session))
    found = _mine(session, mine[0], newest) if mine else {}
    return Magnum(newest, templates, names, limit, namesakes=mine, **found)


def _newest(text: str) -> tuple[int, int]:
    """`container-infra 1.14`, or the number alone."""
    major, minor = text.rpartition(" ")[2].split(".")
    return int(major), int(minor)


def _limit(session: Session) -> int:
    return int(session.get("Magnum", f"quotas/{session.project}/Cluster")[0]["hard_limit"])


def _templates(session: Session, wanted: Sequence[Need]) -> list[Template]:
    listed = [_template(one) for one in session.pages("Magnum", "clustertemplates/detail", "clustertemplates")]
    known = {name for template in listed for name in (template.id, template.name)}
    # Hidden ones are in no list, but can be named.
    missing = sorted(_named(wanted, "cluster template") - known)
    hidden = [_one(session, "Magnum", f"clustertemplates/{urllib.parse.quote(name, safe='')}") for name in missing]
    return listed + [_template(found) for found in hidden if found]


def _template(one: dict[str, Any]) -> Template:
    flavors = one.get("flavor_id") or "", one.get("master_flavor_id") or ""
    balanced, labels = bool(one.get("master_lb_enabled")), one.get("labels") or {}
    network = one.get("network_driver") or ""
    named = one["uuid"], one.get("name") or "", *flavors
    return Template(*named, load_balancer=balanced, labels=labels, network_driver=network, image=one.get("image_id") or "")


def _mine(session: Session, cluster: str, newest: tuple[int, int]) -> dict[str, Any]:
    """What the stack's cluster is made of: the fields of Magnum that are about it."""
    made = session.get("Magnum", f"clusters/{cluster}")[0]
    template = session.get("Magnum", f"clustertemplates/{made['cluster_template_id']}")[0]
    groups: list[dict[str, Any]] = []
    if newest >= _NODE_GROUPS:
        asked = session.get("Magnum", f"clusters/{cluster}/nodegroups", OpenStack_API_Version="container-infra 1.9")
        # The list tells neither why a group has failed nor its volume.
        paths = [f"clusters/{cluster}/nodegroups/{one['uuid']}" for one in asked[0]["nodegroups"]]
        groups = [session.get("Magnum", path, OpenStack_API_Version="container-infra 1.9")[0] for path in paths]
    return {
        "in_use": _used(made, template, groups),
        "groups": {one["name"]: _group(one) for one in groups},
        "status": made.get("status") or "",
        "reason": made.get("status_reason") or "",
        "labels": made.get("labels") or {},
        "made_of": MadeOf(
            names=frozenset({template["uuid"], template.get("name") or template["uuid"]}),
            says={key: template.get(name) for key, name in _TEMPLATE_KEYS.items()},
        ),
    }


def _group(one: dict[str, Any]) -> Group:
    return Group(
        nodes=int(one["node_count"]),
        status=one.get("status") or "",
        reason=one.get("status_reason") or "",
        image=one.get("image_id") or "",
        volume=one.get("docker_volume_size"),
        labels=one.get("labels") or {},
        flavor=one.get("flavor_id") or "",
        fewest=int(one.get("min_node_count") or 0),
        most=one.get("max_node_count"),
    )


def _used(made: dict[str, Any], template: dict[str, Any], groups: list[dict[str, Any]]) -> frozenset[tuple[Kind, str]]:
    """What a cluster uses, by the names that it was asked for with."""
    used: list[tuple[Kind, str | None]] = [
        ("cluster template", template["uuid"]),
        ("cluster template", template.get("name")),
        ("external network", template.get("external_network_id")),
        ("keypair", made.get("keypair")),
    ]
    for one in (template, made, *groups):
        used += [("flavor", one.get("flavor_id")), ("flavor", one.get("master_flavor_id")), ("image", one.get("image_id"))]
    return frozenset((kind, name) for kind, name in used if name)
