"""Remedies of `check`: who follows one in an existing file is rid of the finding, and has no new one that stops or is ignored.

The files are those of tests/unit/data. What a remedy names is done there, also in the texts of ConfigMaps; a remedy that names no
edit (compare, make sure, another version, a value that only the user knows) is left out, and how many are followed is held.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from gpu_pools.text.yaml_text import load_yaml
from tests.unit.existing_files import DATA, check_text
from tests.unit.followed_remedies import Edit, Renamed, edited, found
from tests.unit.stacks import GONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpu_pools.existing.findings import Finding

FILES: Final = sorted([*DATA.glob("*.yaml"), *(DATA / "judged").glob("*.yaml")])
_DOCUMENTS: Final = "documents"


class _Text(dict[str, Any]):
    """A text of a ConfigMap, read."""


class _Quoting(yaml.SafeDumper):
    """Writes every text in quotes, so that nothing of it is read as a number."""


_Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))
_Quoting.add_representer(
    _Text,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", yaml.dump(dict(text), Dumper=_Quoting, sort_keys=False)
    ),
)


def _opened(node: Any) -> Any:
    """A document with the texts in it opened."""
    if isinstance(node, dict):
        return {key: _opened(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_opened(value) for value in node]
    if isinstance(node, str) and ":" in node:
        try:
            inner = load_yaml(node)
        except (yaml.YAMLError, ValueError):
            return node
        return _Text(inner) if isinstance(inner, dict) else node
    return node


def _read(file: Path) -> dict[str, Any]:
    """The documents of a file."""
    return {_DOCUMENTS: [_opened(one) for one in yaml.safe_load_all(file.read_text(encoding="utf-8"))]}


def _written(documents: Mapping[str, Any]) -> str:
    return yaml.dump_all(documents[_DOCUMENTS], Dumper=_Quoting, sort_keys=False)


def _place(path: str, documents: Mapping[str, Any]) -> str:
    """A finding's path from the list of documents on; keys with dots stand in brackets there."""
    place = re.sub(r'\["([^"]+)"\]', r".\1", path)
    if len(documents[_DOCUMENTS]) > 1:
        return f"{_DOCUMENTS}{place}"
    return f"{_DOCUMENTS}[0].{place}" if place else f"{_DOCUMENTS}[0]"


def _follow(finding: Finding, place: str, documents: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    remedy, value = finding.remedy, found(documents, place)
    parent, _, last = place.rpartition(".")
    if isinstance(found(documents, parent), str):
        # A text that could not be opened.
        return
    if re.match(r"Remove (it|the section)\b", remedy) and value is not GONE:
        yield {place: GONE}
    for near in re.findall(r"^Did you mean `([^`]+)`\?$", remedy):
        yield {place: Renamed(near) if finding.message.startswith("unknown") else [near] if isinstance(value, list) else near}
    for key, text in re.findall(r"(?:Add|Write) `([\w-]+): ([^`<]+)`", remedy):
        entry = yaml.safe_load(text)
        inside = isinstance(value, dict) and last != key
        yield {f"{place}.{key}": entry} if inside else {place: {key: entry} if last.endswith("]") and last != key else entry}
    yield from ({place: new} for new in _values(remedy, value))


def _values(remedy: str, value: object) -> Iterator[Any]:
    """What a remedy puts in the place of a value."""
    for profile in re.findall(r"^Use (\d+g\.[\w.+]+)\.$", remedy):
        yield Renamed(profile)
    yield from re.findall(r"^Write (nvidia\.com/gpu)(?:;|,|\.$)", remedy)
    if remedy.startswith("Write it in quotes"):
        yield str(value)
    if remedy.startswith(("Write it without quotes", "Write the number")) and re.fullmatch(r"-?\d+|true|false", str(value)):
        yield yaml.safe_load(str(value))
    if remedy.startswith("Write true or false"):
        yield from (True, False)
    for text in re.findall(r"^Write e\.g\. (.+?)\.$", remedy):
        yield yaml.safe_load(text)


#: (file, path) of remedies whose edit shows another fault of the same place, which was hidden -> which.
_ONE_AFTER_ANOTHER: Final = {
    ("plugin-sharing", "data.key-in-another-case.sharing.timeSlicing.resources[0].Replicas"): "its value is no number",
    ("kinds", "[20].migconfigs"): "its value is no mapping",
    ("plugin-keys", "data.in-two-cases-where-case-matters.sharing.timeSlicing.Resources"): "its value is no list",
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_following_a_remedy_ends_the_finding_and_starts_none(file: Path, tmp_path: Path) -> None:
    documents = _read(file)
    before = check_text(tmp_path, _written(documents)).findings
    messages = {one.message for one in before}
    for finding in before:
        for changes in _follow(finding, _place(finding.path, documents), documents):
            changed = edited(documents, Edit(finding.remedy, changes))
            after = check_text(tmp_path, _written(changed)).findings
            left = [one for one in after if (one.path, one.message) == (finding.path, finding.message)]
            new = [one for one in after if one.message not in messages and one.severity in {"crash", "ignored"}]
            known = (file.stem, finding.path) in _ONE_AFTER_ANOTHER
            assert bool(left + new) == known, f"{finding}\nfollowed by {changes}:\n{left + new}"


def test_many_remedies_are_followed(tmp_path: Path) -> None:
    followed = 0
    for file in FILES:
        documents = _read(file)
        for finding in check_text(tmp_path, _written(documents)).findings:
            followed += len([*_follow(finding, _place(finding.path, documents), documents)])
    assert followed >= 60
