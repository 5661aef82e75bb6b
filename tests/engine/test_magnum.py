"""What a real Magnum teaches a stack: what it refuses, loses, drops and forgets, and what the next run makes of it.

And what the stack asks of its cloud before anything is made: that is switched off but in the tests that are of it, since what it
refuses never comes to Magnum. The tests share one stack and run in the order they are written: it is refused until nothing is
wrong any more, then it is up, and things happen to it.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.openstack import service
from sandbox.openstack.disturbances import Disturbances
from sandbox.openstack.identity import ADMIN
from sandbox.openstack.login import DOMAIN
from sandbox.openstack.magnum_api import MagnumApi
from sandbox.system import processes
from sandbox.system.files import read_json, write_json
from tests.engine.secrets_search import Needle, contents, found, keepers
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.engine.trial import Run, Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep, at_night("test_platforms.py has one of it")]

STACK = """
config:
  gpu-pools:cluster:
    platform: magnum
    name: small
    driver: magnum-cluster-api
    template: {image: ubuntu-24.04, externalNetwork: public, flavor: m2.large, networkDriver: calico, labels: {kube_tag: v1.36.3}}
    keypair: gpu-admin
    workerFlavor: m2.large
    checkCloud: false
  gpu-pools:flavors:
    g2.5xlarge: {gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 1}
    g2.10xlarge: {gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 2}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
  gpu-pools:pools:
    - {name: steady, flavor: g2.5xlarge, count: 2, sharing: shared}
    - {name: grows, flavor: g2.5xlarge, nodes: {min: 1, max: 4}, sharing: shared}
"""
POOLS = {"steady", "grows"}
DEFAULT = {"default-master", "default-worker"}
NOT_CHECKED = "not checked before the deploy"


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    """A stack whose cloud is there and that was never brought up."""
    made = shared_sandbox(STACK)
    made.preview().ok()
    return made


@pytest.fixture
def checked(trial: Trial) -> Iterator[None]:
    """The stack asks its cloud before anything is made."""
    trial.edit(lambda config: config["gpu-pools:cluster"].pop("checkCloud"))
    yield
    trial.edit(lambda config: config["gpu-pools:cluster"].update(checkCloud=False))


def _up(trial: Trial) -> Run:
    """The engine alone: nothing of the sandbox sees to the cloud before."""
    return trial.engine("up", "--yes", "--skip-preview")


def _groups(trial: Trial) -> dict[str, dict[str, Any]]:
    return {group["name"]: group for group in trial.magnum()["groups"]}


def _cluster(trial: Trial) -> str:
    (cluster,) = trial.magnum()["clusters"]
    return str(cluster["uuid"])


def _administrator(trial: Trial) -> MagnumApi:
    password = read_json(trial.sandbox.openstack / "passwords.json")["admin"]
    domains = {"OS_USER_DOMAIN_ID": DOMAIN, "OS_PROJECT_DOMAIN_ID": DOMAIN}
    own = {"OS_USERNAME": ADMIN, "OS_PROJECT_NAME": ADMIN, "OS_PASSWORD": password}
    return MagnumApi({"OS_AUTH_URL": trial.login()["OS_AUTH_URL"], **own, **domains})


@contextmanager
def _no_cluster_allowed(trial: Trial) -> Iterator[None]:
    """Magnum's quota of clusters is used up."""
    administrator, project = _administrator(trial), MagnumApi(trial.login()).authenticate().project_id
    administrator._call("POST", "quotas", {"project_id": project, "resource": "Cluster", "hard_limit": 0})
    try:
        yield
    finally:
        administrator._call("DELETE", f"quotas/{project}/Cluster")


@contextmanager
def _seeded(trial: Trial, **changed: Any) -> Iterator[None]:
    """The cloud has other things."""
    seed = read_json(trial.sandbox.openstack_seed)
    write_json(trial.sandbox.openstack_seed, {**seed, **changed})
    try:
        yield
    finally:
        write_json(trial.sandbox.openstack_seed, seed)


def _disturb(trial: Trial, **what: Any) -> None:
    service.disturb(trial.sandbox.openstack, Disturbances(**what))


# ---------------------------------------------------------------------- before it is up: what the stack asks


