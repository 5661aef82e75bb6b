"""``python -m pipelines.release FOLDER``: what is in a release (CycloneDX), how it was made (in-toto, SLSA), sums, changes.

Written by a few lines of our own, sorted and without a time or a random number, so that the same commit gives the same bytes.
Nothing is signed here: the workflow of the release has the forge attest the files (.github/workflows/release.yml), with an
identity that it alone has. ``release.json`` names the verifier's digest: what a plan renders and a ConfigMap is called after.

The version stands in the provider alone; the wheel takes it from there. Where a tag or the changelog says another one, nothing is
written.
"""

from __future__ import annotations

if __name__ == "__main__":
    from gpu_pools.text.interrupts import end_at_once

    # Before the rest is loaded.
    end_at_once()

import argparse
import hashlib
import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.interrupts import answered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PINNED: Final = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PROVENANCE: Final = "https://slsa.dev/provenance/v1"
_MADE: Final = ("release.json", "sbom.cdx.json", "provenance.json")
_CHANGES: Final = "changes.md"
#: A version's heading in the changelog and what stands below it, up to the next one or to the links at its end.
_SECTION: Final = re.compile(r"^## \[([^\]]+)\][^\n]*\n(.*?)(?=^## |^\[[^\]]+\]: |\Z)", re.MULTILINE | re.DOTALL)
_UNRELEASED: Final = "Unreleased"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the documents; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.release", description="Describe a release.")
    parser.add_argument("folder", type=Path, help="where its files are")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--sums", type=Path, required=True, help="hashes.txt")
    parser.add_argument("--requirements", type=Path, required=True, help="requirements.txt")
    parser.add_argument("--verifier", required=True, help="the digest of the verifier's sources")
    parser.add_argument("--changelog", type=Path, required=True, help="CHANGELOG.md")
    parser.add_argument("--tag", default="", help="the tag that is released; without it a trial is made")
    options = parser.parse_args(arguments)
    schema = json.loads((options.folder / "schema.json").read_text(encoding="utf-8"))
    versions = {path.name.split("-")[1] for path in options.folder.glob("*.whl")}
    sections = sections_of(options.changelog.read_text(encoding="utf-8"))
    if problems := disagreements(versions, schema["version"], sections, options.tag):
        print("\n".join(problems), file=sys.stderr)  # noqa: T201 - a command
        return 1
    changes = sections.get(schema["version"]) or sections[_UNRELEASED]
    (options.folder / _CHANGES).write_text(changes, encoding="utf-8")
    files = {path.name: _sha256(path) for path in sorted(options.folder.iterdir()) if path.name not in _MADE}
    sums = sums_of(options.sums.read_text(encoding="utf-8"))
    wanted = _needed([name for name, _ in _PINNED.findall(options.requirements.read_text(encoding="utf-8"))], sums)
    documents = {
        "release.json": {"commit": options.commit, "files": files, "verifier": options.verifier},
        "sbom.cdx.json": sbom(files, {name: sums[name] for name in wanted}, options.commit),
        "provenance.json": provenance(files, sums, options.commit),
    }
    for name, document in documents.items():
        (options.folder / name).write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return 0


def sections_of(changelog: str) -> dict[str, str]:
    """Version -> what the changelog says of it."""
    return {version: f"{text.strip()}\n" for version, text in _SECTION.findall(changelog)}


def disagreements(wheels: Collection[str], version: str, sections: Collection[str], tag: str) -> list[str]:
    """What does not name the version that the provider has, all at once."""
    found = []
    if set(wheels) != {version}:
        there = ", ".join(sorted(wheels)) or "none"
        found.append(f"the provider is {version}, the folder has wheels of: {there}; empty the folder")
    if tag and tag != f"v{version}":
        found.append(f"the tag is {tag}, the provider is {version}: tag v{version}, or raise gpu_pools.__version__")
    if version not in sections and (tag or _UNRELEASED not in sections):
        found.append(f'CHANGELOG.md has no section "## [{version}] - <date>": give "## [{_UNRELEASED}]" that name')
    return found


def sums_of(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Package -> its version and the hashes of its files, from hashes.txt."""
    entries = text.replace("\\\n", " ").splitlines()
    found = ((_PINNED.match(entry), _HASH.findall(entry)) for entry in entries)
    return {_normal(pin[1]): (pin[2], tuple(sorted(hashes))) for pin, hashes in found if pin}


def sbom(files: Mapping[str, str], packages: Mapping[str, tuple[str, tuple[str, ...]]], commit: str) -> dict[str, Any]:
    """The files of the release, and every package that they need, with all hashes that it may have."""
    own = [
        {"type": "file", "bom-ref": name, "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
        for name, digest in sorted(files.items())
    ]
    others = [
        {
            "type": "library",
            "bom-ref": _purl(name, version),
            "name": name,
            "version": version,
            "purl": _purl(name, version),
            "hashes": [{"alg": "SHA-256", "content": one} for one in hashes],
        }
        for name, (version, hashes) in sorted(packages.items())
    ]
    made = {"type": "application", "bom-ref": "gpu-pools", "name": "gpu-pools", "version": commit}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": made},
        "components": [*own, *others],
    }


def provenance(files: Mapping[str, str], packages: Mapping[str, tuple[str, tuple[str, ...]]], commit: str) -> dict[str, Any]:
    """A statement about the files: from which commit, by which script, with which packages at hand."""
    subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(files.items())]
    source = [{"name": "source", "digest": {"gitCommit": commit}}]
    at_hand = [{"name": _purl(name, version)} for name, (version, _) in sorted(packages.items())]
    built = {"buildType": ".ci/release", "externalParameters": {"commit": commit}, "resolvedDependencies": [*source, *at_hand]}
    ran = {"builder": {"id": ".github/workflows/release.yml"}}
    predicate = {"buildDefinition": built, "runDetails": ran}
    return {"_type": _STATEMENT, "subject": subjects, "predicateType": _PROVENANCE, "predicate": predicate}


def _needed(names: Iterable[str], sums: Mapping[str, object]) -> list[str]:
    """These packages and all that they need in turn, as they are installed."""
    open_ends, found = [_normal(name) for name in names], set[str]()
    while open_ends:
        name = open_ends.pop()
        if name in found or name not in sums:
            continue
        found.add(name)
        for wanted in metadata.requires(name) or ():
            match = _NAME.match(wanted)
            if match and "extra ==" not in wanted:
                open_ends.append(_normal(match[0]))
    return sorted(found)


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    raise SystemExit(answered(main))
