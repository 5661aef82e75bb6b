"""Looks into the cluster for the verifier's program before it is declared, so that one that was replaced is repaired.

gpu_pools/proof/program_place.py says why the engine does not see that by itself, and which name follows from what is there. In
previews, too: who approves a repair should see it. Where the cluster is not there yet, or does not answer, the first name is
taken; who looks at the evidence is told of a program that is another all the same.
"""

import asyncio

import pulumi

from gpu_pools.evidence.cluster import Kubectl
from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.stack import kubeconfig_in
from gpu_pools.proof.program_place import program_place
from gpu_pools.proof.verifier_pods import program_name
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE

from . import _log


def program_there(sha256: str, kubeconfig: pulumi.Input[str] | None, context: str | None) -> pulumi.Output[str]:
    """The ConfigMap for the program; known even where the kubeconfig is not, so that a preview shows what refers to it.

    Args:
        sha256: of the program's file.
        kubeconfig: how to reach the cluster; None where nobody said so.
        context: of the kubeconfig; None for its current one.
    """
    if kubeconfig is None:
        return pulumi.Output.from_input(program_name(sha256))
    return pulumi.Output.from_input(_looked_up(sha256, pulumi.Output.from_input(kubeconfig), context))


async def _looked_up(sha256: str, kubeconfig: pulumi.Output[str], context: str | None) -> str:
    text = await kubeconfig.future()
    if not text:
        # Not known before the cluster is.
        return program_name(sha256)
    try:
        return await asyncio.to_thread(_place, sha256, text, context)
    except EvidenceError as error:
        if not pulumi.runtime.is_dry_run():
            _log.warn(f"Whether somebody has replaced the verifier's program was not looked at: {error.message}")
        return program_name(sha256)


def _place(sha256: str, kubeconfig: str, context: str | None) -> str:
    with kubeconfig_in(kubeconfig) as path:
        return program_place(sha256, *Kubectl(path, context).verifiers(VERIFIER_NAMESPACE))
