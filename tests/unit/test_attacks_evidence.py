"""Attacks by who may write ConfigMaps in the verifiers' namespace: another program, or another document, under the same name."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.proof.program_place import program_place
from gpu_pools.proof.verifier_pods import CHANGER_FILE, PROGRAM_FILE, program_name
from gpu_pools.proof.verifier_start import START, start_command
from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CANNOT_TELL = 2
GOOD, EVIL = b"good", b"evil"
SHA256 = hashlib.sha256(GOOD).hexdigest()


def packed(source: str) -> bytes:
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as target:
        target.writestr("__main__.py", source)
    return made.getvalue()


def started(file: Path, content: bytes, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The container's command, held to that content."""
    command = start_command(str(file), hashlib.sha256(content).hexdigest(), str(file.with_name("log")))
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=scaled(60))


def test_the_program_that_was_deployed_runs_with_its_arguments(tmp_path: Path) -> None:
    program = packed("import sys; print(__name__, sys.argv[1:], sys.path[0] == sys.argv[0]); sys.exit(7)")
    (tmp_path / "p").write_bytes(program)
    ran = started(tmp_path / "p", program, "assert", "--x")
    assert (ran.stdout, ran.returncode) == ("__main__ ['assert', '--x'] True\n", 7), ran.stderr


def test_attack_another_program_under_the_same_name_does_not_run(tmp_path: Path) -> None:
    """Replace the file that is mounted: it is told and not run."""
    (tmp_path / "p").write_bytes(packed(f"open({str(tmp_path / 'owned')!r}, 'w')"))
    ran = started(tmp_path / "p", packed("print('fine')"))
    assert ran.returncode == CANNOT_TELL
    assert not (tmp_path / "owned").exists()
    assert "W90" in ran.stderr
    assert (tmp_path / "log").read_text() in ran.stderr


def test_a_second_file_is_held_to_its_content_as_well_and_is_imported_from(tmp_path: Path) -> None:
    """Replace the file that is mounted beside the program: it is told and not run."""
    (tmp_path / "p").write_bytes(packed("import added, sys; print(added.WHO, sys.argv[1:])"))
    good, evil = BytesIO(), BytesIO()
    for made, who in ((good, "good"), (evil, "evil")):
        with zipfile.ZipFile(made, "w") as target:
            target.writestr("added.py", f"WHO = {who!r}")
    sums = [hashlib.sha256(one).hexdigest() for one in ((tmp_path / "p").read_bytes(), good.getvalue())]
    command = start_command(str(tmp_path / "p"), sums[0], str(tmp_path / "log"), [(str(tmp_path / "c"), sums[1])])
    for content, said, code in ((good, "good ['change', '--']\n", 0), (evil, "", CANNOT_TELL)):
        (tmp_path / "c").write_bytes(content.getvalue())
        ran = subprocess.run([*command, "change", "--"], capture_output=True, text=True, check=False, timeout=60)
        assert (ran.stdout, ran.returncode) == (said, code), ran.stderr
    assert f"{tmp_path / 'c'} is not the verifier that was deployed" in (tmp_path / "log").read_text()


def test_attack_exchanging_the_file_after_the_look_changes_nothing(tmp_path: Path) -> None:
    """Win the race between hashing and running: what runs, and what it loads later, is what was hashed."""
    file, evil = tmp_path / "p", packed("print('evil')")
    changes = f"import pathlib; pathlib.Path({str(file)!r}).write_bytes({evil!r})"
    made = BytesIO(packed(f"{changes}\nimport later; print(later.WHO)"))
    with zipfile.ZipFile(made, "a") as target:
        target.writestr("later.py", "WHO = 'good'")
    file.write_bytes(made.getvalue())
    ran = started(file, made.getvalue())
    assert ran.stdout == "good\n", ran.stderr
    assert file.read_bytes() == evil


def test_attack_writing_to_the_copy_in_memory_is_refused_by_the_kernel(tmp_path: Path) -> None:
    """As another process of the node's root might, through /proc: the copy is sealed."""
    writes = "import sys\ntry:\n open(sys.argv[0], 'r+b', 0).write(b'x')\nexcept OSError as error:\n print(type(error).__name__)"
    program = packed(writes)
    (tmp_path / "p").write_bytes(program)
    assert started(tmp_path / "p", program).stdout == "PermissionError\n"


