"""What a release has is made of its commit alone, and says what it is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_pools import __version__
from gpu_pools.proof.verifier_pods import program_name
from gpu_pools.verifier import archive
from pipelines.release import disagreements, sections_of, sums_of
from tests.patience import scaled

ROOT = Path(__file__).parents[2]
PACKAGES = ("gpu_pools", "components", "policies", "docs", "pipelines", ".ci")
FILES = ("pyproject.toml", "requirements.txt", "hashes.txt", "CHANGELOG.md", "LICENSE")
#: They say what the others are.
DESCRIBING = ("release.json", "sbom.cdx.json", "provenance.json")
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
        timeout=scaled(120),
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
    wheel = f"gpu_pools-{__version__}-py3-none-any.whl"
    assert set(one) == {wheel, *DESCRIBING, "changes.md", "schema.json", "verifier.pyz", "changer.pyz"}
    assert one == other


def test_what_is_in_the_config_map_is_what_the_release_names(made: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    """A program is put into the cluster that no release has: its name is of the digest that the release names."""
    from gpu_pools.components.proof import verification  # noqa: PLC0415 - as a deploy loads it

    told = json.loads(made[0]["release.json"])
    assert told["verifier"] == archive.digest() == verification.digest()
    assert program_name(told["verifier"]).endswith(told["verifier"][:10])
    assert told["files"]["verifier.pyz"] == hashlib.sha256(made[0]["verifier.pyz"]).hexdigest()
    assert verification.program_file() == made[0]["verifier.pyz"]
    assert verification.changer_file() == made[0]["changer.pyz"]


def test_the_wheel_brings_the_same_verifier_and_the_templates(
    made: tuple[dict[str, bytes], dict[str, bytes]], tmp_path: Path
) -> None:
    (tmp_path / "w.whl").write_bytes(made[0][f"gpu_pools-{__version__}-py3-none-any.whl"])
    with zipfile.ZipFile(tmp_path / "w.whl") as wheel:
        verifier = ROOT / "gpu_pools" / "verifier"
        templates = (ROOT / "gpu_pools").rglob("*.j2")
        for path in (*verifier.rglob("*.py"), verifier / "causes.json", *templates):
            assert wheel.read(path.relative_to(ROOT).as_posix()) == path.read_bytes()
        assert not [name for name in wheel.namelist() if name.startswith(("pipelines", "sandbox", "tests"))]


def test_the_schema_and_the_changes_are_those_of_the_commit(made: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    assert made[0]["schema.json"] == (ROOT / "components" / "schema.json").read_bytes()
    sections = sections_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert made[0]["changes.md"].decode() == sections.get(__version__, sections["Unreleased"])


def test_the_wheel_says_its_version_and_its_licence(made: tuple[dict[str, bytes], dict[str, bytes]], tmp_path: Path) -> None:
    (tmp_path / "w.whl").write_bytes(made[0][f"gpu_pools-{__version__}-py3-none-any.whl"])
    folder = f"gpu_pools-{__version__}.dist-info"
    with zipfile.ZipFile(tmp_path / "w.whl") as wheel:
        told = wheel.read(f"{folder}/METADATA").decode()
        assert f"\nVersion: {__version__}\n" in told
        assert "\nLicense-Expression: Apache-2.0\n" in told
        assert wheel.read(f"{folder}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_works_in_an_environment_that_has_nothing_else(
    made: tuple[dict[str, bytes], dict[str, bytes]], tmp_path: Path
) -> None:
    """But PyYAML, with which plans are made; what needs Pulumi is tested with the engine (tests/engine/test_packages.py)."""
    wheel = tmp_path / f"gpu_pools-{__version__}-py3-none-any.whl"
    wheel.write_bytes(made[0][wheel.name])
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", python]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", wheel], check=True, timeout=scaled(120))
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    shutil.copytree(Path(yaml.__file__).parent, packages / "yaml")
    plan = [python, "-m", "gpu_pools", "plan", ROOT / "stacks" / "Pulumi.aks-dev.yaml"]
    done = subprocess.run(plan, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=scaled(60))
    assert (done.returncode, done.stderr) == (0, "")
    assert "timesliced" in done.stdout
    imported = subprocess.run([python, "-c", "import pulumi"], cwd=tmp_path, capture_output=True, check=False, timeout=scaled(60))
    assert imported.returncode != 0, "the environment has more than the wheel"


class TestVersions:
    """One version: of the tag, the wheel, the provider and the changelog."""

    def test_all_agree(self) -> None:
        assert disagreements(["1.2.0"], "1.2.0", ["Unreleased", "1.2.0"], "v1.2.0") == []

    def test_a_trial_takes_what_is_not_released_yet(self) -> None:
        assert disagreements(["1.2.0"], "1.2.0", ["Unreleased"], "") == []

    def test_all_that_disagrees_is_told_at_once(self) -> None:
        wheel, tag, changelog = disagreements(["1.1.0", "1.2.0"], "1.2.0", ["Unreleased", "1.1.0"], "v1.3.0")
        assert "1.1.0, 1.2.0" in wheel
        assert "the tag is v1.3.0, the provider is 1.2.0" in tag
        assert "[1.2.0]" in changelog

    def test_a_tag_whose_changes_are_not_written_releases_nothing(self, tmp_path: Path) -> None:
        checkout = _checkout(tmp_path / "source")
        command = [checkout / ".ci" / "release", tmp_path / "made", "v0.0.9"]
        around = {**os.environ, "PYTHON": sys.executable}
        done = subprocess.run(command, env=around, capture_output=True, text=True, check=False, timeout=scaled(120))
        assert done.returncode == 1
        assert f"the tag is v0.0.9, the provider is {__version__}" in done.stderr
        assert not (tmp_path / "made" / "provenance.json").exists()

    def test_a_section_ends_where_the_next_begins(self) -> None:
        text = "# C\n\n## [Unreleased]\n\n## [2.0.0] - 2027-01-01\n\n### Added\n\n- a\n\n## [1.0.0]\n\n- b\n\n[1.0.0]: https://example.org\n"
        assert sections_of(text) == {"Unreleased": "\n", "2.0.0": "### Added\n\n- a\n", "1.0.0": "- b\n"}


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
        name: hashlib.sha256(content).hexdigest() for name, content in made[0].items() if name not in DESCRIBING
    }
    commit = json.loads(made[0]["release.json"])["commit"]
    assert told["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"] == {"gitCommit": commit}


def test_another_pynvml_than_the_reviewed_one(tmp_path: Path) -> None:
    """Whoever gets another pynvml into the environment of a deploy gets it onto every node: it is refused before."""
    installed = Path(sys.modules["pynvml"].__file__ or "") if "pynvml" in sys.modules else Path(_where("pynvml"))
    (tmp_path / "pynvml.py").write_text(installed.read_text(encoding="utf-8") + "\nimport os\n")
    program = "from gpu_pools.verifier.archive import digest; print(digest())"
    around = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=around, capture_output=True, text=True, check=False, timeout=scaled(60)
    )
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


def test_what_signs_or_publishes_runs_no_code_of_the_repository() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    jobs = workflow["jobs"]
    assert jobs["build"]["permissions"] == {"contents": "read"}
    assert jobs["attest"]["permissions"] == {"attestations": "write", "id-token": "write"}
    assert jobs["publish"]["permissions"] == {"contents": "write"}
    assert jobs["publish"]["needs"] == "attest", "nothing is published that is not attested"
    assert not any("run" in step for step in jobs["attest"]["steps"])
    for name in ("attest", "publish"):
        assert not any("actions/checkout@" in step.get("uses", "") for step in jobs[name]["steps"]), name
    (published,) = (step["run"] for step in jobs["publish"]["steps"] if "run" in step)
    assert published.startswith("gh release create ")
