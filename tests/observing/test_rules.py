"""The recorded series against the truth: with the real promtool, over fleets of every way of sharing."""

from __future__ import annotations

import json
from math import floor
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.observing import rules
from gpu_pools.observing.series import most_series
from sandbox.observing.exporter import MIB, scrape
from tests.observing import fleets
from tests.observing.promtool import Case, hold, promtool, rules_file, run
from tests.tiers import these

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.plan.planned import Plan
    from sandbox.observing.exporter import Gpu, Node, Pod, Unit
    from tests.observing.promtool import Labels

pytestmark = [pytest.mark.programs, pytest.mark.sweep]
FLEETS: Final = 5
ROOT: Final = Path(__file__).parents[2]


def gpu_labels(node: Node, gpu: Gpu) -> Labels:
    return (
        ("instance", node.name),
        ("gpu_pool", node.pool),
        ("gpu", str(gpu.index)),
        ("UUID", f"GPU-{node.name}-{gpu.index}"),
    )


def unit_labels(node: Node, gpu: Gpu, unit: Unit) -> Labels:
    own = (("GPU_I_ID", str(unit.instance)), ("GPU_I_PROFILE", unit.profile)) if unit.profile else ()
    return (*gpu_labels(node, gpu), *own)


def pod_labels(node: Node, gpu: Gpu, unit: Unit, pod: Pod) -> Labels:
    return (*unit_labels(node, gpu, unit), ("namespace", pod.namespace), ("pod", pod.name))


def rounded(expression: str, values: dict[Labels, float]) -> tuple[str, dict[Labels, float]]:
    """Both to millionths: Prometheus sums in another order."""
    return f"round({expression}, 0.000001)", {labels: floor(value * 1e6 + 0.5) / 1e6 for labels, value in values.items()}


def of_gpu(plan: Plan, node: Node, gpu: Gpu) -> float:
    """A GPU's own use: what its units use, each by its part of the GPU."""
    slices = next(pool.hardware.model.compute_slices for pool in plan.pools if pool.name == node.pool)
    return sum(unit.use / 100 * (int(unit.profile[0]) / slices if unit.profile else 1) for unit in gpu.units)


def shown_pods(node: Node, unit: Unit, what: str) -> tuple[Pod, ...]:
    """The pods whose own value can be had, by the documentation's table."""
    alone = {"whole", "alike", "mixed", "some", "small"}
    if node.pool in alone:
        return unit.pods
    if not node.virtual or (node.pool in {"cut", "served"} and what == "use"):
        return ()
    return unit.pods


def test_of_mps_nvml_tells_each_client_s_memory_and_the_use_of_the_server_alone() -> None:
    """What the exporter's stand-in does under MPS stands on this, and so do the rules (decision 239)."""
    read = json.loads((ROOT / "docs" / "measured" / "h100-mps-nvml.json").read_text(encoding="utf-8"))
    samples = [sample for sample in read["samples"] if sample["sharing"].startswith("mps")]
    assert len(samples) == 4
    for sample in samples:
        assert sample["gpuUse"] > 90
        assert {kind for kind, _, use in sample["processes"] if use} == {"server"}
        clients = [memory for kind, memory, _ in sample["processes"] if kind == "client"]
        assert len(clients) == 2
        assert all(memory > 400 for memory in clients)


def truth(plan: Plan, nodes: tuple[Node, ...]) -> Iterator[tuple[str, dict[Labels, float]]]:
    units = [(node, gpu, unit) for node in nodes for gpu in node.gpus for unit in gpu.units]
    gpus = [(node, gpu) for node in nodes for gpu in node.gpus]
    yield rounded(rules.UNIT_ACTIVE, {unit_labels(n, g, u): u.use / 100 for n, g, u in units if g.profiling})
    yield rounded(rules.GPU_ACTIVE, {gpu_labels(n, g): of_gpu(plan, n, g) for n, g in gpus})
    yield rounded(
        rules.POD_ACTIVE,
        {
            pod_labels(n, g, u, pod): pod.use / 100
            for n, g, u in units
            for pod in shown_pods(n, u, "use")
            # Alone on a GPU without profiling fields: there is no use of its own.
            if g.profiling or fleets.SHARING[n.pool].get("timeSlicing")
        },
    )
    yield rounded(rules.UNIT_MEMORY_USED, {unit_labels(n, g, u): u.used * MIB for n, g, u in units})
    yield rounded(rules.UNIT_MEMORY, {unit_labels(n, g, u): u.memory * MIB for n, g, u in units})
    memory = {pod_labels(n, g, u, p): p.memory * MIB for n, g, u in units for p in shown_pods(n, u, "memory")}
    yield rounded(rules.POD_MEMORY_USED, memory)
    yield rounded(rules.GPU_MEMORY_USED, {gpu_labels(n, g): sum(u.used for u in g.units) * MIB for n, g in gpus})
    yield rounded(rules.GPU_POWER, {gpu_labels(n, g): g.power for n, g in gpus})
    yield rounded(rules.GPU_TEMPERATURE, {gpu_labels(n, g): g.temperature for n, g in gpus})
    yield rounded(rules.NODE_GPUS, {(("instance", n.name), ("gpu_pool", n.pool)): len(n.gpus) for n in nodes})


