"""Bad stack files through the real engine: refused by the program itself, with every problem, before anything is registered.

The unit tests plan every case of the table; here a sample goes past the command line's own check, straight to
``pulumi preview`` and ``pulumi up``, as for a user who has no sandbox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from sandbox.system.files import read_json
from tests.tiers import one_of_each, these
from tests.unit.bad_aks_options import MANY_MISTAKES, MANY_TOLD
from tests.unit.bad_stacks import CASES, TEN_MISTAKES, TEN_PATHS
from tests.unit.stacks import aks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial
    from tests.unit.bad_case import Case

pytestmark = [pytest.mark.engine, pytest.mark.programs]

GOOD: Final = aks(sharing={"nb": {"timeSlicing": {"replicas": 4}}})
#: One of each sort.
SAMPLE: Final = {
    "section-unknown",
    "cluster-unknown-platform",
    "aks-location-missing",
    "magnum-template-and-id",
    "sharing-two-strategies",
    "sharing-misplaced-replicas",
    "replicas-1",
    "replicas-a-text",
    "mps-replicas-49",
    "mps-on-mig",
    "mig-profile-of-another-gpu",
    "mig-slices-fit-places-do-not",
    "mig-on-t4",
    "mig-index-missing",
    "mig-index-twice",
    "pools-empty",
    "pool-name-13-characters",
    "pool-name-twice",
    "pool-no-sharing",
    "pool-unknown-size",
    "pool-fraction-of-a-gpu",
    "pool-min-above-max",
    "taint-without-effect",
    "operator-value-typo",
    "aks-cluster-network-ranges-overlap",
    "aks-pool-subnet-without-the-clusters",
    "aks-pool-property-unknown-below",
    "gpu-model-mig-without-source",
}
CHOSEN: Final = tuple(case for case in CASES if case.id in SAMPLE and case.read_by_engine)


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    """A stack that was good when its stand-ins were started, and was never brought up."""
    made = shared_sandbox(GOOD)
    made.preview().ok()
    return made


def test_the_sample_is_in_the_table() -> None:
    assert {case.id for case in CHOSEN} == SAMPLE


@pytest.mark.parametrize("case", one_of_each(CHOSEN, lambda _: "one, of all sections", by_day=3), ids=lambda case: case.id)
def test_preview_refuses(case: Case, trial: Trial) -> None:
    trial.write(case.stack)
    refused = trial.engine("preview")
    assert refused.code != 0
    for part in (case.path, case.message, case.allowed, case.remedy):
        assert part in refused.text
    assert "Traceback" not in refused.text
    # Of all that the program would register the engine has heard of the stack alone.
    assert "gpu-pools:index:" not in refused.text


def test_all_problems_come_at_once(trial: Trial) -> None:
    trial.write(TEN_MISTAKES)
    refused = trial.engine("preview")
    assert refused.code != 0
    for path in TEN_PATHS:
        assert path in refused.text


@pytest.mark.sweep
def test_so_do_those_of_fifty_pools_and_thirty_gpu_models(trial: Trial) -> None:
    trial.write(MANY_MISTAKES)
    refused = trial.engine("preview")
    assert refused.code != 0
    assert len(MANY_TOLD) >= 80
    for path, message in MANY_TOLD:
        assert f"{path}: " in refused.text
        assert message in refused.text


@pytest.mark.parametrize(
    "stack",
    these([TEN_MISTAKES, MANY_MISTAKES, CHOSEN[0].stack], [MANY_MISTAKES]),
    ids=["ten mistakes", "eighty mistakes", CHOSEN[0].id],
)
def test_up_creates_nothing(stack: str, trial: Trial) -> None:
    trial.write(stack)
    assert trial.engine("up", "--yes", "--skip-preview").code != 0
    made = [resource["type"] for resource in trial.exported().get("resources", [])]
    assert set(made) <= {"pulumi:pulumi:Stack"}
    assert not any(read_json(trial.folder / "cloud/azure.json").values())
    assert trial.clusters == []


def test_the_command_line_refuses_before_it_starts_anything(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(TEN_MISTAKES)
    for command in ("up", "preview"):
        refused = trial.run(command, trial.stack)
        assert refused.code == 2
        assert all(path in refused.err for path in TEN_PATHS)
    assert trial.processes() == {}
    assert not trial.root.exists()


def test_the_corrected_stack_is_accepted(trial: Trial) -> None:
    """Also the control of the tests above: this is what they look for in vain."""
    trial.write(GOOD)
    assert "gpu-pools:index:GpuPlatform" in trial.engine("preview").ok().text
