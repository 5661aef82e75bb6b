"""`make test` holds every kind of thing once, although most cases of the slow kinds are left to `make test-all`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.nights import NIGHTS
from tests.patience import scaled
from tests.tiers import one_of_each, these

PROJECT: Final = Path(__file__).resolve().parents[2]
#: Where whole files are marked.
FOLDERS: Final = ("tests/engine", "tests/sandbox")
#: Files of which `make test` runs nothing; each repeats with special cases what the file behind it shows.
LEFT_OUT: Final = {
    "tests/sandbox/machines/test_first_offer.py": "tests/sandbox/machines/test_daemon.py",
    "tests/engine/test_adopt.py": "tests/adopting/test_command.py",
    "tests/engine/test_adopt_clusters.py": "tests/adopting/test_command.py",
    "tests/engine/test_aks_changes.py": "tests/engine/test_platforms.py",
    "tests/engine/test_already_there.py": "tests/components/test_owners.py",
    "tests/engine/test_azure_check.py": "tests/components/test_azure_check.py",
    "tests/engine/test_aks_existing.py": "tests/components/test_existing_aks.py",
    "tests/engine/test_aks_options.py": "tests/components/test_aks_options.py",
    "tests/engine/test_aks_rows.py": "tests/components/test_aks_options.py",
    "tests/engine/test_aks_system_pool.py": "tests/sandbox/test_system_pool.py",
    "tests/engine/test_azure_monitor.py": "tests/components/test_observability.py",
    "tests/engine/test_changes.py": "tests/engine/test_platforms.py",
    "tests/engine/test_dra_rollout.py": "tests/verifier/test_rollout_steps.py",
    "tests/engine/test_dra.py": "tests/components/test_dra_driver.py",
    "tests/engine/test_drift.py": "tests/unit/test_drift.py",
    "tests/engine/test_entra.py": "tests/sandbox/test_attacks_entra.py",
    "tests/engine/test_faults.py": "tests/engine/test_platforms.py",
    "tests/engine/test_gpu_node.py": "tests/sandbox/gpu_node/test_gpu_node.py",
    "tests/engine/test_gpu_models.py": "tests/sandbox/nvml/test_declared.py",
    "tests/engine/test_keys.py": "tests/engine/test_platforms.py",
    "tests/engine/test_lifecycle.py": "tests/engine/test_platforms.py",
    "tests/engine/test_leaving.py": "tests/unit/test_leave_program.py",
    "tests/engine/test_magnum.py": "tests/engine/test_platforms.py",
    "tests/engine/test_magnum_addons.py": "tests/engine/test_platforms.py",
    "tests/engine/test_magnum_existing.py": "tests/components/test_existing_magnum.py",
    "tests/engine/test_magnum_options.py": "tests/components/test_magnum.py",
    "tests/engine/test_magnum_scaling.py": "tests/unit/test_magnum_scaling.py",
    "tests/engine/test_mps.py": "tests/sandbox/machines/test_mps_daemon.py",
    "tests/engine/test_observability.py": "tests/components/test_observability.py",
    "tests/engine/test_observed.py": "tests/unit/test_observed.py",
    "tests/engine/test_plans.py": "tests/engine/test_platforms.py",
    "tests/engine/test_policy_programs.py": "tests/policies/test_rules.py",
    "tests/engine/test_real_node.py": "tests/sandbox/real_node/test_parts.py",
    "tests/engine/test_real_node_mps.py": "tests/sandbox/real_node/test_parts.py",
    "tests/engine/test_release.py": "tests/adopting/test_command.py",
    "tests/engine/test_repair.py": "tests/unit/test_repair.py",
    "tests/engine/test_reverts.py": "tests/engine/test_interruption.py",
    "tests/engine/test_rollout.py": "tests/sandbox/test_changer_rights.py",
    "tests/engine/test_rollout_aks.py": "tests/sandbox/test_changer_rights.py",
    "tests/engine/test_rollout_magnum.py": "tests/sandbox/test_changer_rights.py",
    "tests/engine/test_rollout_work.py": "tests/sandbox/test_changer_rights.py",
    "tests/engine/test_replacement_aks.py": "tests/unit/test_emptying.py",
    "tests/engine/test_replacement_magnum.py": "tests/unit/test_emptying.py",
    "tests/engine/test_replacement_magnum_existing.py": "tests/unit/test_emptying.py",
    "tests/engine/test_startup_taint.py": "tests/components/test_startup_taint.py",
    "tests/engine/test_environment.py": "tests/engine/test_interruption.py",
    "tests/engine/test_upgrades.py": "tests/unit/test_operator_upgrade.py",
    "tests/engine/test_verification.py": "tests/sandbox/machines/test_verified_nodes.py",
    "tests/sandbox/machines/test_dra_nodes.py": "tests/sandbox/machines/test_dra_manager.py",
    "tests/sandbox/machines/test_nfd_gc.py": "tests/sandbox/machines/test_nfd_worker.py",
    "tests/sandbox/real/test_dra_driver.py": "tests/sandbox/machines/test_dra_driver_pod.py",
    "tests/sandbox/real/test_generated_layouts.py": "tests/sandbox/machines/test_mig.py",
    "tests/sandbox/real_node/test_dra_driver.py": "tests/sandbox/machines/test_dra_driver_pod.py",
    "tests/sandbox/real_node/test_dra_kubelets.py": "tests/sandbox/machines/test_dra_manager.py",
    "tests/sandbox/real_node/test_private_pull.py": "tests/sandbox/test_charts.py",
    "tests/sandbox/real_node/test_real_node.py": "tests/sandbox/real_node/test_parts.py",
    "tests/sandbox/test_private_registry.py": "tests/sandbox/test_charts.py",
    "tests/sandbox/test_registry.py": "tests/unit/test_image_answers.py",
    "tests/sandbox/machines/test_real_operator.py": "tests/sandbox/machines/test_operator_on_nodes.py",
}
INTERRUPTIONS: Final = "tests/engine/test_interruption.py::test_the_next_run_finishes_what_was_interrupted"
#: A file of which all is for the nights.
NIGHTLY: Final = "tests/engine/test_gpu_models.py"
ENGINE: Final = (
    "bad_input",
    "interruption",
    "packages",
    "platforms",
    "policy_pack",
)
#: Each kind, as a pattern of the name of a test in `make test`.
KINDS: Final = {
    "a platform brought up and changed": r"engine/test_platforms\.py::.*\[aks\]",
    "an interrupt": r"engine/test_interruption\.py::.*-ctrl-c\]",
    "a kill": r"engine/test_interruption\.py::.*-kill-all\]",
    "bad input refused by the program": r"engine/test_bad_input\.py::test_preview_refuses\[",
    "bad input refused by the command": r"engine/test_bad_input\.py::test_the_command_line_refuses",
    "a mandatory policy": r"engine/test_policy_pack\.py::test_a_bad_program_is_stopped",
    "an advisory policy": r"engine/test_policy_pack\.py::test_a_stack_makes_a_rule_advisory",
    "an exception of a policy": r"engine/test_policy_pack\.py::test_an_exception_holds",
    "the wheel": r"engine/test_packages\.py::test_the_wheel",
    "the real mig-parted, 7 slices": r"real/test_mig_parted\.py::test_what_the_plan_calls_legal.*\[[abgh]\d+",
    "the real mig-parted refuses": r"real/test_mig_parted\.py::test_what_the_plan_refuses_is_refused\[",
    "the real device plugin": r"real/test_device_plugin\.py::",
    "the real gpu-feature-discovery": r"real/test_labels\.py::",
    "all real programs on a node": r"machines/test_verified_nodes\.py::test_nodes_of_every_strategy",
    "the real Magnum": r"sandbox/test_openstack\.py::TestPluginOverTheRealApi::",
}


def _collected(marks: str) -> list[str]:
    """The names of the tests in these folders that have such marks."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-n", "0", "-m", marks]
    done = subprocess.run(
        [*command, *FOLDERS, "tests/observing"], cwd=PROJECT, capture_output=True, text=True, check=False, timeout=scaled(300)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture(scope="module")
def fast() -> list[str]:
    """The names of the tests in these folders that `make test` runs."""
    return _collected("not sweep")


@pytest.mark.parametrize("kind", KINDS)
def test_make_test_has_one_of_each_kind(kind: str, fast: list[str]) -> None:
    assert any(re.search(KINDS[kind], name) for name in fast)


def test_only_files_that_repeat_what_another_shows_are_left_out_wholly(fast: list[str]) -> None:
    some = {name.partition("::")[0] for name in fast}
    every = {str(path.relative_to(PROJECT)) for folder in FOLDERS for path in (PROJECT / folder).rglob("test_*.py")}
    assert every - some == LEFT_OUT.keys()
    assert all((PROJECT / shown).is_file() for shown in LEFT_OUT.values())


def test_the_engine_runs_some_tests_in_make_test_and_not_most(fast: list[str]) -> None:
    """What is not marked is in `make test`, so a new file that brings stacks up would be; it is to be marked, or listed here."""
    files = {name.partition("::")[0] for name in fast if name.startswith("tests/engine/")}
    assert files == {f"tests/engine/test_{name}.py" for name in ENGINE}
    assert len([name for name in fast if name.startswith(INTERRUPTIONS)]) == 2


def test_the_pipeline_runs_both_tiers_each_once() -> None:
    assert (PROJECT / ".ci" / "run").read_text(encoding="utf-8").endswith("\nmake test-all\n")
    command = ["make", "--dry-run", "--no-print-directory", "test-all", "MADE=", "PYTEST=pytest"]
    # A make that runs this test hands its own options on.
    told = subprocess.run(
        command, cwd=PROJECT, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"^pytest .*-m (.*)$", told, re.MULTILINE) == ['"not sweep"', '"sweep and not night"']


@pytest.mark.parametrize(("everything", "outcome"), [("", "skipped"), ("1", "no tests ran")])
def test_what_is_for_the_nights_is_left_out_by_day_and_says_why(everything: str, outcome: str) -> None:
    """Nothing is run, not even where it would be: only what each test would need is shown."""
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-n", "0", "--setup-plan", NIGHTLY]
    environment = {**os.environ, "GPU_POOLS_TEST_ALL": everything}
    told = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True, timeout=scaled(120)
    ).stdout
    assert ("at night: seven models of one stack" in told) == (not everything)
    assert outcome in told


