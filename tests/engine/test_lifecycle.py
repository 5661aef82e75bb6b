"""The stacks of this repository as they are: they come up, stay, and go without a trace; and leak nothing meanwhile."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import stat
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.proof.smoke_test import SMOKE_TEST_NAMESPACE
from gpu_pools.proof.verifier_rights import CONDITION
from sandbox.cluster import node_tools
from sandbox.stack.engine import Engine
from sandbox.stack.inventory import KEPT_BY_HELM, inventory
from sandbox.stack.stand_ins import Attached
from sandbox.system import processes
from sandbox.system.files import read_json, write_json
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.engine.secrets_search import contents, found, keepers, needles
from tests.engine.trial import PROJECT, Run, Trial
from tests.patience import scaled
from tests.sandbox.strangers import needs_root, opened
from tests.sandbox.used_ports import KNOWN, ports_of, tried
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.sandbox.used_ports import Port

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]
ANOTHER = at_night("the same on another platform")

#: Whose annotations a node has while it is a stack's.
OURS = ("nvidia.com/", "gpu-pools/", "nfd.node.kubernetes.io/")


@dataclass
class Deployed:
    """A stack that was brought up once, and what was seen on the way."""

    trial: Trial
    first: Run
    file: str
    before: set[str]
    nodes_before: dict[str, Any]
    commands: set[str] = field(default_factory=set)
    ports: set[Port] = field(default_factory=set)


@pytest.fixture(scope="module", params=["aks-dev", *(pytest.param(one, marks=ANOTHER) for one in ("magnum-dev", "byo"))])
def deployed(request: pytest.FixtureRequest, shared_sandbox: Callable[..., Trial]) -> Deployed:
    stack: str = request.param
    trial = shared_sandbox((PROJECT / f"stacks/Pulumi.{stack}.yaml").read_text(encoding="utf-8"), stack)
    before: set[str] = set()
    nodes_before = {}
    if stack == "byo":
        # A preview needs the cluster that exists, so it is there before anything is deployed to it.
        trial.preview().ok()
        trial.wait_until(lambda: len(trial.nodes()) == 9, "the nodes of the existing cluster")
        before = inventory(trial.clusters[0] / "kubeconfig")
        nodes_before = {node["metadata"]["name"]: node for node in trial.nodes()}
    file = _digest(trial.file)
    with _seen(trial) as (commands, ports):
        first = trial.up()
    return Deployed(trial, first, file, before, nodes_before, commands, ports)


def test_up_ends_with_every_node_as_declared(deployed: Deployed) -> None:
    trial = deployed.trial
    deployed.first.ok()
    assert "instead of" not in deployed.first.out
    # Pulumi's own language host lies beside it.
    assert "warning: using" not in deployed.first.text
    seen = trial.run("status", trial.stack, "--json").ok().json()
    assert seen["troubles"] == []
    assert [pool["pool"] for pool in seen["pools"]] == [pool.name for pool in trial.plan().pools]
    for pool in seen["pools"]:
        assert pool["holds"]
        assert pool["nodes"]
        for node in pool["nodes"]:
            assert node["observed"] == pool["expected"]
            assert node["observed"]


def test_the_nodes_say_so_themselves(deployed: Deployed) -> None:
    """By the API alone, in case the table and the plan are wrong in the same way."""
    declared = {
        "aks-dev": {"timesliced": {"gpu": 4}, "mig": {"gpu": 7}, "mps": {"gpu": 10}, "whole": {"gpu": 1}},
        "magnum-dev": {"gpu-shared": {"gpu.shared": 4}, "gpu-mig": {"mig-3g.20gb": 1, "mig-2g.10gb": 2}},
        "byo": {
            "time-sliced-2": {"gpu": 2},
            "time-sliced-4": {"gpu": 4},
            "mig-single": {"mig-1g.10gb": 14},
            "mig-mixed": {"mig-1g.10gb": 4, "mig-2g.20gb": 2, "mig-3g.40gb": 2},
            "mps-2": {"gpu": 2},
            "mps-4": {"gpu": 4},
            "none": {"gpu": 1},
        },
    }
    for pool, resources in declared[deployed.trial.stack].items():
        (node,) = deployed.trial.nodes(pool)
        assert _gpu_resources(node) == {f"nvidia.com/{name}": count for name, count in resources.items()}


@pytest.mark.skipif(node_tools.obstacle() is not None, reason=f"rules stand in here: {node_tools.obstacle()}")
def test_the_verifier_on_each_of_them_says_so_too(deployed: Deployed) -> None:
    for pool in deployed.trial.plan().pools:
        for node in deployed.trial.nodes(pool.name):
            verdicts = [one for one in node["status"]["conditions"] if one["type"] == CONDITION]
            assert [(one["status"], one["reason"]) for one in verdicts] == [("True", "AsDeclared")], verdicts


def test_the_reports_of_all_nodes_are_collected(deployed: Deployed, tmp_path: Path) -> None:
    trial, ruled = deployed.trial, node_tools.obstacle() is not None
    files = [tmp_path / "evidence.json", tmp_path / "evidence.html"]
    done = trial.run("verify", trial.stack, "--json", str(files[0]), "--html", str(files[1]))
    assert done.code == (2 if ruled else 0), done.text
    evidence = json.loads(files[0].read_text())
    assert [pool["name"] for pool in evidence["pools"]] == sorted(pool.name for pool in trial.plan().pools)
    verdicts = {node["verdict"] for pool in evidence["pools"] for node in pool["nodes"]}
    assert verdicts == ({"not verified"} if ruled else {"proven"})
    assert files[1].read_text().startswith("<!DOCTYPE html>")


def test_a_user_collects_them_with_pulumi(deployed: Deployed, tmp_path: Path) -> None:
    """As against a real cloud: the outputs come from the engine, the kubeconfig from them, the nodes from the cluster."""
    trial = deployed.trial
    if trial.stack == "magnum-dev":
        pytest.skip("one cluster of ours and one that exists are enough")
    engine = Engine(trial.sandbox, find_tools(Progress(), only={"pulumi"}), Attached())
    environment = {**engine.environment(), "TMPDIR": str(tmp_path), "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "gpu_pools", "evidence", trial.stack, "--json", "-"]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False, timeout=scaled(300))
    assert done.returncode == (0 if node_tools.obstacle() is None else 2), done.stderr
    evidence = json.loads(done.stdout)
    assert [pool["name"] for pool in evidence["pools"]] == sorted(pool.name for pool in trial.plan().pools)
    assert all(pool["expectation"]["document"] and pool["nodes"] for pool in evidence["pools"])
    assert list(tmp_path.iterdir()) == []
    assert found([("what was printed", f"{done.stdout}{done.stderr}".encode())], needles(trial)) == []


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on PATH")
def test_a_user_looks_around_in_a_shell_and_runs_a_program_of_his_own(deployed: Deployed, tmp_path: Path) -> None:
    trial = deployed.trial
    if trial.stack != "aks-dev":
        pytest.skip("once is enough")
    listed = trial.run("shell", trial.stack, "kubectl", "get", "nodes", "-o", "name").ok()
    assert sorted(listed.out.split()) == sorted(f"node/{node['metadata']['name']}" for node in trial.nodes())
    assert trial.run("shell", trial.stack, "pulumi", "stack", "output", "clusterName").ok().out == "gpu-dev\n"

    (tmp_path / "Pulumi.yaml").write_text("name: own\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(
        "from pulumi_kubernetes.core.v1 import ConfigMap\nConfigMap('own', metadata={'name': 'own'}, data={'a': 'b'})\n"
    )
    steps = (
        "pulumi stack init own && pulumi up --yes --skip-preview && kubectl get configmap own && pulumi destroy --yes --remove"
    )
    trial.run("shell", trial.stack, "sh", "-ec", f"cd {tmp_path}; {steps}").ok()
    assert trial.run("shell", trial.stack, "no-such-program").code == 1


@needs_root
def test_another_user_of_the_machine_gets_nothing_at_any_port(deployed: Deployed) -> None:
    """Attack: every port that is there while the stack is deployed, and after; one without a row in the table is a finding."""
    expected = {"etcd", "kube-apiserver", "sandbox.providers"}
    if deployed.trial.stack == "magnum-dev":
        expected |= {"keystone_serve", "magnum_serve", "sandbox.openstack.catalogue"}
    assert {port.program for port in deployed.ports} - KNOWN.keys() == set()
    assert expected <= {port.program for port in deployed.ports}
    assert tried(ports_of(deployed.trial.sandbox.folder)) == {}


@needs_root
def test_another_user_of_the_machine_opens_no_file(deployed: Deployed) -> None:
    """Attack: every file and folder of the state; databases, keys, kubeconfigs, the engine's state and logs among them."""
    number, readable = opened(deployed.trial.sandbox.folder)
    assert number > 100
    assert readable == []


