"""Writes the verdict where everybody looks for it: the condition GpuSharingVerified of the verifier's own node.

True: the last assertion held. False: the node differs. Unknown: it could not be told. The message is the line of the termination
message, the heartbeat the time of the assertion. Nothing is decided by the write: where it is refused the verdict stays what it
is, and the reason is told.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from verifier import report
from verifier.api import ApiError
from verifier.findings import Verdict

if TYPE_CHECKING:
    from verifier.expectation import Expectation
    from verifier.node import NodeReader
    from verifier.observation import Assertion

CONDITION: Final = "GpuSharingVerified"
_STATUS: Final = {Verdict.HOLDS: "True", Verdict.DIFFERS: "False", Verdict.CANNOT_TELL: "Unknown"}
_REASON: Final = {Verdict.HOLDS: "AsDeclared", Verdict.DIFFERS: "Differs", Verdict.CANNOT_TELL: "CannotTell"}
#: A node object is read by many and often.
_MOST_CHARACTERS: Final = 1024


def mark(node: NodeReader, expected: Expectation, assertion: Assertion) -> str | None:
    """Write the condition; returns why that was not possible, None where it was."""
    verdict, now = assertion.findings.verdict, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    path = f"/api/v1/nodes/{node.name}"
    try:
        conditions = (node.api.get(path).get("status") or {}).get("conditions") or []
        before: dict[str, Any] = next((one for one in conditions if one.get("type") == CONDITION), {})
        same = before.get("status") == _STATUS[verdict]
        condition = {
            "type": CONDITION,
            "status": _STATUS[verdict],
            "reason": _REASON[verdict],
            "message": report.termination_message(expected, assertion)[:_MOST_CHARACTERS],
            "lastHeartbeatTime": now,
            "lastTransitionTime": before.get("lastTransitionTime", now) if same else now,
        }
        # Merged by type: the conditions of others stay as they are, whoever writes them meanwhile.
        node.api.patch(f"{path}/status", {"status": {"conditions": [condition]}})
    except ApiError as error:
        return f"the condition {CONDITION} cannot be written: {error}"
    return None
