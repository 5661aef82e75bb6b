"""Attacks by whoever writes a branch or a fork, on what runs with the rights of the base branch. Each test says what it tries."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import subprocess
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pipelines import github
from pipelines.__main__ import main
from pipelines.comments import LONGEST, MOST_STACKS, Checkout, comment_on
from pipelines.forge import MOST_DATA, ForgeError, unpacked
from pipelines.github import GitHub
from tests.changes.stacks import BEFORE, after
from tests.patience import scaled
from tests.pipelines.conftest import BOT, EVENTS, HEAD, REPOSITORY, commit, gitlab
from tests.pipelines.forges import TOKEN, packed

if TYPE_CHECKING:
    from tests.pipelines.conftest import Change
    from tests.pipelines.forges import Server

ROOT = Path(__file__).parents[2]
MARKER = "<!-- gpu-pools preview of shop -->"
EVIL = "Approved by security @everyone <img src=x> [log in](https://evil.example)"


class TestComments:
    """What a hostile preview can make the bot say."""

    def test_what_a_rightful_change_gets(self, change: Change) -> None:
        """None: so that the tests below cannot pass because nothing is ever posted."""
        assert change.comment() == []
        ((method, path, _),) = change.server.written
        assert (method, path) == ("POST", f"{REPOSITORY}/issues/7/comments")
        text = change.posted()
        assert text.startswith(f"{MARKER}\n_Judged and written by the code of the base branch ({change.base.commit[:12]}).")
        assert f"the code of this change itself ({HEAD[:12]})" in text
        assert "train replaced (blocked)" in text
        assert "finetune-kb2x8" in text, "the pods that the last deploy left are looked at"

    def test_text_of_the_artifact_is_posted(self, change: Change) -> None:
        """A fork's own preview.yml uploads a ready comment under every name that was ever posted."""
        ready = packed({"comment.md": f"\n{EVIL}\n", "events.jsonl": EVENTS})
        change.artifacts = dict.fromkeys(("comment-shop", "comment-shop.deployed", "preview-shop"), ready)
        change.comment()
        assert "evil.example" not in change.posted()
        assert "Approved by security" not in change.posted()

    def test_markup_in_the_events(self, change: Change) -> None:
        """Events whose messages mention people, load pictures and link elsewhere."""
        finding = {"policyEvent": {"policyName": EVIL, "enforcementLevel": "mandatory", "resourceUrn": "", "message": EVIL}}
        change.artifacts["preview-shop"] = packed({"events.jsonl": EVENTS + json.dumps(finding).encode() + b"\n"})
        change.comment()
        without_code = re.sub(r"`[^`\n]*`", "", change.posted())
        assert not re.search(r"(?<!\\)<img", without_code)
        assert not re.search(r"@\w", without_code)
        assert not re.search(r"(?<!\\)\](?=\()", without_code)

    def test_a_lie_about_the_stack_file(self, change: Change) -> None:
        """The artifact brings a harmless stack file and before.yaml along, while the branch's own replaces a pool."""
        change.artifacts["preview-shop"] = packed(
            {
                "events.jsonl": EVENTS,
                "Pulumi.shop.yaml": BEFORE,
                "stacks/Pulumi.shop.yaml": BEFORE,
                "before.yaml": after("vm-size"),
            }
        )
        change.comment()
        assert "Standard_NC48ads_A100_v4" in change.posted()

    def test_the_price_of_a_lying_preview(self, change: Change) -> None:
        """Events that say that nothing happens: what the stack files show is told all the same, and whose word the rest is."""
        nothing = b'{"summaryEvent": {"resourceChanges": {}}}\n'
        change.artifacts["preview-shop"] = packed({"events.jsonl": nothing})
        change.stack_files["shop"] = BEFORE.replace("replicas: 4", "replicas: 8").encode()
        change.comment()
        assert "reshared" in change.posted()
        assert "without any identity" in change.posted()

    @pytest.mark.parametrize(
        "note",
        [
            pytest.param({"user": {"login": "ann", "type": "User"}, "body": f"{MARKER}\nmy words"}, id="a person's"),
            pytest.param({"user": {"login": "other[bot]", "type": "Bot"}, "body": f"{MARKER}\nits words"}, id="another bot's"),
            pytest.param({"user": BOT, "body": f"{MARKER} and more\nwords"}, id="one that begins alike"),
            pytest.param({"user": BOT, "body": "\nwords"}, id="one with an empty first line"),
            pytest.param({"user": BOT, "body": f"words\n{MARKER}"}, id="one with the marker below"),
            pytest.param({"user": None, "body": MARKER}, id="a deleted user's"),
        ],
    )
    def test_a_comment_of_others_is_overwritten(self, change: Change, note: dict[str, Any]) -> None:
        """A comment that somebody else wrote stands where the marker would be looked for."""
        change.comments = [{"id": 3, **note}]
        change.comment()
        assert [method for method, _, _ in change.server.written] == ["POST"]

    def test_the_own_comment_is_replaced_and_left_where_it_says_the_same(self, change: Change) -> None:
        """None: what the rule above must still let through."""
        change.comments = [{"id": 3, "user": BOT, "body": f"{MARKER}\r\nolder"}]
        change.comment()
        ((method, path, body),) = change.server.written
        assert (method, path) == ("PATCH", f"{REPOSITORY}/issues/comments/3")
        change.server.written.clear()
        change.comments[0]["body"] = body["body"]
        change.comment()
        assert change.server.written == []

    @pytest.mark.parametrize(
        "name", ["", "shop -->", "../../shop", "shop\nother", "SHOP", "a" * 41, "--after", ".", "shop.deployed", "\u0455hop"]
    )
    def test_a_name_of_a_stack_that_is_none(self, change: Change, name: str) -> None:
        """An artifact whose name would end the marker, leave the folder, become an option, or look like another stack's."""
        change.artifacts = {f"preview-{name}": packed({"events.jsonl": EVENTS})}
        assert len(change.comment()) == 1
        assert change.server.written == []

    def test_a_flood_of_stacks(self, change: Change) -> None:
        """Many artifacts, for as many comments: only the first are looked at."""
        change.artifacts = {f"preview-s{number:02}": packed({"events.jsonl": b"x"}) for number in range(30)}
        assert sum("more than" in one for one in change.comment()) == 30 - MOST_STACKS
        assert sum("/contents/" in path for path, _ in change.server.seen) == MOST_STACKS

    def test_a_bomb(self, change: Change) -> None:
        """A few KiB that unpack to more than is read, and that lie about their size."""
        bomb = bytearray(packed({"events.jsonl": b"\0" * (MOST_DATA + 2)}))
        at = bomb.index(b"PK\x01\x02") + 24
        bomb[at : at + 4] = (10).to_bytes(4, "little")
        for content in (bytes(bomb), packed({"events.jsonl": b"\0" * (MOST_DATA + 2)})):
            assert len(content) < 100_000
            change.artifacts["preview-shop"] = content
            change.server.written.clear()
            left_out = change.comment()
            posted = [str(body["body"]) for _, _, body in change.server.written]
            assert left_out or ["not judged" in text for text in posted] == [True]

    @pytest.mark.parametrize("events", [b"", b"[" * 100_000, b"\xff\xfe", b'{"steps": 1}', b'{"steps": [{}]}'], ids=range(5))
    def test_a_preview_that_cannot_be_read(self, change: Change, events: bytes) -> None:
        """Events made to break whoever reads them: an older comment must not go on to say that all is well."""
        change.comments = [{"id": 3, "user": BOT, "body": f"{MARKER}\nno pool is touched"}]
        change.artifacts["preview-shop"] = packed({"events.jsonl": events})
        change.comment()
        assert "not judged" in change.posted()

    def test_a_zip_that_is_none_or_points_elsewhere(self, change: Change, tmp_path: Path) -> None:
        """A link in the zip to a file of the runner."""
        (tmp_path / "secret").write_text("very-secret")
        made = BytesIO()
        with zipfile.ZipFile(made, "w") as target:
            link = zipfile.ZipInfo("events.jsonl")
            link.external_attr = 0o120777 << 16
            target.writestr(link, str(tmp_path / "secret"))
        for content in (made.getvalue(), b"PK\x03\x04nonsense"):
            change.artifacts["preview-shop"] = content
            change.server.written.clear()
            change.comment()
            assert not any("very-secret" in str(body) for _, _, body in change.server.written)

    @pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_a_zip_with_errors(self, compression: int) -> None:
        """1,500 zips of each compression with one to four bytes changed, many of them cut: each error is the reader's own."""
        made = BytesIO()
        with zipfile.ZipFile(made, "w", compression) as target:
            target.writestr("events.jsonl", EVENTS[:2000])
            target.writestr("other", b"x" * 300)
        chance = random.Random(compression)  # noqa: S311 - the same each time
        for _ in range(1500):
            content = bytearray(made.getvalue())
            for _ in range(chance.randrange(1, 5)):
                content[chance.randrange(len(content))] = chance.randrange(256)
            if chance.random() < 0.2:
                del content[chance.randrange(len(content)) :]
            with contextlib.suppress(ForgeError):
                assert len(unpacked(bytes(content), "events.jsonl", 4000)) <= 4000

    def test_a_comment_longer_than_may_be(self, change: Change) -> None:
        """So many findings that the forge would refuse the comment, and the older one would stay."""
        finding = {
            "policyEvent": {"policyName": "a", "enforcementLevel": "advisory", "resourceUrn": "", "message": "word " * 999}
        }
        change.artifacts["preview-shop"] = packed({"events.jsonl": EVENTS + (json.dumps(finding).encode() + b"\n") * 200})
        change.comment()
        assert len(change.posted()) <= LONGEST
        assert change.posted().startswith(MARKER)

    def test_one_request_keeps_the_others_from_their_comments(
        self, change: Change, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What one branch left is nothing at all, what another one left breaks the forge's answer: the third gets its comment."""
        change.artifacts = {"preview-gone": packed({"other": b""}), "preview-shop": packed({"events.jsonl": EVENTS})}
        change._offer()
        (request,) = change.github().requests()
        forge = change.github()
        unknown = replace(request, number=8)
        monkeypatch.setattr(GitHub, "here", classmethod(lambda _: forge))
        monkeypatch.setattr(GitHub, "requests", lambda _: iter([unknown, request]))
        monkeypatch.setattr(Checkout, "here", classmethod(lambda _: change.base))
        monkeypatch.delenv("GITLAB_CI", raising=False)
        assert main(["comment"]) == 1
        assert [path for _, path, _ in change.server.written] == [f"{REPOSITORY}/issues/7/comments"]
        told = capsys.readouterr().err.splitlines()
        assert [line.partition(":")[2].split(":")[0] for line in told if line.startswith("error: ")] == [" request 8"]

    def test_an_older_commit_is_previewed(self, change: Change) -> None:
        """A run for a commit that is not the newest any more, so that its comment would stand under another one."""
        change.pulls = [{"number": 7, "head": {"sha": "c" * 40}}]
        change.comment()
        assert change.server.written == []

    def test_the_token_follows_a_redirection(self, change: Change) -> None:
        """An artifact lies in a store of another host: it must not see the token."""
        change.comment()
        assert {token for path, token in change.server.seen if path.startswith("/store/")} == {""}
        assert all(TOKEN in token for path, token in change.server.seen if not path.startswith("/store/"))

    def test_the_token_reaches_what_reads_the_data(self, change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever breaks the reader of the events finds no token in its environment."""
        monkeypatch.setenv("GH_TOKEN", TOKEN)
        monkeypatch.setenv("NOTE_TOKEN", TOKEN)
        package = change.base.folder / "gpu_pools"
        package.unlink()
        package.mkdir()
        (package / "__main__.py").write_text("import os, sys\nopen(sys.argv[0] + '.seen', 'w').write(str(dict(os.environ)))\n")
        change.comment()
        seen = (package / "__main__.py.seen").read_text()
        assert "PATH" in seen
        assert TOKEN not in seen

    def test_a_deploy_of_a_branch_passes_for_the_base_s(self, change: Change) -> None:
        """What a branch's own run left is looked for under the name of the base's: only runs of deploy.yml on main are asked."""
        change.comment()
        asked = [path for path, _ in change.server.seen if "/runs?" in path or "deployed-" in path]
        assert asked == [
            f"{REPOSITORY}/actions/workflows/deploy.yml/runs?event=push&branch=main&per_page=20",
            f"{REPOSITORY}/actions/runs/50/artifacts?name=deployed-shop",
        ]

    @staticmethod
    def _leaves(change: Change, number: int, commit: str) -> None:
        """A run has left a deploy of the stack."""
        artifact = {"name": "deployed-shop", "id": number, "expired": False}
        change.server.answers[f"{REPOSITORY}/actions/runs/{number}/artifacts?name=deployed-shop"] = {"artifacts": [artifact]}
        change.server.answers[f"{REPOSITORY}/actions/artifacts/{number}/zip"] = f"{change.server.base}/store/{number}"
        change.server.answers[f"/store/{number}"] = packed({"commit": commit, "pods.json": "evil"})

    @pytest.mark.parametrize("says", ["its own commit", "a commit of the base"])
    def test_a_tag_called_as_the_default_branch(self, change: Change, says: str) -> None:
        """A tag `main` on an unreviewed commit, whose own deploy.yml runs by tags: GitHub lists its run as one of the branch."""
        subprocess.run(["git", "checkout", "--quiet", "--orphan", "evil"], cwd=change.base.folder, check=True)
        evil = commit(change.base.folder, "evil")
        subprocess.run(["git", "tag", "main"], cwd=change.base.folder, check=True)
        change.runs = [change.run(60, evil)]
        self._leaves(change, 60, evil if says == "its own commit" else change.base.commit)
        change._offer()
        left = change.github().deployed("shop", change.base.has)
        assert left is not None
        assert (left.commit, left.pods) == (change.base.commit, change.deployed["pods.json"])  # type: ignore[index]
        assert not any("/runs/60/" in path for path, _ in change.server.seen), "nothing of it is looked at"

    def test_what_a_run_left_is_of_another_commit(self, change: Change) -> None:
        """A run of a reviewed commit whose artifact names another one."""
        older = change.base.commit
        newer = commit(change.base.folder, "newer")
        change.runs = [change.run(60, newer)]
        self._leaves(change, 60, older)
        change._offer()
        left = change.github().deployed("shop", Checkout(change.base.folder, newer).has)
        assert left is not None
        assert left.pods != b"evil"

    @pytest.mark.parametrize(
        "more",
        [
            {"event": "workflow_dispatch"},
            {"head_branch": "wish"},
            {"head_repository": {"full_name": "stranger/pools"}},
            {"conclusion": "failure"},
            {"conclusion": None},
        ],
        ids=str,
    )
    def test_a_run_that_is_not_what_was_asked_for(self, change: Change, more: dict[str, Any]) -> None:
        """A run by another event, of another branch or repository, and one whose deploy of the stack did not end well."""
        change.runs = [change.run(60, change.base.commit, **more)]
        self._leaves(change, 60, change.base.commit)
        jobs = [{"name": "first / shop: deploy the plan 0a1b", "conclusion": "failure"}, {"name": "x", "conclusion": "success"}]
        change.server.answers[f"{REPOSITORY}/actions/runs/60/jobs?per_page=100"] = {"jobs": jobs}
        change._offer()
        left = change.github().deployed("shop", change.base.has)
        assert left is not None
        assert left.pods != b"evil"

    def test_a_run_that_waits_with_another_stack_has_deployed_this_one(self, change: Change) -> None:
        """None: the deploy to production may wait for its reviewers for days."""
        change.runs = [change.run(60, change.base.commit, conclusion=None)]
        self._leaves(change, 60, change.base.commit)
        jobs = [{"name": "first / shop: deploy the plan 0a1b", "conclusion": "success"}]
        change.server.answers[f"{REPOSITORY}/actions/runs/60/jobs?per_page=100"] = {"jobs": jobs}
        change._offer()
        left = change.github().deployed("shop", change.base.has)
        assert left is not None
        assert left.pods == b"evil"

    def test_the_name_of_the_job_is_the_workflow_s(self) -> None:
        """None: by it the deploy of one stack is told from that of another one of the same run."""
        jobs = _jobs(ROOT / ".github" / "workflows" / "deploy-stack.yml")
        assert jobs["deploy"]["name"].replace("${{ inputs.stack }}", "shop").startswith(f"shop{github._DEPLOY_JOB}")

    @pytest.mark.parametrize("revision", ["", "HEAD", "main", "0" * 40, "c" * 40, "--all", "-h"])
    def test_a_commit_that_the_base_does_not_have(self, change: Change, revision: str) -> None:
        """Names, options and commits that are not there."""
        assert not change.base.has(revision)
        assert change.base.has(change.base.commit)

    @pytest.mark.parametrize("commit", [b"main; rm -rf /", b"--output=/etc/passwd", b"", b"\xff" * 40])
    def test_a_commit_that_is_a_command(self, change: Change, commit: bytes) -> None:
        """What the last deploy left names no commit, but an option of git or a line for the shell."""
        change.deployed = {"commit": commit}
        assert ["names no commit" in one for one in change.comment()] == [True]
        assert change.server.written == []


class TestGitLab:
    """The same, where a merge request brings its own .gitlab-ci.yml."""

    @staticmethod
    def _offer(server: Server, notes: list[dict[str, Any]], pipeline: dict[str, Any] | None = None) -> None:
        place = "/api/v4/projects/5"
        merge = {"iid": 7, "sha": HEAD, "head_pipeline": pipeline or {"id": 9, "project_id": 5}}
        jobs = [
            {"id": 11, "name": "preview-shop", "artifacts_file": {}},
            {"id": 12, "name": "comment-shop", "artifacts_file": {"size": 1}},
        ]
        jobs[0]["artifacts_file"] = {"size": 1}
        server.answers |= {
            f"{place}/merge_requests?state=opened&scope=all&per_page=100&page=1": [{"iid": 7}],
            f"{place}/merge_requests/7": merge,
            f"{place}/pipelines/9/jobs?per_page=100&page=1": jobs,
            f"{place}/jobs/11/artifacts/.changes/shop/events.jsonl": EVENTS,
            f"{place}/repository/files/stacks%2FPulumi.shop.yaml/raw?ref={HEAD}": after("vm-size").encode(),
            f"{place}/merge_requests/7/notes?order_by=created_at&sort=asc&per_page=100&page=1": notes,
            "/api/v4/user": {"id": 42},
        }

    @pytest.mark.parametrize(
        ("author", "first", "written"),
        [(42, MARKER, "PUT"), (42, "", "POST"), (43, MARKER, "POST"), (43, "", "POST"), (42, f"{MARKER}x", "POST")],
    )
    def test_an_empty_first_line_overwrites_a_note(
        self, change: Change, server: Server, author: int, first: str, written: str
    ) -> None:
        """An artifact without a marker took the first note of anybody for its own."""
        self._offer(server, [{"id": 3, "author": {"id": author}, "body": f"{first}\nwords", "system": False}])
        forge = gitlab(server)
        assert [one for request in forge.requests() for one in comment_on(forge, request, change.base)] == []
        ((method, _, body),) = server.written
        assert method == written
        assert body["body"].startswith(f"{MARKER}\n_Judged and written by the code of the base branch")

    def _deploys(self, server: Server, pipelines: list[tuple[int, str, list[dict[str, Any]], str]]) -> None:
        """Pipelines of the branch `main`: number, commit, jobs, and the commit that each job has left."""
        place = "/api/v4/projects/5"
        listed = f"{place}/pipelines?ref=main&source=push&order_by=id&sort=desc&per_page=20"
        server.answers[listed] = [{"id": number, "sha": sha} for number, sha, _, _ in pipelines]
        for number, _, jobs, left in pipelines:
            server.answers[f"{place}/pipelines/{number}/jobs?scope[]=success&per_page=100&page=1"] = jobs
            for job in jobs:
                server.answers[f"{place}/jobs/{job['id']}/artifacts/deployed/commit"] = left.encode()
                server.answers[f"{place}/jobs/{job['id']}/artifacts/deployed/pods.json"] = f"pods of {job['id']}".encode()

    @staticmethod
    def _job(number: int, sha: str, **more: Any) -> dict[str, Any]:
        told = {"name": "deploy-shop", "status": "success", "ref": "main", "tag": False, "artifacts_file": {"size": 1}}
        return {"id": number, "commit": {"id": sha}, **told, **more}

    @pytest.mark.parametrize(
        "more",
        [{"tag": True}, {"status": "failed"}, {"ref": "wish"}, {"name": "deploy-shop-2"}, {"artifacts_file": None}],
        ids=str,
    )
    def test_a_job_of_a_tag_passes_for_the_branch_s(self, change: Change, server: Server, more: dict[str, Any]) -> None:
        """GitLab finds artifacts by the name of a branch or of a tag: a tag called as the default branch, on any commit."""
        here = change.base.commit
        self._deploys(server, [(2, here, [self._job(22, here, **more)], here), (1, here, [self._job(21, here)], here)])
        left = gitlab(server).deployed("shop", change.base.has)
        assert left is not None
        assert (left.commit, left.pods) == (here, b"pods of 21")

    def test_what_a_job_left_is_of_no_commit_of_the_base(self, change: Change, server: Server) -> None:
        """A pipeline of a commit that is not one of the base branch, and one whose job has left another commit."""
        here, evil = change.base.commit, "e" * 40
        for pipeline in ((2, evil, [self._job(22, evil)], evil), (2, here, [self._job(22, here)], evil)):
            self._deploys(server, [pipeline, (1, here, [self._job(21, here)], here)])
            left = gitlab(server).deployed("shop", change.base.has)
            assert left is not None
            assert (left.commit, left.pods) == (here, b"pods of 21")

    def test_a_token_that_lists_no_jobs_takes_no_foreign_commit_either(self, change: Change, server: Server) -> None:
        """A job's own token may ask for artifacts alone; what it gets is of a commit of the base branch, or nothing."""
        place = "/api/v4/projects/5/jobs/artifacts/main/raw/deployed"
        forge = replace(gitlab(server), lists=False)
        assert forge.deployed("shop", change.base.has) is None
        for commit_left, taken in ((change.base.commit, True), ("e" * 40, False)):
            server.answers[f"{place}/commit?job=deploy-shop"] = commit_left.encode()
            assert (forge.deployed("shop", change.base.has) is not None) is taken

    def test_a_fork_s_pipeline_is_read(self, server: Server) -> None:
        """A fork's jobs run in the fork's project, where its owner may write what they like."""
        self._offer(server, [], {"id": 9, "project_id": 666})
        assert list(gitlab(server).requests()) == []


def _jobs(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"])


class TestIdentities:
    """What a branch's own code is given: nothing that reaches a cluster, a cloud or a secret."""

    def test_a_pull_request_asks_for_an_identity(self) -> None:
        """Code of a branch, run for a pull request: no environment, no token for clouds, no right to write, no secret."""
        for path in (ROOT / ".github" / "workflows").glob("*.yml"):
            workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
            if "pull_request" not in workflow[True]:
                continue
            for name, job in workflow["jobs"].items():
                assert "environment" not in job, name
                assert set(job["permissions"].values()) == {"read"}, name
                assert "secrets" not in job, name
                assert not re.search(r"secrets\.|ARM_|PULUMI_BACKEND", json.dumps(job)), name

    def test_a_branch_starts_what_has_an_identity(self) -> None:
        """Whoever may push a branch runs a workflow by hand on it: what has an identity starts by push to main or schedule."""
        having = {path for path in (ROOT / ".github" / "workflows").glob("*.yml") if "id-token: write" in path.read_text()}
        starts = {path.stem: set(yaml.safe_load(path.read_text())[True]) for path in having}
        assert starts == {"deploy": {"push"}, "deploy-stack": {"workflow_call"}, "drift": {"schedule"}, "release": {"push"}}
        assert yaml.safe_load((ROOT / ".github" / "workflows" / "deploy.yml").read_text())[True]["push"]["branches"] == ["main"]

    def test_stacks_share_an_identity(self) -> None:
        """One stack's pipeline uses another one's identity: each has environments of its own, for looking and for changing."""
        jobs = _jobs(ROOT / ".github" / "workflows" / "deploy-stack.yml")
        assert [job["environment"] for job in jobs.values()] == ["${{ inputs.stack }}-plan", "${{ inputs.stack }}"]
        assert _jobs(ROOT / ".github" / "workflows" / "drift.yml")["drift"]["environment"] == "${{ matrix.stack }}-plan"

    def test_a_merge_request_asks_for_an_identity(self) -> None:
        """The same on GitLab: its jobs have no token for clouds and no environment, and NOTE_TOKEN is a schedule's alone."""
        pipeline = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text(encoding="utf-8"))
        _, template = yaml.safe_load_all((ROOT / ".ci" / "stack.gitlab-ci.yml").read_text(encoding="utf-8"))
        for name, job in {**pipeline, **template}.items():
            if name in {"include", "stages", "default"} or "rules" not in (
                whole := {**pipeline.get(job.get("extends"), {}), **job}
            ):
                continue
            conditions = " ".join(rule["if"] for rule in whole["rules"])
            if "merge_request_event" in conditions:
                assert not {"environment", "id_tokens", "secrets"} & set(whole), name
                assert whole.get("extends") in {None, ".preview", ".checked"}, name
                assert "NOTE_TOKEN" not in json.dumps(whole), name
            if "NOTE_TOKEN" in conditions:
                assert conditions.startswith('$CI_PIPELINE_SOURCE == "schedule"'), name

    @pytest.mark.parametrize(
        ("environment", "branches", "refused"),
        [
            ({"deployment_branch_policy": None}, [], "every branch may use it"),
            ({}, [], "every branch may use it"),
            ({"deployment_branch_policy": {"custom_branch_policies": True}}, ["main", "wish/*"], "wish/* may use it"),
            ({"deployment_branch_policy": {"custom_branch_policies": True}}, [], "nobody may use it"),
            ({"deployment_branch_policy": {"custom_branch_policies": True}}, ["main"], ""),
            ({"deployment_branch_policy": {"protected_branches": True, "custom_branch_policies": False}}, [], ""),
            (None, [], "no such environment"),
        ],
    )
    def test_an_environment_that_every_branch_may_use(
        self, change: Change, environment: dict[str, Any] | None, branches: list[str], refused: str
    ) -> None:
        """GitHub makes an environment that nobody has set up, open to all: the first deploy fails instead."""
        place = f"{REPOSITORY}/environments/aks-prod-plan"
        change.server.answers[place] = environment
        listed = {"branch_policies": [{"name": name, "type": "branch"} for name in branches]}
        change.server.answers[f"{place}/deployment-branch-policies?per_page=100"] = listed
        why = change.github().unprotected("aks-prod-plan", reviewed=False)
        assert refused in why
        assert bool(why) == bool(refused)

    def test_production_that_nobody_reviews(self, change: Change) -> None:
        """An environment of production without reviewers: the plan would be approved by nobody."""
        rules: list[dict[str, Any]] = [{"type": "branch_policy"}]
        change.server.answers[f"{REPOSITORY}/environments/aks-prod"] = {
            "deployment_branch_policy": {"protected_branches": True},
            "protection_rules": rules,
        }
        assert "nobody reviews" in change.github().unprotected("aks-prod", reviewed=True)
        rules.append({"type": "required_reviewers"})
        assert change.github().unprotected("aks-prod", reviewed=True) == ""

    @pytest.mark.parametrize(
        ("claims", "refused"),
        [
            ({}, "is not protected"),
            ({"ref_protected": "false", "environment": "aks-prod", "environment_protected": "true"}, "is not protected"),
            ({"ref_protected": "true", "environment": "other", "environment_protected": "true"}, "another environment"),
            ({"ref_protected": "true", "environment": "aks-prod", "environment_protected": "false"}, "nobody reviews"),
            ({"ref_protected": "true", "environment": "aks-prod", "environment_protected": "true"}, ""),
        ],
    )
    def test_a_branch_of_gitlab_that_everybody_may_push_to(self, server: Server, claims: dict[str, str], refused: str) -> None:
        """A default branch or an environment without protection: GitLab's own token for the job says so."""
        why = gitlab(server, claims).unprotected("aks-prod", reviewed=True)
        assert refused in why
        assert bool(why) == bool(refused)


class TestPlans:
    """What is deployed is what was approved."""

    @staticmethod
    def _deploy(folder: Path, **variables: str) -> tuple[subprocess.CompletedProcess[str], str]:
        """Run .ci/deploy with an engine that writes down what it is asked for, and which plan."""
        pulumi = folder / "bin" / "pulumi"
        pulumi.parent.mkdir(exist_ok=True)
        pulumi.write_text(
            f'#!/bin/sh\necho "$@" >{folder}/asked\nwhile [ "$1" != --plan ]; do shift; done\ncat "$2" >>{folder}/asked\n'
        )
        pulumi.chmod(0o755)
        around = {"PATH": f"{pulumi.parent}:{os.environ['PATH']}", "STACK": "aks-prod", "LEVELS": "levels.json", **variables}
        done = subprocess.run(
            [ROOT / ".ci" / "deploy", folder / "plan.json"],
            cwd=folder,
            env={**around, "RUNNER_TEMP": str(folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        asked = folder / "asked"
        return done, asked.read_text() if asked.exists() else ""

    @pytest.mark.parametrize("approved", [None, "", "0" * 64, "*", "f" * 63])
    def test_another_plan_than_the_approved_one(self, tmp_path: Path, approved: str | None) -> None:
        """The plan is exchanged after it was approved, or none was."""
        (tmp_path / "plan.json").write_text('{"evil": true}')
        done, asked = self._deploy(tmp_path, **({} if approved is None else {"PLAN_SHA256": approved}))
        assert done.returncode == 1
        assert "nothing is deployed" in done.stderr
        assert asked == ""

    def test_the_approved_plan_is_deployed(self, tmp_path: Path) -> None:
        """None: so that the test above cannot pass because nothing ever is."""
        (tmp_path / "plan.json").write_text("{}")
        approved = subprocess.run(
            ["sha256sum", tmp_path / "plan.json"], capture_output=True, text=True, check=True
        ).stdout.split()[0]
        done, asked = self._deploy(tmp_path, PLAN_SHA256=approved)
        assert done.returncode == 0, done.stderr
        assert "up --yes --skip-preview" in asked
        assert "--plan " in asked
        assert asked.endswith("{}")

    def test_a_deploy_without_a_plan(self) -> None:
        """A job that has the right to change deploys what nobody has seen: `up` is called in one script, which wants a plan."""
        texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}
        texts |= {path: path.read_text(encoding="utf-8") for path in (ROOT / ".gitlab-ci.yml", *(ROOT / ".ci").iterdir())}
        assert [path.name for path, text in texts.items() if re.search(r"pulumi up\b", text)] == ["deploy"]
        deploy = _jobs(ROOT / ".github" / "workflows" / "deploy-stack.yml")["deploy"]
        assert "${{ needs.plan.outputs.sha256 }}" in deploy["name"]
        assert {"PLAN_SHA256": "${{ needs.plan.outputs.sha256 }}"} in [step.get("env") for step in deploy["steps"]]


class TestDownloads:
    """What jobs fetch."""

    def test_another_kubectl_than_the_one_that_is_named(self, server: Server, tmp_path: Path) -> None:
        """The host of the downloads gives another program: it is refused before it can be run."""
        server.answers["/store/v1.36.3/bin/linux/amd64/kubectl"] = b"#!/bin/sh\necho evil\n"
        done = subprocess.run(
            [ROOT / ".ci" / "kubectl", tmp_path / "tools"],
            env={**os.environ, "KUBECTL_DOWNLOADS": f"{server.base}/store"},
            capture_output=True,
            text=True,
            check=False,
            timeout=scaled(60),
        )
        assert done.returncode == 1
        assert "is not the file that this repository names" in done.stderr
        assert list((tmp_path / "tools").iterdir()) == []

    def test_programs_are_fetched_past_the_checks(self) -> None:
        """A job brings a program of its own along: all come by .ci/tools, Python's packages by hash."""
        for path in (*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / ".gitlab-ci.yml"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"curl -|curl --|wget|pip install|pulumi/actions|https://get\.", text), path


def test_an_answer_without_end(server: Server) -> None:
    """A forge, or who stands in its way, answers with more than anybody asked for."""
    server.answers["/api/v4/projects/5/x"] = b"1" * 2000
    with pytest.raises(ForgeError, match="more than 1000 bytes"):
        gitlab(server).client.get("projects/5/x", most=1000)
