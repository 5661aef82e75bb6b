"""Sharing declarations: what is read of them, what they say of a GPU, and what is refused."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gpu_pools.sharing.exclusive import Exclusive
from gpu_pools.sharing.mig import Mig
from gpu_pools.sharing.mode import GpuLayout, Sharing
from gpu_pools.sharing.modes import MODES, parse_sharing
from gpu_pools.sharing.mps import Mps
from gpu_pools.sharing.needs import Needs
from gpu_pools.sharing.time_slicing import TimeSlicing
from gpu_pools.text.errors import Problems

ROOT = Path(__file__).parents[2]
SEVEN = {"layout": {"1g.10gb": 7}}
MIXED = {"layout": {"1g.10gb": 2, "2g.20gb": 2}}


def parsed(value: object) -> tuple[Sharing | None, list[tuple[str, str]]]:
    """What is read, and path and message of what is told."""
    problems = Problems()
    found = parse_sharing(value, "s", problems)
    return found, [(problem.path, problem.message) for problem in problems.found]


@pytest.mark.parametrize(
    ("declaration", "strategy"),
    [(Exclusive(), "exclusive"), (TimeSlicing(2), "timeSlicing"), (Mps(2), "mps"), (Mig(()), "mig")],
)
def test_each_is_selected_by_its_key(declaration: Sharing, strategy: str) -> None:
    assert declaration.strategy == strategy
    assert declaration.needs is None


def test_more_than_one_replica_is_refused_and_names_stay_by_default() -> None:
    for declaration in (TimeSlicing(2), Mps(2)):
        assert (declaration.rename_by_default, declaration.fail_requests_greater_than_one) == (False, True)


def test_needs_are_written_as_they_are_read() -> None:
    assert Needs(12_288).as_json() == {"memoryPerReplica": "12288Mi"}
    assert parsed({"exclusive": {}, "needs": Needs(7).as_json()}) == (Exclusive(needs=Needs(7)), [])


UNIFORM = GpuLayout(None, (("1g.10gb", 7),))


def test_slices_of_a_profile() -> None:
    assert Mig((UNIFORM,)).replication_of("1g.10gb") is None
    slicing = TimeSlicing(4, rename_by_default=True)
    assert Mig((UNIFORM,), slicing).replication_of("1g.10gb") == slicing
    some = Mig((UNIFORM,), slicing, (("1g.10gb", 2),))
    assert some.replication_of("1g.10gb") == TimeSlicing(2, rename_by_default=True)
    assert some.replication_of("3g.40gb") is None


@pytest.mark.parametrize(
    ("gpus", "uniform"),
    [
        ((UNIFORM,), True),
        ((GpuLayout((0,), UNIFORM.layout), GpuLayout((1,), UNIFORM.layout)), True),
        ((GpuLayout((0,), UNIFORM.layout), GpuLayout((1,), ())), False),
        ((GpuLayout(None, (("1g.10gb", 2), ("3g.40gb", 1))),), False),
    ],
)
def test_one_profile_on_every_gpu_is_uniform(gpus: tuple[GpuLayout, ...], uniform: bool) -> None:  # noqa: FBT001
    assert bool(Mig(gpus).uniform_profile) is uniform


def test_the_layout_of_a_gpu() -> None:
    mig = Mig((GpuLayout((0, 2), UNIFORM.layout), GpuLayout((1,), ())))
    assert [mig.layout_of(index) for index in range(4)] == [{"1g.10gb": 7}, {}, {"1g.10gb": 7}, {}]
    assert Mig((UNIFORM,)).layout_of(5) == {"1g.10gb": 7}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"timeSlicing": {"replicas": 1000}}, TimeSlicing(1000)),
        ({"mps": {"replicas": 48}}, Mps(48)),
        ({"mps": {"replicas": 2, "renameByDefault": False, "failRequestsGreaterThanOne": True}}, Mps(2)),
        ({"mig": {**SEVEN, "timeSlicing": {"replicas": {"1g.10gb": 1000}}}}, Mig((UNIFORM,), TimeSlicing(1000))),
        ({"mig": {"gpus": [{"index": 0, **SEVEN}]}}, Mig((GpuLayout((0,), UNIFORM.layout),))),
        (
            {"mig": {**MIXED, "timeSlicing": {"replicas": {"2g.20gb": 4, "1g.10gb": 3}}}},
            Mig((GpuLayout(None, (("1g.10gb", 2), ("2g.20gb", 2))),), TimeSlicing(4), (("1g.10gb", 3), ("2g.20gb", 4))),
        ),
        ({"mig": {"layout": {"2g.20gb": 1, "1g.10gb": 1}}}, Mig((GpuLayout(None, (("1g.10gb", 1), ("2g.20gb", 1))),))),
    ],
)
def test_a_declaration_that_is_good(value: object, expected: Sharing) -> None:
    assert parsed(value) == (expected, [])


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"timeSlicing": {"replicas": 1001}}, [("s.timeSlicing.replicas", "1001 is out of bounds")]),
        ({"timeSlicing": []}, [("s.timeSlicing", "a list of 0 is not a mapping")]),
        ({"mps": []}, [("s.mps", "a list of 0 is not a mapping")]),
        ({"mps": {}}, [("s.mps.replicas", "is missing")]),
        ({"exclusive": {}, "needs": {}}, [("s.needs.memoryPerReplica", "is missing")]),
        ({"exclusive": {}, "needs": []}, [("s.needs", "a list of 0 is not a mapping with memoryPerReplica")]),
        ({"needs": {}}, [("s.needs.memoryPerReplica", "is missing"), ("s", "declares no strategy")]),
        ({"x": 1}, [("s.x", "unknown key `x`")]),
        ({"exclusive": None, "mps": None}, [("s", "exclusive and mps declared together")]),
        ({"mig": {}}, [("s.mig", "gives neither `layout` nor `gpus`")]),
        ({"mig": {"gpus": None}}, [("s.mig.gpus", "the list is empty")]),
        ({"mig": {"gpus": []}}, [("s.mig.gpus", "the list is empty")]),
        ({"mig": {"gpus": {}}}, [("s.mig.gpus", "a mapping with no keys is not a list of GPU groups")]),
        ({"mig": {"gpus": [1]}}, [("s.mig.gpus[0]", "1 is not a mapping with index and layout")]),
        ({"mig": {"gpus": [{"index": 0, "layout": {}}, 1]}}, [("s.mig.gpus[1]", "1 is not a mapping with index and layout")]),
        ({"mig": {"gpus": [{"index": 0, "layout": {}}]}}, [("s.mig.gpus", "no GPU is partitioned")]),
        ({"mig": {"gpus": [{"layout": {}}]}}, [("s.mig.gpus[0].index", "is missing")]),
        *(
            ({"mig": {"gpus": [{"index": index, **SEVEN}]}}, [("s.mig.gpus[0].index", f"{shown} is not a GPU index")])
            for index, shown in ((-1, "-1"), (True, "true"), ("0", '"0"'), ([], "a list of 0"), ([0, -1], "a list of 2"))
        ),
        (
            {"mig": {"gpus": [{"index": 0, "layout": 7, "x": 1}]}},
            [
                ("s.mig.gpus[0].layout", "7 is not a mapping of MIG profile to count, e.g. {1g.10gb: 7}"),
                ("s.mig.gpus[0].x", "unknown key `x`"),
            ],
        ),
        (
            {"mig": {"gpus": [{"index": [0, 1], **SEVEN}, {"index": [1, 0], **SEVEN}]}},
            [("s.mig.gpus", "GPU index 1 is given twice"), ("s.mig.gpus", "GPU index 0 is given twice")],
        ),
        ({"mig": {"layout": {}}}, [("s.mig.layout", "the layout is empty")]),
        ({"mig": {"layout": {"1g.10gb": None}}}, [("s.mig.layout.1g.10gb", "is missing")]),
        ({"mig": {"layout": {"1g.10gb": 0}}}, [("s.mig.layout.1g.10gb", "0 is out of bounds")]),
        (
            {"mig": {**SEVEN, "gpus": [{"index": 0, **SEVEN}]}},
            [("s.mig", "gives both `layout` and `gpus`")],
        ),
        ({"mig": {**SEVEN, "timeSlicing": None}}, [("s.mig.timeSlicing", "nothing is not a mapping")]),
        ({"mig": {**SEVEN, "timeSlicing": {}}}, [("s.mig.timeSlicing.replicas", "is missing")]),
        ({"mig": {**SEVEN, "mps": None}}, [("s.mig.mps", "MPS cannot share MIG instances")]),
        ({"mig": {**SEVEN, "x": 1}}, [("s.mig.x", "unknown key `x`")]),
        ({"mig": {**SEVEN, "timeSlicing": {"replicas": {}}}}, [("s.mig.timeSlicing.replicas", "no profile is named")]),
        (
            {"mig": {**SEVEN, "timeSlicing": {"replicas": {"1g.10gb": 1}}}},
            [("s.mig.timeSlicing.replicas.1g.10gb", "1 is out of bounds")],
        ),
        (
            {"mig": {**SEVEN, "timeSlicing": {"replicas": {"1g.10gb": 1001}}}},
            [("s.mig.timeSlicing.replicas.1g.10gb", "1001 is out of bounds")],
        ),
        (
            {"mig": {**SEVEN, "timeSlicing": {"replicas": {"1g.10gb": None}}}},
            [("s.mig.timeSlicing.replicas.1g.10gb", "is missing")],
        ),
        (
            {"mig": {**SEVEN, "timeSlicing": {"replicas": {"1g.10gb": 2, "3g.40gb": 2}, "x": 1}}},
            [("s.mig.timeSlicing.replicas.3g.40gb", "unknown key `3g.40gb`"), ("s.mig.timeSlicing.x", "unknown key `x`")],
        ),
    ],
)
def test_a_declaration_that_is_not(value: object, told: list[tuple[str, str]]) -> None:
    assert parsed(value) == (None, told)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"mps": {"replicas": 2, "renameByDefault": 1}}, [("s.mps.renameByDefault", "1 is neither true nor false")]),
        (
            {"mps": {"replicas": 2, "failRequestsGreaterThanOne": 1, "x": 1}},
            [("s.mps.failRequestsGreaterThanOne", "1 is neither true nor false"), ("s.mps.x", "unknown key `x`")],
        ),
        ({"exclusive": {}, "x": 1}, [("s.x", "unknown key `x`")]),
    ],
)
def test_a_mistake_beside_what_is_good(value: object, told: list[tuple[str, str]]) -> None:
    assert parsed(value)[1] == told


def test_no_code_asks_which_mode_it_has() -> None:
    """A mode is asked what it does (gpu_pools/sharing/mode.py); who asks for its class must be changed for every new mode."""
    modes = {mode.__name__ for mode in MODES.values()}
    asking = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for folder in ("gpu_pools", "components", "policies", "sandbox")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        if modes & {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
    ]
    # The simulated NVML has a class Mig of its own, which is no mode.
    assert [place for place in asking if not place.startswith("sandbox/nvml/")] == []
