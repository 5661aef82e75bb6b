"""Says why a verification has failed, in the deploy's own output.

The Kubernetes provider cannot: of a DaemonSet that did not become ready it says `timed out waiting for the condition`, and never
reads what an init container left (pulumi-kubernetes, provider/pkg/await). So an error hook reads the reports of the pool's nodes,
and the pods where there is no report, and adds causes, nodes, remedies and where to look. It runs however the wait ends, but for
an engine that is killed; it changes nothing, and what it cannot read it says.

It asks the cluster after a failure alone, for the pool that failed, with the stack's own kubeconfig.
"""

import asyncio
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi

# Not first when they are needed: once the program is over, and only the engine still at work, its folder is no longer searched.
from gpu_pools.components.engine import log
from gpu_pools.components.kubernetes.ask_first import cluster_at, pods_of, reason
from gpu_pools.evidence.changing import changing
from gpu_pools.evidence.cluster import config_maps_of
from gpu_pools.evidence.declared import declared
from gpu_pools.evidence.shared_text import summary
from gpu_pools.evidence.table import findings
from gpu_pools.evidence.verdicts import Evidence, Snapshot, Verdict, judge
from gpu_pools.evidence.waiting import waiting
from gpu_pools.kubernetes_api.cluster_api import ClusterApi
from gpu_pools.text.pages import name_page

_OPERATIONS: Final = ("create", "update")


@dataclass(frozen=True)
class Failed:
    """What is needed to say why a pool is not verified.

    Attributes:
        pool: its name.
        reports: of this pool alone, as gpu_pools.proof.verifier_reports has them.
        kubeconfig: how to reach the cluster; None where nobody said so.
    """

    pool: str
    reports: Mapping[str, Any]
    kubeconfig: str | None


def needed(pool: str, reports: pulumi.Output[dict[str, Any]], kubeconfig: pulumi.Input[str] | None) -> pulumi.Output[Failed]:
    """All that, known long before anything of the pool fails: the provider has made it with that.

    Args:
        pool: its name.
        reports: of this pool alone, as gpu_pools.proof.verifier_reports has them.
        kubeconfig: how to reach the cluster; None where nobody said so.
    """
    return pulumi.Output.all(reports, kubeconfig or "").apply(lambda both: Failed(pool, both[0], both[1] or None))


def tells_why(name: str, facts: pulumi.Output[Failed]) -> pulumi.ErrorHook:
    """A hook for the DaemonSet that verifies a pool.

    Args:
        name: unique among the hooks of the program.
        facts: what is needed.
    """
    known: list[Failed] = []
    facts.apply(known.append)

    async def tell(failed: pulumi.ErrorHookArgs) -> bool:
        """Log why; never try again."""
        if failed.failed_operation in _OPERATIONS and not pulumi.runtime.is_dry_run():
            log.error(await asyncio.to_thread(why, known[-1]))
        return False

    return pulumi.ErrorHook(f"{name}-why", tell)


def why(failed: Failed) -> str:
    """The whole text."""
    (pool,) = failed.reports["pools"].values()
    namespace = failed.reports["namespace"]
    lines = [f"pool {failed.pool} is not verified."]
    if failed.kubeconfig:
        lines += _seen(failed.reports, pool, failed.kubeconfig)
    stack = pulumi.get_stack()
    lines += [
        "Where to look:",
        f"  what each node's verifier found: python -m gpu_pools evidence {stack} (in the sandbox: make verify STACK={stack})",
        f"  what the verifiers say: kubectl logs --namespace {namespace} --selector {pool['podSelector']} --all-containers",
        f"  what causes and remedies mean: {name_page('reference/verification.md')}",
    ]
    return "\n".join(lines)


#: Causes that neither time nor anything on the node removes.
_HOPELESS: Final = ("mps-unheard",)


def in_vain(failed: Failed) -> str:
    """Tell why no time makes the pool's nodes what is declared, by what their verifiers report; empty where that is not known."""
    if not failed.kubeconfig:
        return ""
    (pool,) = failed.reports["pools"].values()
    try:
        evidence = _judged(failed.reports, pool, failed.kubeconfig)[0]
    except Exception:  # noqa: BLE001 - a cluster that does not answer now may do so at the next look
        return ""
    for node in (node for pool in evidence.pools for node in pool.nodes if node.report is not None):
        for found in node.report.differences if node.report and node.verdict is Verdict.DIFFERS else ():
            if found.cause in _HOPELESS:
                return f"{node.name}: {found.likely_cause}. {found.remedy}"
    return ""


def _judged(reports: Mapping[str, Any], pool: Mapping[str, Any], kubeconfig: str) -> tuple[Evidence, Sequence[Any], ClusterApi]:
    """(what the reports say, the nodes, the cluster)."""
    api = cluster_at(kubeconfig, reports["context"])
    maps = config_maps_of(api.items(f"/api/v1/namespaces/{reports['namespace']}/configmaps"))
    nodes = api.items("/api/v1/nodes", labelSelector=",".join(f"{key}={value}" for key, value in pool["nodeSelector"].items()))
    return judge("", declared({"verification": reports}), Snapshot(dt.datetime.now(dt.UTC), nodes, maps)), nodes, api


def _seen(reports: Mapping[str, Any], pool: Mapping[str, Any], kubeconfig: str) -> list[str]:
    try:
        evidence, nodes, api = _judged(reports, pool, kubeconfig)
        pods = waiting(pods_of(api, reports["namespace"], pool["podSelector"]))
        return [summary(evidence), *filter(None, findings(evidence)), *(f"verifier on {line}" for line in pods), *changing(nodes)]
    except Exception as error:  # noqa: BLE001 - whatever it is, the deploy's own error must not be lost behind it
        return [f"The cluster cannot be asked why: {reason(error)}"]
