"""The component that installs NVIDIA's DRA driver, and what GpuPlatform and the verifiers have of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.components.gpu_operator.dra_driver import DraDriver
from gpu_pools.components.proof.verification import Verifier
from gpu_pools.text.errors import InvalidStackError
from tests.unit.stacks import existing, plan_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_pools.plan.planned import Plan

    from .conftest import Recorder

    Run = Callable[..., Recorder]

H100 = {"gpuModel": "h100-80gb", "gpusPerNode": 2}


def claims(**sharing: Any) -> Plan:
    pools = [{"name": name, **H100, "nodeSelector": {"p": name}, "sharing": name} for name in sharing]
    return plan_of(existing(pools=pools, sharing=sharing, cluster={"allocation": "dra"}))


def test_the_chart_the_classes_and_a_daemon_set_for_each_number_of_shares(run: Run) -> None:
    plan = claims(
        whole={"exclusive": {}}, four={"timeSlicing": {"replicas": 4}}, cut={"mig": {"layout": {"1g.10gb": 3, "2g.20gb": 2}}}
    )
    made = run(lambda: DraDriver("claims", {}, planned=plan))
    release = made.one("Release").inputs
    assert release["chart"] == "oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu"
    assert (release["version"], release["namespace"]) == ("0.5.0", "dra-driver-nvidia-gpu")
    classes = {one.inputs["metadata"]["name"]: one.inputs["spec"]["extendedResourceName"] for one in made.of("DeviceClass")}
    assert classes == {
        "gpu-pools-mig-1g.10gb": "nvidia.com/mig-1g.10gb",
        "gpu-pools-mig-2g.20gb": "nvidia.com/mig-2g.20gb",
    }
    assert [one.inputs["metadata"]["name"] for one in made.of("DaemonSet")] == ["dra-driver-nvidia-gpu-kubelet-plugin-shares-4"]
    # The release makes the account with which these run.
    assert any("claims-release" in urn for urn in made.depends_on("claims-shares-4"))
    assert made.one("Namespace").inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def test_without_a_pool_with_claims_it_is_refused(run: Run) -> None:
    with pytest.raises(InvalidStackError, match="no pool says `allocation: dra`"):
        run(lambda: DraDriver("claims", {}, planned=plan_of(existing(H100))))


@pytest.mark.parametrize("with_claims", [True, False])
def test_verifiers_may_read_devices_only_where_there_are_claims(run: Run, with_claims: bool) -> None:  # noqa: FBT001
    made = run(lambda: Verifier("v", {"claims": True} if with_claims else {}))
    (rules,) = [one.inputs["rules"] for one in made.of("ClusterRole") if one.name == "v-role"]
    slices = [rule for rule in rules if "resourceslices" in rule["resources"]]
    assert slices == (
        [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]}] if with_claims else []
    )
    namespaces = {one.inputs["metadata"].get("namespace") for one in made.of("Role")}
    assert ("dra-driver-nvidia-gpu" in namespaces) is with_claims
