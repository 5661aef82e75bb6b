"""GitLab, as a scheduled job of the default branch sees it: all open merge requests, what their own jobs left, notes.

A job of a merge request runs by that branch's own .gitlab-ci.yml, so it can be trusted with nothing. That is why notes are
written by a schedule of the default branch, which looks for previews that have ended; only it has NOTE_TOKEN, which is protected.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pipelines.forge import MOST_DATA, PREVIEW, Client, Deployed, ForgeError, Note, NotThereError, Request, shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_PARTS: Final = 3
_PIPELINES: Final = 20


@dataclass(frozen=True)
class GitLab:
    """One project.

    Attributes:
        client: of the API.
        project: its number.
        branch: the default branch: what is reviewed.
        claims: of the job's own token for clouds; empty where it has none.
        lists: whether the token may list pipelines and jobs. A job's own may not (docs.gitlab.com, ci/jobs/ci_job_token).
    """

    client: Client
    project: int
    branch: str
    claims: Mapping[str, Any]
    lists: bool = True

    @classmethod
    def here(cls) -> GitLab:
        """The project whose job this is; with the token for notes where there is one."""
        note, job = os.environ.get("NOTE_TOKEN"), os.environ.get("CI_JOB_TOKEN", "")
        client = Client(os.environ["CI_API_V4_URL"], {"PRIVATE-TOKEN": note} if note else {"JOB-TOKEN": job})
        claims = _claims(os.environ.get("ARM_OIDC_TOKEN", ""))
        return cls(client, int(os.environ["CI_PROJECT_ID"]), os.environ["CI_DEFAULT_BRANCH"], claims, lists=bool(note))

    def requests(self) -> Iterator[Request]:
        """Those whose newest pipeline is of this project: a fork's is the fork's own, and is read there."""
        for listed in self.client.pages(self._of("merge_requests?state=opened&scope=all")):
            with shaped("a merge request"):
                found = self._request(int(listed["iid"]))
            if found is not None:
                yield found

    def _request(self, number: int) -> Request | None:
        one = self.client.json(self._of(f"merge_requests/{number}"))
        pipeline = one.get("head_pipeline") or {}
        if pipeline.get("project_id") != self.project:
            return None
        return Request(int(one["iid"]), str(one["sha"]), self._previews(int(pipeline["id"])))

    def _previews(self, pipeline: int) -> dict[str, Any]:
        jobs = self.client.pages(self._of(f"pipelines/{pipeline}/jobs"))
        ended = {str(job["name"]): int(job["id"]) for job in jobs if job.get("artifacts_file")}
        stacks = {name.removeprefix(PREVIEW): job for name, job in sorted(ended.items()) if name.startswith(PREVIEW)}
        return {stack: self._reader(stack, job) for stack, job in stacks.items()}

    def _reader(self, stack: str, job: int) -> Any:  # noqa: ANN401 - a function
        place = self._of(f"jobs/{job}/artifacts/{quote(f'.changes/{stack}/events.jsonl')}")
        return lambda: self.client.get(place, most=MOST_DATA)

    def file(self, path: str, commit: str) -> bytes:
        """As it is at a commit."""
        return self.client.get(self._of(f"repository/files/{quote(path, safe='')}/raw?ref={commit}"))

    def notes(self, number: int) -> list[Note]:
        """Its notes, but for what GitLab itself says there."""
        with shaped(f"the notes of {number}"):
            mine = int(self.client.json("user")["id"])
            return [
                Note(int(one["id"]), one["author"]["id"] == mine, str(one["body"]))
                for one in self.client.pages(self._of(f"merge_requests/{number}/notes?order_by=created_at&sort=asc"))
                if not one.get("system")
            ]

    def write(self, number: int, note: int | None, text: str) -> None:
        """Replace a note, or add one."""
        place = self._of(f"merge_requests/{number}/notes")
        if note is None:
            self.client.send("POST", place, {"body": text})
        else:
            self.client.send("PUT", f"{place}/{note}", {"body": text})

    def deployed(self, stack: str, is_reviewed: Callable[[str], bool]) -> Deployed | None:
        """From the newest job that deployed the stack, ended well, and ran for the default branch.

        GitLab finds artifacts by the name of a branch or a tag. So where the token may list jobs, those of the branch are looked
        through, and what was left has to be of the job's own commit. Either way that commit has to be one of the base branch.

        Args:
            stack: its name.
            is_reviewed: whether a commit is one of the base branch.
        """
        if not self.lists:
            place = self._of(f"jobs/artifacts/{quote(self.branch, safe='')}/raw")
            left = self._left(place, f"?job={quote(f'deploy-{stack}', safe='')}")
            return left if left is not None and is_reviewed(left.commit) else None
        pipelines = f"pipelines?ref={quote(self.branch, safe='')}&source=push&order_by=id&sort=desc&per_page={_PIPELINES}"
        with shaped("the pipelines of the default branch"):
            listed = [(int(one["id"]), str(one["sha"])) for one in self.client.json(self._of(pipelines))]
        for pipeline, commit in listed:
            if not is_reviewed(commit):
                continue
            for job in self._deploys(pipeline, stack, commit):
                left = self._left(self._of(f"jobs/{job}/artifacts"), "")
                if left is not None and left.commit == commit:
                    return left
        return None

    def _deploys(self, pipeline: int, stack: str, commit: str) -> list[int]:
        """The jobs of a pipeline that deployed the stack, for the branch and not for a tag, and left something."""
        with shaped(f"the jobs of pipeline {pipeline}"):
            jobs = list(self.client.pages(self._of(f"pipelines/{pipeline}/jobs?scope[]=success")))
            wanted = (f"deploy-{stack}", "success", self.branch, False, commit)
            found = [(job["name"], job["status"], job["ref"], job["tag"], job["commit"]["id"]) for job in jobs]
            return [int(job["id"]) for job, one in zip(jobs, found, strict=True) if one == wanted and job.get("artifacts_file")]

    def _left(self, place: str, query: str) -> Deployed | None:
        """What a job left; None where it left nothing."""
        try:
            commit = self.client.get(f"{place}/deployed/commit{query}").decode("ascii", errors="replace").strip()
        except NotThereError:
            return None
        try:
            return Deployed(commit, self.client.get(f"{place}/deployed/pods.json{query}", most=MOST_DATA))
        except NotThereError:
            return Deployed(commit, None)

    def unprotected(self, environment: str, *, reviewed: bool) -> str:
        """From what GitLab itself writes into the job's token for clouds."""
        if self.claims.get("ref_protected") != "true":
            return f"{self.branch} is not protected: whoever may push to it gets the identity"
        if self.claims.get("environment") != environment:
            return "the job is in another environment"
        if reviewed and self.claims.get("environment_protected") != "true":
            return "it is not protected: nobody reviews what is deployed with it"
        return ""

    def _of(self, path: str) -> str:
        return f"projects/{self.project}/{path}"


def _claims(token: str) -> Mapping[str, Any]:
    """What a token of GitLab says; it is this job's own, so nobody's signature is looked at."""
    parts = token.split(".")
    if len(parts) != _PARTS:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error) as error:
        message = "the job's token for clouds cannot be read"
        raise ForgeError(message) from error
    return found if isinstance(found, dict) else {}
