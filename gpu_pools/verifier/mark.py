"""Writes the verdict where everybody looks for it: the condition GpuSharingVerified of the verifier's own node.

True: the last assertion held. False: the node differs. Unknown: it could not be told. The message is the line of the termination
message, the heartbeat the time of the assertion. Beside it, in the same request and with the same time, goes what was found and
seen (evidence.py), as an annotation: a status may be patched together with annotations, and one request costs the API half of
two. Nothing is decided by the write: where it is refused the verdict stays what it is, and the reason is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import report
from .api import ApiError
from .evidence import ANNOTATION, evidence
from .findings import Verdict
from .moments import moment

if TYPE_CHECKING:
    from .evidence import Origin
    from .expectation import Expectation
    from .node import NodeReader
    from .observation import Assertion

CONDITION: Final = "GpuSharingVerified"
_STATUS: Final = {Verdict.HOLDS: "True", Verdict.DIFFERS: "False", Verdict.CANNOT_TELL: "Unknown"}
_REASON: Final = {Verdict.HOLDS: "AsDeclared", Verdict.DIFFERS: "Differs", Verdict.CANNOT_TELL: "CannotTell"}
#: A node object is read by many and often.
_MOST_BYTES: Final = 1024


def mark(node: NodeReader, origin: Origin, expected: Expectation, assertion: Assertion) -> str | None:
    """Write condition and annotation; returns what of it was not possible and why, None where all was."""
    now = moment()
    path = f"/api/v1/nodes/{node.name}"
    metadata = {"annotations": {ANNOTATION: evidence(expected, assertion, origin, node=node.name, at=now)}}
    try:
        conditions = (node.api.get(path).get("status") or {}).get("conditions") or []
        # Merged by type: the conditions of others stay as they are, whoever writes them meanwhile.
        status = {"conditions": [_condition(expected, assertion, conditions, now)]}
        try:
            node.api.patch(f"{path}/status", {"metadata": metadata, "status": status})
        except ApiError as error:
            if error.status is None:
                raise
            node.api.patch(f"{path}/status", {"status": status})
            return f"the annotation {ANNOTATION} cannot be written: {error}"
    except ApiError as error:
        return f"the condition {CONDITION} cannot be written: {error}"
    return None


def _condition(expected: Expectation, assertion: Assertion, conditions: list[dict[str, Any]], now: str) -> dict[str, Any]:
    verdict = assertion.findings.verdict
    before: dict[str, Any] = next((one for one in conditions if one.get("type") == CONDITION), {})
    same = before.get("status") == _STATUS[verdict]
    return {
        "type": CONDITION,
        "status": _STATUS[verdict],
        "reason": _REASON[verdict],
        "message": report.termination_message(expected, assertion, _MOST_BYTES),
        "lastHeartbeatTime": now,
        "lastTransitionTime": before.get("lastTransitionTime", now) if same else now,
    }
