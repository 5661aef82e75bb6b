"""What a release has is made of its commit alone, and says what it is."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpus.verifier_pods import program_name
from pipelines.release import sums_of
from verifier import archive

ROOT = Path(__file__).parents[2]
PACKAGES = ("gpus", "components", "policies", "changes", "evidence", "verifier", "pipelines", ".ci")
FILES = ("pyproject.toml", "requirements.txt", "hashes.txt")
_DATE = "2026-11-01T00:00:00Z"


def _checkout(folder: Path) -> Path:
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    same = {**os.environ, "GIT_AUTHOR_DATE": _DATE, "GIT_COMMITTER_DATE": _DATE}
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "a"]):
        subprocess.run(["git", *identity, *command], cwd=folder, env=same, check=True)
    return folder


def _release(checkout: Path, target: Path, umask: int, **around: str) -> dict[str, bytes]:
    subprocess.run(
        [checkout / ".ci" / "release", target],
        env={**os.environ, "PYTHON": sys.executable, **around},
        check=True,
        timeout=120,
        preexec_fn=lambda: os.umask(umask) and None,
    )
    return {path.name: path.read_bytes() for path in target.iterdir()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The same commit twice: another folder, time of its files, umask, language, time zone and order of hashes."""
    folder = tmp_path_factory.mktemp("release")
    first = _checkout(folder / "one")
    second = _checkout(folder / "another folder with spaces")
    for path in second.rglob("*"):
        if ".git" not in path.parts:
            os.utime(path, (1_000_000_000, 1_000_000_000))
    return (
        _release(first, folder / "a", 0o022, LC_ALL="C", TZ="UTC", PYTHONHASHSEED="1"),
        _release(second, folder / "b", 0o077, LC_ALL="C.UTF-8", LANG="de_DE", TZ="Asia/Kolkata", PYTHONHASHSEED="2"),
    )


def test_two_machines_make_the_same_bytes(made: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    one, other = made
    assert sorted(one) == ["gpu_pools-0.1.0-py3-none-any.whl", "provenance.json", "release.json", "sbom.cdx.json", "verifier.pyz"]
    assert one == other


def test_what_is_in_the_config_map_is_what_the_release_names(made: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    """A program is put into the cluster that no release has: its name is of the digest that the release names."""
    from components import verification  # noqa: PLC0415 - as a deploy loads it

    told = json.loads(made[0]["release.json"])
    assert told["verifier"] == archive.digest() == verification.digest()
    assert program_name(told["verifier"]).endswith(told["verifier"][:10])
    assert told["files"]["verifier.pyz"] == hashlib.sha256(made[0]["verifier.pyz"]).hexdigest()
    in_cluster = base64.b64encode(verification.archive())
    assert base64.b64decode(in_cluster) == made[0]["verifier.pyz"]


def test_the_wheel_brings_the_same_verifier(made: tuple[dict[str, bytes], dict[str, bytes]], tmp_path: Path) -> None:
    (tmp_path / "w.whl").write_bytes(made[0]["gpu_pools-0.1.0-py3-none-any.whl"])
    with zipfile.ZipFile(tmp_path / "w.whl") as wheel:
        for path in (ROOT / "verifier").glob("*.py"):
            assert wheel.read(f"verifier/{path.name}") == path.read_bytes()
        assert not [name for name in wheel.namelist() if name.startswith(("pipelines", "sandbox", "tests"))]


def test_the_list_of_parts_has_every_package_with_its_hashes(made: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    listed = json.loads(made[0]["sbom.cdx.json"])
    pinned = sums_of((ROOT / "hashes.txt").read_text(encoding="utf-8"))
    libraries = {one["name"]: one for one in listed["components"] if one["type"] == "library"}
    assert {"pulumi", "pulumi-azure-native", "nvidia-ml-py", "grpcio", "pyyaml"} <= set(libraries)
    assert not {"pytest", "zizmor", "mypy"} & set(libraries)
    for name, one in libraries.items():
        version, hashes = pinned[name]
        assert one["version"] == version
        assert tuple(entry["content"] for entry in one["hashes"]) == hashes


def test_the_statement_is_about_the_files_and_the_commit(made: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    told: dict[str, Any] = json.loads(made[0]["provenance.json"])
    assert {one["name"]: one["digest"]["sha256"] for one in told["subject"]} == {
        name: hashlib.sha256(content).hexdigest() for name, content in made[0].items() if name.endswith((".whl", ".pyz"))
    }
    commit = json.loads(made[0]["release.json"])["commit"]
    assert told["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"] == {"gitCommit": commit}


def test_another_pynvml_than_the_reviewed_one(tmp_path: Path) -> None:
    """Whoever gets another pynvml into the environment of a deploy gets it onto every node (finding 8): it is refused before."""
    installed = Path(sys.modules["pynvml"].__file__ or "") if "pynvml" in sys.modules else Path(_where("pynvml"))
    (tmp_path / "pynvml.py").write_text(installed.read_text(encoding="utf-8") + "\nimport os\n")
    program = "from verifier.archive import digest; print(digest())"
    around = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", program], env=around, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "is not the pynvml that is reviewed for the nodes: pip install --force-reinstall nvidia-ml-py==" in done.stderr


def _where(module: str) -> str:
    command = [sys.executable, "-c", f"import {module}; print({module}.__file__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_reviewed_pynvml_is_the_pinned_one() -> None:
    pin, _ = archive._PYNVML
    for name in ("requirements.txt", "pyproject.toml"):
        assert pin in (ROOT / name).read_text(encoding="utf-8")


def test_only_the_workflow_of_a_release_attests() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    jobs = workflow["jobs"]
    assert jobs["build"]["permissions"] == {"contents": "read"}
    assert jobs["attest"]["permissions"] == {"attestations": "write", "id-token": "write"}
    assert not any("run" in step for step in jobs["attest"]["steps"]), "what signs runs no code of the repository"