def test_attack_a_module_beside_the_program_or_in_the_environment_is_not_imported(tmp_path: Path) -> None:
    """Put a hashlib.py into the volume and PYTHONPATH: neither decides what the look itself imports."""
    program = packed("print('good')")
    (tmp_path / "p").write_bytes(program)
    for name in ("hashlib", "zipimport", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("import sys; print('evil'); sys.exit(0)")
    command = start_command("p", hashlib.sha256(program).hexdigest(), "log")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "hashlib.py")}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=scaled(60))
    assert ran.stdout == "good\n", ran.stderr


def test_what_looks_is_short_enough_to_be_read() -> None:
    assert len(START.splitlines()) < 25


# --- where the next deploy puts the program -----------------------------------------------------------------


def config_map(turn: int, content: bytes | None) -> Mapping[str, Any]:
    data = {} if content is None else {PROGRAM_FILE: base64.b64encode(content).decode()}
    return {"metadata": {"name": program_name(SHA256, turn)}, "binaryData": data}


def daemon_set(turn: int) -> Mapping[str, Any]:
    volumes = [{"name": "processes", "hostPath": {}}, {"name": "program", "configMap": {"name": program_name(SHA256, turn)}}]
    return {"spec": {"template": {"spec": {"volumes": volumes}}}}


@pytest.mark.parametrize(
    ("config_maps", "daemon_sets", "turn"),
    [
        ([], [], 0),
        ([config_map(0, GOOD)], [daemon_set(0)], 0),
        # Replaced, also by something without the file, or by what is not base64; after the repair it stays there.
        ([config_map(0, EVIL)], [daemon_set(0)], 1),
        ([config_map(0, None)], [daemon_set(0)], 1),
        ([{"metadata": {"name": program_name(SHA256)}, "binaryData": {PROGRAM_FILE: "\0"}}], [daemon_set(0)], 1),
        ([{"metadata": {"name": program_name(SHA256)}, "binaryData": {PROGRAM_FILE: "Z2!9vZA=="}}], [daemon_set(0)], 1),
        ([config_map(1, GOOD)], [daemon_set(1)], 1),
        # Of two that hold it the one that was deployed last.
        ([config_map(0, GOOD), config_map(1, GOOD)], [daemon_set(0), daemon_set(1)], 1),
        # Taken away: the engine would not notice, and pods could not start.
        ([], [daemon_set(0)], 1),
        ([], [daemon_set(1), daemon_set(0)], 2),
        # An interrupted repair; names that are taken in advance; the first name taken again after the repair.
        ([config_map(0, EVIL), config_map(1, GOOD)], [daemon_set(0)], 1),
        ([config_map(0, EVIL), config_map(1, EVIL), config_map(2, EVIL)], [daemon_set(0)], 3),
        ([config_map(0, EVIL)], [], 1),
        ([config_map(0, EVIL), config_map(1, GOOD)], [daemon_set(1)], 1),
    ],
)
def test_the_program_goes_where_it_is_or_where_nobody_has_taken_its_place(
    config_maps: list[Mapping[str, Any]], daemon_sets: list[Mapping[str, Any]], turn: int
) -> None:
    assert program_place(SHA256, config_maps, daemon_sets) == program_name(SHA256, turn)


def test_what_changes_nodes_has_a_place_of_its_own() -> None:
    first, second = program_name(SHA256, file=CHANGER_FILE), program_name(SHA256, 1, CHANGER_FILE)
    assert (first, second) == (f"changer-{SHA256[:10]}", f"changer-{SHA256[:10]}-1")
    good = {"metadata": {"name": first}, "binaryData": {CHANGER_FILE: base64.b64encode(GOOD).decode()}}
    # The verifier's under the name of the other is another file.
    other = {"metadata": {"name": first}, "binaryData": {PROGRAM_FILE: base64.b64encode(GOOD).decode()}}
    for config_maps, name in (([], first), ([good], first), ([other], second), ([config_map(0, GOOD)], first)):
        assert program_place(SHA256, config_maps, [], CHANGER_FILE) == name


def test_objects_that_are_none_are_passed_over() -> None:
    strange: list[Mapping[str, Any]] = [
        {},
        {"metadata": None},
        {"metadata": {"name": "x"}, "binaryData": 1},
        {"spec": {"template": []}},
    ]
    assert program_place(SHA256, strange, strange) == program_name(SHA256)
