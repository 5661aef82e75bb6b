"""A platform is one module: an invented one passes through everything, without a change anywhere else.

The invented cloud, Orchard, sells trees: a pool names a kind of tree, whose GPUs it knows. What is tested is that every part of
the project takes what it needs from the platform's own classes: the plan, the preview, the policies, the expectation of a node,
and evidence. Only what the cloud makes is a second registration, in components/clouds.py.
"""

# ruff: noqa: ARG002 - an interface has more arguments than each class needs

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pulumi
import pytest

from gpu_pools.changes.pools import pool_changes
from gpu_pools.components.clouds import CLOUDS, Cloud
from gpu_pools.components.existing.cluster import ExistingCluster
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.evidence.verdicts import Verdict
from gpu_pools.hardware.models import model
from gpu_pools.hardware.node import Hardware
from gpu_pools.plan.document import plan_json
from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.known import PLATFORMS
from gpu_pools.platforms.platform import Platform
from gpu_pools.proof.fixed_counts import fixed_counts
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.proof.verifier_pods import verifier_daemon_set_spec
from gpu_pools.reading.fields import one_of, read, row
from gpu_pools.stack.cluster import Cluster, Placement
from gpu_pools.text.errors import InvalidStackError
from tests.evidence.fleets import one_node

from .conftest import KUBECONFIG
from .test_policies import _breaks_nothing, _described

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpu_pools.plan.planned import Plan
    from gpu_pools.platforms.platform import PlannedPool
    from gpu_pools.reading.section import Section
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.stack.platform_reader import PoolSection
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

    from .conftest import Recorder

ROOT: Final = Path(__file__).parents[2]
TREES: Final = {"apple": ("a100-80gb", 2), "pear": ("t4-16gb", 1)}


@dataclass(frozen=True)
class OrchardCluster(Cluster):
    """A cluster in the orchard."""

    platform: ClassVar[str] = "orchard"
    labels_nodes: ClassVar[bool] = True

    name: str = row("Its name.", one_of(("north", "south")), "", needed=True)

    @property
    def was_there(self) -> bool:
        return False


@dataclass(frozen=True)
class OrchardPlacement(Placement):
    """A tree."""

    labelled_by: ClassVar[str] = "the gardener"

    tree: str = row("The kind of tree.", one_of(tuple(TREES)), "", needed=True)

    @property
    def machine(self) -> str:
        return self.tree


class Orchard(Platform[OrchardCluster]):
    """The cloud."""

    name: ClassVar[str] = "orchard"
    cluster: ClassVar[type[Cluster]] = OrchardCluster
    pool_key: ClassVar[str] = "tree"

    def read_cluster(self, section: Section, *, complete: bool) -> OrchardCluster:
        found = read(OrchardCluster, section, complete=complete)
        section.finish()
        return found

    def place(self, section: PoolSection) -> tuple[Hardware | None, OrchardPlacement]:
        placement = read(OrchardPlacement, section)
        if placement.tree not in TREES:
            return None, placement
        key, gpus = TREES[placement.tree]
        return Hardware(model(key), None, gpus, f"tree {placement.tree}"), placement

    def check(self, settings: Settings, drivers: Mapping[str, str], problems: Problems) -> None:
        for pool in settings.pools:
            if pool.name == "weed":
                problems.add(f"{pool.path}.name", "is pulled out", allowed="other names", remedy="Rename it.")

    def pool_warnings(self, pool: Pool, sharing: Sharing, settings: Settings, driver: str) -> Iterator[str]:
        yield f"{pool.name} bears {sharing.text()} fruit"

    def node_selector(self, cluster: OrchardCluster, pool_plan: PlannedPool, group: str) -> dict[str, str]:
        return {"orchard.example/tree": pool_plan.name}

    def missing_nodes(self, cluster: OrchardCluster, pool_plan: PlannedPool, group: str, selector: str) -> str:
        return f"Look behind the {cluster.name} wall."


