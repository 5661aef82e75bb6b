"""What gives the nodes of a cluster that stays back to it, before the operator goes or when a pool is taken out of the stack.

Once the operator has gone nobody changes a layout, and once a pool's labels have gone nobody knows whose the layout was. So two
Jobs run as hooks of the operator's release: before its deletion for all pools, and before each upgrade for nodes whose pool is
declared no longer (the values name the pools, so a pool that goes is an upgrade). Helm deletes and changes nothing where such a
Job fails (helm v3.20.2, pkg/action/uninstall.go and upgrade.go), and begins anew with it the next time.

Only for platforms whose nodes stay, and not where the operator is another owner's: its layouts are that owner's. What is left on
the nodes after the operator node_cleanup.py takes away.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.rendering.hook_jobs import RELEASE_NAMESPACE, Hook, account_objects, hook_job, program_text
from gpu_pools.rendering.node_cleanup import cleanup_objects, nodes_stay, takes_hooks
from gpu_pools.verifier.hook_programs.leave_program import STOPPED

if TYPE_CHECKING:
    from gpu_pools.stack.settings import Settings

NAME: Final = "gpu-pools-leave"
#: What its program needs of the verifier's package.
READERS: Final = ("quantities.py", "changer/nfd_rules.py")
#: Of pools that are declared no longer.
REMOVED: Final = f"{NAME}-removed-pools"
#: Longer than the program allows itself, and shorter than Helm is given (components/kubernetes/helm.py).
_SECONDS: Final = 1500
_RIGHTS: Final = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": ["nvidia.com"], "resources": ["clusterpolicies"], "verbs": ["list"]},
    {"apiGroups": ["nfd.k8s-sigs.io"], "resources": ["nodefeaturerules"], "verbs": ["list", "delete"]},
)
#: In the operator's namespace: mig-manager is started anew where it hangs, and the Job says why it fails.
_OWN_RIGHTS: Final = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
    {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["patch"], "resourceNames": [NAME, REMOVED]},
)


def verifier_rules() -> list[dict[str, Any]]:
    """What its account may do in the verifiers' namespace: those of a removed pool go before its nodes are cleaned."""
    return [{"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["list", "delete"]}]


def gives_back(settings: Settings) -> bool:
    """Whether the nodes of a pool that goes are given back: they stay, and the operator is the stack's own."""
    return bool(leaving_objects(settings)) and not settings.operator.adopted


def hook_objects(settings: Settings) -> list[dict[str, Any]]:
    """All hooks of the release, for the chart's `extraObjects`; none for a cluster that does not stay."""
    return [*leaving_objects(settings), *cleanup_objects(settings)]


def leaving_objects(settings: Settings) -> list[dict[str, Any]]:
    """Those that run before something goes."""
    if not (nodes_stay(settings) and takes_hooks(settings)):
        return []
    accounts = account_objects(Hook(NAME, "pre-delete,pre-upgrade", _SECONDS), _RIGHTS, _OWN_RIGHTS)
    jobs = [_job(settings, NAME, "pre-delete", "all"), _job(settings, REMOVED, "pre-upgrade", "removed")]
    return [*accounts, *jobs]


def _job(settings: Settings, name: str, moment: str, stage: str) -> dict[str, Any]:
    pools = {pool.name: dict(pool.placement.node_selector) for pool in settings.pools if pool.placement.selects_nodes}
    arguments = [stage, RELEASE_NAMESPACE, json.dumps(pools, sort_keys=True), name]
    command = ["python3", "-I", "-S", "-c", program_text("leave_program.py", READERS), *arguments]
    return hook_job(Hook(name, moment, _SECONDS, STOPPED), settings, command, NAME)
