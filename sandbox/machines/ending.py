"""How the containers of a deleted pod end, as a kubelet ends them: preStop, SIGTERM, what is left of the grace, SIGKILL.

Read in kubernetes v1.36.3 (pkg/kubelet: pod_workers.go calculateEffectiveGracePeriod, kuberuntime/kuberuntime_container.go
killContainer and executePreStopHook, kubelet.go SyncTerminatingPod, kubelet_pods.go getPhase; apiserver registry/rest/delete.go)
and in containerd v2.4.2 (internal/cri/server/container_stop.go):

- The grace is the one that the API server has written at the deletion, a second at least. A preStop hook counts against it, in
  whole seconds, and SIGTERM is followed by two seconds at least.
- A grace that is shortened later changes nothing for what ends already: the call to the runtime is not cancelled
  (kubernetes#113606). A pod that is deleted with a grace of 0 is gone from the API server at once, and its processes have these
  two seconds all the same.
- Until its containers have ended the pod is Running and as ready as before; then it is Succeeded or Failed; then it goes. One
  that never ran is Failed, too, before it goes (status/status_manager.go TerminatePod and canBeDeleted).

No process runs in the pods that this is for, so a pod says by an annotation how long its own would need after SIGTERM. One that
says nothing ends at once, without its hooks. All containers of a pod need the same; sidecars, which a kubelet ends last, and
hooks that ask over HTTP, which take no time here, are not played. A kubelet that has started anew gives the whole grace again;
the process that has had SIGTERM by then needs its whole time again, too, which a real one would not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.machines import objects
from sandbox.machines.outcomes import Finished

if TYPE_CHECKING:
    from sandbox.machines.objects import Json

#: Seconds that a pod's processes need after SIGTERM; NEVER: they do not mind it.
ENDS_AFTER: Final = "sandbox.gpu-pools/ends-after-seconds"
NEVER: Final = "never"
KILLED: Final = 137
#: What becomes of a pod that is deleted before its containers have begun.
NEVER_RAN: Final = Finished(
    "ContainerStatusUnknown", code=KILLED, left="The container could not be located when the pod was terminated"
)
_LEAST_GRACE, _LEAST_AFTER_SIGTERM = 1, 2
_SLEEP: Final = re.compile(r"\bsleep (\d+)\b")


@dataclass(frozen=True)
class Ending:
    """How a pod ends.

    Attributes:
        seconds: from its deletion until its last container has ended.
        code: the exit code of its containers; KILLED where one had to be killed.
    """

    seconds: float
    code: int


def takes_time(pod: Json) -> bool:
    """Whether the pod says how it ends."""
    return ENDS_AFTER in (pod["metadata"].get("annotations") or {})


def ending(pod: Json, grace: float) -> Ending:
    """How a pod that says it ends.

    Args:
        pod: the pod.
        grace: as the API server has it.
    """
    said = pod["metadata"]["annotations"][ENDS_AFTER]
    needs = float("inf") if said == NEVER else float(said)
    ends = [_of_container(container, max(grace, _LEAST_GRACE), needs) for container in objects.containers(pod["spec"])]
    return Ending(max(one.seconds for one in ends), max(one.code for one in ends))


def _of_container(container: Json, grace: float, needs: float) -> Ending:
    hook = min(_hook_seconds(container), grace)
    left = max(grace - int(hook), _LEAST_AFTER_SIGTERM)
    return Ending(hook + needs, 0) if needs < left else Ending(hook + left, KILLED)


def _hook_seconds(container: Json) -> float:
    hook = (container.get("lifecycle") or {}).get("preStop") or {}
    slept = sum(map(int, _SLEEP.findall(" ".join((hook.get("exec") or {}).get("command") or []))))
    return float((hook.get("sleep") or {}).get("seconds") or slept)