def _named(refused: Run) -> list[str]:
    """The paths that were named, in their order."""
    assert refused.code != 0
    assert "Traceback" not in refused.text
    lines = [line.strip() for line in refused.text[refused.text.index("Diagnostics:") :].splitlines()]
    return [line.removeprefix("- ").partition(": ")[0] for line in lines if line.startswith("- gpu-pools:")]


@pytest.mark.usefixtures("checked")
class TestAskedBeforeAnythingIsMade:
    def test_whatever_the_cloud_lacks_comes_out_of_the_preview_at_once(self, trial: Trial) -> None:
        assert NOT_CHECKED not in trial.engine("preview").ok().text
        lacks = {
            "images": ["ubuntu-22.04"],
            "networks": ["intern"],
            "keypairs": ["gpu-admim"],
            "limits": {"maxTotalInstances": 0},
        }
        with _seeded(trial, **lacks):
            refused = trial.engine("preview")
        cluster = "gpu-pools:cluster"
        template = [f"{cluster}.template.image", f"{cluster}.template.externalNetwork"]
        assert _named(refused) == [*template, f"{cluster}.keypair", "gpu-pools:pools"]
        assert 'no image "ubuntu-24.04"' in refused.text
        assert "allowed: ubuntu-22.04" in refused.text
        assert "Did you mean `gpu-admim`?" in refused.text
        assert "5 more machines are asked for in all, and Nova's quota leaves 0" in refused.text

    def test_an_up_makes_nothing_of_a_stack_whose_cloud_lacks_something(self, trial: Trial) -> None:
        with _seeded(trial, flavors={}):
            refused = _up(trial)
        cluster = ["gpu-pools:cluster.template.flavor", "gpu-pools:cluster.workerFlavor"]
        assert _named(refused) == [*cluster, "gpu-pools:pools[0].flavor", "gpu-pools:pools[1].flavor"]
        assert trial.magnum()["templates"] == []

    def test_a_cluster_over_magnum_s_quota_is_refused_by_the_preview(self, trial: Trial) -> None:
        with _no_cluster_allowed(trial):
            assert _named(trial.engine("preview")) == ["gpu-pools:cluster.name"]

    def test_a_cloud_that_cannot_be_asked_stops_no_preview_and_is_told_of(self, trial: Trial) -> None:
        processes.stop(trial.sandbox.openstack, ["keystone"])
        seen = trial.engine("preview").ok()
        assert f"{NOT_CHECKED}: anything (no login: " in seen.text
        assert "openstack:containerinfra:NodeGroup gpu-steady-group" in seen.text
        # The sandbox's own command starts it again.
        assert NOT_CHECKED not in trial.preview().ok().text


# ---------------------------------------------------------------------- before it is up: what Magnum refuses


@pytest.mark.parametrize(
    ("missing", "resource", "text"),
    [
        ("images", "openstack:containerinfra:ClusterTemplate (gpu-template)", "Image ubuntu-24.04 could not be found."),
        ("networks", "openstack:containerinfra:ClusterTemplate (gpu-template)", "Unable to find external network public."),
        ("flavors", "openstack:containerinfra:ClusterTemplate (gpu-template)", "Unable to find flavor m2.large."),
        ("keypairs", "openstack:containerinfra:Cluster (gpu-cluster)", "Unable to find keypair gpu-admin."),
    ],
)
def test_what_the_cloud_does_not_have_is_named_at_its_resource(trial: Trial, missing: str, resource: str, text: str) -> None:
    with _seeded(trial, **{missing: {} if missing == "flavors" else []}):
        _check_refused(_up(trial), resource, text)


def test_a_cluster_over_the_quota_is_refused_at_the_cluster(trial: Trial) -> None:
    with _no_cluster_allowed(trial):
        refused = _up(trial)
    _check_refused(
        refused, "openstack:containerinfra:Cluster (gpu-cluster)", "You have reached the maximum clusters per project, 0."
    )


def _check_refused(run: Run, resource: str, text: str) -> None:
    assert run.code != 0
    assert text in run.text
    told = run.text[run.text.index("Diagnostics:") :]
    assert told.index(resource) < told.index(text)
    assert "Traceback" not in run.text


