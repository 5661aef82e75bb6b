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

from pipelines.forge import MOST_DATA, PREVIEW, Client, Deployed, ForgeError, Note, NotThereError, Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PARTS: Final = 3


@dataclass(frozen=True)
class GitLab:
    """One project.

    Attributes:
        client: of the API.
        project: its number.
        branch: the default branch: what is reviewed.
        claims: of the job's own token for clouds; empty where it has none.
    """

    client: Client
    project: int
    branch: str
    claims: Mapping[str, Any]

    @classmethod
    def here(cls) -> GitLab:
        """The project whose job this is; with the token for notes where there is one."""
        note, job = os.environ.get("NOTE_TOKEN"), os.environ.get("CI_JOB_TOKEN", "")
        client = Client(os.environ["CI_API_V4_URL"], {"PRIVATE-TOKEN": note} if note else {"JOB-TOKEN": job})
        claims = _claims(os.environ.get("ARM_OIDC_TOKEN", ""))
        return cls(client, int(os.environ["CI_PROJECT_ID"]), os.environ["CI_DEFAULT_BRANCH"], claims)

    def requests(self) -> Iterator[Request]:
        """Those whose newest pipeline is of this project: a fork's is the fork's own, and is read there."""
        for listed in self.client.pages(self._of("merge_requests?state=opened&scope=all")):
            one = self.client.json(self._of(f"merge_requests/{int(listed['iid'])}"))
            pipeline = one.get("head_pipeline") or {}
            if pipeline.get("project_id") == self.project:
                yield Request(int(one["iid"]), str(one["sha"]), self._previews(int(pipeline["id"])))

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

    def deployed(self, stack: str) -> Deployed | None:
        """From the last deploy of the default branch."""
        place = self._of(f"jobs/artifacts/{quote(self.branch, safe='')}/raw/deployed")
        job = quote(f"deploy-{stack}", safe="")
        try:
            commit = self.client.get(f"{place}/commit?job={job}").decode("ascii", errors="replace").strip()
        except NotThereError:
            return None
        try:
            return Deployed(commit, self.client.get(f"{place}/pods.json?job={job}", most=MOST_DATA))
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
