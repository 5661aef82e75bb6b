"""The one Kubernetes provider of a cluster.

Explicit, never ambient: whatever kubeconfig the machine has must not decide where GPU pools go. It does not check that the
cluster answers; the provider does so itself when it is first used.
"""

import pulumi
from pulumi_kubernetes.provider import Provider

from gpu_pools.components.engine.options import child_options


def kubernetes_provider(
    name: str,
    parent: pulumi.Resource,
    kubeconfig: pulumi.Input[str],
    cluster_identifier: pulumi.Input[str],
    context: str | None = None,
    given: pulumi.ResourceOptions | None = None,
) -> Provider:
    """A provider for one cluster.

    Args:
        name: of the cluster component.
        parent: the cluster component.
        kubeconfig: contents of a kubeconfig.
        cluster_identifier: what tells this cluster from any other. Without it, a kubeconfig that is unknown in a preview
            makes the provider, and with it every object in the cluster, look replaced.
        context: of the kubeconfig; its current one by default.
        given: the cluster component's own options.
    """
    return Provider(
        f"{name}-kubernetes",
        kubeconfig=pulumi.Output.secret(kubeconfig),
        context=context,
        cluster_identifier=cluster_identifier,
        # The sharing config is one ConfigMap of a fixed name: replacing it would take it away from running nodes.
        enable_config_map_mutable=True,
        enable_server_side_apply=True,
        opts=child_options(parent, given),
    )
