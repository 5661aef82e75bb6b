"""What the admission policy of MPS does to pods, and what it leaves alone, tried with a real API server.

The policy is taken from docs/mps-signal.yaml, which tests/unit holds to what a stack makes.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from gpu_pools.rendering.mps_signal import APP, LEAST_KUBERNETES, RIGHT, WRONG, has_wrong_name, probe_pod
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from sandbox.cluster import control_plane as cluster
from sandbox.system import processes
from sandbox.system.patience import Patience
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.sandbox.test_verifier_rights import LONGEST_WAIT, User

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.programs

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
MANIFEST: Final = Path(__file__).resolve().parents[2] / "docs" / "mps-signal.yaml"
PODS: Final = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods"


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("mps") / "cluster"
    try:
        made = User(cluster.boot(folder, "mps", find_tools(Progress()), machines=False))
        processes.stop(made.at.folder, ["kube-controller-manager"])
        for namespace in (OPERATOR_NAMESPACE, "team"):
            made.ok("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            made("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
        kinds = {"MutatingAdmissionPolicy": "ies", "MutatingAdmissionPolicyBinding": "ybindings"}
        for one in yaml.safe_load_all(MANIFEST.read_text("utf-8")):
            made.ok("POST", f"{ADMISSION}/mutatingadmissionpolic{kinds[one['kind']]}", one)
        # The probe by which a deploy knows that the policy is in force.
        deadline = Patience(LONGEST_WAIT)
        while has_wrong_name(made.ok("POST", f"{PODS}?dryRun=All", probe_pod())):
            assert not deadline.is_over(), "the policy does not come into force"
            time.sleep(0.2)
        yield made
    finally:
        cluster.erase(folder)


def daemon_pod(name: str = WRONG, app: str = APP, variable: str = "PROCESS_TO_SIGNAL", **container: Any) -> dict[str, Any]:
    """A pod as the operator's DaemonSet makes it: two containers, several variables, one of them without a value."""
    node = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    env = [node, {"name": "SIGNAL", "value": "1"}, {"name": variable, "value": name}, {"name": "SEND_SIGNAL", "value": "true"}]
    helper = {"name": "config-manager", "image": "a:1", "env": env, **container}
    init = {"name": "config-manager-init", "image": "a:1", "env": [{"name": "PROCESS_TO_SIGNAL", "value": WRONG}]}
    spec = {"initContainers": [init], "containers": [{"name": "mps-control-daemon-ctr", "image": "a:1"}, helper]}
    return {"metadata": {"generateName": "mps-", "labels": {"app": app}}, "spec": spec}


def env_of(pod: dict[str, Any], part: str = "containers", name: str = "config-manager") -> dict[str, Any]:
    (container,) = [one for one in pod["spec"][part] if one["name"] == name]
    return {one["name"]: one.get("value", "") for one in container.get("env", ())}


def test_exactly_the_wrong_value_is_corrected(admin: User) -> None:
    sent = daemon_pod()
    made = admin.ok("POST", f"{PODS}?dryRun=All", sent)
    assert env_of(made) == {**env_of(sent), "PROCESS_TO_SIGNAL": RIGHT}
    assert env_of(made, "initContainers", "config-manager-init") == {"PROCESS_TO_SIGNAL": WRONG}, "it signals nobody"


@pytest.mark.parametrize(
    "pod",
    [
        daemon_pod(RIGHT),
        daemon_pod(""),
        daemon_pod("/usr/bin/mps-control-daemon2"),
        daemon_pod(app="nvidia-device-plugin-daemonset"),
        daemon_pod(variable="PROCESS"),
        daemon_pod(env=[]),
        daemon_pod(name=WRONG, image="b:2") | {"metadata": {"generateName": "x-", "labels": {}}},
    ],
)
def test_every_other_pod_stays_as_its_owner_made_it(admin: User, pod: dict[str, Any]) -> None:
    made = admin.ok("POST", f"{PODS}?dryRun=All", pod)
    assert env_of(made) == env_of(pod)


def test_pods_of_other_namespaces_stay_as_they_are(admin: User) -> None:
    made = admin.ok("POST", "/api/v1/namespaces/team/pods?dryRun=All", daemon_pod())
    assert has_wrong_name(made)


def test_the_server_is_one_of_the_version_that_is_documented(admin: User) -> None:
    assert admin.ok("GET", "/version")["gitVersion"].startswith(f"v{LEAST_KUBERNETES}.")
