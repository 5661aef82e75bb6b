"""Looks into the cluster for the verifier's program before it is declared, so that one that was replaced is repaired.

gpu_pools/proof/program_place.py says why the engine does not see that by itself, and which name follows from what is there. In
previews, too: who approves a repair should see it. Where the cluster is not there yet, or does not answer, the first name is
taken; who looks at the evidence is told of a program that is another all the same.
"""

import asyncio
from collections.abc import Mapping

import pulumi

from gpu_pools.components.engine import log
from gpu_pools.kubernetes_api.cluster_api import ClusterApi, Limits
from gpu_pools.kubernetes_api.errors import ClusterError
from gpu_pools.kubernetes_api.login import Kubeconfig
from gpu_pools.proof.program_place import program_place
from gpu_pools.proof.verifier_pods import program_name
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE

#: The deploy waits for two lists of a few objects.
_LIMITS = Limits(connect=5, read=10, whole=10)


def programs_there(
    sha256: Mapping[str, str], kubeconfig: pulumi.Input[str] | None, context: str | None
) -> pulumi.Output[dict[str, str]]:
    """File -> its ConfigMap; known even where the kubeconfig is not, so that a preview shows what refers to them.

    Args:
        sha256: of each file.
        kubeconfig: how to reach the cluster; None where nobody said so.
        context: of the kubeconfig; None for its current one.
    """
    if kubeconfig is None:
        return pulumi.Output.from_input(_first(sha256))
    return pulumi.Output.from_input(_looked_up(sha256, pulumi.Output.from_input(kubeconfig), context))


def _first(sha256: Mapping[str, str]) -> dict[str, str]:
    return {file: program_name(one, file=file) for file, one in sha256.items()}


async def _looked_up(sha256: Mapping[str, str], kubeconfig: pulumi.Output[str], context: str | None) -> dict[str, str]:
    text = await kubeconfig.future()
    if not text:
        # Not known before the cluster is.
        return _first(sha256)
    try:
        return await asyncio.to_thread(_places, sha256, text, context)
    except ClusterError as error:
        if not pulumi.runtime.is_dry_run():
            log.warn(f"Whether somebody has replaced the verifier's program was not looked at: {error.message}")
        return _first(sha256)


def _places(sha256: Mapping[str, str], kubeconfig: str, context: str | None) -> dict[str, str]:
    api = ClusterApi(Kubeconfig(kubeconfig, context=context), _LIMITS)
    config_maps = api.items(f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/configmaps")
    daemon_sets = api.items(f"/apis/apps/v1/namespaces/{VERIFIER_NAMESPACE}/daemonsets")
    return {file: program_place(one, config_maps, daemon_sets, file) for file, one in sha256.items()}
