"""A GPU operator and an NFD that a cluster has already: who says so, and what is changed of an operator that is not ours.

Two GPU operators in one cluster undo each other's labels and DaemonSets, so a second one is never installed beside one that is
there. Its owner keeps it: its chart, its version, its operands' images. Only those fields of its ClusterPolicy are taken over by
which it shares GPUs as the plan says; the rest of what the plan makes (the two ConfigMaps, rules, markers) is the same.

The operator is there already on clouds whose Magnum driver is magnum-capi-helm: the chart openstack-cluster, which it installs,
brings the add-ons nodeFeatureDiscovery (release and namespace node-feature-discovery) and nvidiaGPUOperator (release
nvidia-gpu-operator in gpu-operator), both on by default (azimuth-cloud/capi-helm-charts 2c557a9a, charts/cluster-addons, values
and templates). No label of a cluster or template switches them off: none of those that the driver reads does
(openstack/magnum-capi-helm 1.4.0, capi_helm_cluster_labels in conf.py, ``_update_helm_release`` in driver.py). The cloud's
operators can, by the chart that they offer. Uninstalled by hand they come back (azimuth-cloud/cluster-api-addon-provider
b0873489, ``_should_install_or_upgrade``). So there a stack must say which it is.

What is taken over stays so while the add-on is upgraded: Helm changes of a custom resource what differs between two versions of
its own manifest. The toolkit's environment is left alone: those charts have their own answer to containerd's configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.plan.mig_strategy import derived_mig_strategy
from gpu_pools.stack.clusters import AksSettings, ExistingSettings, MagnumSettings
from gpu_pools.stack.sharing import Mps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

#: The ClusterPolicy that the chart gpu-operator makes (templates/clusterpolicy.yaml).
CLUSTER_POLICY: Final = "cluster-policy"
OPERATOR: Final = "gpu-pools:operator.install"
NFD: Final = "gpu-pools:nodeFeatureDiscovery.install"
#: Said where something of another owner stood in the way.
REMEDY: Final = (
    "This cluster has it already, and a second one would break both. To use the ones that are there, write "
    "`gpu-pools:nodeFeatureDiscovery: {install: false}` and `gpu-pools:operator: {install: false}`, whichever the cluster has; "
    "or have their owner take them away. Where a deploy of this stack broke off while it installed them (`helm list --all "
    "--all-namespaces` shows them as pending-install or failed), `helm uninstall` them and run it again."
)
_ADD_ONS: Final = {OPERATOR: "NVIDIA's GPU operator", NFD: "Node Feature Discovery"}
#: The drivers whose pools get their taints from NFD.
_TAINTED_BY_NFD: Final = ("magnum-cluster-api", "capi-helm")


def check_who_installs(settings: Settings, problems: Problems) -> None:
    """That a stack on capi-helm says whether the operator and NFD are there already; planning does not need to know."""
    cluster = settings.cluster
    if not isinstance(cluster, MagnumSettings) or cluster.driver != "capi-helm":
        return
    for path, install in ((OPERATOR, settings.operator.install), (NFD, settings.nfd.install)):
        if install is None:
            problems.add(
                path,
                f"is not said, and clusters of the driver capi-helm come with {_ADD_ONS[path]}",
                allowed="false to use what is there, true where the cloud's operators have switched it off",
                remedy="Write `install: false`; two of them in one cluster break each other, and no label of Magnum's "
                "switches the add-on off.",
            )


def check_adoption(settings: Settings, problems: Problems) -> None:
    """What an operator that is there already cannot be made to do."""
    if not settings.operator.adopted:
        return
    if isinstance(settings.cluster, AksSettings):
        problems.add(
            OPERATOR,
            "false, and an AKS cluster that the stack makes comes without GPU operator",
            allowed="true, or left out",
            remedy="Leave it out.",
        )
    uses_mps = any(isinstance(settings.sharing.get(pool.sharing), Mps) for pool in settings.pools)
    if uses_mps and derived_mig_strategy(settings) == "mixed":
        problems.add(
            OPERATOR,
            "false, and MPS beside mixed MIG needs a ClusterPolicy that names no MIG strategy",
            allowed="true, or a stack without that combination",
            remedy="Share by time-slicing instead of MPS, or use uniform layouts: what the ClusterPolicy says already "
            "can be changed, but not taken away.",
        )


def adoption_warnings(pool: Pool, settings: Settings) -> Iterator[str]:
    """What cannot be known of an NFD that is there already."""
    cluster = settings.cluster
    by_nfd = isinstance(cluster, MagnumSettings) and cluster.driver in _TAINTED_BY_NFD
    if settings.nfd.adopted and by_nfd and pool.taints:
        yield (
            "its taints are set by NFD, which is not installed by this stack: they reach the nodes only where its owner has set "
            "master.enableTaints (capi-helm-charts leaves it off)"
        )


def cluster_warnings(settings: Settings) -> Iterator[str]:
    """What of the cluster cannot be known before the deploy, and stops the operator."""
    if settings.nfd.adopted:
        yield (
            "the NFD that is there must publish pci-10de.present and system-os_release of its GPU nodes; without the latter the "
            "operator makes no DaemonSet at all, and that cannot be checked before the deploy (W40)"
        )
    if isinstance(settings.cluster, ExistingSettings) and not settings.operator.adopted:
        yield (
            "a RuntimeClass nvidia that the cluster has already is taken over by the operator, and goes with it; one with "
            "another handler stops the operator, since handlers cannot be changed (W41)"
        )


def cluster_policy_changes(values: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the ``spec`` of an existing ClusterPolicy that the plan decides.

    Args:
        values: what the plan gives the operator's chart.
    """
    plugin, manager = values["devicePlugin"]["config"], values["migManager"]
    return {
        "daemonsets": {"tolerations": values["daemonsets"]["tolerations"]},
        "driver": {"enabled": values["driver"]["enabled"]},
        "toolkit": {"enabled": values["toolkit"]["enabled"]},
        "mig": {"strategy": values["mig"]["strategy"]},
        "devicePlugin": {"config": {"name": plugin["name"], "default": plugin["default"]}},
        "migManager": {
            "enabled": manager["enabled"],
            **({"env": manager["env"]} if "env" in manager else {}),
            "config": {"name": manager["config"]["name"], "default": manager["config"]["default"]},
        },
    }