def test_pods_have_used_every_share_and_one_waited(deployed: Deployed) -> None:
    """The deploy waited for them; who waits for whom is seen in tests/sandbox/machines/test_verified_nodes.py."""
    trial = deployed.trial
    if not trial.plan().settings.verification.smoke_test:
        pytest.skip("this stack has no smoke test")
    used: dict[str, list[int]] = {}
    for job in trial.api().list(f"/apis/batch/v1/namespaces/{SMOKE_TEST_NAMESPACE}/jobs")["items"]:
        pool = job["spec"]["template"]["metadata"]["labels"]["gpu-pools/pool"]
        used.setdefault(pool, []).append(job["status"].get("succeeded", 0) - 1)
    assert {pool: sorted(shares) for pool, shares in used.items()} == {
        pool.name: sorted(pool.advertises.values()) for pool in trial.plan().pools
    }


def test_no_secret_in_plain_text(deployed: Deployed) -> None:
    trial = deployed.trial
    wanted, kept = needles(trial), keepers(trial)
    assert {needle.what for needle in wanted} >= {"passphrase", "kubeconfig client-key-data", "pki/ca.key"}
    # The search finds what is there to be found.
    assert found([("kubeconfig", (trial.clusters[0] / "kubeconfig").read_bytes())], wanted)
    assert found([("state", json.dumps({"x": (trial.clusters[0] / "pki/admin.key").read_text()}).encode())], wanted)

    files = [(str(path.relative_to(trial.base)), contents(path)) for path in trial.files() if path not in kept]
    assert len(files) > 30
    assert any(place.endswith(f".pulumi/stacks/gpu-pools/{trial.stack}.json") for place, _ in files)
    printed = [(run.command, run.text.encode()) for run in trial.runs]
    arguments = [("arguments of a process", command.encode()) for command in {*deployed.commands, *trial.processes().values()}]
    assert any("kube-apiserver" in text.decode() for _, text in arguments)
    assert found([*files, *printed, *arguments], wanted) == []


