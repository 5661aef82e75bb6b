"""The smoke tests as they are registered: which Jobs, after what, and how long the engine waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.platform import GpuPlatform
from gpu_pools.components.proof.smoke_test import SharingSmokeTest
from gpu_pools.text.errors import InvalidStackError

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]

MIXED = {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}}
CONFIG: dict[str, Any] = {
    "cluster": {"platform": "existing", "context": "byo"},
    "sharing": {"slices": {"timeSlicing": {"replicas": 4}}, "parts": MIXED},
    "pools": [
        {"name": "a", "nodeSelector": {"p": "a"}, "gpuModel": "NVIDIA A10", "gpusPerNode": 1, "sharing": "slices"},
        {"name": "b", "nodeSelector": {"p": "b"}, "gpuModel": "a100-80gb", "gpusPerNode": 1, "sharing": "parts"},
        {
            "name": "c",
            "nodeSelector": {"p": "c"},
            "gpuModel": "NVIDIA A10",
            "gpusPerNode": 1,
            "sharing": "slices",
            "nodes": {"min": 0, "max": 2},
        },
    ],
    "verification": {"smokeTest": True},
}


@pytest.fixture
def deploy(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Recorder]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))

    def deploy(**changes: Any) -> Recorder:
        settings: Any = {**CONFIG, **changes}
        return run(lambda: GpuPlatform("gpu", settings))

    return deploy


def _once_named(recorded: Recorder, name: str) -> str:
    """The name that a Job has in stacks of earlier versions, which keep it."""
    (alias,) = recorded.options(name).aliases
    return str(alias.spec.name)


def _job_of_a(recorded: Recorder) -> str:
    (name,) = [one.name for one in recorded.of(":Job") if one.name.startswith("gpu-a-")]
    return name


def test_each_resource_of_each_pool_that_has_a_node_is_used(deploy: Callable[..., Recorder]) -> None:
    recorded = deploy()
    jobs = {_once_named(recorded, one.name): one.inputs for one in recorded.of(":Job")}
    assert {name: job["spec"]["completions"] for name, job in jobs.items()} == {
        "gpu-a-smoke-test-gpu": 5,
        "gpu-b-smoke-test-mig-2g.20gb": 3,
        "gpu-b-smoke-test-mig-3g.40gb": 2,
    }
    namespace = recorded.one("Namespace", "gpu-smoke-test-namespace").inputs["metadata"]
    assert namespace["labels"] == {"pod-security.kubernetes.io/enforce": "baseline"}
    for job in jobs.values():
        assert job["metadata"]["namespace"] == namespace["name"]


def test_a_pool_is_used_after_its_nodes_were_verified(deploy: Callable[..., Recorder]) -> None:
    recorded = deploy()
    assert {"gpu-a-verification-verifier", "gpu-smoke-test-namespace"} <= recorded.depends_on(_job_of_a(recorded))
    assert "gpu-b-verification-verifier" not in recorded.depends_on(_job_of_a(recorded))


def test_the_engine_waits_longer_than_the_job_and_makes_a_failed_one_anew(deploy: Callable[..., Recorder]) -> None:
    recorded = deploy()
    job = recorded.one(":Job", _job_of_a(recorded)).inputs
    limit = recorded.options(_job_of_a(recorded)).customTimeouts.create
    assert int(limit.removesuffix("s")) > job["spec"]["activeDeadlineSeconds"]
    assert job["metadata"]["annotations"] == {"pulumi.com/replaceUnready": "true"}


def test_another_test_is_another_resource(deploy: Callable[..., Recorder]) -> None:
    """A fixed name for changing objects ends in `already exists` after a failure: the old one waits for its deletion."""
    recorded = deploy()
    for job in recorded.of(":Job"):
        assert job.name.endswith(f"-smoke-test-{job.inputs['metadata']['name']}")
        assert recorded.options(job.name).deleteBeforeReplace


@pytest.mark.parametrize("verification", [{}, {"smokeTest": False}, {"smokeTest": True, "enabled": False}])
def test_there_are_none_unless_they_are_asked_for(deploy: Callable[..., Recorder], verification: Any) -> None:
    recorded = deploy(verification=verification)
    assert not [one.name for one in recorded.resources if "smoke" in one.name]


def test_alone_it_takes_sections_of_a_stack_file(run: Run) -> None:
    seen: dict[str, Any] = {}

    def program() -> None:
        config = {key: CONFIG[key] for key in ("cluster", "sharing", "pools")}
        for pool in ("b", "c"):
            test = SharingSmokeTest(pool, {"pool": pool, "namespace": "mine", "config": config})
            outputs = pulumi.Output.all(test.jobs, test.pods, test.skipped)
            outputs.apply(lambda values, pool=pool: seen.update({pool: values}))

    recorded = run(program)
    jobs = {
        f"nvidia.com/{_once_named(recorded, one.name).removeprefix('b-')}": one.inputs["metadata"]["name"]
        for one in recorded.of(":Job")
    }
    assert seen["b"] == [jobs, {"nvidia.com/mig-2g.20gb": 3, "nvidia.com/mig-3g.40gb": 2}, ""]
    assert {one.inputs["metadata"]["namespace"] for one in recorded.of(":Job")} == {"mine"}
    assert seen["c"][:2] == [{}, {}]
    assert "may have no node" in seen["c"][2]


def test_a_pool_that_is_not_planned_is_refused(run: Run) -> None:
    def program() -> None:
        config = {key: CONFIG[key] for key in ("cluster", "sharing", "pools")}
        with pytest.raises(InvalidStackError, match='"d" is not a pool of the plan'):
            SharingSmokeTest("d", {"pool": "d", "namespace": "mine", "config": config})

    assert run(program).resources == []
