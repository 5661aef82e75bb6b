"""The pipelines: pinned, with no more rights than they need, no keys, and with commands that exist."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.patience import scaled

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GITLAB = ROOT / ".gitlab-ci.yml"
STACKS = ROOT / ".ci" / "stacks.yml"
TEMPLATE = ROOT / ".ci" / "stack.gitlab-ci.yml"
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
HIDDEN = {"stages", "default", "include"}


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _called(path: Path) -> str:
    """The text of a pipeline; also what another one calls in this repository."""
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
class TestGitHub:
    """Each workflow of GitHub Actions."""

    def test_actions_of_others_are_pinned_by_digest(self, path: Path) -> None:
        used = [line.strip().removeprefix("- ") for line in _called(path).splitlines() if re.match(r"\s*(- )?uses: ", line)]
        assert used
        for line in used:
            assert PINNED.match(line) or line.startswith("uses: ./.github/"), line

    def test_nothing_is_allowed_but_what_a_job_asks_for(self, path: Path) -> None:
        workflow = _read(path)
        assert workflow["permissions"] == {}
        for name, job in workflow["jobs"].items():
            assert job["permissions"], name
            rights = {"id-token", "attestations", "contents"} if path.stem == "release" else {"id-token"}
            writes = {right for right, how in job["permissions"].items() if how == "write"}
            assert writes <= ({"pull-requests", "security-events"} if path.stem == "comment" else rights), name

    def test_jobs_end(self, path: Path) -> None:
        for name, job in _read(path)["jobs"].items():
            assert "uses" in job or job["timeout-minutes"] <= 120, name

    def test_there_are_no_keys(self, path: Path) -> None:
        assert "secrets." not in _called(path)
        assert "pull_request_target" not in _called(path)

    def test_a_checkout_leaves_no_token_behind(self, path: Path) -> None:
        text = _called(path)
        assert text.count("actions/checkout@") == text.count("persist-credentials: false")

    def test_texts_of_strangers_reach_no_shell(self, path: Path) -> None:
        """What an event holds may be written by anybody; scripts take it from the environment."""
        for job in _read(path)["jobs"].values():
            for step in job.get("steps", ()):
                assert "${{" not in step.get("run", "")


def test_whoever_may_write_comments_runs_code_of_the_base_branch_alone() -> None:
    """What the pull request's jobs left is fetched by that code, as data: no step brings any of it into the checkout."""
    (job,) = _read(ROOT / ".github" / "workflows" / "comment.yml")["jobs"].values()
    (checkout,) = (step for step in job["steps"] if "actions/checkout@" in step.get("uses", ""))
    assert checkout["with"]["ref"] == "${{ github.event.repository.default_branch }}"
    assert not [step for step in job["steps"] if "download-artifact" in step.get("uses", "")]


def _stacks() -> list[dict[str, Any]]:
    """The list that all pipelines take their stacks from."""
    return [one["inputs"] for one in _read(STACKS)["include"]]


def test_a_deploy_waits_for_the_one_before_it() -> None:
    jobs = _read(ROOT / ".github" / "workflows" / "deploy.yml")["jobs"]
    names = [name for name in jobs if name != "stacks"]
    assert [jobs[name]["needs"] for name in names] == ["stacks", *(["stacks", name] for name in names[:-1])]
    for place, name in enumerate(names):
        taken = f"fromJSON(needs.stacks.outputs.deployed)[{place}]"
        assert jobs[name]["if"] == f"{taken} != null"
        assert jobs[name]["with"]["stack"] == f"${{{{ {taken}.stack }}}}"
        assert jobs[name]["with"]["levels"] == f"${{{{ {taken}.levels }}}}"
    listed = _read(ROOT / ".github" / "workflows" / "stacks.yml")["jobs"]["stacks"]["steps"][1]["run"]
    assert f"-le {len(names)} ]" in listed
    assert len(_stacks()) <= len(names)


def test_gitlab_s_deploys_wait_in_the_same_order() -> None:
    names = [f"deploy-{one['stack']}" for one in _stacks()]
    _, template = yaml.safe_load_all(TEMPLATE.read_text(encoding="utf-8"))
    assert template["plan-$[[ inputs.stack ]]"]["needs"] == "$[[ inputs.after ]]"
    assert template["deploy-$[[ inputs.stack ]]"]["needs"] == ["plan-$[[ inputs.stack ]]"]
    assert [one.get("after", []) for one in _stacks()] == [[], *([name] for name in names[:-1])]
    assert {one["local"] for one in _read(STACKS)["include"]} == {str(TEMPLATE.relative_to(ROOT))}
    assert _read(GITLAB)["include"] == [{"local": str(STACKS.relative_to(ROOT))}]


