"""Attacks on a running cluster: of whoever may make pods in it on the machine below, and of another user of that machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.proof.verifier_pods import SERVICE_ACCOUNT, VERIFIER_APP
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from gpu_pools.rendering.node_cleanup import NAME as CLEANUP
from sandbox.cluster import node_tools
from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from tests.sandbox.machines.site import Site, running
from tests.sandbox.strangers import needs_root, opened
from tests.sandbox.used_ports import ports_of, tried

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(node_tools.obstacle() is not None, reason=f"rules stand in here: {node_tools.obstacle()}"),
]

OWN, OTHER = VERIFIER_NAMESPACE, "tenant"
SETS = "/apis/apps/v1/namespaces/{}/daemonsets"
PODS = "/api/v1/namespaces/{}/pods"
REAL = f"{VERIFIER_APP}-whole"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("attacked")
    with running(folder) as here:
        put(
            folder,
            MachineGroup("gpu", "gpu", 1, Hardware(24, 220, "a100-80gb", "NVIDIA A100 80GB PCIe", 1), driver_preinstalled=True),
        )
        for namespace in (OWN, OTHER):
            here.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            for account in (SERVICE_ACCOUNT, CLEANUP, "other"):
                here.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": account}})
        here.until(lambda: here.node("gpu0")["metadata"])
        yield here


def spec(command: list[str], account: str = SERVICE_ACCOUNT) -> dict[str, Any]:
    container = {"name": "watch", "image": "any", "command": command, "terminationMessagePath": "/run/gpu-pools/termination-log"}
    return {
        "containers": [container],
        "nodeSelector": {"kubernetes.io/hostname": "gpu0"},
        "serviceAccountName": account,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
    }


def daemon_set(name: str, command: list[str], account: str = SERVICE_ACCOUNT) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": VERIFIER_APP, "set": name}
    template = {"metadata": {"labels": labels}, "spec": spec(command, account)}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


@pytest.fixture(scope="module")
def real(site: Site, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A DaemonSet as the verifier's is; its program runs."""
    proof = tmp_path_factory.mktemp("real") / "ran"
    made = site.api.create(SETS.format(OWN), daemon_set(REAL, ["sh", "-c", f"touch {proof}; exec sleep 3600"]))
    site.until(proof.exists)
    return made


