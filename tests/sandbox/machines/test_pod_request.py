"""What of a pod's spec is understood where its containers really run; the rest is refused in words."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from gpu_pools.proof.verifier_pods import verifier_daemon_set_spec
from gpu_pools.proof.verifier_start import start_command
from sandbox.machines.pod_request import Mount, PodRequest, Probe, config_map_files, pod_request
from sandbox.system.errors import SandboxError
from tests.unit.stacks import aks, plan_of

SHA256 = "5" * 64
SERVICE = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


def request(container: dict[str, Any] | None = None, **spec: Any) -> PodRequest:
    good = {"name": "main", "command": ["run"], "terminationMessagePath": "/run/words"}
    pod = {
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {"nodeName": "node-1", "containers": [{**good, **(container or {})}], **spec},
    }
    return pod_request(pod, 0, {}, SERVICE)


def test_variables_and_arguments() -> None:
    env = [
        {"name": "PLAIN", "value": "a"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "BOTH", "value": "$(PLAIN)-$(NODE)-$(UNKNOWN)"},
    ]
    (main,) = request({"env": env, "args": ["--at", "$(NODE):$(KUBERNETES_SERVICE_PORT)"]}).mains
    assert main.environment == {**SERVICE, "PLAIN": "a", "NODE": "node-1", "BOTH": "a-node-1-$(UNKNOWN)"}
    assert main.command == ("run", "--at", "node-1:6443")


def test_mounts_are_below_run() -> None:
    volumes = [
        {"name": "c", "configMap": {"name": "x"}},
        {"name": "h", "hostPath": {"path": "/srv"}},
        {"name": "t", "projected": {}},
    ]
    mounts = [
        {"name": "c", "mountPath": "/run/c/"},
        {"name": "h", "mountPath": "/run/h"},
        {"name": "t", "mountPath": "/var/run/secrets"},
    ]
    (main,) = request({"volumeMounts": mounts}, volumes=volumes).mains
    assert main.mounts == (Mount("c", "/run/c"), Mount("h", "/run/h", "/srv"), Mount("t", "/run/secrets"))


def test_a_readiness_probe() -> None:
    get = {"httpGet": {"path": "/readyz", "port": 9409}, "periodSeconds": 3, "timeoutSeconds": 2}
    (main,) = request({"readinessProbe": get}).mains
    assert main.probe == Probe(9409, "/readyz", 3.0, 2.0)


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"command": []}, "its command must be given"),
        ({"envFrom": [{}]}, "envFrom"),
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {}}}]}, "variable A from secretKeyRef"),
        ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]}, "the field status.hostIP"),
        ({"volumeMounts": [{"name": "e", "mountPath": "/etc/x"}]}, "the path /etc/x"),
        ({"volumeMounts": [{"name": "e", "mountPath": "/run/x", "subPath": "y"}]}, "subPath"),
        ({"volumeMounts": [{"name": "s", "mountPath": "/run/x"}]}, "volume s"),
        ({"readinessProbe": {"exec": {"command": ["true"]}}}, "a readiness probe"),
        ({"readinessProbe": {"httpGet": {"port": "http"}}}, "a readiness probe"),
        ({"terminationMessagePath": "/dev/termination-log"}, "the path /dev/termination-log"),
    ],
)
def test_what_is_not_understood_is_refused(container: dict[str, Any], words: str) -> None:
    volumes = [{"name": "e", "configMap": {"name": "x"}}, {"name": "s", "secret": {"secretName": "x"}}]
    with pytest.raises(SandboxError, match=words):
        request(container, volumes=volumes)


def test_files_of_a_config_map() -> None:
    data = {"data": {"a": "text"}, "binaryData": {"b": base64.b64encode(b"\0\1").decode()}}
    assert config_map_files({"name": "x"}, data) == {"a": b"text", "b": b"\0\1"}
    assert config_map_files({"name": "x", "items": [{"key": "a", "path": "c"}]}, data) == {"c": b"text"}
    assert config_map_files({"name": "x"}, {}) == {}


@pytest.mark.parametrize("sharing", [{"exclusive": {}}, {"mps": {"replicas": 4}}, {"mig": {"layout": {"1g.10gb": 7}}}])
def test_the_verifiers_pods_are_understood(sharing: dict[str, Any]) -> None:
    plan = plan_of(aks(sharing={"declared": sharing}))
    spec = verifier_daemon_set_spec(plan, plan.pools[0], "program", SHA256)["template"]["spec"]
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {}}, "spec": {**spec, "nodeName": "node-1"}}
    made = pod_request(pod, 0, {}, SERVICE)
    (init,), (main,) = made.inits, made.mains
    started = (*start_command("/run/gpu-pools/program/verifier.pyz", SHA256, init.message_path), "assert")
    assert init.command[: len(started)] == started
    assert main.command[-1] == f"{made.address}:9409"
    assert main.environment["NODE_NAME"] == "node-1"
