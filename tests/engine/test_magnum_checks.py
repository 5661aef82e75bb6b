"""What a stack on Magnum needs of its cloud, asked before anything is made: the engine, a real Keystone and a real Magnum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sandbox.openstack import service
from sandbox.openstack.disturbances import Disturbances
from sandbox.openstack.identity import ADMIN
from sandbox.openstack.magnum_api import MagnumApi
from sandbox.system import processes
from sandbox.system.files import read_json, write_json
from tests.engine.secrets_search import Needle, contents, found, keepers

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Run, Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]

STACK = """
config:
  gpu-pools:cluster:
    platform: magnum
    name: small
    driver: magnum-cluster-api
    template: {image: ubuntu-24.04, externalNetwork: public, flavor: m2.large, networkDriver: calico}
    keypair: gpu-admin
    workerFlavor: m2.large
    protect: true
  gpu-pools:flavors:
    g2.5xlarge: {gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 1}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
  gpu-pools:pools:
    - {name: steady, flavor: g2.5xlarge, count: 1, sharing: shared}
"""
NOT_CHECKED = "not checked before the deploy"


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    """A stack whose cloud is there and that was never brought up."""
    made = shared_sandbox(STACK)
    assert NOT_CHECKED not in made.preview().ok().text
    service.disturb(made.sandbox.openstack, Disturbances(seconds=0))
    return made


def _with_seed(trial: Trial, run: Callable[[], Run], **changed: Any) -> Run:
    """Run something while the cloud has other things."""
    seed = read_json(trial.sandbox.openstack_seed)
    write_json(trial.sandbox.openstack_seed, {**seed, **changed})
    try:
        return run()
    finally:
        write_json(trial.sandbox.openstack_seed, seed)


def _refused(run: Run) -> list[str]:
    """The paths that were named, in their order."""
    assert run.code != 0
    assert "Traceback" not in run.text
    lines = [line.strip() for line in run.text[run.text.index("Diagnostics:") :].splitlines()]
    return [line.removeprefix("- ").partition(": ")[0] for line in lines if line.startswith("- gpu-pools:")]


# ---------------------------------------------------------------------- before it is up


def test_whatever_the_cloud_lacks_comes_out_of_the_preview_at_once(trial: Trial) -> None:
    lacks = {"images": ["ubuntu-22.04"], "networks": ["intern"], "keypairs": ["gpu-admim"], "limits": {"maxTotalInstances": 0}}
    refused = _with_seed(trial, lambda: trial.engine("preview"), **lacks)
    cluster = "gpu-pools:cluster"
    template = [f"{cluster}.template.image", f"{cluster}.template.externalNetwork"]
    assert _refused(refused) == [*template, f"{cluster}.keypair", "gpu-pools:pools"]
    assert 'no image "ubuntu-24.04"' in refused.text
    assert "allowed: ubuntu-22.04" in refused.text
    assert "Did you mean `gpu-admim`?" in refused.text
    assert "3 more machines are asked for in all, and Nova's quota leaves 0" in refused.text


def test_an_up_makes_nothing_of_a_stack_whose_cloud_lacks_something(trial: Trial) -> None:
    refused = _with_seed(trial, lambda: trial.engine("up", "--yes", "--skip-preview"), flavors={})
    places = ["gpu-pools:cluster.template.flavor", "gpu-pools:cluster.workerFlavor", "gpu-pools:pools[0].flavor"]
    assert _refused(refused) == places
    assert trial.magnum()["templates"] == []


def test_a_cluster_over_magnum_s_quota_is_refused_by_the_preview(trial: Trial) -> None:
    password = read_json(trial.sandbox.openstack / "passwords.json")["admin"]
    login = {**trial.login(), "OS_USERNAME": ADMIN, "OS_PROJECT_NAME": ADMIN, "OS_PASSWORD": password}
    administrator = MagnumApi(login)
    project = MagnumApi(trial.login()).authenticate().project_id
    administrator._call("POST", "quotas", {"project_id": project, "resource": "Cluster", "hard_limit": 0})
    try:
        assert _refused(trial.engine("preview")) == ["gpu-pools:cluster.name"]
    finally:
        administrator._call("DELETE", f"quotas/{project}/Cluster")


def test_a_cloud_that_cannot_be_asked_stops_no_preview_and_is_told_of(trial: Trial) -> None:
    processes.stop(trial.sandbox.openstack, ["keystone"])
    seen = trial.engine("preview").ok()
    assert f"{NOT_CHECKED}: anything (no login: " in seen.text
    assert "openstack:containerinfra:NodeGroup gpu-steady-group" in seen.text


# ---------------------------------------------------------------------- up


def test_no_token_and_no_credential_is_left_anywhere(trial: Trial) -> None:
    """Stacks log in with an application credential, and the check of the cloud has a token for a moment.

    Keystone, which the test before has stopped, is started again on the way.
    """
    trial.up().ok()
    assert "OS_APPLICATION_CREDENTIAL_SECRET" in trial.login()
    assert "OS_PASSWORD" not in trial.login()
    secret = read_json(trial.sandbox.openstack / "credential.json")["secret"]
    kept = keepers(trial)
    files = [(str(path), contents(path)) for path in trial.files() if path not in kept]
    said = [(run.command, run.text.encode()) for run in trial.runs] + [
        ("arguments", command.encode()) for command in trial.processes().values()
    ]
    # What Keystone's tokens begin with.
    wanted = [Needle("token", b"gAAAAAB"), Needle("application credential", secret.encode())]
    assert MagnumApi(trial.login()).authenticate().auth_token.startswith("gAAAAAB")
    assert found([*files, *said], wanted) == []


def test_what_the_cluster_uses_may_go_and_what_it_still_needs_may_not(trial: Trial) -> None:
    """A keypair belongs to one user: a colleague deploys to the same cluster without it."""
    gone: dict[str, Any] = {"keypairs": [], "networks": [], "limits": {"maxTotalInstances": 0}}
    kept = _with_seed(trial, lambda: trial.engine("preview", "--expect-no-changes"), images=[], flavors={}, **gone)
    assert NOT_CHECKED not in kept.ok().text
    trial.edit(lambda config: config["gpu-pools:pools"].append({**config["gpu-pools:pools"][0], "name": "late", "image": "new"}))
    more = _with_seed(trial, lambda: trial.engine("preview"), **gone)
    trial.edit(lambda config: config["gpu-pools:pools"].pop())
    assert _refused(more) == ["gpu-pools:pools[1].image", "gpu-pools:pools"]


def _cluster(trial: Trial) -> tuple[str, str]:
    """The ids of the cluster and of its template."""
    (cluster,) = trial.magnum()["clusters"]
    found = MagnumApi(trial.login())._call("GET", f"clusters/{cluster['uuid']}")
    return found["uuid"], found["cluster_template_id"]


def test_another_template_upgrades_the_cluster_in_place(trial: Trial) -> None:
    """From the stack's own template, which then goes, to one that the operators have made, by its name."""
    (uuid, _), groups = _cluster(trial), {group["uuid"] for group in trial.magnum()["groups"]}
    trial.edit(lambda config: config["gpu-pools:cluster"]["template"].update(labels={"kube_tag": "v1.35.0"}))
    assert "the cluster small is upgraded in place to another template (labels)." in trial.engine("preview").ok().text
    steps = {step["urn"].rpartition("::")[2]: step["op"] for step in trial.planned_steps()}
    assert (steps.pop("gpu-cluster"), set(steps)) == ("update", {"gpu-template"})

    def given(config: dict[str, Any]) -> None:
        del config["gpu-pools:cluster"]["template"]
        config["gpu-pools:cluster"]["templateId"] = "k8s-1.36"

    trial.edit(given)
    # The sandbox makes it with its next command.
    assert _refused(trial.engine("preview")) == ["gpu-pools:cluster.templateId"]
    trial.up().ok()
    (template,) = trial.magnum()["templates"]
    assert template["name"] == "k8s-1.36"
    assert _cluster(trial) == (uuid, template["uuid"])
    assert {group["uuid"] for group in trial.magnum()["groups"]} == groups
    assert trial.holds()
    trial.engine("preview", "--refresh", "--expect-no-changes").ok()


def test_a_cluster_that_would_have_to_be_made_anew_is_kept_by_the_preview(trial: Trial) -> None:
    trial.edit(lambda config: config["gpu-pools:cluster"].update(masters=3))
    refused = trial.engine("preview")
    assert refused.code != 0
    assert "protect" in refused.text
