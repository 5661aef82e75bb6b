"""The comment on a change, from what unreviewed code left: judged by this code, posted under this name, and nothing else of it.

Of a pull request's own jobs one thing is taken: the events of the engine's preview. The stack files before and after come from
the repository itself, texts and numbers from `changes` as the base branch has it. So hostile code can lie about what the engine
would do, which the comment says, and about nothing else: not whose comment it is, nor which stack file, nor what it replaces.

Judging is a process of its own, with a limit of time and without the token: what it reads may be made to break it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipelines.forge import COMMIT, ForgeError, NotThereError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipelines.forge import Deployed, Forge, Note, Request

_STACK: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
#: Stacks of one request that get a comment: names come from the branch's own jobs.
MOST_STACKS: Final = 12
#: Below GitHub's longest comment, 65,536 characters, and GitLab's.
LONGEST: Final = 65_000
_SECONDS: Final = 120
_JUDGED: Final = (0, 1)
#: Of the environment, what Python needs; no token is among it.
_KEPT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "PRICES", "MAX_MORE_GPUS", "MAX_MORE_COST")


@dataclass(frozen=True)
class Checkout:
    """The base branch, checked out with its history.

    Attributes:
        folder: where it is.
        commit: which commit it is.
    """

    folder: Path
    commit: str

    @classmethod
    def here(cls, branch: str = "") -> Checkout:
        """The one that this runs in, at what is checked out; or at a branch of the remote, where that is there.

        Raises:
            ForgeError: where it is no repository.
        """
        # In full: a tag may be called as a branch is.
        for revision in [f"refs/remotes/origin/{branch}"] * bool(branch) + ["HEAD"]:
            command = ["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return cls(Path.cwd(), done.stdout.strip())
        raise ForgeError("there is no commit checked out here")

    def has(self, commit: str) -> bool:
        """Whether a commit is one of the base branch: itself, or one that it comes from."""
        if not COMMIT.fullmatch(commit):
            return False
        command = ["git", "merge-base", "--is-ancestor", commit, self.commit]
        return subprocess.run(command, cwd=self.folder, capture_output=True, check=False).returncode == 0

    def before(self, commit: str, file: str, target: Path) -> None:
        """Write a file as it was at a commit; nothing where it was not."""
        done = subprocess.run([self.folder / ".ci" / "before", commit, file, target], cwd=self.folder, check=False)
        if done.returncode != 0:
            message = f"there is no commit {commit} in the base branch"
            raise ForgeError(message)


def comment_on(forge: Forge, request: Request, base: Checkout, sarif: Path | None = None) -> list[str]:
    """Write a comment for each stack; returns what was not taken, and why, in lines."""
    if not COMMIT.fullmatch(request.head):
        return [f"request {request.number}: its head is not a commit"]
    left_out = [f"{_shown(name)}: no stack is called so" for name in request.previews if not _STACK.fullmatch(name)]
    named = [name for name in request.previews if _STACK.fullmatch(name)]
    left_out += [f"{name}: more than {MOST_STACKS} stacks" for name in named[MOST_STACKS:]]
    notes = forge.notes(request.number)
    for stack in named[:MOST_STACKS]:
        try:
            events = request.previews[stack]()
        except NotThereError:
            # The preview ended before the engine said anything, or what it left has expired: its job tells.
            continue
        except ForgeError as error:
            left_out.append(f"{stack}: {error}")
            continue
        try:
            text = _judged(forge, request, base, stack, events, sarif)
        except ForgeError as error:
            left_out.append(f"{stack}: {error}")
            continue
        note = _mine(notes, stack)
        if note is None or note.text.strip() != text.strip():
            forge.write(request.number, note.id if note else None, text)
    return left_out


def _mine(notes: Sequence[Note], stack: str) -> Note | None:
    """The comment to replace: this identity's own, whose first line is exactly the stack's."""
    return next((note for note in notes if note.own and note.text.partition("\n")[0].rstrip("\r") == _marker(stack)), None)


def _marker(stack: str) -> str:
    """As gpu_pools/changes/markdown.py writes it."""
    return f"<!-- gpu-pools preview of {stack} -->"


def _judged(forge: Forge, request: Request, base: Checkout, stack: str, events: bytes, sarif: Path | None) -> str:
    file = f"stacks/Pulumi.{stack}.yaml"
    try:
        after = forge.file(file, request.head)
    except NotThereError:
        message = f"{request.head} has no {file}"
        raise ForgeError(message) from None
    deployed = forge.deployed(stack, base.has)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "events.jsonl").write_bytes(events)
        (folder / f"Pulumi.{stack}.yaml").write_bytes(after)
        base.before(deployed.commit if deployed else base.commit, file, folder / "before.yaml")
        judged = _run(base, folder, stack, deployed)
        if sarif is not None and judged:
            _keep(folder / "change.sarif", sarif, stack, file)
        text = (folder / "comment.md").read_text(encoding="utf-8") if judged else ""
    return _text(stack, request.head, base.commit, text)


def _run(base: Checkout, folder: Path, stack: str, deployed: Deployed | None) -> bool:
    """Whether the change could be judged."""
    since = f"deployed last, of {deployed.commit[:12]}" if deployed else f"in the base branch, {base.commit[:12]}"
    command = [sys.executable, "-m", "gpu_pools", "changes", str(folder / "events.jsonl"), "--stack", stack]
    command += ["--after", str(folder / f"Pulumi.{stack}.yaml")]
    command += ["--against", f"the sandbox, where the stack is as it was {since}"]
    command += ["--markdown", str(folder / "comment.md"), "--sarif", str(folder / "change.sarif")]
    if (folder / "before.yaml").exists():
        command += ["--before", str(folder / "before.yaml")]
    if deployed is not None and deployed.pods is not None:
        (folder / "pods.json").write_bytes(deployed.pods)
        command += ["--pods", str(folder / "pods.json")]
    else:
        command += ["--no-pods", "the last deploy left no list of them"]
    command += _limits(os.environ)
    around = {name: os.environ[name] for name in _KEPT if name in os.environ}
    try:
        done = subprocess.run(command, cwd=base.folder, env=around, check=False, timeout=_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode in _JUDGED and (folder / "comment.md").exists()


def _limits(around: Mapping[str, str]) -> list[str]:
    options = {"PRICES": "--prices", "MAX_MORE_GPUS": "--max-more-gpus", "MAX_MORE_COST": "--max-more-cost"}
    return [word for name, option in options.items() if around.get(name) for word in (option, around[name])]


def _text(stack: str, head: str, base: str, judged: str) -> str:
    """The whole comment: the stack's line first, then whose code says what."""
    first, _, rest = judged.partition("\n")
    whose = (
        f"_Judged and written by the code of the base branch ({base[:12]}). What the engine would do was previewed by the code "
        f"of this change itself ({head[:12]}), in a sandbox, without any identity: until that is reviewed, it is its word._"
    )
    if not judged:
        rest = (
            f"## GPU pools of {stack}: not judged\n\nThe code of the base branch cannot read the preview, or the stack file, of "
            "this change; the job's log says why. Nothing is known of what it does.\n"
        )
    elif first != _marker(stack):
        message = "the comment begins with another line than it should"
        raise ForgeError(message)
    return f"{_marker(stack)}\n{whose}\n\n{rest}"[:LONGEST]


def _keep(made: Path, folder: Path, stack: str, file: str) -> None:
    """For code-scanning: findings of several stacks stand side by side, at the file in the repository."""
    log = json.loads(made.read_text(encoding="utf-8"))
    for run in log["runs"]:
        run["automationDetails"] = {"id": f"gpu-pools-{stack}/"}
        for result in run["results"]:
            for place in result["locations"]:
                place["physicalLocation"]["artifactLocation"]["uri"] = file
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stack}.sarif").write_text(json.dumps(log), encoding="utf-8")


def _shown(name: str) -> str:
    """A name that a stranger chose, for a log."""
    return ascii(name[:60])
