"""Takes the startup taint from the verifier's own node, once the node is what was declared.

Nodes register with it, so that no workload starts on one that nobody has looked at. It is taken away after an assertion that
held, never put back: what a node does later is told by its condition, and pods that run there are not this program's to stop.
The removal names the taints that it was decided on: where somebody else has changed them meanwhile it is refused, and tried again
with what is there then, so that nobody's taint is lost. Nothing is decided by it: where it stays refused, the reason is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .api import ApiError
from .findings import Verdict

if TYPE_CHECKING:
    from .node import NodeReader
    from .observation import Assertion

_ATTEMPTS: Final = 5
#: Conflict; and a test of a JSON patch that fails.
_CHANGED: Final = (409, 422)


def untaint(node: NodeReader, key: str, assertion: Assertion) -> str | None:
    """Remove the taints of that key if the assertion held; returns why that was not possible, None where nothing is left."""
    seen = assertion.observation.node
    if assertion.findings.verdict is not Verdict.HOLDS or seen is None or not any(_is(taint, key) for taint in seen.taints):
        return None
    path, trouble = f"/api/v1/nodes/{node.name}", None
    for _ in range(_ATTEMPTS):
        try:
            if operations := _removals(node.api.get(path), key):
                node.api.change(path, operations)
        except ApiError as error:
            trouble = f"the taint {key} cannot be removed: {error}"
            if error.status not in _CHANGED:
                break
        else:
            return None
    return trouble


def _removals(node: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """From the last to the first, so that the positions of those before stay what they are."""
    taints = list(enumerate((node.get("spec") or {}).get("taints") or []))
    mine = [(f"/spec/taints/{index}", taint) for index, taint in reversed(taints) if taint.get("key") == key]
    return [
        operation
        for place, taint in mine
        for operation in ({"op": "test", "path": place, "value": taint}, {"op": "remove", "path": place})
    ]


def _is(taint: str, key: str) -> bool:
    """Whether ``key=value:Effect`` has that key."""
    return taint.partition(":")[0].partition("=")[0] == key
