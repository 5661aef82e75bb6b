"""The command `python -m sandbox gpu-node`: looks at the machine, plays, takes all down, and writes down what was seen."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.document import evidence_text
from gpu_pools.evidence.page import evidence_page
from gpu_pools.text.files import write_whole
from sandbox.cli import commands
from sandbox.cluster.api_errors import ApiError, UnreachableError
from sandbox.gpu_node import machine as machines
from sandbox.gpu_node.claims import Claims
from sandbox.gpu_node.costs import Costs
from sandbox.gpu_node.document import LEFT_ALONE, Step, document, steps_table
from sandbox.gpu_node.play import Play
from sandbox.gpu_node.rollout import Rollout
from sandbox.gpu_node.stage import STACK
from sandbox.real_node import allowed, own_gpus
from sandbox.stack.state import find_sandbox, root
from sandbox.system.errors import SandboxError
from sandbox.system.files import explained, make_folder
from sandbox.system.recording import record

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.gpu_node.machine import Machine
    from sandbox.gpu_node.stage import Stage
    from sandbox.system.progress import Progress

_DIFFERS: Final = 3
_STACKS: Final = "stacks"
#: By what the command line names them.
PLAYS: Final[dict[str, type[Stage]]] = {"": Play, "claims": Claims, "costs": Costs, "rollout": Rollout}


def recorded(folder: Path, which: str) -> int:
    """Run the command as a process of its own, and record what it prints; returns its exit code.

    Raises:
        SandboxError: the folder cannot be written to.
    """
    make_folder(folder)
    command = [
        sys.executable,
        "-m",
        "sandbox",
        "gpu-node",
        "--out",
        str(folder),
        "--no-recording",
        *([f"--{which}"] if which else []),
    ]
    with explained(folder, "write"):
        return record(command, folder / "terminal.cast")


def play(folder: Path, which: str, progress: Progress) -> int:
    """Play, whatever comes of it take all down, and write the folder; returns 0 where all was as it should be, else 3.

    Args:
        folder: where to.
        which: of PLAYS.
        progress: told what is done.

    Raises:
        SandboxError: the machine does not allow it, the stack cannot be brought up, or a file cannot be written.
    """
    allowed.require()
    machine = machines.find()
    before = machines.gpu_settings(machine.reading)
    _tell(machine, progress)
    stack_file = make_folder(folder / _STACKS) / f"Pulumi.{STACK}.yaml"
    stack_file.write_text(machines.stack_text("{exclusive: {}}", machine), encoding="utf-8")
    # What else is asked of the stack finds its file there.
    os.environ["GPU_POOLS_STACKS_DIR"] = str(stack_file.parent.resolve())
    commands.down(STACK, progress)
    it = PLAYS[which](machine, find_sandbox(STACK), stack_file, progress)
    ended = ""
    try:
        it.run(folder)
    except (ApiError, UnreachableError) as error:
        ended = str(error)
        raise SandboxError(ended, f"What was seen until then is in {folder}.") from error
    except BaseException as error:
        ended = error.message if isinstance(error, SandboxError) else str(error) or type(error).__name__
        raise
    finally:
        node = it.versions()
        # Taking down takes a minute; whoever ends it meanwhile has what was seen.
        _write(
            folder, machine, it, document(machine.identity(), node, it.steps, {"before": before}, ended or "not taken down yet")
        )
        _take_down(it, progress)
        settings = _after(it, before)
        written = document(machine.identity(), node, it.steps, settings, ended)
        _write(folder, machine, it, written)
        left_alone = "\n- ".join(["Left alone:", *LEFT_ALONE])
        names = ", ".join(sorted(path.name for path in folder.iterdir()))
        sys.stdout.write(f"\n{steps_table(it.steps)}\n\n{left_alone}\n\nWritten to {folder}: {names}\n")
    return 0 if written["holds"] else _DIFFERS


def _tell(machine: Machine, progress: Progress) -> None:
    known = machine.identity()
    progress.note(f"{machine.gpus} x {machine.product}, driver {known['driver']}, CUDA {known['cuda']}, kernel {known['kernel']}")
    progress.note(f"its sandbox is {root() / STACK}; no setting of a GPU is changed")


def _take_down(it: Stage, progress: Progress) -> None:
    """Through the stack's own way; where that fails, by throwing this sandbox away: nothing may be left on the machine."""
    try:
        it.clear()
        commands.down(STACK, progress)
    except (SandboxError, ApiError, UnreachableError) as error:
        progress.note(f"{error} So the sandbox of {STACK} is thrown away.")
        commands.throw_away(STACK, progress)


def _after(it: Stage, before: dict[str, Any]) -> dict[str, Any]:
    """The settings before and after, and a step that says whether they are the same."""
    begun = time.monotonic()
    try:
        after = machines.gpu_settings(own_gpus.reading())
    except SandboxError as error:
        after = {"error": error.message}
    good = before == after
    changed = "the same" if good else json.dumps(after)
    it.steps.append(Step("the GPUs' settings", time.monotonic() - begun, "the same as before", changed, good))
    return {"before": before, "after": after}


def _write(folder: Path, machine: Machine, it: Stage, written: dict[str, Any]) -> None:
    texts = {
        "result.json": json.dumps(written, indent=1) + "\n",
        "nvml.json": json.dumps(machine.reading, indent=1) + "\n",
    }
    if it.evidence is not None:
        texts |= {"evidence.json": evidence_text(it.evidence), "evidence.html": evidence_page(it.evidence)}
    for name, text in texts.items():
        with explained(folder / name, "write"):
            write_whole(folder / name, text)
