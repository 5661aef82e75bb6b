"""Remedies work: who follows one is rid of the problem and has no new one.

Every bad stack of bad_stacks.py is mended as the text of each of its problems says, and planned again. What a text says becomes
an edit in followed_remedies.py; what only a user can know stands in remedies_by_hand.py. A case that is in neither fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.yaml_text import load_yaml
from tests.unit.bad_case import FILE
from tests.unit.bad_stacks import CASES
from tests.unit.followed_remedies import Edit, Renamed, edited, follow
from tests.unit.remedies_by_hand import BY_HAND, FILES, INSTEAD, NO_EDIT
from tests.unit.stacks import GONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpu_pools.text.errors import Problem
    from tests.unit.bad_case import Case

_STACKS = [case for case in CASES if case.id not in FILES]


def _problems(text: str, folder: Path, *, complete: bool) -> tuple[Problem, ...]:
    file = folder / "Pulumi.bad.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        plan_config(read_stack_file(file), complete=complete)
    except InvalidStackError as error:
        return error.problems
    return ()


def _key(case: Case, problem: Problem) -> str:
    return case.id if problem.path == case.path else f"{case.id} {problem.path}"


def _edits(case: Case, problem: Problem, config: Mapping[str, object]) -> Iterator[Edit]:
    key = _key(case, problem)
    if key in INSTEAD:
        why, changes = INSTEAD[key]
        yield from (Edit(why, each) for each in changes)
        return
    yield from follow(problem, config)
    yield from (Edit("by hand", each) for each in BY_HAND.get(key, ()))


@pytest.mark.parametrize("case", _STACKS, ids=lambda case: case.id)
def test_following_a_remedy_ends_the_problem_and_starts_none(case: Case, tmp_path: Path) -> None:
    before = _problems(case.stack, tmp_path, complete=case.deploy_only)
    config = load_yaml(case.stack)["config"]
    known = {(problem.path, problem.message) for problem in before}
    for problem in before:
        edits = [*_edits(case, problem, config)]
        assert edits or _key(case, problem) in NO_EDIT, f"nothing follows:\n{problem}"
        for edit in edits:
            text = yaml.safe_dump({"config": edited(config, edit)}, sort_keys=False)
            after = _problems(text, tmp_path, complete=case.deploy_only)
            wrong = [left for left in after if left.path == problem.path and left.message == problem.message]
            wrong += [new for new in after if (new.path, new.message) not in known]
            assert not wrong, f"{problem}\nfollowed by {edit}:\n" + "\n".join(map(str, wrong))


@pytest.mark.parametrize("case", [case for case in CASES if case.id in FILES], ids=lambda case: case.id)
def test_a_file_can_be_read_once_its_remedy_is_followed(case: Case, tmp_path: Path) -> None:
    """What else is wrong in it is told then: of a file that cannot be read nothing more is known."""
    (before,) = _problems(case.stack, tmp_path, complete=False)
    assert case.path.replace(FILE, str(tmp_path / "Pulumi.bad.yaml")) == before.path
    assert all(not left.path.startswith(str(tmp_path)) for left in _problems(FILES[case.id], tmp_path, complete=False))


def test_no_row_is_left_of_a_case_that_is_gone(tmp_path: Path) -> None:
    keys = {_key(case, problem) for case in _STACKS for problem in _problems(case.stack, tmp_path, complete=case.deploy_only)}
    assert {*BY_HAND, *INSTEAD, *NO_EDIT} <= keys
    assert {*FILES} <= {case.id for case in CASES}


def test_edits_reach_keys_with_dots_lists_and_what_is_not_there() -> None:
    config = {"gpu-pools:pools": [{"labels": {"a.b/c": "1"}}]}
    edit = Edit("", {"gpu-pools:pools[0].labels.a.b/c": "2", "gpu-pools:operator.driver": "operator"})
    assert edited(config, edit) == {
        "gpu-pools:pools": [{"labels": {"a.b/c": "2"}}],
        "gpu-pools:operator": {"driver": "operator"},
    }
    assert edited(config, Edit("", {"gpu-pools:pools[0].labels.a.b/c": Renamed("d")})) == {
        "gpu-pools:pools": [{"labels": {"d": "1"}}]
    }
    assert edited(config, Edit("", {"gpu-pools:pools[0].labels": GONE})) == {"gpu-pools:pools": [{}]}
    assert config == {"gpu-pools:pools": [{"labels": {"a.b/c": "1"}}]}
