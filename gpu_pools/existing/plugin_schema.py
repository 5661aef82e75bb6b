"""The device plugin's config file by version: fields, types, bounds, what wins over it.

The facts are gpu_pools/existing/device_plugin_config.yaml with their sources; this module gives them types. What a file violates
is decided by gpu_pools/existing/plugin_check.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from gpu_pools.hardware.operands import parse_version, since, version_text
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

Runner = Literal["operator", "chart"]


@dataclass(frozen=True)
class Field:
    """One field of the config file.

    Attributes:
        kind: text, flag, whole, duration, texts, wholes, mapping, list or any.
        allowed: the only texts with which the program starts; empty: any.
        since: the first version that knows the field.
        of: the name of the mapping's own schema.
        infinite_since: the first version that takes the duration ``infinite``.
    """

    kind: str
    allowed: tuple[str, ...]
    since: str
    of: str | None
    infinite_since: str | None


@dataclass(frozen=True)
class MappingSchema:
    """One mapping of the config file; `exact`: keys in another case are unknown keys."""

    fields: Mapping[str, Field]
    exact: bool


@dataclass(frozen=True)
class Override:
    """An environment variable that wins over the file.

    Attributes:
        variable: its name.
        value: what it holds; None: it depends on what `source` says.
        source: where the value comes from.
    """

    variable: str
    value: object
    source: str


@dataclass(frozen=True)
class PluginSchema:
    """All facts of device_plugin_config.yaml beside it, and since when two things are so (gpu_pools/hardware/operands.yaml).

    Attributes that the file does not explain:
        mps_fail_honoured_since: the first version that honours failRequestsGreaterThanOne: false under MPS.
        own_names_since: the first version in which a profile with +me and the like has a resource of its own.
    """

    versions: tuple[str, ...]
    mappings: Mapping[str, MappingSchema]
    command_line_only: tuple[str, ...]
    longest_resource_name: int
    fewest_replicas: int
    mps_most: int
    mps_most_old: int
    mps_fail_honoured_since: str
    own_names_since: str
    changed_defaults_in: str
    changed_defaults: tuple[str, ...]
    environment: Mapping[Runner, Mapping[str, Override]]

    def before(self, version: str) -> tuple[str, ...]:
        """The known versions before that one."""
        return self.versions[: self.versions.index(version)]

    def homes(self, key: str) -> tuple[str, ...]:
        """Names of the mappings that have a field of that name."""
        return tuple(name for name, mapping in self.mappings.items() if key in mapping.fields and name)


@lru_cache(maxsize=1)
def plugin_schema() -> PluginSchema:
    """The facts, read once."""
    raw: dict[str, Any] = load_yaml(
        (resources.files("gpu_pools.existing") / "device_plugin_config.yaml").read_text(encoding="utf-8")
    )
    first = raw["versions"][0]
    return PluginSchema(
        versions=tuple(raw["versions"]),
        mappings={name: _mapping(entry, first) for name, entry in raw["mappings"].items()},
        command_line_only=tuple(raw["commandLineOnly"]),
        longest_resource_name=raw["longestResourceName"],
        fewest_replicas=raw["replicas"]["minimum"],
        mps_most=raw["replicas"]["mps"]["maximum"],
        mps_most_old=raw["replicas"]["mps"]["old"],
        mps_fail_honoured_since=version_text(since("devicePlugin.mpsMany")[:2]),
        own_names_since=version_text(since("devicePlugin.anchored")[:2]),
        changed_defaults_in=raw["changedDefaults"]["version"],
        changed_defaults=tuple(raw["changedDefaults"]["fields"]),
        environment={runner: _overrides(entries) for runner, entries in raw["environment"].items()},
    )


def plugin_version(text: str) -> str | None:
    """The known version (``0.19``) that a user means by ``0.19``, ``v0.19`` or ``0.19.3``; None where it is unknown."""
    version = parse_version(text)
    minor = version_text(version[:2]) if version else ""
    return minor if minor in plugin_schema().versions else None


def versions_text(versions: tuple[str, ...]) -> str:
    """Versions in words: ``0.15 to 0.19``."""
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"


def _mapping(raw: Mapping[str, Any], first: str) -> MappingSchema:
    fields = {
        name: Field(
            kind=entry["type"],
            allowed=tuple(entry.get("allowed", ())),
            since=entry.get("since", first),
            of=entry.get("of"),
            infinite_since=entry.get("infiniteSince"),
        )
        for name, entry in raw["fields"].items()
    }
    return MappingSchema(fields, exact=raw.get("ownKeys") == "exact")


def _overrides(raw: Mapping[str, Any]) -> dict[str, Override]:
    return {path: Override(entry["variable"], entry["value"], entry.get("from", "")) for path, entry in raw.items()}
