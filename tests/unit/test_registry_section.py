"""A registry of one's own: names in the mirror, values of the charts, pods that name the Secret, and a password nowhere else."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.images.placed import placed_images
from gpu_pools.plan.change_ids import cluster_use
from gpu_pools.plan.document import plan_json
from gpu_pools.plan.placing import labeller_daemon_set_spec
from gpu_pools.proof.key_wait import key_wait_spec, keys_left_spec
from gpu_pools.proof.smoke_test import smoke_tests
from gpu_pools.proof.verifier_pods import Changer, verifier_daemon_set_spec
from gpu_pools.rendering.node_leaving import hook_objects
from gpu_pools.rendering.registry import docker_config
from gpu_pools.stack.charts import VERSIONS, check_values
from gpu_pools.stack.registry import RegistrySettings
from gpu_pools.text.errors import Problems
from tests.unit.stacks import aks, existing, plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MIRROR: Any = {"mirror": "registry.example.com:5000/all"}
USER: Any = {**MIRROR, "username": "robot", "password": "hunter2"}
PROVEN: Any = {"smokeTest": True}


@pytest.mark.parametrize(
    ("image", "there"),
    [
        ("nvcr.io/nvidia/k8s/cuda-sample@sha256:" + "1" * 64, "nvidia/k8s/cuda-sample@sha256:" + "1" * 64),
        ("busybox:1.37", "library/busybox:1.37"),
        ("registry.k8s.io/nfd/node-feature-discovery", "nfd/node-feature-discovery"),
    ],
)
def test_an_image_keeps_its_path_tag_and_digest(image: str, there: str) -> None:
    assert RegistrySettings(mirror="registry.example.com/all").mirrored(image) == f"registry.example.com/all/{there}"
    assert RegistrySettings().mirrored(image) == image


@pytest.mark.parametrize("version", VERSIONS["gpu-operator"])
def test_each_repository_of_the_charts_is_moved_and_each_pod_of_theirs_names_the_secret(version: str) -> None:
    plan = plan_of(aks(operator={"version": version}, registry=USER))
    problems = Problems()
    check_values(plan.operator_values, "gpu-operator", version, "v", problems)
    check_values(plan.nfd_values, "node-feature-discovery", VERSIONS["node-feature-discovery"][0], "v", problems)
    assert not problems.found
    moved = [*_repositories(plan.operator_values), *_repositories(plan.nfd_values)]
    assert len(moved) > 10
    assert [one for one in moved if not one.startswith("registry.example.com:5000/all/")] == []
    # What the operator's own operands need, by the names that its ClusterPolicy takes.
    for operand in ("operator", "driver", "toolkit", "devicePlugin", "gfd", "migManager", "dcgmExporter", "validator"):
        assert plan.operator_values[operand]["imagePullSecrets"] == ["gpu-pools-registry"]
    assert plan.nfd_values["imagePullSecrets"] == [{"name": "gpu-pools-registry"}]


def _repositories(values: Any) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _repositories(value)
        elif key == "repository":
            yield value


def test_what_a_stack_file_says_of_a_chart_goes_before_the_mirror() -> None:
    written: Any = {"values": {"driver": {"repository": "registry.example.com/drivers"}}}
    plan = plan_of(aks(operator=written, registry=MIRROR))
    assert plan.operator_values["driver"]["repository"] == "registry.example.com/drivers"
    assert "imagePullSecrets" not in plan.operator_values["driver"]


def _pods(stack: str) -> list[dict[str, Any]]:
    """The specs of all pods of a stack's own."""
    plan = plan_of(stack)
    (pool,) = plan.pools
    image = plan.settings.nfd.labeller_image
    specs = [
        labeller_daemon_set_spec(pool, {}, [], image),
        key_wait_spec(plan, image),
        keys_left_spec(plan, image),
        verifier_daemon_set_spec(plan, pool, "p", "0", changer=Changer("c", "1")),
        *(test.spec for test in smoke_tests(plan, pool)),
        *(one["spec"] for one in hook_objects(plan.settings) if one["kind"] == "Job"),
    ]
    return [spec["template"]["spec"] for spec in specs]


def test_each_pod_of_the_stack_comes_from_the_mirror_and_names_the_secret() -> None:
    pods = _pods(existing(verification=PROVEN, registry=USER))
    assert len(pods) == 8
    for pod in pods:
        assert pod["imagePullSecrets"] == [{"name": "gpu-pools-registry"}]
        containers = [*pod["containers"], *pod.get("initContainers", [])]
        assert [one["image"] for one in containers if not one["image"].startswith("registry.example.com:5000/all/")] == []
    assert [pod for pod in _pods(existing(verification=PROVEN)) if "imagePullSecrets" in pod] == []


def test_an_image_that_the_stack_file_names_stays() -> None:
    plan = plan_of(existing(nodeFeatureDiscovery={"markerImage": "own.example.com/sh:1"}, registry=MIRROR))
    assert plan.settings.nfd.labeller_image == "own.example.com/sh:1"
    assert {one.text.partition("/")[0] for one in placed_images(plan.settings)} == {
        "own.example.com",
        "registry.example.com:5000",
    }


def test_a_secret_that_is_there_is_named_alone() -> None:
    plan = plan_of(aks(registry={**MIRROR, "pullSecret": "regcred"}))
    assert plan.operator_values["toolkit"]["imagePullSecrets"] == ["regcred"]
    assert plan.settings.registry.username is None


def test_the_password_is_in_no_document_and_no_text() -> None:
    plan = plan_of(existing(verification=PROVEN, registry=USER))
    said = json.dumps([plan_json(plan), plan.operator_values, plan.nfd_values], default=str) + repr(plan)
    assert "hunter2" not in said
    assert base64.b64encode(b"robot:hunter2").decode() not in said


def test_the_secret_is_what_kubelets_read() -> None:
    document = json.loads(docker_config("registry.example.com:5000", "robot", "hunter2"))
    (entry,) = document["auths"].values()
    assert base64.b64decode(entry["auth"]) == b"robot:hunter2"


def test_a_kubeconfig_in_a_stack_file_is_in_no_document_and_no_id() -> None:
    one, other = (plan_of(existing(cluster={"kubeconfigContent": text})) for text in ("token: hunter2", "token: hunter3"))
    assert "hunter2" not in json.dumps([plan_json(one), one.operator_values], default=str)
    assert (one.change, cluster_use(one)) == (other.change, cluster_use(other))