def pod(
    name: str, command: list[str], labels: dict[str, str], owner: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    owners = {"ownerReferences": [owner]} if owner else {}
    return {"metadata": {"name": name, "labels": labels, **owners}, "spec": {**spec(command), "nodeName": "gpu0", **more}}


def words(site: Site, namespace: str, name: str) -> str:
    """Why a pod's containers wait; empty while nobody says."""
    found = site.api.get(f"{PODS.format(namespace)}/{name}") or {}
    statuses = (found.get("status") or {}).get("containerStatuses") or [{}]
    return str(((statuses[0].get("state") or {}).get("waiting") or {}).get("message", ""))


def refused(site: Site, namespace: str, name: str, proof: Path, because: str) -> None:
    site.until(lambda: words(site, namespace, name))
    assert "its programs are not run" in words(site, namespace, name)
    assert because in words(site, namespace, name)
    assert not proof.exists()


def gone_or_refused(site: Site, namespace: str, name: str, proof: Path) -> None:
    """Controllers take a pod away, or its owner's name off it, whose owner has not made it; whoever is first, it never ran."""
    site.until(lambda: words(site, namespace, name) or site.api.get(f"{PODS.format(namespace)}/{name}") is None)
    assert not proof.exists()


VERIFIERS = {"app.kubernetes.io/name": VERIFIER_APP}


def test_a_tenants_pod_carries_the_verifiers_label(site: Site, tmp_path: Path) -> None:
    """Review 1: a pod of any namespace with the verifier's label has its command run as root."""
    site.api.create(PODS.format(OTHER), pod("labelled", ["touch", str(tmp_path / "root")], VERIFIERS))
    refused(site, OTHER, "labelled", tmp_path / "root", f"its namespace is {OTHER}")


def test_a_pod_in_the_verifiers_namespace_is_made_by_nobody(site: Site, tmp_path: Path) -> None:
    """Who may make pods beside the verifiers uses their label and their account."""
    site.api.create(PODS.format(OWN), pod("beside", ["touch", str(tmp_path / "root")], VERIFIERS))
    refused(site, OWN, "beside", tmp_path / "root", "it is of no DaemonSet")


def test_a_pod_names_the_verifiers_daemon_set_as_its_owner(site: Site, real: dict[str, Any], tmp_path: Path) -> None:
    """An owner reference is written by whoever makes the pod; the program is another one."""
    owner = {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": REAL, "uid": real["metadata"]["uid"], "controller": True,
    }  # fmt: skip
    labels = {**VERIFIERS, "set": "another"}
    site.api.create(PODS.format(OWN), pod("forged", ["touch", str(tmp_path / "root")], labels, owner))
    gone_or_refused(site, OWN, "forged", tmp_path / "root")


def test_a_pod_names_a_daemon_set_that_is_not_there(site: Site, tmp_path: Path) -> None:
    """An owner that nobody has made."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": f"{VERIFIER_APP}-x", "uid": "0", "controller": True}
    site.api.create(PODS.format(OWN), pod("orphan", ["touch", str(tmp_path / "root")], VERIFIERS, owner))
    gone_or_refused(site, OWN, "orphan", tmp_path / "root")


@pytest.mark.parametrize(
    ("namespace", "name", "account", "because"),
    [
        (OTHER, f"{VERIFIER_APP}-there", SERVICE_ACCOUNT, f"its namespace is {OTHER}"),
        (OWN, f"{VERIFIER_APP}-account", "other", "its service account is other"),
        (OWN, "something-else", SERVICE_ACCOUNT, "it is of no DaemonSet"),
    ],
)
def test_a_daemon_set_looks_like_the_verifiers(
    site: Site, tmp_path: Path, namespace: str, name: str, account: str, because: str
) -> None:
    """A whole DaemonSet with the verifier's label, in another namespace, with another account, of another name."""
    site.api.create(SETS.format(namespace), daemon_set(name, ["touch", str(tmp_path / "root")], account))

    def made() -> list[str]:
        pods = site.api.list(PODS.format(namespace))["items"]
        return [one["metadata"]["name"] for one in pods if one["metadata"]["name"].startswith(f"{name}-")]

    site.until(made)
    refused(site, namespace, made()[0], tmp_path / "root", because)


def test_a_tenants_pod_carries_the_label_of_the_clean_up(site: Site, tmp_path: Path) -> None:
    """The clean-up's program runs beside the daemon, on no machine at all: by label, in any namespace, whatever it was."""
    command = ["python3", "-c", f"open({str(tmp_path / 'root')!r}, 'w')"]
    labels = {"app.kubernetes.io/name": CLEANUP}
    site.api.create(PODS.format(OTHER), pod("cleanup", command, labels, serviceAccountName=CLEANUP))
    refused(site, OTHER, "cleanup", tmp_path / "root", "it is of no Job")


@pytest.mark.parametrize("program", ["nfd-master", "nfd-worker"])
def test_a_tenants_pod_calls_itself_nfd(program: str, site: Site, tmp_path: Path) -> None:
    """Both are started with the arguments of their pods, nfd-master with the administrator's kubeconfig as well."""
    command = [program, f"-log_file={tmp_path / 'root'}", "-logtostderr=false"]
    site.api.create(PODS.format(OTHER), pod(program, command, {}))
    refused(site, OTHER, program, tmp_path / "root", "no DaemonSet, ReplicaSet, Job has made it")


def test_a_changed_daemon_sets_older_pod_goes_on_after_the_daemon_starts_anew(site: Site, tmp_path: Path) -> None:
    """What it was made from is kept as a revision: nothing that worked stops."""
    proof = tmp_path / "ran"
    wanted = daemon_set(f"{VERIFIER_APP}-kept", ["sh", "-c", f"touch {proof}; exec sleep 3600"])
    wanted["spec"]["updateStrategy"] = {"type": "OnDelete"}
    site.api.create(SETS.format(OWN), wanted)
    site.until(proof.exists)
    wanted["spec"]["template"]["spec"]["containers"][0]["command"] = ["sleep", "3600"]
    site.api.patch(f"{SETS.format(OWN)}/{VERIFIER_APP}-kept", {"spec": wanted["spec"]})
    proof.unlink()
    site.kill_daemon()
    site.boot()
    site.until(proof.exists)


@needs_root
def test_a_stranger_tries_every_port_of_a_cluster(site: Site) -> None:
    """Every port that belongs to a cluster, known or not, tried as another user: none says anything."""
    found = ports_of(site.folder)
    assert {port.program for port in found} >= {"etcd", "kube-apiserver"}
    assert tried(found) == {}


@needs_root
def test_a_stranger_reads_the_files_of_a_cluster(site: Site, real: dict[str, Any]) -> None:
    """Keys, kubeconfig, what the pods' volumes hold, logs: each path of the state, opened as another user."""
    assert real
    number, readable = opened(site.folder)
    assert number > 50
    assert readable == []
