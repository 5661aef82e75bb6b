"""A sharing mode is one module: an invented one passes through everything, without a change anywhere else.

The invented mode divides each GPU into lanes, which the device plugin serves as time slices. What is tested is that every
part of the project takes what it needs from the mode's own class: the plan, the preview, the policies, the expectation of a node,
the verifier's comparison, and evidence.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from gpu_pools.changes.pools import pool_changes
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.evidence.verdicts import Verdict as Judged
from gpu_pools.plan.document import plan_json, plan_table
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.reading.fields import row, whole_number
from gpu_pools.sharing.mode import PoolUse, Replicated, Sharing
from gpu_pools.sharing.modes import MODES
from gpu_pools.text.errors import InvalidStackError, Problems
from gpu_pools.verifier.compare_gpus import compare_gpus
from gpu_pools.verifier.compare_node import compare_node
from gpu_pools.verifier.expectation import parse_expectation
from gpu_pools.verifier.findings import Findings, Verdict
from gpu_pools.verifier.node import ConfigReading
from tests.evidence import fleets
from tests.verifier import nodes

from .conftest import KUBECONFIG
from .test_policies import _breaks_nothing, _described

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpu_pools.plan.planned import Plan

    from .conftest import Recorder


@dataclass(frozen=True)
class Lanes(Replicated):
    """Each pod has a lane of a GPU."""

    strategy: ClassVar[str] = "lanes"
    title: ClassVar[str] = "lanes"
    plugin_key: ClassVar[str] = "timeSlicing"
    node_label: ClassVar[str] = "time-slicing"
    most_replicas: ClassVar[int] = 8
    measured_pods: ClassVar[str] = "a lane has meters of its own."
    limits_memory: ClassVar[bool] = False

    replicas: int = row("How many lanes a GPU has.", whole_number(2, most_replicas, "A GPU has 2 to 8 lanes."), 0, needed=True)

    def slug(self) -> str:
        return f"lanes-{self.replicas}"

    def check(self, use: PoolUse, problems: Problems) -> list[str]:
        if use.hardware.model.key == "t4-16gb":
            problems.add(f"{use.path}.lanes", "a T4 has no lanes", allowed="a newer GPU", remedy="Choose another mode.")
        return ["lanes are invented"]

    def changed_to(self, after: Sharing, *, reloaded: bool) -> Iterator[str]:
        if reloaded and after.strategy == self.strategy:
            yield "lanes are repainted"


@pytest.fixture(autouse=True)
def invented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODES, "lanes", Lanes)


def sections(replicas: int = 3, model: str = "a100-80gb", **more: Any) -> dict[str, Any]:
    pool = {"name": "gpu", "nodeSelector": {"pool": "gpu"}, "gpuModel": model, "gpusPerNode": 2, "sharing": "shared", **more}
    return {
        "cluster": {"platform": "existing", "context": "byo"},
        "sharing": {"shared": {"lanes": {"replicas": replicas}, "needs": {"memoryPerReplica": "20Gi"}}},
        "verification": {},
        "observability": {"to": "kube-prometheus-stack"},
        "pools": [pool],
    }


def planned(operator: Any = None, **options: Any) -> Plan:
    return plan_config({f"gpu-pools:{key}": value for key, value in (sections(**options) | {"operator": operator}).items()})


def test_the_plan_takes_everything_from_the_mode() -> None:
    plan = planned()
    (pool,) = plan_json(plan)["pools"]
    assert pool["sharing"] == {
        "name": "shared",
        "strategy": "lanes",
        "replicas": 3,
        "renameByDefault": False,
        "failRequestsGreaterThanOne": True,
        "needs": {"memoryPerReplica": "20480Mi"},
    }
    assert pool["configKey"].startswith("lanes-3-")
    assert pool["advertises"] == {"nvidia.com/gpu": 6}
    assert pool["expectedLabels"]["nvidia.com/gpu.replicas"] == "3"
    assert "lanes are invented" in pool["warnings"]
    assert "lanes 3" in plan_table(plan)
    assert "timeSlicing" in plan.device_plugin_configs[pool["configKey"]]


def test_what_the_mode_refuses_is_refused_with_the_rest() -> None:
    with pytest.raises(InvalidStackError) as refused:
        planned(replicas=9, model="t4-16gb")
    assert "gpu-pools:sharing.shared.lanes.replicas: 9 is out of bounds" in str(refused.value)
    with pytest.raises(InvalidStackError, match="a T4 has no lanes"):
        planned(model="t4-16gb")
    with pytest.raises(InvalidStackError, match="exactly one of exclusive, timeSlicing, mps, mig, lanes"):
        plan_config({f"gpu-pools:{key}": value for key, value in (sections() | {"sharing": {"shared": {}}}).items()})


def test_a_change_is_what_the_mode_says_it_is() -> None:
    (change,) = pool_changes(planned(), planned(replicas=4), ())
    assert (change.effects, change.drain) == (("reshared",), ("lanes are repainted",))


def test_the_preview_and_the_policies_see_it(
    run: Callable[..., Recorder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    recorded = run(lambda: GpuPlatform("gpu", sections()))
    declared = recorded.one("gpu-pools:index:Lanes")
    assert declared.name == "gpu-shared"
    configs = [key for one in recorded.of(":ConfigMapPatch") for key in one.inputs["data"]]
    assert any(key.startswith("lanes-3-") for key in configs)
    dashboards = json.dumps([one.inputs for one in recorded.of(":ConfigMap")])
    assert "a lane has meters of its own." in dashboards
    described = _described(recorded)
    _breaks_nothing(described, "byo")


def node_of(plan: Plan, allocatable: int) -> tuple[Findings, nodes.Node]:
    """A node of a mode that exists, with the labels of the invented one; and what the verifier finds."""
    (pool,) = plan.pools
    expected = parse_expectation(node_expectation(plan, pool))
    healthy = nodes.healthy(*nodes.plan_and_pool({"timeSlicing": {"replicas": 3}}, count=2))
    text = plan.device_plugin_configs[pool.config_key]
    kubernetes = replace(
        healthy.kubernetes,
        labels={**healthy.kubernetes.labels, **pool.labels, **pool.gfd_labels},
        allocatable={"nvidia.com/gpu": allocatable},
        capacity={"nvidia.com/gpu": allocatable},
        config=ConfigReading(tuple(plan.device_plugin_configs), hashlib.sha256(text.encode()).hexdigest(), nodes.STARTED),
    )
    findings = Findings()
    compare_gpus(expected, healthy.nvml, findings)
    compare_node(expected, kubernetes, healthy.nvml, findings)
    return findings, replace(healthy, expected=expected, kubernetes=kubernetes)


@pytest.mark.parametrize(("allocatable", "verdict"), [(6, Verdict.HOLDS), (5, Verdict.DIFFERS)])
def test_a_node_is_proven_and_evidence_says_so(allocatable: int, verdict: Verdict) -> None:
    plan = planned(nodes.OPERATOR)
    (pool,) = plan.pools
    findings, node = node_of(plan, allocatable)
    assert findings.verdict is verdict, findings.differences
    evidence = fleets.one_node(plan, pool, findings, node).judged()
    assert evidence.verdict is (Judged.PROVEN if verdict is Verdict.HOLDS else Judged.DIFFERS)
