"""Which NodeFeatureRules set a label: the reason for which NFD sets it again each time (NFD v0.18.3, api/nfd/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def names_of_setters(rules: Iterable[object], key: str) -> list[str]:
    """The names of the rules that set a label.

    Args:
        rules: the objects, as the API has them; one without a name is left out.
        key: of the label.
    """
    setting: list[Any] = [rule for rule in rules if sets_label(rule, key)]
    metadata = [rule["metadata"] for rule in setting if isinstance(rule.get("metadata"), dict)]
    return [str(one["name"]) for one in metadata if one.get("name")]


def sets_label(rule: object, key: str) -> bool:
    """Whether a NodeFeatureRule names a label: as a key of `labels`, or at the start of a line of `labelsTemplate`.

    Args:
        rule: the object, as the API has it.
        key: of the label.
    """
    spec = rule.get("spec") if isinstance(rule, dict) else None
    listed = spec.get("rules") if isinstance(spec, dict) else None
    entries: list[dict[str, Any]] = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    lines = [line.strip() for one in entries for line in str(one.get("labelsTemplate") or "").splitlines()]
    labelled = any(key in one["labels"] for one in entries if isinstance(one.get("labels"), dict))
    return labelled or any(line.startswith(f"{key}=") for line in lines)