@pytest.mark.parametrize("one", [pytest.param(one, id=one["stack"]) for one in _stacks()])
def test_stacks_that_are_deployed_have_files(one: dict[str, Any]) -> None:
    assert (ROOT / "stacks" / f"Pulumi.{one['stack']}.yaml").is_file()
    assert (ROOT / "policies" / "levels" / f"{one['levels']}.json").is_file()


def test_prices_and_limits_reach_whoever_judges_a_change(tmp_path: Path) -> None:
    """Quoted: whoever sets a variable writes no commands."""
    given = {"PRICES": "my prices.yaml", "MAX_MORE_GPUS": "8", "MAX_MORE_COST": "1000; false", "PODS": "pods.json"}
    command = ["make", "--dry-run", "preview", "PR=1", "STACK=aks-dev", f"VENV={tmp_path}"]
    shown = [
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, **more}, capture_output=True, text=True, check=True, timeout=scaled(60)
        ).stdout
        for more in (given, dict.fromkeys(given, ""))
    ]
    for name in given:
        option = f'--{name.lower().replace("_", "-")} "${name}"'
        assert [option in one for one in shown] == [True, False]
    jobs = {path.stem: _read(path)["jobs"] for path in WORKFLOWS}
    (comment,) = (step for step in jobs["comment"]["comment"]["steps"] if step.get("id") == "comment")
    for job in (jobs["preview"]["preview"], comment, jobs["deploy-stack"]["plan"]):
        assert {name: job["env"][name] for name in ("PRICES", "MAX_MORE_GPUS", "MAX_MORE_COST")} == {
            name: f"${{{{ vars.{name} }}}}" for name in ("PRICES", "MAX_MORE_GPUS", "MAX_MORE_COST")
        }


@pytest.mark.parametrize(("said", "goes_on"), [(0, True), (1, False)])
def test_a_change_ends_where_a_registry_has_something_against_an_image(tmp_path: Path, *, said: int, goes_on: bool) -> None:
    asked = f'[ "$2 $3" != "gpu_pools images" ] || exit {said}'
    for name, does in (("python", asked), ("pulumi", f"touch {tmp_path}/previewed")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    around = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "STACK": "aks-dev",
        "LEVELS": "x",
        "BEFORE": "0" * 40,
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run([ROOT / ".ci" / "change"], cwd=ROOT, env=around, capture_output=True, check=False, timeout=scaled(60))
    assert ((tmp_path / "previewed").exists(), done.returncode) == (goes_on, said)


def _scripts(command: str) -> list[Any]:
    """The steps of both forges' jobs that run a command of gpu-pools."""
    scripts = []
    for path in WORKFLOWS:
        for job in _read(path)["jobs"].values():
            scripts += [pytest.param(step.get("run", ""), id=path.stem) for step in job.get("steps", ())]
    for name, job in _read(GITLAB).items():
        scripts += [pytest.param(text, id=name) for text in (job.get("script", ()) if isinstance(job, dict) else ())]
    return [one for one in scripts if f"-m gpu_pools {command}" in one.values[0]]


def test_deploys_end_and_drift_is_told_with_what_the_verifiers_say() -> None:
    assert [one.id for one in _scripts("evidence")] == ["deploy-stack", "drift", ".deploy", ".drift"]
    assert [one.id for one in _scripts("drift")] == ["drift", ".drift"]


@pytest.mark.parametrize("script", _scripts("drift"))
@pytest.mark.parametrize("code", [0, 1, 2])
def test_drift_and_what_cannot_be_told_fail_the_nightly_job(script: str, code: int, tmp_path: Path) -> None:
    """The stack and its file are named as one argument each, and the engine alone is not asked: on AKS it never ends well."""
    asked = '[ "$*" = "-m gpu_pools drift my stack --config-file stacks/Pulumi.my stack.yaml" ] || exit 99'
    for name, does in (("python", f"{asked}\nexit {code}"), ("pulumi", "exit 98")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    around = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "STACK": "my stack"}
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=around, check=False, timeout=scaled(60))
    assert done.returncode == code


