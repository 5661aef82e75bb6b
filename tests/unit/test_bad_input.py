"""Bad stack files: refused with path, value, what is allowed and the remedy, and all problems at once.

What is told of each is in tests/golden/problems.txt, word by word. After a wanted change: ``UPDATE_GOLDEN=1 venv/bin/pytest
tests/unit/test_bad_input.py``, then read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import InvalidStackError
from tests.unit.bad_case import FILE, Case
from tests.unit.bad_stacks import CASES, TEN_MISTAKES, TEN_PATHS
from tests.unit.stacks import aks, existing, magnum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.plan.planned import Plan
    from gpu_pools.text.errors import Problem

TOLD = Path(__file__).parents[1] / "golden" / "problems.txt"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))


@pytest.fixture(scope="module")
def told() -> Iterator[dict[str, str]]:
    """What is told, by the case's id."""
    parts = [] if UPDATE else TOLD.read_text(encoding="utf-8").split("== ")[1:]
    told = {name: text.strip() for name, _, text in (part.partition("\n") for part in parts)}
    yield told
    if UPDATE:
        TOLD.write_text("\n".join(f"== {name}\n{text}\n" for name, text in told.items()), encoding="utf-8")


def _plan(stack: str, folder: Path, *, complete: bool = False) -> Plan:
    file = folder / "Pulumi.bad.yaml"
    file.write_text(stack, encoding="utf-8")
    return plan_config(read_stack_file(file), complete=complete)


def _problems(stack: str, folder: Path, *, complete: bool = False) -> tuple[Problem, ...]:
    with pytest.raises(InvalidStackError) as caught:
        _plan(stack, folder, complete=complete)
    return caught.value.problems


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_bad_stack_is_refused_with_the_expected_problem(case: Case, tmp_path: Path, told: dict[str, str]) -> None:
    problems = _problems(case.stack, tmp_path, complete=case.deploy_only)
    path = case.path.replace(FILE, str(tmp_path / "Pulumi.bad.yaml"))
    expected = [
        problem
        for problem in problems
        if problem.path == path
        and case.message in problem.message
        and case.allowed in problem.allowed
        and case.remedy in problem.remedy
    ]
    assert expected, "\n".join(map(str, problems))
    assert len(problems) == case.problems, "\n".join(map(str, problems))
    for problem in problems:
        assert problem.path
        assert problem.message
        assert problem.allowed
        assert problem.remedy
    text = "\n".join(map(str, problems)).replace(str(tmp_path / "Pulumi.bad.yaml"), FILE)
    if UPDATE:
        told[case.id] = text
    assert text == told[case.id]


@pytest.mark.parametrize("case", [case for case in CASES if case.deploy_only], ids=lambda case: case.id)
def test_what_only_a_deploy_needs_is_not_asked_of_a_plan(case: Case, tmp_path: Path) -> None:
    assert _plan(case.stack, tmp_path).pools


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.read_by_engine and not case.deploy_only], ids=lambda case: case.id
)
def test_a_deploy_refuses_what_a_plan_refuses(case: Case, tmp_path: Path) -> None:
    """And nothing more: the stacks are complete, so that the engine-level tests see the same problems."""
    assert _problems(case.stack, tmp_path, complete=True) == _problems(case.stack, tmp_path)


@pytest.mark.parametrize("stack", [aks(), magnum(), existing()], ids=["aks", "magnum", "existing"])
@pytest.mark.parametrize("complete", [True, False], ids=["deploy", "plan"])
def test_the_stack_that_the_cases_change_is_good(stack: str, complete: bool, tmp_path: Path) -> None:  # noqa: FBT001
    assert len(_plan(stack, tmp_path, complete=complete).pools) == 1


def test_the_table_is_long_and_its_ids_are_unique() -> None:
    assert len(CASES) >= 75
    assert len({case.id for case in CASES}) == len(CASES)


def test_of_every_case_it_is_written_what_is_told(told: dict[str, str]) -> None:
    assert [*told] == [case.id for case in CASES]


def test_ten_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    problems = _problems(TEN_MISTAKES, tmp_path)
    assert sorted(problem.path for problem in problems) == sorted(TEN_PATHS)
    assert len(TEN_PATHS) == 10


def test_the_error_reads_as_a_list_for_people(tmp_path: Path) -> None:
    with pytest.raises(InvalidStackError) as caught:
        _plan(TEN_MISTAKES, tmp_path)
    text = str(caught.value)
    assert text.startswith(
        "10 problems in the stack file; nothing was created or changed.\n- gpu-pools:cluster.lokation: unknown key"
    )
    assert text.count("\n    allowed: ") == text.count("\n    remedy:  ") == 10


def test_one_problem_reads_in_the_singular(tmp_path: Path) -> None:
    with pytest.raises(InvalidStackError, match=r"^1 problem in the stack file;"):
        _plan(aks({"sharing": "hole"}), tmp_path)


def test_a_problem_with_the_same_words_is_kept_once(tmp_path: Path) -> None:
    """Two pools with one bad declaration: the declaration's own mistake is one problem."""
    pools = [{"name": name, "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "nb"} for name in ("one", "two")]
    problems = _problems(aks(sharing={"nb": {"timeSlicing": {"replicas": 1}}}, pools=pools), tmp_path)
    assert [problem.path for problem in problems] == ["gpu-pools:sharing.nb.timeSlicing.replicas"]


def test_keys_of_other_namespaces_are_left_alone(tmp_path: Path) -> None:
    stack = aks() + "  azure-native:location: westeurope\n  pulumi:tags: {a: b}\n"
    assert _plan(stack, tmp_path).pools