@pytest.mark.usefixtures("checked")
def test_up_goes_on_where_it_was_refused(trial: Trial) -> None:
    assert len(trial.magnum()["templates"]) == 1, "what was made before the refusal is kept"
    _disturb(trial, seconds=0)
    trial.up().ok()
    assert trial.holds()
    assert len(trial.magnum()["templates"]) == 1
    assert set(_groups(trial)) == POOLS | DEFAULT


# ---------------------------------------------------------------------- up


def test_no_token_and_no_credential_is_left_anywhere(trial: Trial) -> None:
    """Stacks log in with an application credential, and the check of the cloud has a token for a moment."""
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


@pytest.mark.usefixtures("checked")
def test_what_the_cluster_uses_may_go_and_what_it_still_needs_may_not(trial: Trial) -> None:
    """A keypair belongs to one user: a colleague deploys to the same cluster without it."""
    gone: dict[str, Any] = {"keypairs": [], "networks": [], "limits": {"maxTotalInstances": 0}}
    with _seeded(trial, images=[], flavors={}, **gone):
        assert NOT_CHECKED not in trial.engine("preview", "--expect-no-changes").ok().text
    trial.edit(lambda config: config["gpu-pools:pools"].append({**config["gpu-pools:pools"][0], "name": "late", "image": "new"}))
    with _seeded(trial, **gone):
        more = trial.engine("preview")
    trial.edit(lambda config: config["gpu-pools:pools"].pop())
    assert _named(more) == ["gpu-pools:pools[2].image", "gpu-pools:pools"]


def test_the_real_client_lists_the_pools_of_the_stack(trial: Trial) -> None:
    done = trial.run("openstack", trial.stack, "coe", "nodegroup", "list", "small", "-f", "json").ok()
    listed = {group["name"]: (group["flavor_id"], group["node_count"]) for group in done.json()}
    declared = {pool.name: (pool.pool.placement.flavor, pool.pool.min_nodes) for pool in trial.plan().pools}
    assert {name: group for name, group in listed.items() if name not in DEFAULT} == declared


def test_a_fixed_pool_is_resized_by_its_count(trial: Trial) -> None:
    uuid = _groups(trial)["steady"]["uuid"]
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(count=3))
    trial.up().ok()
    assert len(trial.nodes("steady")) == 3
    assert (_groups(trial)["steady"]["uuid"], _groups(trial)["steady"]["node_count"]) == (uuid, 3)


def test_a_refused_update_is_not_taken_for_done(trial: Trial) -> None:
    """The plugin keeps in the state what Magnum has refused: who looks at the cloud sees that it is not so."""
    trial.edit(lambda config: config["gpu-pools:pools"][1].update(nodes={"min": 2, "max": 4}))
    refused = trial.up()
    assert refused.code == 1
    _check_refused(refused, "openstack:containerinfra:NodeGroup (gpu-grows-group)", "min_node_count for grows is invalid")
    shown = trial.engine("preview", "--refresh", "--json").ok().json()["steps"]
    (step,) = (step for step in shown if "gpu-grows-group" in step["urn"] and step["op"] == "update")
    assert step["oldState"]["outputs"]["minNodeCount"] == 1
    # As Magnum wants it: first the nodes, then the limit.
    trial.scale("grows", 2).ok()
    trial.up().ok()
    assert _groups(trial)["grows"]["node_count"] == 2
    api = MagnumApi(trial.login())
    assert api._call("GET", f"clusters/{_cluster(trial)}/nodegroups/grows")["min_node_count"] == 2


def test_a_group_that_was_resized_or_deleted_outside_comes_back(trial: Trial) -> None:
    api, cluster = MagnumApi(trial.login()), _cluster(trial)
    steady, grows = (_groups(trial)[name]["uuid"] for name in ("steady", "grows"))
    api.update_group(f"{cluster}/{steady}", limits={}, node_count=1)
    api.delete_group(f"{cluster}/{grows}")
    drift = trial.engine("preview", "--refresh", "--diff").ok()
    assert "gpu-steady-group" in drift.out
    assert "gpu-grows-group" in drift.out
    trial.up().ok()
    assert trial.holds()
    groups = _groups(trial)
    assert set(groups) == POOLS | DEFAULT
    assert (groups["steady"]["uuid"], groups["steady"]["node_count"]) == (steady, 3)
    assert groups["grows"]["uuid"] != grows


