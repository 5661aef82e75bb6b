"""The smoke test of a pool: which Jobs there are, what their pods ask for, and what they find out."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.proof.smoke_test import smoke_tests, why_not
from gpu_pools.stack.kubernetes_names import qualified_name
from tests.patience import scaled
from tests.unit.stacks import T4, aks, existing, magnum, plan_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_pools.proof.smoke_test import SmokeTest

LONGEST_HOST_NAME = 63
WHOLE = "GPU 0: NVIDIA A100 80GB PCIe (UUID: GPU-1)\n"
INSTANCE = "  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n"


def jobs_of(stack: str) -> tuple[SmokeTest, ...]:
    plan = plan_of(stack)
    return smoke_tests(plan, plan.pools[0])


def pod_of(stack: str) -> Any:
    (test, *_) = jobs_of(stack)
    return test.spec["template"]["spec"]


def declared(sharing: dict[str, Any], **pool: Any) -> str:
    return existing({"gpuModel": "a100-80gb", **pool}, sharing={"declared": sharing})


def counts(stack: str) -> dict[str, tuple[int, int]]:
    return {test.resource: (test.spec["completions"], test.spec["parallelism"]) for test in jobs_of(stack)}


class TestJobs:
    @pytest.mark.parametrize(
        ("sharing", "gpus", "expected"),
        [
            ({"exclusive": {}}, 2, {"gpu": 3}),
            ({"timeSlicing": {"replicas": 4}}, 1, {"gpu": 5}),
            ({"timeSlicing": {"replicas": 4, "renameByDefault": True}}, 2, {"gpu.shared": 9}),
            ({"mps": {"replicas": 10}}, 1, {"gpu": 11}),
            ({"mig": {"layout": {"1g.10gb": 7}}}, 1, {"gpu": 8}),
            ({"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}}, 2, {"mig-2g.20gb": 5, "mig-3g.40gb": 3}),
        ],
    )
    def test_one_pod_more_than_a_node_has_shares_for_each_resource(self, sharing: Any, gpus: int, expected: Any) -> None:
        found = counts(declared(sharing, gpusPerNode=gpus))
        assert found == {f"nvidia.com/{name}": (count, count) for name, count in expected.items()}

    def test_every_pod_asks_for_exactly_one(self) -> None:
        for test in jobs_of(declared({"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}}, gpusPerNode=2)):
            (container,) = test.spec["template"]["spec"]["containers"]
            extended = {name: count for name, count in container["resources"]["limits"].items() if "/" in name}
            assert extended == {test.resource: "1"}

    def test_a_job_comes_to_an_end(self) -> None:
        (test,) = jobs_of(aks())
        assert test.spec["activeDeadlineSeconds"] > 0
        assert test.spec["backoffLimit"] >= 0
        # What is gone from the cluster but not from Pulumi's state would be made again by each refresh.
        assert "ttlSecondsAfterFinished" not in test.spec

    def test_a_pool_that_may_have_no_node_has_none_and_says_so(self) -> None:
        plan = plan_of(aks({"count": ..., "nodes": {"min": 0, "max": 3}}))
        assert smoke_tests(plan, plan.pools[0]) == ()
        assert "may have no node" in why_not(plan.pools[0])
        assert why_not(plan_of(aks()).pools[0]) == ""


class TestNames:
    def test_what_is_the_same_has_the_same_name(self) -> None:
        assert jobs_of(aks()) == jobs_of(aks())

    def test_another_declaration_is_another_job_although_the_node_offers_the_same(self) -> None:
        ways: list[Any] = [{"timeSlicing": {"replicas": 7}}, {"mps": {"replicas": 7}}, {"mig": {"layout": {"1g.10gb": 7}}}]
        jobs = [jobs_of(declared(way)) for way in ways]
        assert {test.resource for (test,) in jobs} == {"nvidia.com/gpu"}
        assert len({test.name for (test,) in jobs}) == len(ways)

    @given(st.from_regex(r"[a-z][-a-z0-9]{0,38}[a-z0-9]", fullmatch=True), st.integers(2, 1000))
    def test_pods_have_host_names_and_labels_that_kubernetes_takes(self, pool: str, replicas: int) -> None:
        (test,) = jobs_of(declared({"timeSlicing": {"replicas": replicas}}, name=pool))
        assert len(f"{test.name}-{replicas}") <= LONGEST_HOST_NAME
        assert all(qualified_name(key) for key in test.spec["template"]["metadata"]["labels"])

    def test_a_pool_without_mig_is_known_by_its_way_of_sharing_alone(self) -> None:
        plan = plan_of(aks({"vmSize": T4}))
        (test,) = smoke_tests(plan, plan.pools[0])
        assert plan.pools[0].mig_config_key is None
        assert test.spec["template"]["metadata"]["annotations"] == {"gpu-pools/declaration": plan.pools[0].config_key}


class TestPods:
    @pytest.mark.parametrize(
        ("stack", "selector"),
        [
            (aks(), {"kubernetes.azure.com/agentpool": "gpu"}),
            (magnum(), {"magnum.openstack.org/nodegroup": "gpu"}),
            (existing({"nodeSelector": {"zone": "b"}}), {"zone": "b"}),
        ],
    )
    def test_they_run_on_the_pools_nodes_only(self, stack: str, selector: dict[str, str]) -> None:
        assert pod_of(stack)["nodeSelector"] == selector

    def test_they_tolerate_the_pools_taints_and_no_others(self) -> None:
        stack = aks({"taints": ["example.com/team=a:NoExecute"]})
        assert pod_of(stack)["tolerations"] == [{"key": "example.com/team", "operator": "Exists", "effect": "NoExecute"}]

    def test_all_of_a_job_go_to_one_node_and_to_nobody_elses(self) -> None:
        tests = jobs_of(declared({"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}}))
        chosen = []
        for test in tests:
            template = test.spec["template"]
            (term,) = template["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            assert term["topologyKey"] == "kubernetes.io/hostname"
            assert term["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
            chosen.append(tuple(term["labelSelector"]["matchLabels"].items()))
        assert len(set(chosen)) == len(tests)

    def test_they_are_users_pods_without_rights(self) -> None:
        for sharing in ({"timeSlicing": {"replicas": 4}}, {"mps": {"replicas": 4}}, {"mig": {"layout": {"1g.10gb": 7}}}):
            pod = pod_of(declared(sharing))
            assert pod["automountServiceAccountToken"] is False
            assert not {"runtimeClassName", "volumes", "hostPID", "hostIPC", "hostNetwork"} & set(pod)
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            (container,) = pod["containers"]
            assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
            user = pod["securityContext"]
            # An MPS server serves one user at a time.
            if "mps" in sharing:
                assert user["runAsUser"] == 0
            else:
                assert user["runAsNonRoot"]
                assert user["runAsUser"] > 0

    def test_the_image_can_be_chosen(self) -> None:
        chosen = aks(verification={"smokeTestImage": "registry.example.com/vectoradd:1"})
        assert pod_of(chosen)["containers"][0]["image"] == "registry.example.com/vectoradd:1"
        assert pod_of(aks())["containers"][0]["image"].startswith("nvcr.io/nvidia/k8s/cuda-sample@sha256:")


class TestScript:
    """The pods' own script, with an nvidia-smi and a vectorAdd that answer as they are told."""

    def run(self, folder: Path, stack: str, listed: str, *, smi: int = 0, computes: int = 0) -> subprocess.CompletedProcess[str]:
        for name, text in {
            "nvidia-smi": f"printf '%s' '{listed}'; exit {smi}",
            "vectorAdd": f"echo 'Test PASSED?'; exit {computes}",
            "sleep": "echo slept $1",
        }.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
        (container,) = pod_of(stack)["containers"]
        (shell, flag, script) = container["command"]
        assert "/cuda-samples/sample" in script
        own = {entry["name"]: entry["value"] for entry in container["env"]}
        return subprocess.run(
            [shell, flag, script.replace("/cuda-samples/sample", f"{folder}/vectorAdd")],
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **own},
            capture_output=True,
            text=True,
            check=False,
            timeout=scaled(60),
        )

    WHOLE_GPUS = existing()
    INSTANCES = declared({"mig": {"layout": {"1g.10gb": 7}}})

    @pytest.mark.parametrize(("stack", "listed"), [(WHOLE_GPUS, WHOLE), (INSTANCES, WHOLE + INSTANCE)])
    def test_it_ends_well_where_it_sees_one_share_and_can_compute(self, tmp_path: Path, stack: str, listed: str) -> None:
        done = self.run(tmp_path, stack, listed)
        assert (done.returncode, "slept 5" in done.stdout) == (0, True), done

    @pytest.mark.parametrize(
        ("stack", "listed", "says"),
        [
            (WHOLE_GPUS, "", "sees 0 GPUs and 0 MIG instances instead of 1 and 0"),
            (WHOLE_GPUS, WHOLE * 2, "sees 2 GPUs and 0"),
            (WHOLE_GPUS, WHOLE + INSTANCE, "sees 1 GPUs and 1 MIG instances instead of 1 and 0"),
            (INSTANCES, WHOLE, "sees 1 GPUs and 0 MIG instances instead of 1 and 1"),
            (INSTANCES, WHOLE + INSTANCE * 2, "sees 1 GPUs and 2"),
        ],
    )
    def test_it_fails_where_it_sees_anything_else(self, tmp_path: Path, stack: str, listed: str, says: str) -> None:
        done = self.run(tmp_path, stack, listed)
        assert (done.returncode, says in done.stdout) == (1, True), done

    def test_it_fails_without_a_driver_and_where_nothing_can_be_computed(self, tmp_path: Path) -> None:
        for wrong in ({"smi": 9}, {"computes": 1}):
            assert self.run(tmp_path, self.WHOLE_GPUS, WHOLE, **wrong).returncode == 1


@pytest.mark.parametrize("sliced", [{}, {"timeSlicing": {"replicas": 2, "renameByDefault": True}}])
def test_whole_gpus_beside_partitioned_ones_are_no_instances(sliced: dict[str, Any]) -> None:
    half = {"mig": {"gpus": [{"index": 0, "layout": {}}, {"index": 1, "layout": {"1g.10gb": 7}}], **sliced}}
    found = {}
    for test in jobs_of(declared(half, gpusPerNode=2)):
        (container,) = test.spec["template"]["spec"]["containers"]
        found[test.short_resource.removesuffix(".shared")] = container["env"][0]["value"]
    assert found == {"gpu": "0", "mig-1g.10gb": "1"}
