"""What a user does who follows a problem's text: its words become edits of the stack file.

Small on purpose, and honest: only what the text itself names becomes an edit. A rule finds its words in the remedy, or in what is
allowed where the remedy points to it. What needs knowledge that only the user has yields no edit here; it stands in
remedies_by_hand.py.
"""

from __future__ import annotations

import copy
import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from tests.unit.stacks import GONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.text.errors import Problem


@dataclass(frozen=True)
class Renamed:
    """The key becomes another one, its value stays."""

    key: str


@dataclass(frozen=True)
class Edit:
    """One way to follow a remedy.

    Attributes:
        said: the words that were followed.
        changes: path in the stack file -> its new value, ``Renamed``, or ``GONE`` where it is taken out.
    """

    said: str
    changes: Mapping[str, Any]


def edited(config: Mapping[str, Any], edit: Edit) -> dict[str, Any]:
    """The stack's config with an edit made."""
    changed = copy.deepcopy(dict(config))
    for path, value in edit.changes.items():
        holder, key = _holder(changed, path)
        if isinstance(value, Renamed):
            entries = [(value.key if name == key else name, entry) for name, entry in holder.items()]
            holder.clear()
            holder.update(entries)
        elif value is GONE:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(value)
    return changed


def found(config: Any, path: str) -> Any:
    """What stands at a path; GONE where nothing does."""
    try:
        holder, key = _holder(copy.deepcopy(config), path)
        return holder[key]
    except (KeyError, IndexError, TypeError):
        return GONE


def _holder(node: Any, path: str) -> tuple[Any, Any]:
    """The mapping or list in which the last part of a path stands, and that part; mappings between are made. Keys hold dots."""
    if isinstance(node, list):
        parts = re.fullmatch(r"\[(\d+)\]\.?(.*)", path, re.DOTALL)
        if parts is None:
            raise KeyError(path)
        index, rest = parts.groups()
        return _holder(node[int(index)], rest) if rest else (node, int(index))
    for key in sorted(node, key=lambda key: -len(str(key))):
        if path == str(key):
            return node, key
        if path.startswith((f"{key}.", f"{key}[")) and isinstance(node[key], dict | list):
            return _holder(node[key], path[len(str(key)) :].removeprefix("."))
    first, dot, rest = path.partition(".")
    if not dot:
        return node, path
    node[first] = {}
    return _holder(node[first], rest)


def beside(config: Mapping[str, Any], path: str, key: str) -> str:
    """The path of a key next to the last part of a path."""
    parent = parent_of(config, path)
    return f"{parent}.{key}" if parent else key


def parent_of(config: Mapping[str, Any], path: str) -> str:
    """The path without its last part; empty for a section."""
    inside = re.sub(r"\[\d+\]$", "", path)
    if inside != path:
        return inside
    _, key = _holder(copy.deepcopy(dict(config)), path)
    return path.removesuffix(str(key)).removesuffix(".")


def _nearest(config: Mapping[str, Any], path: str, key: str) -> str:
    """The path of a key that stands at the path, or beside it or one of the mappings around it; empty where none does."""
    around = path
    while around:
        if around.rpartition(".")[2] == key:
            return around
        around = parent_of(config, around)
        if around and found(config, f"{around}.{key}") is not GONE:
            return f"{around}.{key}"
    return ""


#: Messages of keys, not of values: what is allowed are other keys.
_OF_A_KEY: Final = re.compile(
    r"^unknown (key|property)|has no (MIG profile|value)|^has no namespace|is not a name of a model|is not a label key"
)
_RANGE: Final = re.compile(r"a whole number, at least (\d+)(?: and at most (\d+))?")
#: Words after "Write" that point elsewhere.
_POINTERS: Final = frozenset(
    {
        "it",
        "e.g",
        "that",
        "this",
        "them",
        "a",
        "an",
        "the",
        "one",
        "digits",
        "such",
        "how",
        "both",
        "at",
        "another",
        "fewer",
        "larger",
    }
)


