"""A GPU operator and an NFD that a cluster has already: who says so, and what is changed of an operator that is not ours.

Two GPU operators in one cluster undo each other's labels and DaemonSets, so a second one is never installed beside one that is
there. Its owner keeps it: its chart, its version, its operands' images. Only those fields of its ClusterPolicy are taken over by
which it shares GPUs as the plan says; the rest of what the plan makes (the two ConfigMaps, rules, labellers) is the same.

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

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_pools.stack.charts import NfdSettings, OperatorSettings
    from gpu_pools.stack.cluster import Cluster
    from gpu_pools.stack.pools import Pool
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


def check_who_installs(cluster: Cluster, operator: OperatorSettings, nfd: NfdSettings, problems: Problems) -> None:
    """That a stack on capi-helm says whether the operator and NFD are there already; planning does not need to know."""
    if not cluster.brings_operator:
        return
    for path, install in ((OPERATOR, operator.install), (NFD, nfd.install)):
        if install is None:
            problems.add(
                path,
                f"is not said, and clusters of the driver {cluster.brings_operator} come with {_ADD_ONS[path]}",
                allowed="false to use what is there, true where the cloud's operators have switched it off",
                remedy="Write `install: false`; two of them in one cluster break each other, and no label of Magnum's "
                "switches the add-on off.",
            )


def check_adopted_pools(cluster: Cluster, pools: Sequence[Pool], problems: Problems) -> None:
    """That only pools are called adopted that somebody else can have made: those of a cluster that was there."""
    if cluster.adds_pools_only:
        return
    for pool in pools:
        if pool.adopted:
            problems.add(
                f"{pool.path}.adopted",
                "true, and the stack makes the cluster, so that nobody else can have made a pool in it",
                allowed="true for a pool that was imported, in a cluster that is `existing`",
                remedy="Leave it out, or name the cluster as `existing`.",
            )