def test_only_the_owner_may_read_the_secrets(deployed: Deployed) -> None:
    for path in keepers(deployed.trial):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(deployed.trial.folder.stat().st_mode) == 0o700


def test_a_second_up_changes_nothing(deployed: Deployed) -> None:
    trial = deployed.trial
    uids = [node["metadata"]["uid"] for node in trial.nodes()]
    trial.engine("preview", "--expect-no-changes").ok()
    second = trial.up().ok()
    assert "unchanged" in second.out
    assert not any(word in second.out for word in ("created", "updated", "replaced", "deleted"))
    assert [node["metadata"]["uid"] for node in trial.nodes()] == uids
    assert _digest(trial.file) == deployed.file


def test_what_older_code_has_started_is_started_anew(deployed: Deployed) -> None:
    trial = deployed.trial
    if trial.stack != "aks-dev":
        pytest.skip("once is enough")
    places = {trial.sandbox.folder: {"providers"}, trial.clusters[0]: {"machines", "nfd-master"}}
    for record in (trial.sandbox.providers_record, trial.clusters[0] / "cluster.json"):
        write_json(record, {**read_json(record), "code": "an older one"})
    before = {folder: processes.running(folder) for folder in places}
    assert "unchanged" in trial.up().ok().out
    for folder, renewed in places.items():
        after = processes.running(folder)
        assert {one for one in after if after[one] != before[folder].get(one)} == renewed


def test_what_is_not_rolled_out_is_named_and_no_status_is_green_meanwhile(deployed: Deployed) -> None:
    trial = deployed.trial
    if trial.stack != "aks-dev":
        pytest.skip("once is enough; tests/sandbox/test_rollout.py has every kind")
    operator = "/apis/apps/v1/namespaces/gpu-operator/deployments/gpu-operator"
    nowhere: dict[str, Any] = {"nodeSelector": {"no-node": "has-this"}}
    trial.api().patch(operator, {"spec": {"template": {"spec": nowhere}}})
    trial.wait_until(lambda: "has-this" in str(trial.api().list("/api/v1/pods")), "the pod that fits no node")
    seen = trial.status()
    assert seen.code == 3
    assert "Deployment gpu-operator/gpu-operator: 1 of 1 pods ready, 1 of them old; not on no node (not scheduled: " in seen.out
    trial.api().patch(operator, {"spec": {"template": {"spec": {"nodeSelector": {"no-node": None}}}}})
    trial.wait_until(lambda: trial.status().code == 0, "the operator as it was")