def _suggested(match: re.Match[str], problem: Problem, _config: Mapping[str, Any]) -> Iterator[Edit]:
    for candidate in match["near"].split(" or "):
        near = candidate.strip("`")
        yield Edit(f"{match[0]} {near}", {problem.path: Renamed(near) if _OF_A_KEY.search(problem.message) else near})


def _taken_out(match: re.Match[str], problem: Problem, config: Mapping[str, Any]) -> Iterator[Edit]:
    name = match["name"]
    path = problem.path if match.groupdict().get("it") else _nearest(config, problem.path, name)
    if path and found(config, path) is not GONE:
        yield Edit(match[0], {path: GONE})


def _snippet(match: re.Match[str], problem: Problem, config: Mapping[str, Any]) -> Iterator[Edit]:
    text = match["snippet"]
    if "…" in text or "<" in text:
        return
    key, colon, value = text.rpartition(": ") if text.startswith("gpu-pools:") and "{" not in text else text.partition(": ")
    if text.startswith("gpu-pools:") and "{" in text:
        key, colon, value = re.fullmatch(r"(gpu-pools:[^ ]+)(: )(.*)", text).groups()  # type: ignore[union-attr]
    if not colon or not re.fullmatch(r"[\w:.\[\]-]+", key):
        return
    after = match.string[match.end() :]
    if after.startswith(" for all pools of the cluster"):
        count = len(found(config, "gpu-pools:pools"))
        yield Edit(
            match[0] + " for all pools", {f"gpu-pools:pools[{index}].{key}": yaml.safe_load(value) for index in range(count)}
        )
    elif after.startswith(" in the pool"):
        pool = re.match(r"gpu-pools:pools\[\d+\]", problem.path)[0]  # type: ignore[index]
        yield Edit(match[0] + " in the pool", {f"{pool}.{key}": yaml.safe_load(value)})
    else:
        yield Edit(match[0], _placed(key, yaml.safe_load(value), problem, config))


def _placed(key: str, value: object, problem: Problem, config: Mapping[str, Any]) -> dict[str, Any]:
    """Where a user writes a key that a text names: at its whole path, in the mapping that the problem is of, or beside it."""
    if key.startswith("gpu-pools:"):
        return {key: value}
    declaration = re.match(r"gpu-pools:sharing\.[^.]+", problem.path)
    if key == "exclusive" and declaration:
        return {declaration[0]: {key: value}}
    if re.match(r"gives|declares|names", problem.message) and isinstance(found(config, problem.path), dict):
        return {f"{problem.path}.{key}": value}
    return {beside(config, problem.path, key): value}


def _pointed(match: re.Match[str], problem: Problem, config: Mapping[str, Any]) -> Iterator[Edit]:
    for snippet in re.finditer(r"`(?P<snippet>[^`]+: [^`]+)`", problem.allowed):
        for edit in _snippet(snippet, problem, config):
            yield Edit(f"{match[0]} ({edit.said})", edit.changes)


def _quoted(match: re.Match[str], problem: Problem, config: Mapping[str, Any]) -> Iterator[Edit]:
    value = found(config, problem.path)
    text = match.groupdict().get("text")
    if text is None:
        text = str(value).lower() if isinstance(value, bool) else value.isoformat() if isinstance(value, dt.date) else str(value)
    yield Edit(match[0], {problem.path: text})


def _either_flag(match: re.Match[str], problem: Problem, _config: Mapping[str, Any]) -> Iterator[Edit]:
    quoted = match["quote"] is not None
    for value in (True, False):
        yield Edit(f"{match[0]}: {value}", {problem.path: str(value).lower() if quoted else value})


def _both_ends(match: re.Match[str], problem: Problem, _config: Mapping[str, Any]) -> Iterator[Edit]:
    bounds = _RANGE.search(problem.allowed)
    if bounds:
        low, high = int(bounds[1]), int(bounds[2]) if bounds[2] else int(bounds[1]) + 1
        for value in (low, high):
            yield Edit(f"{match[0]} {value}", {problem.path: value})


