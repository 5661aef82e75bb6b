"""Holds a stack on AKS against its Azure before anything is made, also in a preview: what is missing comes all at once.

Asks Azure's Resource Manager for what no function of the provider has (regions, sizes, zones, quotas, versions, addresses of
subnets, reservations), everything at the same time; gpu_pools.platforms.aks.cloud judges. What cannot be asked (a fork without a
login, a right that is missing, a service that is slow) stops nothing: a warning says what was not checked, and why.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import pulumi

from gpu_pools.components.aks.session import NotThereError, Session, UnreadError, log_in
from gpu_pools.components.engine import log
from gpu_pools.plan.cluster_checks import check_kubernetes
from gpu_pools.platforms.aks import answers
from gpu_pools.platforms.aks.answers import Azure, MadeCluster, Reservation, Size, Subnet, Version
from gpu_pools.platforms.aks.cloud import judge
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.machines import Machines, machines
from gpu_pools.platforms.aks.versions import default_version
from gpu_pools.platforms.judgement import Judgement, Unread
from gpu_pools.stack.pools import Pool
from gpu_pools.stack.settings import Settings
from gpu_pools.text.errors import InvalidStackError, Problem
from gpu_pools.verifier.api import MALFORMED

_T = TypeVar("_T")

_QUESTIONS = 8
_COMPUTE = "2024-07-01"
_SKUS = "2021-07-01"
#: Of managed clusters and their pools.
CONTAINERS = "2025-09-01"
#: The first version of the API that shows which GPU pools AKS manages; azure-native's own does not.
_MANAGED = "2026-01-02-preview"
_NETWORK = "2024-05-01"
_LOCATIONS = "2022-12-01"


def check_cloud(
    cluster: AksSettings,
    parent: pulumi.Resource,
    stack: Settings | None = None,
    replacement_ids: Mapping[str, str] | None = None,
) -> None:
    """Hold a cluster and its pools against the Azure of a component's azure-native provider, unless it is told not to.

    Args:
        cluster: what is wanted of the cluster.
        parent: the component; its warnings are shown there.
        stack: all of the stack, where it is known: its pools are looked at, too.
        replacement_ids: name of each pool with `replace` -> the id of the declared one.

    Raises:
        InvalidStackError: with everything that Azure does not have.
    """
    if problems := problems_of(cluster, parent, stack, replacement_ids):
        raise InvalidStackError(problems)


def problems_of(
    cluster: AksSettings,
    parent: pulumi.Resource,
    stack: Settings | None = None,
    replacement_ids: Mapping[str, str] | None = None,
) -> list[Problem]:
    """The same, with the problems as the answer; warnings are told. Where it is told not to ask there are none."""
    if not cluster.check_cloud:
        return []
    pools, late = stack.pools if stack else (), list[Problem]()
    try:
        azure = read_azure(log_in(parent), cluster, pools)
    except UnreadError as error:
        judgement = Judgement((), (f"anything that Azure has ({error})",))
    else:
        judgement = judge(cluster, pools, azure, replacement_ids)
        if stack and cluster.existing is None and cluster.kubernetes_version is None:
            late = check_kubernetes(stack, default_version(azure.versions), "Azure's default here is")
    if judgement.unchecked:
        log.warn(f"not checked before the deploy: {'; '.join(judgement.unchecked)}", parent)
    for warning in judgement.warnings:
        log.warn(warning, parent)
    return [*judgement.problems, *late]


def read_azure(session: Session, cluster: AksSettings, pools: Sequence[Pool]) -> Azure:
    """Ask everything at the same time; where the cluster is there already, it tells the region first.

    Args:
        session: a login.
        cluster: of the stack.
        pools: all that are known.
    """
    with ThreadPoolExecutor(max_workers=_QUESTIONS, thread_name_prefix="azure") as threads:

        def ask(question: Callable[[], _T]) -> Future[_T | Unread]:
            return threads.submit(_said, question)

        made = ask(lambda: read_made(session, cluster))
        regions = ask(lambda: answers.read_regions(session.pages_below("/locations", _LOCATIONS)))
        managed = ask(lambda: _managed(session, cluster))
        region = cluster.location or _region(made.result())
        sizes = ask(lambda: _sizes(session, region))
        usages = ask(lambda: answers.read_usages(session.pages_below(f"{_compute(region)}/usages", _COMPUTE)))
        versions = ask(lambda: _versions(session, region))
        found = made.result()
        wanted = list(machines(cluster, pools, found if isinstance(found, MadeCluster) else None))
        lying = _networks(wanted)
        networks = {network: ask(partial(_subnets, session, network, ids)) for network, ids in lying.items()}
        groups = {one.reservation.lower(): one.reservation for one in wanted if one.reservation}
        reservations = {key: ask(partial(_reservations, session, group)) for key, group in groups.items()}
        return Azure(
            regions.result(),
            sizes.result(),
            usages.result(),
            versions.result(),
            found,
            {id_.lower(): _in(networks[network].result(), id_) for network, ids in lying.items() for id_ in ids},
            {key: group.result() for key, group in reservations.items()},
            managed.result(),
        )


def _said(read: Callable[[], _T]) -> _T | Unread:
    try:
        return read()
    except UnreadError as error:
        return Unread(str(error))
    except MALFORMED as error:
        # An answer that is not as the API's specification has it.
        return Unread(f"the answer was not understood: {error!r}")


def _region(made: MadeCluster | Unread | None) -> str:
    return made.location if isinstance(made, MadeCluster) else ""


def _compute(region: str) -> str:
    if not region:
        raise UnreadError("the region of the cluster is not known")
    return f"/providers/Microsoft.Compute/locations/{region}"


def cluster_path(cluster: AksSettings) -> str:
    """Where a managed cluster is, below its subscription."""
    return f"/resourceGroups/{cluster.resource_group}/providers/Microsoft.ContainerService/managedClusters/{cluster.name}"


def read_made(session: Session, cluster: AksSettings) -> MadeCluster | None:
    """The cluster as it is; None: there is none.

    Raises:
        UnreadError: Azure does not say.
    """
    try:
        return answers.read_cluster(session.below(cluster_path(cluster), CONTAINERS))
    except NotThereError:
        return None


def _managed(session: Session, cluster: AksSettings) -> Sequence[str]:
    """Only in a cluster that is there already could there be any."""
    if cluster.existing is None:
        return ()
    return answers.read_managed(session.pages_below(f"{cluster_path(cluster)}/agentPools", _MANAGED))


def _sizes(session: Session, region: str) -> Mapping[str, Size]:
    _compute(region)
    listed = session.pages_below("/providers/Microsoft.Compute/skus", _SKUS, _filter=f"location eq '{region}'")
    return answers.read_sizes(listed, region)


def _versions(session: Session, region: str) -> Sequence[Version]:
    _compute(region)
    path = f"/providers/Microsoft.ContainerService/locations/{region}/kubernetesVersions"
    return answers.read_versions(session.below(path, CONTAINERS))


def _networks(wanted: Iterable[Machines]) -> dict[str, set[str]]:
    """Id of a virtual network -> ids of the subnets of it that pools lie in."""
    found: dict[str, set[str]] = {}
    for one in wanted:
        for subnet in filter(None, (one.subnet, one.pod_subnet)):
            found.setdefault(subnet.lower().partition("/subnets/")[0], set()).add(subnet)
    return found


def _subnets(session: Session, network: str, wanted: Iterable[str]) -> Mapping[str, Subnet | None]:
    try:
        listed = answers.read_subnets(session.pages(f"{network}/usages", _NETWORK))
    except NotThereError:
        return {id_.lower(): None for id_ in wanted}
    return {id_.lower(): listed.get(id_.lower()) or _unused(session, id_) for id_ in wanted}


def _unused(session: Session, subnet: str) -> Subnet | None:
    """A subnet that no usage is told of."""
    try:
        session.get(subnet, _NETWORK)
    except NotThereError:
        return None
    return Subnet(None, None)


def _in(network: Mapping[str, Subnet | None] | Unread, subnet: str) -> Subnet | Unread | None:
    return network if isinstance(network, Unread) else network[subnet.lower()]


def _reservations(session: Session, group: str) -> Sequence[Reservation] | None:
    try:
        return answers.read_reservations(session.pages(f"{group}/capacityReservations", _COMPUTE))
    except NotThereError:
        return None