@pytest.mark.parametrize("script", _scripts("evidence"))
@pytest.mark.parametrize(("verdict", "code"), [(0, 0), (1, 1), (2, 2), (3, 0)])
def test_only_what_is_not_as_declared_or_cannot_be_told_fails_a_pipeline(
    script: str, verdict: int, code: int, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {verdict}\nexit {verdict}\n")
    python.chmod(0o755)
    around = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "STACK": "aks-dev", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=around, check=False, timeout=scaled(60))
    assert done.returncode == code


def test_gitlab_s_images_are_pinned_by_digest() -> None:
    pipeline = _read(GITLAB)
    named = [job["image"] for name, job in pipeline.items() if isinstance(job, dict) and "image" in job]
    assert named == [pipeline["default"]["image"], "$IMAGE"]
    for image in (named[0], *_gitlab_s_pythons()):
        assert re.fullmatch(r"python:3\.1[1-4]\.\d+-slim-trixie@sha256:[0-9a-f]{64}", image)
    assert named[0] in _gitlab_s_pythons()


def _with_template(pipeline: Any, job: Any) -> Any:
    return {**pipeline.get(job.get("extends"), {}), **job}


def test_gitlab_s_jobs_are_in_its_stages_and_end() -> None:
    pipeline = _read(GITLAB)
    head, template = yaml.safe_load_all(TEMPLATE.read_text(encoding="utf-8"))
    for one in _stacks():
        assert set(one) <= set(head["spec"]["inputs"])
        assert {name for name, said in head["spec"]["inputs"].items() if "default" not in said} <= set(one)
    own = [_with_template(pipeline, job) for name, job in pipeline.items() if name not in HIDDEN and not name.startswith(".")]
    jobs = [*own, *(pipeline[job["extends"]] for job in template.values())]
    assert {job["stage"] for job in jobs} == set(pipeline["stages"])
    for job in jobs:
        assert job["timeout"]
        assert job["rules"]
        assert job.get("extends", ".azure") in {".azure", ".checked"}