class OrchardCloud(Cloud):
    """What it makes: the cluster is reached by a kubeconfig, and pools are resources of its own."""

    def cluster(self, name: str, plan: Plan, section: Mapping[str, Any], opts: Any, given: Any) -> Any:
        return ExistingCluster(name, {"context": "byo"}, opts)

    def pools(self, name: str, plan: Plan, cluster: Any, opts: Any, made: Any, objects: Any) -> None:
        for pool in plan.pools:
            made[pool.name].append(pulumi.CustomResource("orchard:index:Tree", f"{name}-{pool.name}", {"kind": "t"}, opts))


@pytest.fixture(autouse=True)
def invented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLATFORMS, "orchard", Orchard())
    monkeypatch.setitem(CLOUDS, "orchard", OrchardCloud())


def sections(**pool: Any) -> dict[str, Any]:
    return {
        "cluster": {"platform": "orchard", "name": "north"},
        "sharing": {"four": {"timeSlicing": {"replicas": 4}}},
        "verification": {},
        "pools": [{"name": "gpu", "tree": "apple", "count": 2, "sharing": "four", **pool}],
    }


def planned(**pool: Any) -> Plan:
    return plan_config({f"gpu-pools:{key}": value for key, value in sections(**pool).items()})


def test_the_plan_takes_everything_from_the_platform() -> None:
    plan = planned()
    (pool,) = plan_json(plan)["pools"]
    assert (pool["platform"], pool["gpuModel"], pool["gpusPerNode"]) == ("orchard", "a100-80gb", 2)
    assert pool["advertises"] == {"nvidia.com/gpu": 8}
    assert "gpu bears time-slicing 4 fruit" in pool["warnings"]
    (count,) = fixed_counts(plan)
    assert count.remedy.startswith("Look behind the north wall.")
    spec = verifier_daemon_set_spec(plan, plan.pools[0], "map", "0" * 64)
    assert spec["template"]["spec"]["nodeSelector"] == {"orchard.example/tree": "gpu"}


def test_what_the_platform_refuses_is_refused_with_the_rest() -> None:
    with pytest.raises(InvalidStackError) as refused:
        planned(name="weed", tree="aple")
    told = str(refused.value)
    assert "is pulled out" in told
    assert "Did you mean `apple`?" in told
    with pytest.raises(InvalidStackError, match=r"aks \| magnum \| existing \| orchard"):
        plan_config({f"gpu-pools:{key}": value for key, value in (sections() | {"cluster": {"platform": "x"}}).items()})


def test_a_change_is_told() -> None:
    (change,) = pool_changes(planned(), planned(count=1), ())
    assert change.effects == ("shrunk",)
    assert planned().pools[0].change != planned(tree="pear").pools[0].change


def test_the_preview_and_the_policies_see_it(
    run: Callable[..., Recorder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    recorded = run(lambda: GpuPlatform("gpu", sections()))
    assert recorded.one("orchard:index:Tree").name == "gpu-gpu"
    assert recorded.of(":NodeFeatureRule") == [], "the cloud labels its nodes"
    _breaks_nothing(_described(recorded), "byo")


def test_a_node_is_proven_and_evidence_says_so() -> None:
    plan = planned(count=1)
    (pool,) = plan.pools
    assert node_expectation(plan, pool)["node"]["allocatable"] == {"nvidia.com/gpu": 8}
    assert one_node(plan, pool).judged().pools[0].verdict is Verdict.PROVEN


def test_no_code_asks_which_platform_it_has() -> None:
    """Clusters and placements are asked what they do (gpu_pools/stack/cluster.py)."""
    own = {"AksSettings", "MagnumSettings", "ExistingSettings", "AksPlacement", "MagnumPlacement", "ExistingPlacement"}
    asking = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for folder in ("gpu_pools", "components", "policies")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        if own & {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
    ]
    assert asking == []
