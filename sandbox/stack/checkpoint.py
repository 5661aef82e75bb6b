"""What the engine's state file says, read without the engine: it answers at once, also in the middle of a deploy.

Nothing is decrypted: a secret output stays as the file has it. Whoever wants those asks the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sandbox.system.files import read_json

if TYPE_CHECKING:
    from sandbox.stack.state import Sandbox

_STACK: Final = "pulumi:pulumi:Stack"


def latest(sandbox: Sandbox) -> dict[str, Any]:
    """The deployment as the file has it: `resources`, `pending_operations` and more; empty where there is none yet."""
    checkpoint: dict[str, Any] = read_json(sandbox.state_file).get("checkpoint") or {}
    return checkpoint.get("latest") or {}


def outputs(sandbox: Sandbox) -> dict[str, Any]:
    """The stack's outputs as of the last deploy that came so far; none where there was none."""
    found = [one for one in latest(sandbox).get("resources") or [] if one["type"] == _STACK]
    return found[0].get("outputs") or {} if found else {}


def pending(sandbox: Sandbox) -> list[str]:
    """What the engine is doing, e.g. ``creating DaemonSet gpu-marker``, in the order it was begun."""
    return [f"{one['type']} {_resource(one['resource']['urn'])}" for one in latest(sandbox).get("pending_operations") or []]


def _resource(urn: str) -> str:
    """Type and name."""
    *_, kinds, name = urn.split("::")
    return f"{kinds.rpartition(':')[2]} {name}"
