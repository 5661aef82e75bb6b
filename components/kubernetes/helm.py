"""Installs one chart as a Helm release, and makes what it needs: its namespace, its values.

Always a real release, never a rendered chart: the GPU operator's hooks must run, and the values of a release are known in a
preview before the cluster exists. A release is ready when the operator's own Deployment is; what the operator starts later
is not waited for, and is not proof that GPUs are shared.
"""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_kubernetes.core.v1 import Namespace
from pulumi_kubernetes.helm.v3 import Release

from gpu_pools.stack.charts import ChartSettings

#: Images are large and driver builds slow.
_TIMEOUT_SECONDS = 1800


def chart_release(
    name: str,
    chart: ChartSettings,
    namespace: pulumi.Input[str],
    values: pulumi.Input[Mapping[str, Any]],
    opts: pulumi.ResourceOptions,
) -> Release:
    """A release named as its chart.

    Args:
        name: of the Pulumi resource.
        chart: which chart, which version, from where.
        namespace: exists already.
        values: final values.
        opts: options of the release.
    """
    source = chart.source
    return Release(
        name,
        name=chart.name,
        chart=source.path or source.oci or chart.name,
        # A local chart is the version that it is.
        version=None if source.path else chart.version,
        repository_opts={"repo": source.repository} if source.repository else None,
        namespace=namespace,
        values=values,
        # Atomic would uninstall on a slow start, and take the evidence with it.
        atomic=False,
        cleanup_on_fail=True,
        timeout=_TIMEOUT_SECONDS,
        opts=opts,
    )


def privileged_namespace(name: str, namespace: str, opts: pulumi.ResourceOptions, **more: str) -> Namespace:
    """A namespace whose pods may use host paths and privileges, as drivers, feature workers and node exporters must.

    Args:
        name: of the Pulumi resource.
        namespace: its name.
        opts: options of the resource.
        more: labels besides.
    """
    labels = {"pod-security.kubernetes.io/enforce": "privileged", **more}
    return Namespace(name, metadata={"name": namespace, "labels": labels}, opts=opts)


def chart_values(values: Any, *, secret: bool) -> pulumi.Output[dict[str, Any]]:  # noqa: ANN401 - chart values
    """Chart values, encrypted in the state where the stack file keeps them so."""
    return pulumi.Output.secret(values) if secret else pulumi.Output.from_input(values)
