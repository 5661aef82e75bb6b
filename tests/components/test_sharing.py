"""Sharing declarations: what they hold, and that a wrong one is refused before it is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.components.sharing import Exclusive, Mig, Mps, TimeSlicing, declare
from gpu_pools.sharing import exclusive, mig, mode, modes, mps, time_slicing
from gpu_pools.text.errors import InvalidStackError, Problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]


def test_each_class_holds_the_declaration_of_the_pure_core(run: Run) -> None:
    held: list[object] = []

    def program() -> None:
        held.append(Exclusive("whole", {}).declaration)
        held.append(TimeSlicing("nb", {"replicas": 4, "rename_by_default": True}).declaration)
        held.append(Mps("inf", {"replicas": 10, "fail_requests_greater_than_one": False}).declaration)
        held.append(Mig("mig", {"gpus": [{"index": [0], "layout": {"1g.10gb": 7}}], "time_slicing": {"replicas": 2}}).declaration)

    run(program)
    assert held == [
        exclusive.Exclusive(),
        time_slicing.TimeSlicing(4, rename_by_default=True),
        mps.Mps(10, fail_requests_greater_than_one=False),
        mig.Mig((mode.GpuLayout((0,), (("1g.10gb", 7),)),), time_slicing.TimeSlicing(2)),
    ]


def test_type_tokens_are_those_of_a_package(run: Run) -> None:
    recorded = run(lambda: [Exclusive("a", {}), TimeSlicing("b", {"replicas": 2}), Mps("c", {"replicas": 2})])
    assert {resource.type for resource in recorded.resources} == {
        "gpu-pools:index:Exclusive",
        "gpu-pools:index:TimeSlicing",
        "gpu-pools:index:Mps",
    }


def test_a_wrong_declaration_is_refused_with_every_reason_and_registers_nothing(run: Run) -> None:
    def program() -> None:
        arguments: Any = {"replicas": 1, "rename_by_defualt": True}
        with pytest.raises(InvalidStackError) as refused:
            TimeSlicing("nb", arguments)
        text = str(refused.value)
        assert "TimeSlicing(nb).timeSlicing.replicas: 1 is out of bounds" in text
        assert "unknown key `rename_by_defualt`" in text
        assert "Did you mean `rename_by_default`?" in text

    assert run(program).resources == []


def test_needs_stand_beside_the_strategy(run: Run) -> None:
    held = []
    run(lambda: held.append(Mps("inf", {"replicas": 10, "needs": {"memory_per_replica": "6Gi"}})))
    assert held[0].written == {"mps": {"replicas": 10}, "needs": {"memoryPerReplica": "6Gi"}}
    assert held[0].declaration.needs.memory_per_replica_mib == 6144


@pytest.mark.parametrize(
    "written",
    [
        {"exclusive": {}},
        {"exclusive": {}, "needs": {"memoryPerReplica": "12Gi"}},
        {"timeSlicing": {"replicas": 3}},
        {"needs": {"memoryPerReplica": "512Mi"}, "mig": {"layout": {"1g.10gb": 7}}},
    ],
)
def test_declarations_of_a_stack_file_become_components(run: Run, written: dict[str, Any]) -> None:
    held = []
    sharing = modes.parse_sharing(written, "x", Problems())
    assert sharing
    run(lambda: held.append(declare("x", written, sharing)))
    assert (held[0].written, held[0].declaration) == (written, sharing)