def test_of_each_kind_one_is_drawn_and_always_the_same() -> None:
    words = ["ant", "ape", "bee", "cat", "cow", "cub"]
    drawn = [one_of_each(words, lambda word: word[0], seed=3) for _ in range(2)]
    chosen = [[one.values[0] for one in each if not one.marks] for each in drawn]
    assert chosen[0] == chosen[1]
    assert [word[0] for word in chosen[0]] == ["a", "b", "c"]
    assert [one.values[0] for one in drawn[0]] == words


def test_other_seeds_draw_others() -> None:
    drawn = {tuple(bool(one.marks) for one in one_of_each(range(9), lambda _: 0, seed=seed)) for seed in range(20)}
    assert len(drawn) > 3


def test_what_is_named_is_a_case() -> None:
    assert [bool(one.marks) for one in these(["a", "b"], ["b"])] == [True, False]
    with pytest.raises(ValueError, match="no such case"):
        these(["a", "b"], ["c"])


def test_of_many_cases_the_first_are_for_the_day() -> None:
    marks = [{mark.name for mark in one.marks} for one in these(["a", "b", "c"], ["a"], by_day=2)]
    assert marks == [set(), {"sweep"}, {"sweep", "night"}]


def test_each_file_of_the_nights_is_there_and_shows_its_kind_by_day(fast: list[str]) -> None:
    by_day = [*fast, *_collected("sweep and not night")]
    files = {name.partition("::")[0] for name in by_day}
    for file, night in NIGHTS.items():
        assert (PROJECT / file).is_file()
        assert night.by_day in files
        assert (file in files) == (night.by_day == file)
        assert all(any(name.startswith(file) and part in name for name in by_day) for part in night.keeps)
