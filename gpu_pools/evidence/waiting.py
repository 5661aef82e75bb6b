"""What the pods of the verifiers say themselves, where no report says it: why they do not run, or how they ended. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_pools.evidence.shared_text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Of pods that are as they should be; the same words have other meanings for containers that are only waited for.
_NOTHING_SAID = frozenset({"", "PodInitializing", "ContainerCreating"})


def waiting(pods: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each pod that is not ready and says why, by node."""
    return sorted(filter(None, map(_line, pods)))


def _line(pod: Mapping[str, Any]) -> str:
    """Empty where it is ready, or says nothing."""
    try:
        reasons = list(_reasons(pod.get("status") or {}))
        return f"{_where(pod)}: {'; '.join(reasons)}" if reasons else ""
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return f"a pod cannot be read ({type(error).__name__})"


def _where(pod: Mapping[str, Any]) -> str:
    node = (pod.get("spec") or {}).get("nodeName") or "no node yet"
    return f"{plain(node)}, pod {plain((pod.get('metadata') or {}).get('name'))}"


def _reasons(status: Mapping[str, Any]) -> Iterator[str]:
    conditions = {one.get("type"): one for one in status.get("conditions") or []}
    if conditions.get("Ready", {}).get("status") == "True":
        return
    unscheduled = conditions.get("PodScheduled", {})
    if unscheduled.get("status") == "False":
        yield plain(unscheduled.get("message") or unscheduled.get("reason"))
    if status.get("message"):
        yield plain(status["message"])
    for part in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(part) or []:
            yield from _of_container(container)


def _of_container(container: Mapping[str, Any]) -> Iterator[str]:
    name, state = plain(container.get("name")), container.get("state") or {}
    held = state.get("waiting") or {}
    if held.get("reason", "") not in _NOTHING_SAID:
        yield f"{name} waits: {plain(held['reason'])}" + (f": {plain(held['message'])}" if held.get("message") else "")
    # A container that was started again tells of its end only in the last state.
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    if ended.get("exitCode"):
        said = str(ended.get("message") or "").strip()
        yield f"{name} ended with {ended['exitCode']} ({plain(ended.get('reason'))})" + (f": {plain(said)}" if said else "")
