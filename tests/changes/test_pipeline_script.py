"""The script that jobs judge a change with: real git, real reports; a stand-in for the engine, which needs a cloud."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.api_server import ApiServer, Refusal, kubeconfig
from tests.patience import scaled

from .stacks import BEFORE, PRICES, after, pods

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PREVIEWS = Path(__file__).parent / "previews"
SECRET = "very-secret-token"  # noqa: S105
#: A preview, or the outputs of the stack: whichever it is asked for.
PULUMI = """\
#!/bin/sh
here=$(dirname "$0")
echo "$@" >>"$here/asked"
case "$1" in preview) cat "$here/preview.jsonl"; exit 1 ;; *) cat "$here/outputs.json" ;; esac
"""


class Checkout:
    """A repository in which the VM size of a pool is changed, and the programs around it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        self.programs = folder / "programs"
        self.scratch = folder / "scratch"
        for one in (self.folder / "stacks", self.programs, self.scratch):
            one.mkdir(parents=True)
        self.file = self.folder / "stacks" / "Pulumi.shop.yaml"
        self.file.write_text(BEFORE)
        for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "before"]):
            identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
            subprocess.run(["git", *identity, *command], cwd=self.folder, check=True)
        self.file.write_text(after("vm-size"))
        python = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
        for name, text in (("pulumi", PULUMI), ("python", python)):
            path = self.programs / name
            path.write_text(text)
            path.chmod(0o755)
        (self.programs / "preview.jsonl").write_text((PREVIEWS / "vm-size.jsonl").read_text())
        self.server = ApiServer()
        reached = kubeconfig(self.server.server_address[1], user={"token": SECRET})
        (self.programs / "outputs.json").write_text(json.dumps({"kubeconfig": reached}))

    def run(self, listed: dict[str, Any]) -> None:
        """Have these pods run."""
        self.server.items["pods"] = listed["items"]

    def change(self, **variables: str) -> subprocess.CompletedProcess[str]:
        around = {
            **os.environ,
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RUNNER_TEMP": str(self.scratch),
            "STACK": "shop",
            "LEVELS": "levels.json",
            "BEFORE": "HEAD",
            **variables,
        }
        done = subprocess.run(
            [ROOT / ".ci" / "change", "--json", "change.json"],
            cwd=self.folder,
            env=around,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert SECRET not in done.stdout + done.stderr
        assert list(self.scratch.iterdir()) == []
        return done


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(tmp_path)
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_change_is_judged_with_pods_prices_and_limits_where_there_are_any(checkout: Checkout) -> None:
    checkout.run(json.loads(pods()))
    (checkout.folder / "the prices.yaml").write_text(PRICES)
    done = checkout.change(PRICES="the prices.yaml", MAX_MORE_GPUS="1", MAX_MORE_COST="100")
    assert done.returncode == 1, done.stderr
    told = json.loads((checkout.folder / "change.json").read_text())
    assert [one["who"] for one in told["affected"]] == ["pod ml/finetune-kb2x8"]
    assert "the change adds up to 2 GPUs; allowed: 1" in told["blocked"]
    assert "the change adds up to 5840 EUR a month; allowed: 100" in told["blocked"]
    assert "Running pods were looked at" in done.stdout
    assert checkout.server.headers[0]["authorization"] == f"Bearer {SECRET}"


def test_a_cluster_that_does_not_answer_is_told_and_stops_nothing_by_itself(checkout: Checkout) -> None:
    checkout.server.items["pods"] = Refusal(503, "no leader")
    done = checkout.change()
    assert done.returncode == 1
    told = json.loads((checkout.folder / "change.json").read_text())
    assert told["runningPods"]["lookedAt"] is False
    assert [one.split(",")[0] for one in told["blocked"]] == ["the pool train is replaced"]
    assert "Running pods were not looked at: the cluster cannot be asked" in done.stdout
    assert "no leader" in done.stderr


def test_the_plan_that_is_kept_is_of_the_preview_that_is_judged(checkout: Checkout) -> None:
    checkout.change(PLAN="plan.json")
    previews = [line for line in (checkout.programs / "asked").read_text().splitlines() if line.startswith("preview ")]
    assert len(previews) == 1
    assert previews[0].endswith("--save-plan plan.json")


def test_a_stack_without_a_kubeconfig_is_told_too(checkout: Checkout) -> None:
    (checkout.programs / "outputs.json").write_text("{}")
    assert "Running pods were not looked at" in checkout.change().stdout


def test_of_pods_only_what_counts_gets_out(checkout: Checkout) -> None:
    listed = json.loads(pods())
    listed["items"][2]["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": SECRET}]
    checkout.run(listed)
    around = {**os.environ, "PATH": f"{checkout.programs}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "gpu_pools.evidence.pods", "shop"]
    done = subprocess.run(command, cwd=ROOT, env=around, capture_output=True, text=True, check=False, timeout=scaled(60))
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout
    assert [one["metadata"]["name"] for one in json.loads(done.stdout)["items"]] == [
        one["metadata"]["name"] for one in listed["items"]
    ]


def test_a_stack_file_that_was_not_there_is_compared_with_nothing(checkout: Checkout) -> None:
    checkout.file.rename(checkout.file.with_name("Pulumi.new.yaml"))
    done = checkout.change(STACK="new")
    told = json.loads((checkout.folder / "change.json").read_text())
    assert [one["before"] for one in told["pools"]] == [None] * 3
    assert "HEAD has no stacks/Pulumi.new.yaml: everything is new" in done.stderr


def test_the_first_push_of_a_branch_is_compared_with_nothing(checkout: Checkout) -> None:
    assert "there was nothing before" in checkout.change(BEFORE="0" * 40).stderr
    assert [one["before"] for one in json.loads((checkout.folder / "change.json").read_text())["pools"]] == [None] * 3


@pytest.mark.parametrize("revision", ["mian", "", "1" * 40])
def test_a_revision_that_there_is_not_is_an_error_and_nothing_is_judged(checkout: Checkout, revision: str) -> None:
    done = checkout.change(BEFORE=revision)
    assert done.returncode == 2
    assert f'there is no revision "{revision}" here' in done.stderr
    assert not (checkout.folder / "change.json").exists()


@pytest.mark.parametrize("wanted", [True, False])
def test_what_a_deploy_leaves_for_previews_holds_no_secret(checkout: Checkout, wanted: bool) -> None:  # noqa: FBT001
    """Whoever may read the artifact looks for a kubeconfig, or a pod's environment; a public repository's holds no pod."""
    listed = json.loads(pods())
    listed["items"][0]["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": SECRET}]
    checkout.run(listed)
    around = {
        **os.environ,
        "PATH": f"{checkout.programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RUNNER_TEMP": str(checkout.scratch),
        "STACK": "shop",
        "LEAVE_PODS": str(wanted).lower(),
    }
    subprocess.run([ROOT / ".ci" / "left", "left"], cwd=checkout.folder, env=around, check=True, timeout=scaled(60))
    left = {path.name: path.read_text() for path in (checkout.folder / "left").iterdir()}
    assert set(left) == ({"commit", "pods.json"} if wanted else {"commit"})
    assert len(left["commit"].strip()) == 40
    assert not any(SECRET in text or "clusters:" in text for text in left.values())
    assert list(checkout.scratch.iterdir()) == []
