"""The Secret to pull with: in each namespace where the stack's pods run, before them, and never in clear."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pulumi

from gpu_pools.components.platform import GpuPlatform
from gpu_pools.components.proof.verification import Verifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]

STACK: Any = {
    "cluster": {
        "platform": "aks",
        "name": "a",
        "location": "westeurope",
        "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
    },
    "sharing": {"whole": {"exclusive": {}}},
    "pools": [{"name": "nb", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "whole"}],
    "verification": {"smokeTest": True},
}
REGISTRY: Any = {"mirror": "registry.example.com/all", "username": "robot", "password": "hunter2"}
NAMESPACES = {"gpu-operator", "node-feature-discovery", "gpu-pools-verifier", "gpu-pools-smoke-test"}


def test_each_namespace_has_it_before_its_pods(run: Run) -> None:
    recorded = run(lambda: GpuPlatform("gpu", {**STACK, "registry": REGISTRY}))
    secrets = recorded.of("core/v1:Secret")
    assert {one.inputs["metadata"]["namespace"] for one in secrets} == NAMESPACES
    assert {one.inputs["type"] for one in secrets} == {"kubernetes.io/dockerconfigjson"}
    # What the operator's release and the waits depend on.
    assert "gpu-operator-pull-secret" in recorded.depends_on("gpu-operator-device-plugin")
    assert "gpu-operator-device-plugin" in recorded.depends_on("gpu-operator-release")
    assert "gpu-nfd-pull-secret" in recorded.depends_on("gpu-nfd-release")


def test_it_is_a_secret_of_the_engine_s(run: Run) -> None:
    recorded = run(lambda: GpuPlatform("gpu", {**STACK, "registry": REGISTRY}))
    (secret,) = [one for one in recorded.of("core/v1:Secret") if one.name == "gpu-operator-pull-secret"]
    assert recorded.is_secret(secret.name, "data")
    others = "".join(str(request) for request in recorded.requests.values() if not request.type.endswith("core/v1:Secret"))
    assert "hunter2" not in others
    assert base64.b64encode(b"robot:hunter2").decode() not in others


def test_the_password_may_be_an_output(run: Run) -> None:
    def program() -> None:
        made = pulumi.CustomResource("test:index:Robot", "robot", {})
        Verifier("v", {"registry": {**REGISTRY, "password": pulumi.Output.secret(made.id)}})

    recorded = run(program)
    data = recorded.one("core/v1:Secret").inputs["data"]
    text = base64.b64decode(data.get("value", data)[".dockerconfigjson"] if "value" in data else data[".dockerconfigjson"])
    assert json.loads(text)["auths"]["registry.example.com"]["password"] == "robot-id"  # noqa: S105
    assert "robot" in recorded.depends_on("v-pull-secret")


def test_without_a_user_there_is_none(run: Run) -> None:
    named = {"mirror": "registry.example.com/all", "pullSecret": "regcred"}
    recorded = run(lambda: GpuPlatform("gpu", {**STACK, "registry": named}))
    assert recorded.of("core/v1:Secret") == []
