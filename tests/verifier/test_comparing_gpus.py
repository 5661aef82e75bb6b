"""What NVML said against what was declared, as values: each finding whole, with its words, cause and certainty.

tests/verifier/test_nvml.py provokes the same by a simulated NVML; here every branch and boundary is cheap to reach.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.verifier.compare_gpus import compare_gpus
from gpu_pools.verifier.expectation import Minimum
from gpu_pools.verifier.findings import Findings, Verdict
from gpu_pools.verifier.names import LOADER
from gpu_pools.verifier.reading import ComputeInstance, Failed, Hung, Mode, Process, RemappedRows, Unreadable, failed
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_pools.verifier.expectation import Expectation
    from gpu_pools.verifier.findings import Finding
    from gpu_pools.verifier.reading import Gpu, Reading

#: subject, field, expected, observed, cause.
Told = tuple[str, str, Any, Any, str]

WHOLE: dict[str, Any] = {"exclusive": {}}
SEVEN: dict[str, Any] = {"mig": {"layout": {"1g.10gb": 7}}}
HALVES: dict[str, Any] = {"mig": {"layout": {"3g.40gb": 2}}}
SHARED: dict[str, Any] = {"mps": {"replicas": 4}}
JOB = Process(4242, "compute", "/usr/bin/python3")
UNSUPPORTED, NO_PERMISSION, BLOCKED, UNKNOWN, LOST, RESET, INVALID = 3, 4, 17, 999, 15, 16, 2


@lru_cache
def _node(declared: str, count: int) -> nodes.Node:
    sharing = {"whole": WHOLE, "seven": SEVEN, "halves": HALVES, "mps": SHARED}[declared]
    return nodes.healthy(*nodes.plan_and_pool(sharing, key="a100-80gb", count=count))


def compared(reading: Reading | Hung | Unreadable, expected: Expectation) -> Findings:
    findings = Findings()
    compare_gpus(expected, reading, findings)
    return findings


def told(findings: list[Finding]) -> list[Told]:
    return [(str(one.where.subject), one.field, one.expected, one.observed, one.cause.key) for one in findings]


def spoiled(declared: str = "whole", count: int = 2, at: int = 0, **changes: Any) -> Findings:
    """One GPU of a node says something else."""
    healthy = _node(declared, count)
    assert not isinstance(healthy.nvml.gpus, Failed)
    gpus = list(healthy.nvml.gpus)
    gpus[at] = replace(gpus[at], **changes)
    return compared(replace(healthy.nvml, gpus=tuple(gpus)), healthy.expected)


def first(declared: str, count: int = 2) -> Gpu:
    gpus = _node(declared, count).nvml.gpus
    assert not isinstance(gpus, Failed)
    return gpus[0]


@pytest.mark.parametrize("declared", ["whole", "seven", "halves", "mps"])
def test_what_is_as_declared_passes_without_a_word(declared: str) -> None:
    healthy = _node(declared, 2)
    findings = compared(healthy.nvml, healthy.expected)
    assert (findings.verdict, findings.notes) == (Verdict.HOLDS, [])


# --- NVML as a whole --------------------------------------------------------------------------------------


@pytest.mark.parametrize("killable", [True, False])
@pytest.mark.parametrize(("function", "at"), [("nvmlInit_v2", "nvmlInit_v2"), (None, "the library")])
def test_no_answer_differs(function: str | None, at: str, killable: bool) -> None:  # noqa: FBT001
    findings = compared(Hung(function, 30, killable), _node("whole", 2).expected)
    assert told(findings.differences) == [("NVML", "answer", "within 30 s", f"no answer from {at} within 30 s", "nvml-hang")]
    kernel = "the process that called it cannot be killed: it waits inside the kernel"
    assert [one.detail for one in findings.differences] == ["" if killable else kernel]
    assert findings.unknown == []


def test_a_reader_that_ended_tells_nothing() -> None:
    findings = compared(Unreadable("exit code 139"), _node("whole", 2).expected)
    assert told(findings.unknown) == [("NVML", "reading", "an answer", "exit code 139", "reader-crashed")]
    assert findings.differences == []


@pytest.mark.parametrize(
    ("code", "cause", "certain"),
    [
        (9, "driver-missing", True),
        (12, "library-missing", False),
        (14, "inforom", True),
        (15, "gpu-lost", True),
        (16, "gpu-reset", True),
        (18, "driver-mismatch", True),
        (28, "gpu-lost", True),
        (4, "nvml-permission", False),
        (17, "nvml-permission", False),
        (999, "container-lost-gpu", True),
        (1, "nvml-error", True),
        (3, "nvml-error", True),
    ],
)
def test_why_nvml_does_not_start(code: int, cause: str, certain: bool) -> None:  # noqa: FBT001
    healthy = _node("whole", 2)
    failure = failed(code, "nvmlInit_v2")
    findings = compared(replace(healthy.nvml, failure=failure), healthy.expected)
    said = [("NVML", "start", "answers", f"{failure.error} ({code}) from nvmlInit_v2", cause)]
    assert (told(findings.differences), told(findings.unknown)) == ((said, []) if certain else ([], said))


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        ("libnvidia-ml.so.1: file too short", "the file is empty or cut off"),
        ("libnvidia-ml.so.1: wrong ELF class: ELFCLASS32", "the file is of another word size"),
        ("something else", ""),
    ],
)
def test_a_library_that_cannot_be_loaded_is_told_by_the_loaders_words(error: str, detail: str) -> None:
    healthy = _node("whole", 2)
    # The code of a missing library: the loader's word counts first.
    findings = compared(replace(healthy.nvml, failure=Failed(error, 12, LOADER)), healthy.expected)
    assert told(findings.unknown) == [("NVML", "start", "answers", error, "library-broken")]
    assert findings.unknown[0].detail.startswith(detail)
    assert bool(findings.unknown[0].detail) is bool(detail)


# --- versions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "differs"),
    [("580", False), ("580.95", False), ("580.95.05", False), ("580.95.06", True), ("58", True), ("581", True)],
)
def test_a_declared_driver_is_compared_as_far_as_it_is_told(driver: str, differs: bool) -> None:  # noqa: FBT001
    healthy = _node("whole", 2)
    findings = compared(healthy.nvml, replace(healthy.expected, driver=driver))
    assert told(findings.differences) == ([("driver", "version", driver, nodes.DRIVER, "driver-other")] if differs else [])


@pytest.mark.parametrize(("least", "old"), [("580.95.05", False), ("580.95.06", True), ("579", False), ("581", True)])
def test_a_driver_of_the_least_version_is_new_enough(least: str, old: bool) -> None:  # noqa: FBT001
    healthy = _node("whole", 2)
    findings = compared(healthy.nvml, replace(healthy.expected, minimum=Minimum(least, None)))
    assert told(findings.differences) == ([("driver", "version", f"at least {least}", nodes.DRIVER, "driver-old")] if old else [])
    cuda = compared(healthy.nvml, replace(healthy.expected, minimum=Minimum(None, "13.1")))
    assert told(cuda.differences) == [("driver", "CUDA version", "at least 13.1", nodes.CUDA, "driver-old")]


@pytest.mark.parametrize("code", [UNSUPPORTED, NO_PERMISSION, UNKNOWN])
def test_a_version_that_is_not_told_counts_where_it_is_needed(code: int) -> None:
    healthy = _node("whole", 2)
    failure = failed(code, "nvmlSystemGetDriverVersion")
    reading = replace(healthy.nvml, driver=failure)
    for minimum, needed in ((Minimum(None, None), False), (Minimum("570", None), True)):
        findings = compared(reading, replace(healthy.expected, minimum=minimum, driver="580"))
        said = ("driver", "version", "an answer", str(failure))
        if code == UNKNOWN:
            assert (told(findings.differences), findings.unknown) == ([(*said, "nvml-error")], [])
        elif code == NO_PERMISSION:
            assert (findings.differences, told(findings.unknown)) == ([], [(*said, "nvml-permission")])
        else:
            assert (findings.differences, told(findings.unknown)) == ([], [(*said, "not-answered")] if needed else [])


# --- how many, and which ----------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", ["whole", "seven"])
@pytest.mark.parametrize(("found", "cause"), [(1, "gpu-missing"), (3, "gpu-surplus")])
def test_another_number_of_gpus_differs_and_the_others_are_compared(declared: str, found: int, cause: str) -> None:
    findings = compared(_node(declared, found).nvml, _node(declared, 2).expected)
    assert told(findings.differences) == [("node", "GPU count", 2, found, cause)]
    assert findings.notes == []


def test_where_gpus_are_cut_differently_mig_is_compared_with_the_declared_number_only() -> None:
    apart = {"mig": {"gpus": [{"index": 0, "layout": {"1g.10gb": 7}}, {"index": 1, "layout": {}}]}}
    expected = nodes.healthy(*nodes.plan_and_pool(apart, count=2)).expected
    findings = compared(_node("whole", 1).nvml, expected)
    assert told(findings.differences) == [("node", "GPU count", 2, 1, "gpu-missing")]
    assert findings.notes == ["MIG was not compared: with another number of GPUs their indexes mean other GPUs"]
    assert {cause for *_, cause in told(compared(_node("whole", 2).nvml, expected).differences)} == {"mig-not-on"}


@pytest.mark.parametrize(
    ("code", "cause", "certain"), [(UNSUPPORTED, "not-answered", False), (LOST, "gpu-lost", True), (1, "nvml-error", True)]
)
def test_gpus_that_cannot_be_listed(code: int, cause: str, certain: bool) -> None:  # noqa: FBT001
    healthy = _node("whole", 2)
    failure = failed(code, "nvmlDeviceGetCount_v2")
    findings = compared(replace(healthy.nvml, gpus=failure), healthy.expected)
    said = [("node", "GPUs", "an answer", str(failure), cause)]
    assert (told(findings.differences), told(findings.unknown)) == ((said, []) if certain else ([], said))


def test_a_model_is_compared_by_its_words_and_not_where_no_source_gives_them() -> None:
    name = first("whole").name
    assert isinstance(name, str)
    for same in (name.upper(), name.replace(" ", "-"), name.removeprefix("NVIDIA ")):
        assert spoiled(name=same).verdict is Verdict.HOLDS
    expected = _node("whole", 2).expected
    assert told(spoiled(name="Tesla T4", at=1).differences) == [
        ("GPU 1", "model", " or ".join(expected.products), "Tesla T4", "wrong-model")
    ]
    nameless = compared(_node("whole", 2).nvml, replace(expected, products=()))
    assert (nameless.verdict, nameless.notes) == (
        Verdict.HOLDS,
        ["no source gives the product names of a100-80gb: the model was not compared"],
    )


@pytest.mark.parametrize(
    ("declared", "found", "wanted", "cause"),
    [
        ("whole", "EXCLUSIVE_PROCESS", "DEFAULT", "mode-left-over"),
        ("whole", "PROHIBITED", "DEFAULT", "mode-by-hand"),
        ("mps", "DEFAULT", "EXCLUSIVE_PROCESS", "mps-mode-default"),
        ("mps", "PROHIBITED", "EXCLUSIVE_PROCESS", "mode-by-hand"),
    ],
)
def test_another_compute_mode_is_told_with_who_uses_the_gpu(declared: str, found: str, wanted: str, cause: str) -> None:
    findings = spoiled(declared, compute_mode=found, processes=(JOB, Process(7, "graphics", None)))
    assert told(findings.differences) == [("GPU 0", "compute mode", wanted, found, cause)]
    holders = "processes on the GPU: 4242 /usr/bin/python3 [compute], 7 (other namespace) [graphics]"
    assert findings.differences[0].detail == holders
    assert spoiled(declared, compute_mode=found, processes=failed(UNSUPPORTED, "f")).differences[0].detail == ""
    assert spoiled(declared, compute_mode=found, processes=()).differences[0].detail == ""


# --- errors in place of answers ---------------------------------------------------------------------------

HELPFUL = ("pci_bus", "memory_mib", "profiles", "processes")
OPTIONAL = (
    *HELPFUL,
    "mig",
    "instances",
    "ecc",
    "uncorrected_errors",
    "remapped_rows",
    "retired_pages_pending",
    "recovery_action",
)
NEEDED = ("uuid", "name", "compute_mode")


@pytest.mark.parametrize("code", [3, 13, 21, 22, 25, 26])
@pytest.mark.parametrize("field", [*OPTIONAL, *NEEDED])
def test_what_the_gpu_does_not_know_matters_where_it_is_needed(field: str, code: int) -> None:
    failure = failed(code, "f")
    findings = spoiled(**{field: failure})
    said = [("GPU 0", field.replace("_", " "), "an answer", str(failure), "not-answered")]
    assert told(findings.differences) == []
    assert told(findings.unknown) == (said if field in NEEDED else [])
    assert findings.notes == []


@pytest.mark.parametrize("code", [INVALID, 5, 7, 20, 23, 24, 27])
@pytest.mark.parametrize("field", [*OPTIONAL, *NEEDED])
def test_any_other_error_differs_but_for_a_new_question_to_an_old_driver(field: str, code: int) -> None:
    failure = failed(code, "f")
    findings = spoiled(**{field: failure})
    excused = field == "recovery_action" and code == INVALID
    said = [] if excused else [("GPU 0", field.replace("_", " "), "an answer", str(failure), "nvml-error")]
    assert (told(findings.differences), findings.unknown) == (said, [])


@pytest.mark.parametrize("code", [NO_PERMISSION, BLOCKED])
@pytest.mark.parametrize("field", [*OPTIONAL, *NEEDED])
def test_what_may_not_be_read_cannot_be_told_or_is_noted_where_it_only_explains(field: str, code: int) -> None:
    failure = failed(code, "f")
    findings = spoiled(**{field: failure})
    words = field.replace("_", " ")
    uuid = "" if field == "uuid" else f" ({first('whole').uuid})"
    if field in HELPFUL:
        assert (findings.notes, findings.unknown) == ([f"GPU 0{uuid}: {words} may not be read ({failure})"], [])
    else:
        assert told(findings.unknown) == [("GPU 0", words, "an answer", str(failure), "nvml-permission")]
        assert findings.notes == []
    assert findings.differences == []


@pytest.mark.parametrize(("code", "cause"), [(14, "inforom"), (LOST, "gpu-lost"), (RESET, "gpu-reset"), (28, "gpu-lost")])
def test_a_lost_gpu_is_told_once_and_nothing_more_is_compared_of_it(code: int, cause: str) -> None:
    failure = failed(code, "f")
    findings = spoiled(uuid=failure, name="Tesla T4", compute_mode=failure, ecc=failure)
    said = [("GPU 0", "uuid", "an answer", str(failure), cause)]
    model = [("GPU 0", "model", " or ".join(_node("whole", 2).expected.products), "Tesla T4", "wrong-model")]
    assert told(findings.differences) == (said if cause == "gpu-lost" else said + model)


def test_in_mig_mode_a_compute_mode_is_not_needed() -> None:
    assert spoiled("seven", compute_mode=failed(UNSUPPORTED, "f")).verdict is Verdict.HOLDS
    assert spoiled("seven", uuid=failed(UNSUPPORTED, "f")).verdict is Verdict.CANNOT_TELL
    assert spoiled("seven", name=failed(UNSUPPORTED, "f")).verdict is Verdict.CANNOT_TELL


def _without_placements(gpu: Gpu, code: int) -> Any:
    assert not isinstance(gpu.profiles, Failed)
    return tuple(replace(profile, placements=failed(code, "f")) for profile in gpu.profiles)


@pytest.mark.parametrize("code", [UNSUPPORTED, INVALID])
def test_an_older_driver_may_not_know_placements(code: int) -> None:
    findings = spoiled("seven", profiles=_without_placements(first("seven"), code))
    assert (findings.verdict, findings.notes) == (Verdict.HOLDS, [])


def test_placements_that_may_not_be_read_are_noted() -> None:
    findings = spoiled("seven", profiles=_without_placements(first("seven"), NO_PERMISSION))
    assert findings.verdict is Verdict.HOLDS
    assert [note.partition(": ")[2].split(" (")[0] for note in findings.notes] == ["placements may not be read"]


# --- health -----------------------------------------------------------------------------------------------

REPAIR = ("GPU 0", "memory repair", "none pending", "pending", "memory-repair-pending")
BROKEN = ("GPU 0", "remapped rows", "none failed", "2 failed", "memory-broken")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"remapped_rows": RemappedRows(4, 3, 0, 0)}, []),
        ({"remapped_rows": RemappedRows(0, 0, 1, 0)}, [REPAIR]),
        ({"remapped_rows": RemappedRows(0, 0, 0, 2)}, [BROKEN]),
        ({"remapped_rows": RemappedRows(0, 0, 1, 2)}, [BROKEN, REPAIR]),
        ({"remapped_rows": failed(UNSUPPORTED, "f"), "retired_pages_pending": True}, [REPAIR]),
        ({"remapped_rows": failed(UNSUPPORTED, "f"), "retired_pages_pending": False}, []),
        ({"remapped_rows": RemappedRows(0, 0, 0, 0), "retired_pages_pending": True}, [REPAIR]),
        ({"uncorrected_errors": 1}, [("GPU 0", "uncorrected ECC errors", 0, 1, "memory-errors")]),
        ({"ecc": Mode(1, 0)}, [("GPU 0", "ECC mode", "on, nothing pending", "off pending", "ecc-pending")]),
        ({"ecc": Mode(0, 1)}, [("GPU 0", "ECC mode", "off, nothing pending", "on pending", "ecc-pending")]),
        ({"ecc": Mode(0, 2)}, [("GPU 0", "ECC mode", "off, nothing pending", "mode 2 pending", "ecc-pending")]),
        ({"ecc": Mode(0, 0)}, []),
    ],
)
def test_what_is_wrong_with_a_gpu_itself(changes: dict[str, Any], expected: list[Told]) -> None:
    findings = spoiled(**changes)
    assert (told(findings.differences), findings.unknown) == (expected, [])


@pytest.mark.parametrize(
    ("number", "action"),
    [
        (1, "reset the GPU"),
        (2, "reboot the node"),
        (3, "drain peer-to-peer work"),
        (4, "drain and reset the GPU"),
        (5, "recover the IMEX domain"),
        (6, "reset the bus"),
        (7, "reboot the system"),
        (8, "action 8"),
        (99, "action 99"),
    ],
)
def test_an_action_that_the_driver_asks_for_is_told_by_its_name_or_its_number(number: int, action: str) -> None:
    assert told(spoiled(recovery_action=number).differences) == [("GPU 0", "recovery action", "none", action, "gpu-reset")]
    assert spoiled(recovery_action=0).verdict is Verdict.HOLDS


# --- MIG --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "mode", "told_as"),
    [
        ("whole", Mode(1, 1), ("MIG mode", "off", "on", "mig-not-off")),
        ("whole", Mode(0, 1), ("pending MIG mode", "off", "on", "mig-pending")),
        ("whole", Mode(1, 0), ("MIG mode", "off", "on, off pending", "mig-pending")),
        ("seven", Mode(0, 0), ("MIG mode", "on", "off", "mig-not-on")),
        ("seven", Mode(1, 0), ("pending MIG mode", "on", "off", "mig-pending")),
        ("seven", Mode(0, 1), ("MIG mode", "on", "off, on pending", "mig-pending")),
        ("seven", Mode(2, 2), ("MIG mode", "on", "mode 2", "mig-not-on")),
    ],
)
def test_a_mode_that_is_not_the_declared_one(declared: str, mode: Mode, told_as: tuple[str, str, str, str]) -> None:
    findings = spoiled(declared, mig=mode)
    assert told(findings.differences) == [("GPU 0", *told_as)]
    assert findings.differences[0].detail == ""


@pytest.mark.parametrize(("declared", "mode"), [("whole", Mode(1, 0)), ("seven", Mode(0, 1))])
def test_a_mode_that_waits_for_a_process_names_it(declared: str, mode: Mode) -> None:
    (finding,) = spoiled(declared, mig=mode, processes=(JOB,)).differences
    assert (finding.cause.key, finding.detail) == ("mig-blocked", "processes on the GPU: 4242 /usr/bin/python3 [compute]")


def test_no_mig_where_it_is_declared_differs() -> None:
    failure = failed(UNSUPPORTED, "nvmlDeviceGetMigMode")
    assert told(spoiled("seven", mig=failure).differences) == [("GPU 0", "MIG mode", "on", str(failure), "mig-unsupported")]
    assert spoiled("whole", mig=failure).verdict is Verdict.HOLDS
    forbidden = spoiled("seven", mig=failed(NO_PERMISSION, "nvmlDeviceGetMigMode"))
    assert (forbidden.differences, len(forbidden.unknown)) == ([], 1)


def _instances(declared: str, change: Callable[[Any], Any]) -> Any:
    return change(first(declared).instances)


SEVEN_DECLARED = {"1g.10gb": 7}


@pytest.mark.parametrize(
    ("count", "kept", "cause"),
    [(2, 0, "mig-one-differs"), (1, 0, "mig-empty"), (2, 6, "mig-one-differs"), (1, 6, "mig-layout")],
)
def test_fewer_instances_than_declared(count: int, kept: int, cause: str) -> None:
    instances = _instances("seven", lambda every: every[:kept])
    findings = spoiled("seven", count, instances=instances, processes=(JOB,))
    observed = {"1g.10gb": kept} if kept else {}
    expected_cause = "mig-empty" if not kept else cause
    assert told(findings.differences) == [("GPU 0", "MIG instances", SEVEN_DECLARED, observed, expected_cause)]
    assert findings.differences[0].detail == "processes on the GPU: 4242 /usr/bin/python3 [compute]"


def test_other_instances_than_declared_are_named_and_a_profile_that_is_not_listed_by_its_id() -> None:
    halves = first("halves").instances
    assert told(spoiled("seven", 1, instances=halves).differences) == [
        ("GPU 0", "MIG instances", SEVEN_DECLARED, {"3g.40gb": 2}, "mig-layout")
    ]
    unlisted = _instances("seven", lambda every: (replace(every[0], profile_id=4711), *every[1:]))
    assert told(spoiled("seven", 1, instances=unlisted).differences) == [
        ("GPU 0", "MIG instances", SEVEN_DECLARED, {"profile 4711": 1, "1g.10gb": 6}, "mig-layout")
    ]


@pytest.mark.parametrize(("code", "unknown", "certain"), [(UNSUPPORTED, 1, 0), (NO_PERMISSION, 1, 0), (1, 0, 1)])
def test_instances_that_are_not_told(code: int, unknown: int, certain: int) -> None:
    failure = failed(code, "f")
    findings = spoiled("seven", instances=failure)
    assert (len(findings.unknown), len(findings.differences)) == (unknown, certain)
    if code == UNSUPPORTED:
        assert told(findings.unknown) == [("GPU 0", "MIG instances", SEVEN_DECLARED, str(failure), "not-answered")]


@pytest.mark.parametrize(
    ("computes", "observed"),
    [
        ((), "none"),
        ((ComputeInstance(0, 1, 0),), ["1 of 3 slices"]),
        ((ComputeInstance(0, 1, 0), ComputeInstance(1, 2, 1)), ["1 of 3 slices", "2 of 3 slices"]),
    ],
)
def test_an_instance_needs_one_compute_instance_of_its_whole_size(computes: Any, observed: Any) -> None:
    instances = _instances("halves", lambda every: (replace(every[0], computes=computes), *every[1:]))
    named = f"compute instances of 3g.40gb instance {instances[0].id}"
    assert told(spoiled("halves", instances=instances).differences) == [
        ("GPU 0", named, "one of the whole size", observed, "mig-half-made")
    ]


@pytest.mark.parametrize(("start", "size"), [(1, 4), (0, 3)])
def test_an_instance_where_its_profile_may_not_be(start: int, size: int) -> None:
    instances = _instances("halves", lambda every: (replace(every[0], start=start, size=size), *every[1:]))
    named = f"placement of 3g.40gb instance {instances[0].id}"
    assert told(spoiled("halves", instances=instances).differences) == [
        ("GPU 0", named, [[0, 4], [4, 4]], [start, size], "mig-layout")
    ]


def test_a_layout_that_this_gpu_cannot_hold_is_told_as_such() -> None:
    profiles = first("seven").profiles
    assert not isinstance(profiles, Failed)
    fewer = tuple(replace(profile, max_instances=4) if profile.name == "1g.10gb" else profile for profile in profiles)
    causes = {cause for *_, cause in told(spoiled("seven", 1, profiles=fewer, instances=()).differences)}
    assert causes == {"mig-empty", "layout-illegal"}
    # What is there as declared was legal.
    assert spoiled("seven", 1, profiles=fewer).verdict is Verdict.HOLDS


@pytest.mark.parametrize("profiles", [(), failed(UNSUPPORTED, "f")])
def test_where_no_profiles_are_listed_legality_is_not_checked(profiles: Any) -> None:
    findings = spoiled("seven", mig=Mode(0, 0), instances=(), profiles=profiles)
    assert told(findings.differences) == [("GPU 0", "MIG mode", "on", "off", "mig-not-on")]
    (note,) = findings.notes
    assert note.endswith("NVML lists no MIG profiles now, so that the layout fits this GPU was not checked")


# --- GPUs that are cut differently ------------------------------------------------------------------------

APART: dict[str, Any] = {"mig": {"gpus": [{"index": 0, "layout": {"3g.40gb": 1, "1g.10gb": 3}}, {"index": 1, "layout": {}}]}}
ALIKE: dict[str, Any] = {"mig": {"layout": {"3g.40gb": 1, "1g.10gb": 3}}}


def test_each_gpu_is_compared_with_what_is_declared_of_it() -> None:
    healthy = nodes.healthy(*nodes.plan_and_pool(APART, count=2))
    assert compared(healthy.nvml, healthy.expected).verdict is Verdict.HOLDS


def test_a_gpu_without_mig_is_no_example_that_the_others_failed_to_follow() -> None:
    healthy = nodes.healthy(*nodes.plan_and_pool(APART, count=2))
    gpus: Any = healthy.nvml.gpus
    fewer = replace(gpus[0], instances=gpus[0].instances[:-1])
    (finding,) = compared(replace(healthy.nvml, gpus=(fewer, gpus[1])), healthy.expected).differences
    assert finding.cause.key == "mig-layout"


def test_in_which_order_instances_are_declared_makes_no_difference() -> None:
    expected = nodes.healthy(*nodes.plan_and_pool(ALIKE, count=2)).expected
    turned = replace(expected.gpus[1], instances=dict(reversed(expected.gpus[1].instances.items())))
    findings = compared(
        nodes.healthy(*nodes.plan_and_pool(ALIKE, count=3)).nvml, replace(expected, gpus=(expected.gpus[0], turned))
    )
    assert (told(findings.differences), findings.notes) == ([("node", "GPU count", 2, 3, "gpu-surplus")], [])


def test_in_a_wrong_layout_half_made_instances_are_told_too() -> None:
    halves: Any = first("halves").instances
    findings = spoiled("seven", 1, instances=(replace(halves[0], computes=()), halves[1]))
    assert [cause for *_, cause in told(findings.differences)] == ["mig-layout", "mig-half-made"]