def test_what_magnum_cannot_change_is_made_anew(trial: Trial) -> None:
    """A group is deleted first, since its name is unique; a template is made first, and the cluster moves to it (an upgrade)."""
    before, cluster, old_nodes = _groups(trial), _cluster(trial), {node["metadata"]["name"] for node in trial.nodes()}

    def change(config: dict[str, Any]) -> None:
        steady, grows = config["gpu-pools:pools"]
        steady.update(flavor="g2.10xlarge", count=1)
        grows.update(nodeGroupLabels={"boot_volume_size": "50"})
        config["gpu-pools:cluster"]["template"].update(image="ubuntu-24.10")
        config["gpu-pools:cluster"].update(protect=True)
        config["gpu-pools:verification"] = {"intervalSeconds": 30}

    trial.edit(change)
    done = trial.up().ok()
    for name in ("gpu-steady-group", "gpu-grows-group"):
        assert done.out.index(f"{name} deleted original") < done.out.index(f"{name} creating replacement")
    assert done.out.index("gpu-template created replacement") < done.out.index("gpu-template deleting original")

    groups = _groups(trial)
    assert set(groups) == POOLS | DEFAULT
    assert {name for name in groups if groups[name]["uuid"] != before[name]["uuid"]} == POOLS
    assert _cluster(trial) == cluster
    (template,) = trial.magnum()["templates"]
    assert MagnumApi(trial.login())._call("GET", f"clusters/{cluster}")["cluster_template_id"] == template["uuid"]
    assert (template["image_id"], groups["default-worker"]["image_id"]) == ("ubuntu-24.10", "ubuntu-24.10")

    pools = {node["metadata"]["name"] for pool in POOLS for node in trial.nodes(pool)}
    assert len(pools) == 3
    assert not pools & old_nodes
    trial.run("verify", trial.stack).ok()
    nodes = {node["metadata"]["name"] for node in trial.nodes()}
    bound = lambda: {pod["spec"].get("nodeName") for pod in trial.api().list("/api/v1/pods")["items"]} - {None}  # noqa: E731
    trial.wait_until(lambda: bound() <= nodes, "no pod is left on a node that is gone")


def test_a_changed_label_of_a_protected_cluster_is_refused_by_the_preview(trial: Trial) -> None:
    trial.edit(lambda config: config["gpu-pools:cluster"].update(labels={"auto_scaling_enabled": "true"}))
    refused = trial.engine("preview")
    trial.edit(lambda config: config["gpu-pools:cluster"].pop("labels"))
    assert refused.code != 0
    assert "protect" in refused.text


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (("--lose", "lat", "steady"), "small has no lat that could be lost.\nChoose of steady, grows."),
        (("--fail", "default-worker"), "small has no default-worker that could fail.\nChoose of small, steady, grows."),
        (("--seconds", "nan"), "Nothing can take nan seconds.\nWrite 0 or more."),
        (
            ("--seconds", "-1", "--lose", "lat", "--fail", "lat"),
            """small has no lat that could fail.
Choose of small, steady, grows.
small has no lat that could be lost.
Choose of steady, grows.
Nothing can take -1 seconds.
Write 0 or more.""",
        ),
    ],
)
def test_what_cannot_go_wrong_on_purpose_is_refused(trial: Trial, wanted: tuple[str, ...], told: str) -> None:
    before = read_json(trial.sandbox.openstack / "driver.json")
    refused = trial.run("disturb", trial.stack, *wanted)
    assert refused.code == 1
    assert told in refused.err
    assert read_json(trial.sandbox.openstack / "driver.json") == before


def test_a_group_that_the_driver_loses_is_made_by_the_next_run(trial: Trial) -> None:
    trial.edit(lambda config: config["gpu-pools:pools"].append({**config["gpu-pools:pools"][0], "name": "late"}))
    trial.run("disturb", trial.stack, "--seconds", "0", "--lose", "late").ok()
    lost = _up(trial)
    _check_refused(lost, "openstack:containerinfra:NodeGroup (gpu-late-group)", "unexpected state 'DELETE_COMPLETE'")
    _disturb(trial, seconds=0)
    trial.up().ok()
    assert trial.holds()
    assert set(_groups(trial)) == POOLS | DEFAULT | {"late"}