def test_what_the_stack_did_not_make_is_named_and_kept(deployed: Deployed) -> None:
    """Also opens a look at the existing cluster between the destroy and its end."""
    trial = deployed.trial
    if trial.stack != "byo":
        pytest.skip("only a cluster that exists outlives its stack")
    kubeconfig = trial.clusters[0] / "kubeconfig"
    up = inventory(kubeconfig)
    assert {"clusterpolicies/cluster-policy", "deployments/gpu-operator/gpu-operator"} <= up - deployed.before
    maps = "/api/v1/namespaces/default/configmaps"
    trial.api().create(maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "somebody-elses"}})
    done = trial.down()
    assert done.code == 1
    assert "are left:\n  configmaps/default/somebody-elses\n" in done.err
    trial.api().delete(f"{maps}/somebody-elses")

    after = inventory(kubeconfig)
    assert deployed.before - after == set()
    assert [name for name in after - deployed.before if not name.startswith(KEPT_BY_HELM)] == []
    assert {node["metadata"]["name"] for node in trial.nodes()} == deployed.nodes_before.keys()
    for node in trial.nodes():
        _check_given_back(node, deployed.nodes_before[node["metadata"]["name"]])


def _check_given_back(node: dict[str, Any], before: dict[str, Any]) -> None:
    assert node["metadata"]["labels"] == before["metadata"]["labels"]
    assert [name for name in node["metadata"].get("annotations", {}) if name.startswith(OURS)] == []
    assert node["spec"].get("taints") == before["spec"].get("taints")
    assert not node["spec"].get("unschedulable")
    assert CONDITION not in [item["type"] for item in node["status"]["conditions"]]
    assert _gpu_resources(node) == {}


def test_destroying_empties_the_clouds(deployed: Deployed) -> None:
    trial = deployed.trial
    if trial.stack != "aks-dev":
        pytest.skip("once is enough: `down` itself looks for the same, and it is the next test")
    record = trial.folder / "cloud/azure.json"
    assert all(read_json(record)[table] for table in ("groups", "clusters", "pools"))
    trial.engine("destroy", "--yes", "--skip-preview").ok()
    assert not any(read_json(record).values())
    assert trial.clusters == []
    assert trial.exported().get("resources", []) == []


def test_down_leaves_nothing(deployed: Deployed) -> None:
    trial = deployed.trial
    assert trial.processes()
    trial.down().ok()
    assert trial.processes() == {}
    assert not trial.root.exists()
    assert _digest(trial.file) == deployed.file
    # Going down twice is not a mistake.
    trial.down().ok()


@pytest.mark.parametrize("stack", [pytest.param("aks-prod", marks=ANOTHER), "magnum-prod"])
def test_a_preview_needs_no_cloud_and_starts_no_cluster(stack: str, shared_sandbox: Callable[..., Trial]) -> None:
    """And then the stack comes up, as the three others do above."""
    trial = shared_sandbox((PROJECT / f"stacks/Pulumi.{stack}.yaml").read_text(encoding="utf-8"), stack)
    shown = trial.run("preview", stack, AZURE_CONFIG_DIR="/nonexistent", OS_CLIENT_CONFIG_FILE="/nonexistent").ok()
    assert "to create" in shown.out
    for pool in trial.plan().pools:
        assert pool.config_key in shown.out
    assert not any(word in text for text in trial.processes().values() for word in ("kube-apiserver", "etcd"))
    assert trial.clusters == []
    assert trial.exported().get("resources", []) == []
    # The command of the README, in `make shell`.
    pack = ("--policy-pack", "policies", "--policy-pack-config", "policies/levels/prod.json")
    judged = trial.run("shell", stack, "pulumi", "preview", "-s", stack, *pack).ok()
    assert "metrics-know-shares" in judged.out
    assert "encryptionsalt" not in trial.file.read_text()
    trial.down().ok()
    assert trial.processes() == {}
    assert not trial.root.exists()

    up = trial.up().ok()
    assert "warning: using" not in up.text
    for pool in trial.plan().pools:
        assert len(trial.nodes(pool.name)) == pool.pool.min_nodes


@contextlib.contextmanager
def _seen(trial: Trial) -> Iterator[tuple[set[str], set[Port]]]:
    """The arguments of every process of a trial that lives long enough to be seen by others, and the ports of all of them."""
    seen: set[str] = set()
    ports: set[Port] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.25):
            seen.update(trial.processes().values())
            ports.update(ports_of(trial.sandbox.folder))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen, ports
    finally:
        over.set()
        watcher.join()


def _gpu_resources(node: dict[str, Any]) -> dict[str, int]:
    found = node["status"]["allocatable"].items()
    return {name: int(value) for name, value in found if name.startswith("nvidia.com/") and int(value)}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