@pytest.mark.parametrize("path", [*WORKFLOWS, GITLAB], ids=lambda path: path.stem)
def test_files_that_pipelines_name_are_there(path: Path) -> None:
    text = _called(path)
    stacks = re.findall(r"stack: (aks-\w+|magnum-\w+|byo)\b", text)
    named = [*re.findall(r"policies/levels/\w+\.json", text), *(f"stacks/Pulumi.{stack}.yaml" for stack in stacks)]
    for name in named:
        assert (ROOT / name).is_file(), name
    for target in re.findall(r"(?:^|run: |&& |; |- |\" )\s*make (?:--silent )?([\w-]+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), target


def _gitlab_s_pythons() -> list[str]:
    (row,) = _read(GITLAB)["pythons"]["parallel"]["matrix"]
    images: list[str] = row["IMAGE"]
    return images


def test_the_supported_versions_of_python_are_the_same_everywhere() -> None:
    """What is promised is what the pipelines run, and one that is too old is refused by `make`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in project["classifiers"])
    versions = [one[1] for one in found if one]
    assert versions == [f"3.{minor}" for minor in range(11, 11 + len(versions))]
    first, last = versions[0], versions[-1]
    assert project["requires-python"] == f">={first}"
    job = _read(ROOT / ".github" / "workflows" / "check.yml")["jobs"]["pythons"]
    assert job["strategy"]["matrix"]["python"] == versions
    assert [re.match(r"python:(3\.\d+)\.", image)[1] for image in _gitlab_s_pythons()] == versions  # type: ignore[index]
    for page in ("README.md", "CONTRIBUTING.md"):
        assert f"Linux, Python {first} to {last}" in (ROOT / page).read_text(encoding="utf-8"), page
    assert f"| Python | {first} to {last} |" in (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    assert f"< ({first.replace('.', ', ')})" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_both_forges_do_the_same_with_each_python() -> None:
    """What waits for no program, and a stack that comes up."""
    steps = _read(ROOT / ".github" / "workflows" / "check.yml")["jobs"]["pythons"]["steps"]
    script = _read(GITLAB)["pythons"]["script"]
    assert [step["run"] for step in steps if "run" in step] == script
    assert "make up STACK=byo" in script
    assert any("tests/unit" in line and "tests/components" in line for line in script)


class TestChecks:
    """What runs the project's own tests: anybody's code, as root."""

    JOBS = (("check", "check", ".ci/run"), ("nights", "everything", "make test-all"))

    @pytest.mark.parametrize(("workflow", "name", "command"), JOBS)
    def test_they_hold_nothing_that_is_worth_taking(self, workflow: str, name: str, command: str) -> None:
        job = _read(ROOT / ".github" / "workflows" / f"{workflow}.yml")["jobs"][name]
        assert job["permissions"] == {"contents": "read"}
        assert "environment" not in job
        assert job["steps"][-1] == {"run": command}

    def test_both_forges_test_every_change_in_the_same_way(self) -> None:
        triggers = _read(ROOT / ".github" / "workflows" / "check.yml")[True]
        assert triggers == {"pull_request": None, "push": {"branches": ["main"]}}, "no change is left out"
        gitlab = _read(GITLAB)
        assert gitlab["check"]["script"] == [".ci/run"]
        assert gitlab["everything"]["script"] == ["make test-all"]
        for workflow, name, _ in self.JOBS:
            job = _read(ROOT / ".github" / "workflows" / f"{workflow}.yml")["jobs"][name]
            assert job["container"]["image"] == gitlab["default"]["image"]
            assert job["steps"][0]["run"] in gitlab[".checked"]["before_script"]

    @pytest.mark.parametrize(("workflow", "name", "command"), JOBS)
    def test_programs_come_back_where_they_were_and_only_as_long_as_nothing_that_decides_them_changed(
        self, workflow: str, name: str, command: str
    ) -> None:
        del command
        job = _read(ROOT / ".github" / "workflows" / f"{workflow}.yml")["jobs"][name]
        (cache,) = (step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/cache@"))
        assert cache["path"] == job["env"]["GPU_POOLS_CACHE"] == _read(GITLAB)[".checked"]["variables"]["GPU_POOLS_CACHE"]
        patterns = re.findall(r"'([^']+)'", cache["key"])
        decisive = {path for pattern in patterns for path in ROOT.glob(f"{pattern}/*" if pattern.endswith("**") else pattern)}
        for wanted in ("programs/kubernetes/go.sum", "toolchain/releases.py", "nvml/src/stubs.inc", "openstack/hashes.txt"):
            assert ROOT / "sandbox" / wanted in decisive

    def test_what_is_released_or_deployed_comes_out_of_no_cache(self) -> None:
        """A branch could fill it."""
        caching = {path.stem for path in WORKFLOWS if "actions/cache" in _called(path)}
        assert caching == {"check", "nights"}


def _azure_jobs() -> list[tuple[str, Any]]:
    """Jobs of GitHub that log in to Azure."""
    jobs = [(f"{path.stem}.{name}", job) for path in WORKFLOWS for name, job in _read(path)["jobs"].items()]
    return [(name, job) for name, job in jobs if "ARM_CLIENT_ID" in (job.get("env") or {})]


def test_who_logs_in_to_azure_gets_into_its_clusters_as_the_same_identity() -> None:
    jobs = _azure_jobs()
    assert len(jobs) == 3
    for name, job in jobs:
        env = job["env"]
        assert (env["AAD_LOGIN_METHOD"], job["permissions"]["id-token"]) == ("workloadidentity", "write"), name
        assert (env["AZURE_CLIENT_ID"], env["AZURE_TENANT_ID"]) == (env["ARM_CLIENT_ID"], env["ARM_TENANT_ID"]), name
    azure = _read(GITLAB)[".azure"]
    assert azure["variables"]["AAD_LOGIN_METHOD"] == "workloadidentity"


def test_gitlabs_token_lies_in_a_file_of_its_own_user(tmp_path: Path) -> None:
    """The very lines of the job, run: the file that kubelogin reads has the job's token, and nobody else reads it."""
    lines = [line for line in _read(GITLAB)[".azure"]["before_script"] if "AZURE_" in line]
    script = "\n".join([*lines, 'stat -c %a "$AZURE_FEDERATED_TOKEN_FILE"; cat "$AZURE_FEDERATED_TOKEN_FILE"; echo; env'])
    given = {"ARM_OIDC_TOKEN": "a-token", "ARM_CLIENT_ID": "a-client", "ARM_TENANT_ID": "a-tenant", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-euc", f"umask 0; {script}"], env={**os.environ, **given}, capture_output=True, text=True, check=True
    )
    mode, token = done.stdout.splitlines()[:2]
    assert (mode, token) == ("600", "a-token")
    assert {"AZURE_CLIENT_ID=a-client", "AZURE_TENANT_ID=a-tenant"} <= set(done.stdout.splitlines())