def test_an_operation_that_the_conductor_drops_is_shown_by_the_next_preview(trial: Trial) -> None:
    """Magnum answers 202 to a change of the cluster while a group is made, and only its log says that nothing comes of it."""
    log = trial.sandbox.openstack / "logs" / "magnum.log"
    api, cluster, said = MagnumApi(trial.login()), _cluster(trial), len(log.read_text())
    trial.edit(lambda config: config["gpu-pools:cluster"].update(workers=2))
    _disturb(trial, seconds=300)
    api._call("POST", f"clusters/{cluster}/nodegroups", {"name": "outside", "flavor_id": "m2.large", "node_count": 1})
    with ThreadPoolExecutor() as pool:
        update = pool.submit(_up, trial)
        try:
            trial.wait_until(lambda: "Updating a cluster when status is" in log.read_text()[said:], "the operation is dropped")
        finally:
            _disturb(trial, seconds=0)
        update.result().ok()
    assert _groups(trial)["default-worker"]["node_count"] == 1
    assert [step["op"] for step in trial.planned_steps() if "Cluster::" in step["urn"]] == ["update"]
    # This driver does not implement the request of the plugin; only a resize brings what the next run takes for done (W83).
    trial.run("openstack", trial.stack, "coe", "cluster", "resize", "small", "2").ok()
    trial.wait_until(lambda: trial.magnum()["clusters"][0]["status"] == "UPDATE_COMPLETE", "the end of the resize")
    trial.up().ok()
    assert _groups(trial)["default-worker"]["node_count"] == 2
    assert "outside" not in _groups(trial), "what no stack knows is taken away in the sandbox"


@pytest.mark.usefixtures("checked")
class TestAnotherTemplate:
    def test_it_upgrades_the_cluster_in_place(self, trial: Trial) -> None:
        """From the stack's own template, which then goes, to one that the operators have made, by its name."""
        cluster, groups = _cluster(trial), {group["uuid"] for group in trial.magnum()["groups"]}
        trial.edit(lambda config: config["gpu-pools:cluster"]["template"].update(labels={"kube_tag": "v1.37.0"}))
        told = "the cluster small is upgraded in place to another template (labels)."
        assert told in trial.engine("preview").ok().text
        steps = {step["urn"].rpartition("::")[2]: step["op"] for step in trial.planned_steps()}
        assert (steps.pop("gpu-cluster"), set(steps)) == ("update", {"gpu-template"})

        def given(config: dict[str, Any]) -> None:
            del config["gpu-pools:cluster"]["template"]
            config["gpu-pools:cluster"]["templateId"] = "k8s-1.36"

        trial.edit(given)
        # The sandbox makes it with its next command.
        assert _named(trial.engine("preview")) == ["gpu-pools:cluster.templateId"]
        trial.up().ok()
        (template,) = trial.magnum()["templates"]
        assert template["name"] == "k8s-1.36"
        made = MagnumApi(trial.login())._call("GET", f"clusters/{_cluster(trial)}")
        assert (made["uuid"], made["cluster_template_id"]) == (cluster, template["uuid"])
        assert {group["uuid"] for group in trial.magnum()["groups"]} == groups
        assert trial.holds()
        trial.engine("preview", "--refresh", "--expect-no-changes").ok()

    def test_a_cluster_that_would_have_to_be_made_anew_is_kept_by_the_preview(self, trial: Trial) -> None:
        trial.edit(lambda config: config["gpu-pools:cluster"].update(masters=3))
        refused = trial.engine("preview")
        trial.edit(lambda config: config["gpu-pools:cluster"].pop("masters"))
        assert refused.code != 0
        assert "protect" in refused.text


def test_a_part_of_openstack_that_died_is_named_and_started_again(trial: Trial) -> None:
    os.killpg(processes.running(trial.sandbox.openstack)["magnum"].pid, signal.SIGKILL)
    trial.wait_until(lambda: "magnum" not in processes.running(trial.sandbox.openstack), "the end of Magnum")
    seen = trial.status()
    assert seen.code == 1
    assert "not running any more: magnum" in seen.err
    trial.preview().ok()
    trial.status().ok()
    assert set(_groups(trial)) == POOLS | DEFAULT | {"late"}


def test_down_leaves_nothing(trial: Trial) -> None:
    """It asks Magnum itself what is left."""
    trial.down().ok()
    assert not trial.root.exists()
    assert trial.processes() == {}