def _layouts(match: re.Match[str], problem: Problem, _config: Mapping[str, Any]) -> Iterator[Edit]:
    for layout in re.split(r",? or ", match["layouts"]):
        counted = {}
        for part in layout.split(" + "):
            count, profile = re.fullmatch(r"(?:(\d+)x )?(\S+)", part.strip(" ,")).groups()  # type: ignore[union-attr]
            counted[profile] = int(count or 1)
        yield Edit(layout, {problem.path: counted})


def _kept(match: re.Match[str], problem: Problem, config: Mapping[str, Any]) -> Iterator[Edit]:
    names = re.search(r"`(\w+)` and `(\w+)`|^(\w+) and (\w+) declared together", problem.message)
    for name in filter(None, names.groups() if names else ()):
        if found(config, f"{problem.path}.{name}") is not GONE:
            yield Edit(f"{match[0]} without {name}", {f"{problem.path}.{name}": GONE})


def _fewer(match: re.Match[str], problem: Problem, config: Mapping[str, Any]) -> Iterator[Edit]:
    number = int(match["number"])
    if problem.path.endswith(".replicas"):
        yield Edit(match[0], {problem.path: number})
        return
    declaration = problem.path.removesuffix(".needs.memoryPerReplica")
    for strategy in ("timeSlicing", "mps", "mig.timeSlicing"):
        if isinstance(found(config, f"{declaration}.{strategy}.replicas"), int):
            yield Edit(match[0], {f"{declaration}.{strategy}.replicas": number})


def _named_value(match: re.Match[str], problem: Problem, _config: Mapping[str, Any]) -> Iterator[Edit]:
    for text in (match["value"], match.groupdict().get("other")):
        if text and text.strip("`").lower() not in _POINTERS:
            yield Edit(match[0], {problem.path: yaml.safe_load(text.strip("`"))})


def _prefixed(match: re.Match[str], problem: Problem, _config: Mapping[str, Any]) -> Iterator[Edit]:
    yield Edit(match[0], {problem.path: Renamed(match["text"])})


def _set(match: re.Match[str], problem: Problem, config: Mapping[str, Any]) -> Iterator[Edit]:
    key, value = match["key"], yaml.safe_load(match["value"])
    yield Edit(match[0], {key if key.startswith("gpu-pools:") else _nearest_or_cluster(config, problem, key): value})


def _nearest_or_cluster(config: Mapping[str, Any], problem: Problem, key: str) -> str:
    named = re.search(rf"gpu-pools:[\w.]+\.{key}\b", problem.message)
    return named[0] if named else _nearest(config, problem.path, key) or beside(config, problem.path, key)


#: How a remedy calls what it is of.
_IT: Final = "it|this|them|the section|the label"
#: Words of a remedy -> how they are followed. Every rule that finds its words is tried, each of its edits alone.
_RULES: Final[tuple[tuple[str, Any], ...]] = (
    (r"Did you mean (?P<near>`?[^\s?`]+`?(?: or `?[^\s?`]+`?)*)\?", _suggested),
    (
        rf"(?<!and )(?<!Then )\b(?:[Rr]emove|[Ll]eave|[Tt]ake) (?:(?P<it>{_IT})|`?(?P<name>[a-z]\w+)`?)(?: out)?(?=[\s,.;:]|$)",
        _taken_out,
    ),
    (r"\b[Ll]eave `(?P<name>\w+)` or `\w+` out", _taken_out),
    (r"\b[Ll]eave `\w+` or `(?P<name>\w+)` out", _taken_out),
    (r"(?:[Ww]rite|[Aa]dd(?: one,)?|[Uu]se|or)(?: e\.g\.)? `(?P<snippet>[^`]+: [^`]+)`", _snippet),
    (r"^Write (?:it|that)(?:,| *\.)", _pointed),
    (r'^Write "(?P<text>[^"]*)"(?: in quotes)?\.', _quoted),
    (r"^Put it in quotes", _quoted),
    (r'^Write (?P<quote>")?true"? or "?false"?', _either_flag),
    (r"^(?:Choose a whole number|Write digits alone|Add `\w+: …`)", _both_ends),
    (r"^Use e\.g\. (?P<layouts>(?:\d+x )?\d+g\.[^;]*?)\.$", _layouts),
    (r"^Keep (?:one|the one)", _kept),
    (r"^Use at most (?P<number>\d+)", _fewer),
    (r"(?:size|model|Write|Choose), e\.g\. (?P<value>[\w+-]+(?:\.[\w+-]+)*)", _named_value),
    (r"^Write e\.g\. (?P<value>[^`\s]+?)\.$", _named_value),
    (r"^Choose (?P<value>[A-Z]\w+) or larger", _named_value),
    (r"^(?:Use|Write|Choose) (?P<value>-?\w[\w.]*?)(?:[;,.](?= |$)| for| or (?P<other>\w+)[;.])", _named_value),
    (r"^Choose another prefix, e\.g\. (?P<text>\S+);", _prefixed),
    (r"^Write (?P<text>gpu-pools:\w+)\.$", _prefixed),
    (r"^Set (?P<key>gpu-pools:[\w.]+) to (?P<value>\w+)", _set),
    (r"^Set (?P<key>\w+): (?P<value>\"[^\"]+\")", _set),
)


