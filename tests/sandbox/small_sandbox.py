"""The sandbox of a small stack, prepared in a test's own folders; nothing is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.stack import state

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from sandbox.stack.state import Sandbox

STACK = "config:\n  gpu-pools:cluster: {platform: existing}\n"


def prepared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Prepare it.

    Args:
        folder: where its state and its stack file go.
        monkeypatch: names these folders to the sandbox, for the test.
    """
    monkeypatch.setenv("GPU_POOLS_SANDBOX_DIR", str(folder / "state"))
    monkeypatch.setenv("GPU_POOLS_STACKS_DIR", str(folder / "stacks"))
    (folder / "stacks").mkdir()
    (folder / "stacks" / "Pulumi.small.yaml").write_text(STACK)
    made = state.find_sandbox("small")
    state.prepare(made)
    return made
