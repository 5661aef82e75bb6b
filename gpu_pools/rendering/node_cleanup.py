"""What takes the operator's and our own traces from the nodes of a cluster that stays when the stack goes (W48).

NVIDIA's operator has no clean-up of nodes (GO#1391): labels and annotations of its own stay for ever, and the next operator would
take `paused-…` or `upgrade-failed` for its own. So its release gets a Job as a hook after its deletion, through the chart's own
value `extraObjects`: Helm runs it wherever it runs, the real provider's too, and nothing of it exists before. Its account lives
for these seconds; it lies in the operator's namespace, where the operator's own account may change nodes all the time.

Not for clusters that go with the stack, and not where the operator is another owner's: its labels are that owner's. In a cluster
of a cloud that the stack only adds pools to, it is for the nodes of others, and for the operator's definitions. What NFD has put
on nodes its own chart takes away (postDeleteCleanup). What was done to the GPUs node_leaving.py takes back before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.rendering.hook_jobs import RELEASE_NAMESPACE, Hook, account_objects, hook_job, program_text
from gpu_pools.verifier.hook_programs.cleanup_program import DEFINITIONS, GROUP

if TYPE_CHECKING:
    from gpu_pools.stack.settings import Settings

NAME: Final = "gpu-pools-node-cleanup"
_SECONDS: Final = 240
_RIGHTS: Final = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"], "resourceNames": [RELEASE_NAMESPACE]},
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        # To delete is what a plugin asks for of who says whose an object is (OwnerReferencesPermissionEnforcement).
        "verbs": ["get", "patch", "delete"],
        "resourceNames": [f"{kind}.{GROUP}" for kind in DEFINITIONS],
    },
    {"apiGroups": [GROUP], "resources": [*DEFINITIONS], "verbs": ["list"]},
)


def nodes_stay(settings: Settings) -> bool:
    """Whether the nodes of pools are there before the stack and after it."""
    return not settings.cluster.makes_nodes


def takes_hooks(settings: Settings) -> bool:
    """Whether the chart takes objects of ours."""
    # Before v26.3 it knows no such objects; the plan says so then.
    return "extraObjects" in settings.operator.chart.keys


def cleanup_objects(settings: Settings) -> list[dict[str, Any]]:
    """The hooks, for the chart's `extraObjects`; none for a cluster that does not stay."""
    only_pools = settings.cluster.adds_pools_only
    if not takes_hooks(settings) or not (nodes_stay(settings) or only_pools):
        return []
    hook = Hook(NAME, "post-delete", _SECONDS)
    which = "others" if only_pools else "all"
    command = ["python3", "-I", "-S", "-c", program_text("cleanup_program.py"), RELEASE_NAMESPACE, which]
    return [*account_objects(hook, _RIGHTS), hook_job(hook, settings, command)]
