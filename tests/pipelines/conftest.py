"""A forge with a change of the stack ``shop`` in it, and the base branch checked out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.comments import Checkout, comment_on
from pipelines.forge import Client
from pipelines.github import GitHub
from pipelines.gitlab import GitLab
from tests.changes.stacks import BEFORE, after, pods
from tests.pipelines.forges import TOKEN, Server, packed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]
EVENTS = (ROOT / "tests" / "changes" / "previews" / "vm-size.jsonl").read_bytes()
HEAD = "b" * 40
BOT = {"login": "github-actions[bot]", "type": "Bot"}
REPOSITORY = "/repos/team/pools"


def commit(folder: Path, message: str) -> str:
    """Commit everything; returns the commit."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "add", "."], cwd=folder, check=True)
    subprocess.run(["git", *identity, "commit", "--quiet", "--allow-empty", "--message", message], cwd=folder, check=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


class Change:
    """A pull request on GitHub that changes a VM size, whose preview has run: a test makes it hostile, then comments on it."""

    def __init__(self, base: Path, server: Server) -> None:
        self.server = server
        (base / "stacks").mkdir(parents=True)
        shutil.copytree(ROOT / ".ci", base / ".ci")
        for package in ("gpu_pools", "policies"):
            (base / package).symlink_to(ROOT / package)
        (base / "stacks" / "Pulumi.shop.yaml").write_text(BEFORE)
        subprocess.run(["git", "init", "--quiet", "--initial-branch", "main"], cwd=base, check=True)
        self.base = Checkout(base, commit(base, "deployed"))
        self.artifacts: dict[str, bytes] = {"preview-shop": packed({"events.jsonl": EVENTS})}
        self.comments: list[dict[str, Any]] = []
        self.stack_files: dict[str, bytes] = {"shop": after("vm-size").encode()}
        self.deployed: dict[str, bytes] | None = {"commit": self.base.commit.encode(), "pods.json": pods().encode()}
        self.pulls: list[dict[str, Any]] = [{"number": 7, "head": {"sha": HEAD}}]
        self.runs: list[dict[str, Any]] = []

    @staticmethod
    def run(number: int, sha: str, **more: Any) -> dict[str, Any]:
        """A run of deploy.yml, as GitHub lists it."""
        whose = {"full_name": "team/pools"}
        told = {"event": "push", "head_branch": "main", "head_repository": whose, "conclusion": "success"}
        return {"id": number, "head_sha": sha, **told, **more}

    def github(self) -> GitHub:
        """The forge, as comment.yml sees it."""
        run = {"id": 1, "head_sha": HEAD, "head_branch": "wish", "head_repository": {"owner": {"login": "stranger"}}}
        event = {"workflow_run": run, "repository": {"default_branch": "main"}}
        return GitHub(Client(self.server.base, {"Authorization": f"Bearer {TOKEN}"}), "team/pools", "main", event)

    def _offer(self) -> None:
        told: dict[str, Any] = {f"{REPOSITORY}/pulls?state=open&per_page=100&head=stranger%3Awish": self.pulls}
        told[f"{REPOSITORY}/issues/7/comments?per_page=100&page=1"] = self.comments
        listed = [{"name": name, "id": number} for number, name in enumerate(self.artifacts, 100)]
        told[f"{REPOSITORY}/actions/runs/1/artifacts?per_page=100"] = {"artifacts": listed}
        for number, content in enumerate(self.artifacts.values(), 100):
            told[f"{REPOSITORY}/actions/artifacts/{number}/zip"] = f"{self.server.base}/store/{number}"
            told[f"/store/{number}"] = content
        for name, text in self.stack_files.items():
            told[f"{REPOSITORY}/contents/stacks/Pulumi.{name}.yaml?ref={HEAD}"] = text
        if self.deployed is not None:
            told[f"{REPOSITORY}/actions/workflows/deploy.yml/runs?event=push&branch=main&per_page=20"] = {
                "workflow_runs": [*self.runs, self.run(50, self.base.commit)]
            }
            for stack in {"shop", *self.stack_files}:
                artifact = {"name": f"deployed-{stack}", "id": 51, "expired": False}
                told[f"{REPOSITORY}/actions/runs/50/artifacts?name=deployed-{stack}"] = {"artifacts": [artifact]}
            told[f"{REPOSITORY}/actions/artifacts/51/zip"] = f"{self.server.base}/store/51"
            told["/store/51"] = packed(self.deployed)
        self.server.answers |= told

    def comment(self) -> list[str]:
        """Comment on it; returns what was left out, and why."""
        self._offer()
        forge = self.github()
        return [one for request in forge.requests() for one in comment_on(forge, request, self.base)]

    def posted(self) -> str:
        """The one text that was written."""
        ((_, _, body),) = self.server.written
        return str(body["body"])


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.stop()


@pytest.fixture
def change(tmp_path: Path, server: Server) -> Change:
    return Change(tmp_path / "base", server)


def gitlab(server: Server, claims: Mapping[str, Any] | None = None) -> GitLab:
    """The forge, as a scheduled job of the default branch sees it."""
    return GitLab(Client(f"{server.base}/api/v4", {"PRIVATE-TOKEN": TOKEN}), 5, "main", claims or {})