def _listed(problem: Problem) -> Iterator[Edit]:
    """The values of a list of allowed ones."""
    if _OF_A_KEY.search(problem.message) or not re.fullmatch(r"[\w.-]+(?: \| [\w.-]+)*", problem.allowed):
        return
    if problem.allowed not in {"nothing", "env", "enabled"}:
        for value in problem.allowed.split(" | "):
            of_texts = problem.message.endswith("is not a text")
            yield Edit(f"allowed: {value}", {problem.path: value if of_texts else yaml.safe_load(value)})


def _examples(problem: Problem) -> Iterator[Edit]:
    """The examples of what is allowed, where the remedy asks for another value."""
    if not re.match(r"Choose (?:another(?: value| name| key)?|such a key)\b|Write (?:a |e\.g|IPv4|an )", problem.remedy):
        return
    example = re.search(r"e\.g\. (.*)$", problem.allowed)
    if not example:
        return
    if "{" in example[1]:
        yield Edit(example[0], {problem.path: yaml.safe_load(example[1])})
        return
    for quoted, bare in re.findall(r'"([^"]+)"|([\w:/.=-]{3,})', example[1].split(", without")[0]):
        if "…" not in example[1] and (quoted or bare) not in {"or", "and", "with"}:
            yield Edit(f"e.g. {quoted or bare}", {problem.path: _key_or_value(quoted or bare, problem)})


def _key_or_value(text: str, problem: Problem) -> str | Renamed:
    """What is allowed, as what the problem is of: labels are refused for their keys where they cannot reach a node."""
    label = ".labels." in problem.path and re.search(r"cannot reach|is reserved", problem.message)
    return Renamed(text) if label or _OF_A_KEY.search(problem.message) else text


def _smaller(problem: Problem) -> Iterator[Edit]:
    limit = re.fullmatch(r"at most (\d+Mi) there", problem.allowed)
    if limit:
        yield Edit(problem.allowed, {problem.path: limit[1]})


def follow(problem: Problem, config: Mapping[str, Any]) -> tuple[Edit, ...]:
    """Every edit that the problem's own text names.

    Args:
        problem: what was told.
        config: what the stack file holds under ``config``.
    """
    edits = [
        edit
        for words, followed in _RULES
        for match in re.finditer(words, problem.remedy)
        for edit in followed(match, problem, config)
    ]
    edits += [*_listed(problem), *_examples(problem), *_smaller(problem)]
    besides = re.search(r"(?:and|Then) leave (`.*`) out\.$", problem.remedy)
    if besides:
        gone = {beside(config, problem.path, key): GONE for key in re.findall(r"`(\w+)`", besides[1])}
        edits = [Edit(f"{edit.said} {besides[0]}", {**edit.changes, **gone}) for edit in edits]
    return tuple(edits)