def shares_make_the_whole(nodes: tuple[Node, ...]) -> Iterator[tuple[str, dict[Labels, float]]]:
    """The sum over pods, where each has its own value, is the GPU's; of power nothing counts twice."""
    whole = {
        gpu_labels(n, g): 0.0
        for n in nodes
        for g in n.gpus
        if n.pool in {"turns", "renamed"} and n.virtual and g.profiling and any(u.pods for u in g.units)
    }
    by = "by (instance, gpu_pool, gpu, UUID)"
    chosen = 'gpu_pool=~"turns|renamed"'
    missing = f"sum {by} ({rules.POD_ACTIVE}{{{chosen}}}) - on (instance, gpu) group_left () {rules.GPU_ACTIVE}"
    yield rounded(f"abs(({missing}) * on (UUID) group_left () group by (UUID) ({rules.UNIT_ACTIVE}))", whole)
    yield f"sum({rules.GPU_POWER})", {(): float(sum(g.power for n in nodes for g in n.gpus))}
    memory = {
        gpu_labels(n, g): 0.0 for n in nodes for g in n.gpus if n.pool in {"turns", "renamed"} and n.virtual and g.units[0].pods
    }
    sums = f"sum {by} ({rules.POD_MEMORY_USED}{{{chosen}}}) - on (instance, gpu) group_left () {rules.GPU_MEMORY_USED}"
    yield sums, memory


def case(plan: Plan, seed: int) -> Case:
    nodes = fleets.fleet(plan, Random(seed))  # noqa: S311 the same every time
    made = Case(f"fleet {seed}", [(4, nodes, {})])
    made.expected = [(60, query, answer) for query, answer in (*truth(plan, nodes), *shares_make_the_whole(nodes))]
    return made


@pytest.mark.parametrize("version", [fleets.NEWEST, fleets.OLD])
def test_promtool_finds_nothing_in_the_rules(version: str, tmp_path: Path) -> None:
    plan = fleets.plan_of(version=version, runbooks="https://docs.example/runbooks/")
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", rules_file(plan, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout


@pytest.mark.parametrize(
    ("version", "seeds"),
    these([(v, s) for v in (fleets.NEWEST, fleets.OLD) for s in range(12)], [(fleets.NEWEST, 0), (fleets.OLD, 1)]),
)
def test_recorded_series_are_the_truth_and_nothing_counts_twice(version: str, seeds: int, tmp_path: Path) -> None:
    plan = fleets.plan_of(version=version)
    hold(plan, [case(plan, seed) for seed in range(seeds * FLEETS, (seeds + 1) * FLEETS)], tmp_path)


def test_another_scrape_of_the_same_exporter_counts_for_nothing(tmp_path: Path) -> None:
    """The Service's annotation has some sites scrape it a second time: without our relabelings, so without a pool."""
    plan = fleets.plan_of(pools=("whole",))
    nodes = fleets.fleet(plan, Random(1), busy=True)  # noqa: S311
    others = {}
    for node in nodes:
        for name, labels, value in scrape(node):
            kept = {key: text for key, text in labels if key != "gpu_pool"} | {"instance": "10.0.0.7:9400", "job": "endpoints"}
            inside = ", ".join(f'{key}="{text}"' for key, text in sorted(kept.items()))
            others[f"{name}{{{inside}}}"] = value
    made = Case("scraped twice", [(4, nodes, others)])
    made.expected = [(60, query, answer) for query, answer in truth(plan, nodes)]
    hold(plan, [made], tmp_path)


def test_a_truth_that_is_not_so_is_noticed(tmp_path: Path) -> None:
    plan = fleets.plan_of()
    made = case(plan, 3)
    seconds, query, answer = next(one for one in made.expected if rules.GPU_ACTIVE in one[1])
    first = next(iter(answer))
    made.expected = [(seconds, query, {**answer, first: answer[first] + 0.01})]
    done = run(plan, [made], tmp_path)
    assert done.returncode != 0
    assert "FAILED" in done.stdout + done.stderr


@pytest.mark.parametrize("version", [fleets.NEWEST, fleets.OLD])
def test_a_node_never_has_more_series_than_the_plan_says(version: str) -> None:
    plan = fleets.plan_of(version=version)
    most: dict[str, Any] = {pool.name: most_series(plan, pool) for pool in plan.pools}
    seen: dict[str, int] = dict.fromkeys(most, 0)
    for seed in range(30):
        for node in fleets.fleet(plan, Random(seed), busy=seed % 2 == 0):  # noqa: S311
            # One is `up`, which Prometheus makes.
            seen[node.pool] = max(seen[node.pool], len(list(scrape(node))) - 1)
    for pool, count in seen.items():
        # What is not used up is for Xids and clock events, of which these GPUs have none.
        assert 0.6 * most[pool] < count <= most[pool], pool
