"""GitHub, as a workflow's own token sees it: the pull request of one run, the artifacts of runs, comments, environments."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pipelines.forge import MOST_DATA, PREVIEW, Client, Deployed, Note, NotThereError, Request, shaped, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Who comments with a workflow's own token.
_AUTHOR: Final = ("github-actions[bot]", "Bot")
_RUNS: Final = 20
_DEPLOYS: Final = "deploy.yml"
#: How the job that deploys a stack is called, after the stack (.github/workflows/deploy-stack.yml).
_DEPLOY_JOB: Final = ": deploy the plan "


@dataclass(frozen=True)
class GitHub:
    """One repository.

    Attributes:
        client: of the API.
        repository: its owner and name.
        branch: the default branch: what is reviewed.
        event: what started the workflow.
    """

    client: Client
    repository: str
    branch: str
    event: Mapping[str, Any]

    @classmethod
    def here(cls) -> GitHub:
        """The repository whose workflow this is."""
        event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
        headers = {"Authorization": f"Bearer {os.environ['GH_TOKEN']}", "X-GitHub-Api-Version": "2022-11-28"}
        client = Client(os.environ.get("GITHUB_API_URL", "https://api.github.com"), headers)
        return cls(client, os.environ["GITHUB_REPOSITORY"], event["repository"]["default_branch"], event)

    def requests(self) -> Iterator[Request]:
        """The one whose newest commit the run previewed; none where it has moved on, or was closed."""
        with shaped("the pull request of the run"):
            found = self._request()
        if found is not None:
            yield found

    def _request(self) -> Request | None:
        run = self.event["workflow_run"]
        head = f"{run['head_repository']['owner']['login']}:{run['head_branch']}"
        # The event names no pull request of a fork, so it is looked up; its number is never taken from an artifact.
        for pull in self.client.json(self._of(f"pulls?state=open&per_page=100&head={quote(head, safe='')}")):
            if pull["head"]["sha"] == run["head_sha"]:
                return Request(int(pull["number"]), str(run["head_sha"]), self._previews(int(run["id"])))
        return None

    def _previews(self, run: int) -> dict[str, Any]:
        made = self.client.json(self._of(f"actions/runs/{run}/artifacts?per_page=100"))["artifacts"]
        named = {str(one["name"]): int(one["id"]) for one in made if str(one["name"]).startswith(PREVIEW)}
        return {name.removeprefix(PREVIEW): self._reader(artifact, "events.jsonl") for name, artifact in sorted(named.items())}

    def _reader(self, artifact: int, name: str) -> Any:  # noqa: ANN401 - a function
        return lambda: unpacked(self._artifact(artifact), name, MOST_DATA)

    def _artifact(self, artifact: int) -> bytes:
        return self.client.get(self._of(f"actions/artifacts/{artifact}/zip"), most=MOST_DATA)

    def file(self, path: str, commit: str) -> bytes:
        """Also of a fork's commit: one with an open request is in the repository's own store."""
        return self.client.get(self._of(f"contents/{quote(path)}?ref={commit}"), accept="application/vnd.github.raw+json")

    def notes(self, number: int) -> list[Note]:
        """Its comments."""
        with shaped(f"the comments of {number}"):
            return [
                Note(int(one["id"]), (one["user"]["login"], one["user"]["type"]) == _AUTHOR, str(one["body"] or ""))
                for one in self.client.pages(self._of(f"issues/{number}/comments"))
                if one.get("user")
            ]

    def write(self, number: int, note: int | None, text: str) -> None:
        """Replace a comment, or add one."""
        if note is None:
            self.client.send("POST", self._of(f"issues/{number}/comments"), {"body": text})
        else:
            self.client.send("PATCH", self._of(f"issues/comments/{note}"), {"body": text})

    def deployed(self, stack: str, is_reviewed: Callable[[str], bool]) -> Deployed | None:
        """From the newest run of deploy.yml by a push to the default branch whose deploy of this stack ended well.

        GitHub calls a run after the tag that was pushed as after a branch, and a tag called as the default branch runs the
        deploy.yml of its own commit. So a run counts only where its commit is one of the base branch, whose deploy.yml runs by
        no tag, and where what it left is of that very commit.

        Args:
            stack: its name.
            is_reviewed: whether a commit is one of the base branch.
        """
        deploys = f"actions/workflows/{_DEPLOYS}/runs?event=push&branch={quote(self.branch, safe='')}&per_page={_RUNS}"
        try:
            with shaped("the runs of deploy.yml"):
                runs = [run for run in self.client.json(self._of(deploys))["workflow_runs"] if self._is_of_branch(run)]
        except NotThereError:
            return None
        for run in runs:
            with shaped(f"what a run of {_DEPLOYS} left"):
                commit = str(run["head_sha"])
                left = self._left_by(run, stack) if is_reviewed(commit) else None
            if left is not None and left.commit == commit:
                return left
        return None

    def _is_of_branch(self, run: Mapping[str, Any]) -> bool:
        """Whether it is what was asked for, and of this repository."""
        whose = run["head_repository"]["full_name"]
        return (run["event"], run["head_branch"], whose) == ("push", self.branch, self.repository)

    def _left_by(self, run: Mapping[str, Any], stack: str) -> Deployed | None:
        """What a run left of a stack; None where it left nothing, or its deploy did not end well."""
        number, wanted = int(run["id"]), f"deployed-{stack}"
        for one in self.client.json(self._of(f"actions/runs/{number}/artifacts?name={wanted}"))["artifacts"]:
            if one["name"] == wanted and not one["expired"] and self._ended_well(run, number, stack):
                return _left(self._artifact(int(one["id"])))
        return None

    def _ended_well(self, run: Mapping[str, Any], number: int, stack: str) -> bool:
        """Whether the deploy of a stack did: its run may still go on, or have failed, with another stack."""
        if run["conclusion"] == "success":
            return True
        jobs = self.client.json(self._of(f"actions/runs/{number}/jobs?per_page=100"))["jobs"]
        named = f"{stack}{_DEPLOY_JOB}"
        # A job of a workflow that is called: the caller's job, a slash, its own name.
        return any(job["conclusion"] == "success" and job["name"].rpartition(" / ")[2].startswith(named) for job in jobs)

    def unprotected(self, environment: str, *, reviewed: bool) -> str:
        """From the environment's settings."""
        with shaped(f"the environment {environment}"):
            return self._unprotected(self._of(f"environments/{quote(environment, safe='')}"), reviewed=reviewed)

    def _unprotected(self, place: str, *, reviewed: bool) -> str:
        try:
            found = self.client.json(place)
        except NotThereError:
            return "there is no such environment: GitHub would make it, open to every branch"
        policy = found.get("deployment_branch_policy")
        if not policy:
            return f"every branch may use it: allow {self.branch} only, under its deployment branches"
        if policy.get("custom_branch_policies"):
            listed = self.client.json(f"{place}/deployment-branch-policies?per_page=100")["branch_policies"]
            others = [str(one["name"]) for one in listed if one["name"] != self.branch or one.get("type", "branch") != "branch"]
            if others or not listed:
                return f"{', '.join(others) or 'nobody'} may use it: allow {self.branch} only, under its deployment branches"
        rules = {str(one.get("type")) for one in found.get("protection_rules") or ()}
        if reviewed and "required_reviewers" not in rules:
            return "nobody reviews what is deployed with it: name its reviewers"
        return ""

    def _of(self, path: str) -> str:
        return f"repos/{self.repository}/{path}"


def _left(archive: bytes) -> Deployed:
    commit = unpacked(archive, "commit", 64).decode("ascii", errors="replace").strip()
    try:
        return Deployed(commit, unpacked(archive, "pods.json", MOST_DATA))
    except NotThereError:
        return Deployed(commit, None)
