"""What the device plugin does with a config file: refuse it, drop parts of it in silence, or let something else win.

The rules follow the plugin's own decoder (Go's JSON: other cases of a key are taken, unknown keys are dropped, types are
exact); facts by version are in gpu_pools/existing/plugin_schema.py. What depends on the node's GPUs is said to be unknown.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gpu_pools.existing.plugin_schema import plugin_schema
from gpu_pools.existing.profiles import models_with
from gpu_pools.existing.values import is_whole, unquoted
from gpu_pools.text.errors import show
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.existing.findings import Findings
    from gpu_pools.existing.plugin_schema import Field, MappingSchema, Override
    from gpu_pools.existing.run_context import RunContext
    from gpu_pools.existing.yaml_tree import Path

_GPU: Final = "nvidia.com/gpu"
_PREFIX: Final = "nvidia.com/"
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_GO_DURATION: Final = re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_DEVICE: Final = re.compile(
    r"\d+|\d+:\d+|(GPU|MIG)-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|MIG-GPU-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}/\d+/\d+"
)
_TYPES: Final = {
    "text": "a text",
    "flag": "true or false, without quotes",
    "whole": "a whole number, without quotes",
    "duration": 'a duration such as "60s" (a bare number is nanoseconds)',
    "texts": "a text, or a list of texts",
    "wholes": "a list of whole numbers",
    "mapping": "a mapping",
    "list": "a list",
}
#: Mappings inside `flags` in which a key of `flags` itself does harm: see _check_misplaced_flags.
_INNER_FLAGS: Final = ("flags.plugin", "flags.gfd")
#: Flag -> the words with which its empty value is refused; gpu-feature-discovery and the plugin have these in common.
_EMPTIED: Final = {"migStrategy": "strategy: ", "deviceDiscoveryStrategy": "invalid --device-discovery-strategy option "}
_REFUSES: Final = "the plugin and gpu-feature-discovery exit with an error and restart for ever"
_PLUGIN_REFUSES: Final = "the plugin exits with an error and restarts for ever, while gpu-feature-discovery goes on labelling"


@dataclass(frozen=True)
class _Check:
    """One config file under check."""

    findings: Findings
    base: Path
    context: RunContext
    all_versions: tuple[str, ...]

    def of(self, field: Field) -> _Check:
        """The check of a field: versions before it do not read it, so that nothing in it can be wrong for them."""
        older = plugin_schema().before(field.since)
        return replace(self, all_versions=tuple(version for version in self.all_versions if version not in older))

    def crash(self, path: Path, message: str, *, error: str, allowed: str, remedy: str, refuses: str = _REFUSES) -> None:
        """The config does not load, in any version."""
        self.findings.add(
            path,
            "crash",
            message,
            really=f"{refuses}: `{error}`" if error else refuses,
            allowed=allowed,
            remedy=remedy,
            versions=self.all_versions,
        )


def check_plugin_config(value: object, base: Path, findings: Findings, context: RunContext) -> None:
    """Check one config file of the device plugin.

    Args:
        value: its parsed YAML; None for an empty file, which is legal.
        base: where it stands in the file under check.
        findings: are added to.
        context: how it is run.
    """
    schema = plugin_schema()
    check = _Check(findings, base, context, schema.versions)
    if value is None:
        return
    known = _mapping(check, value, "", base)
    if known is None:
        return
    _overrides(check, known)
    _check_changed_defaults(check, known)
    resources = _dict(known, "resources")
    _check_resources(check, resources, (*base, "resources"))
    _check_imex(check.of(schema.mappings[""].fields["imex"]), _dict(known, "imex"))
    _check_sharing(check, known)
    _check_misplaced_flags(check, value)


def folded(value: Mapping[str, object], schema: MappingSchema) -> dict[str, tuple[str, object]]:
    """Field -> (key as written, value), with the keys taken as Go's decoder takes them."""
    taken: dict[str, tuple[str, object]] = {}
    by_case = {name.lower(): name for name in schema.fields}
    for key in sorted(value):
        name = key if key in schema.fields or schema.exact else by_case.get(key.lower(), key)
        if name in schema.fields:
            taken[name] = (key, value[key])
    return taken


def _name_error(name: object) -> str:
    """The plugin's words about a resource name that it refuses."""
    full = name if isinstance(name, str) and name.startswith(_PREFIX) else f"{_PREFIX}{name or ''}"
    longest = plugin_schema().longest_resource_name
    if len(full) > longest:
        return f"fully-qualified resource name must be {longest} characters or less"
    return "incorrect format for resource name"


def resource_name(name: str) -> str | None:
    """The name as the plugin completes it, with nvidia.com/; None where it refuses it."""
    full = name if name.startswith(_PREFIX) else f"{_PREFIX}{name}"
    fits = len(full) <= plugin_schema().longest_resource_name and _SUBDOMAIN.fullmatch(full.removeprefix(_PREFIX))
    return full if fits else None


def _mapping(check: _Check, value: object, name: str, path: Path) -> dict[str, object] | None:
    """The fields of one mapping, checked; None where it is not a mapping."""
    schema = plugin_schema().mappings[name]
    if not isinstance(value, dict):
        _wrong_type(check, path, value, "mapping")
        return None
    taken = folded(value, schema)
    used = {key for key, _ in taken.values()}
    by_case = {} if schema.exact else {written.lower(): schema.fields[field] for field, (written, _) in taken.items()}
    for key in value:
        if key not in used and key.lower() in by_case:
            _given_twice(check, value[key], by_case[key.lower()], (*path, key))
        elif key not in used and not (name in _INNER_FLAGS and _flag_named(key)):
            _unknown_key(check, (*path, key), key, name)
    known: dict[str, object] = {}
    for field_name, (key, entry) in taken.items():
        field = schema.fields[field_name]
        _check_since(check, (*path, key), key, field)
        known[field_name] = _field(check.of(field), entry, field, (*path, key))
    return known


def _given_twice(check: _Check, value: object, field: Field, path: Path) -> None:
    """A field that another key gives too, in another case: both are decoded, and the later in the alphabet wins."""
    check.findings.add(
        path,
        "overridden",
        f"`{path[-1]}` is given twice, in two cases",
        really="the decoder takes both as the same field; one of them wins",
        allowed="each field once",
        remedy="Keep one.",
        versions=plugin_schema().versions,
    )
    if field.of and value is not None:
        _mapping(check, value, field.of, path)
        return
    # Of all texts the version alone is decoded from any scalar.
    scalar = str(path[-1]).lower() == "version" and not isinstance(value, dict | list)
    if value is not None and not scalar and not _fits(value, field.kind):
        _wrong_type(check, path, value, field.kind)


def _unknown_key(check: _Check, path: Path, key: str, inside: str) -> None:
    schema = plugin_schema()
    siblings = tuple(schema.mappings[inside].fields)
    near = difflib.get_close_matches(key, siblings, n=1)
    homes = [home for home in schema.homes(key) if home != inside]
    if homes:
        remedy = f"Move it: `{key}` belongs to {' or '.join(homes)}."
    elif near:
        remedy = f"Did you mean `{near[0]}`?"
    elif key in schema.command_line_only:
        remedy = "Give it on the command line or in the environment; no config file can."
    else:
        remedy = "Remove it."
    check.findings.add(
        path,
        "ignored",
        f"unknown key `{key}`",
        really="the plugin drops keys that it doesn't know, without a word",
        allowed=", ".join(siblings),
        remedy=remedy,
        versions=schema.versions,
    )


def _flag_named(key: str) -> str | None:
    """The field of `flags` that the decoder takes a key for; None for one that is a mapping."""
    by_case = {name.lower(): name for name, field in plugin_schema().mappings["flags"].fields.items() if not field.of}
    return by_case.get(key.lower())


def _check_misplaced_flags(check: _Check, value: object) -> None:
    """Keys of `flags` inside `flags.plugin` or `flags.gfd`.

    While sigs.k8s.io/yaml turns YAML into JSON it takes these two mappings for `flags`, since that is an embedded struct, and
    makes each flag that it finds there exist: empty or false. The default, which is for missing flags only, is not put any more.
    """
    schema = plugin_schema()
    top = folded(value, schema.mappings[""]) if isinstance(value, dict) else {}
    written, flags = top.get("flags", ("", None))
    taken = folded(flags, schema.mappings["flags"]) if isinstance(flags, dict) else {}
    for home in _INNER_FLAGS:
        key, inner = taken.get(home.rpartition(".")[2], ("", None))
        own = folded(inner, schema.mappings[home]).values() if isinstance(inner, dict) else ()
        for stray in inner if isinstance(inner, dict) else ():
            flag = _flag_named(stray)
            if flag is not None and stray not in {used for used, _ in own}:
                path = (*check.base, written, key, stray)
                if flag in taken:
                    _unknown_key(check, path, stray, home)
                else:
                    _emptied(check.of(schema.mappings["flags"].fields[flag]), path, flag)


def _emptied(check: _Check, path: Path, flag: str) -> None:
    """A flag that exists without a value, unless the environment gives it one."""
    field = plugin_schema().mappings["flags"].fields[flag]
    runner = check.context.runner
    given = runner is not None and f"flags.{flag}" in plugin_schema().environment[runner]
    if flag == "migStrategy":
        given = given and bool(check.context.strategy)
    message, remedy = f"`{path[-1]}` in {path[-2]}", f"Move it: `{path[-1]}` belongs to flags."
    if field.allowed and not given:
        check.crash(path, message, error=_EMPTIED[flag], allowed=f"flags.{flag}", remedy=remedy)
        return
    empty = "false" if field.kind == "flag" else "empty"
    check.findings.add(
        path,
        "ignored" if given else "overridden",
        message,
        really="the plugin drops it, and the environment says what holds"
        if given
        else f"whatever is written, {flag} is then {empty}, and not its default",
        allowed=f"flags.{flag}",
        remedy=remedy,
        versions=check.all_versions,
    )


def _check_since(check: _Check, path: Path, key: str, field: Field) -> None:
    older = plugin_schema().before(field.since)
    if older:
        check.findings.add(
            path,
            "ignored",
            f"`{key}` came with version {field.since}",
            really="older plugins drop it without a word",
            allowed="fields that the running version knows",
            remedy=f"Use device plugin {field.since} or newer, or remove it.",
            versions=older,
        )


def _field(check: _Check, value: object, field: Field, path: Path) -> object:
    """The value, None where it is absent or unusable."""
    if field.of and field.of.startswith("sharing."):
        return value  # read by _check_sharing: what an empty value means differs between the two
    if value is None:
        return None  # Go's null leaves the default
    if field.of:
        return _mapping(check, value, field.of, path)
    if not _fits(value, field.kind):
        _wrong_type(check, path, value, field.kind)
        return None
    if field.kind == "duration":
        _check_duration(check, value, field, path)
    return value if _check_allowed(check, value, field, path) else None


def _check_allowed(check: _Check, value: object, field: Field, path: Path) -> bool:
    wrong = [text for text in (value if isinstance(value, list) else [value]) if field.allowed and text not in field.allowed]
    for text in wrong:
        near = difflib.get_close_matches(str(text), field.allowed, n=1)
        check.crash(
            path,
            f"{show(text)} is not a value of `{path[-1]}`",
            error="",
            allowed=", ".join(choice for choice in field.allowed if choice),
            remedy=f"Did you mean `{near[0]}`?" if near and near[0] else "Choose one of those.",
            refuses=_PLUGIN_REFUSES if "plugin" in (str(part).lower() for part in path[len(check.base) :]) else _REFUSES,
        )
    return not wrong


def _fits(value: object, kind: str) -> bool:
    items = value if isinstance(value, list) else [value]
    if kind == "texts":
        return isinstance(value, list | str) and all(item is None or isinstance(item, str) for item in items)
    if kind == "wholes":
        return isinstance(value, list) and all(item is None or is_whole(item) for item in items)
    if kind == "duration":
        return isinstance(value, str | int | float) and not isinstance(value, bool)
    if kind == "whole":
        return is_whole(value)
    types: Mapping[str, type] = {"text": str, "flag": bool, "list": list}
    return isinstance(value, types.get(kind, object))


def _wrong_type(check: _Check, path: Path, value: object, kind: str) -> None:
    check.crash(
        path,
        f"{show(value)} is not {_TYPES[kind]}",
        error="cannot unmarshal",
        allowed=_TYPES[kind],
        remedy=unquoted(value, lambda bare: kind in {"flag", "whole"} and _fits(bare, kind), f"Write {_TYPES[kind]}."),
    )


def _check_duration(check: _Check, value: object, field: Field, path: Path) -> None:
    schema = plugin_schema()
    if value == "infinite" and field.infinite_since:
        check.findings.add(
            path,
            "crash",
            f"`infinite` came with version {field.infinite_since}",
            really=f"{_REFUSES}: `invalid duration`",
            allowed=_TYPES["duration"],
            remedy='Write e.g. "60s".',
            versions=schema.before(field.infinite_since),
        )
    elif isinstance(value, str) and not _GO_DURATION.fullmatch(value):
        check.crash(
            path,
            f"{show(value)} is not a duration",
            error="time: invalid duration",
            allowed=_TYPES["duration"],
            remedy='Write e.g. "60s".',
        )
    elif not isinstance(value, str):
        check.findings.add(
            path,
            "ignored",
            f"{show(value)} has no unit",
            really=f"a bare number is nanoseconds: {show(value)} is as good as no pause at all",
            allowed=_TYPES["duration"],
            remedy=f'Write "{value}s" for seconds.',
            versions=schema.versions,
        )


def _overrides(check: _Check, known: Mapping[str, object]) -> None:
    runner = check.context.runner or "operator"
    for dotted, override in plugin_schema().environment[runner].items():
        value = at(known, *dotted.split("."))
        wins, why = _winning(check, dotted, override)
        if value is None or (wins is not None and value == wins):
            continue
        if dotted == "flags.migStrategy" and check.context.strategy == "":
            continue  # the policy leaves it to the file
        under = "" if check.context.runner else "under the GPU operator, "
        # Without MIG the two are one, as in our own files; whether the nodes have it, the file does not say.
        without_mig = dotted == "flags.migStrategy" and (value, wins) == ("single", "mixed")
        check.findings.add(
            (*check.base, *_written(dotted)),
            "unknown" if without_mig else "overridden",
            f"`{dotted.rpartition('.')[2]}: {show(value)}` of the file does not hold",
            really=f"{under}the environment variable {override.variable} wins over the file{why}",
            allowed=f"{show(wins)}, or nothing" if wins is not None else "nothing, or what the variable says",
            remedy=_remedy_of(override),
            versions=plugin_schema().versions,
        )


def _winning(check: _Check, dotted: str, override: Override) -> tuple[object, str]:
    if dotted == "flags.migStrategy" and check.context.strategy:
        return check.context.strategy, f": it is {check.context.strategy}"
    why = f": {show(override.value)}" if override.value is not None else ""
    return override.value, f"{why} ({override.source})" if override.source else why


#: Of the variables that follow from a value of the chart, or that must stay as they are.
_REMEDIES: Final = {
    "MIG_STRATEGY": 'Set the strategy there: mig.strategy of the operator ("" lets each file decide), migStrategy of the plugin '
    "chart.",
    "MPS_ROOT": "Set it there: devicePlugin.mps.root of the operator, mps.root of the plugin chart; or remove it here.",
    "DEVICE_LIST_STRATEGY": "Remove it here. With CDI on, no strategy but its own works in devicePlugin.env either (W93).",
}


def _remedy_of(override: Override) -> str:
    if override.variable in _REMEDIES:
        return _REMEDIES[override.variable]
    return f"Set {override.variable} in the chart's devicePlugin.env, or remove it here."


def _check_changed_defaults(check: _Check, known: Mapping[str, object]) -> None:
    schema = plugin_schema()
    flags = _dict(known, "flags")
    missing = [name for name in schema.changed_defaults if flags.get(name) is None]
    if missing and len(missing) < len(schema.changed_defaults):
        check.findings.add(
            (*check.base, "flags"),
            "changed",
            f"{' and '.join(missing)} not given",
            really=f"default true in {schema.changed_defaults_in}.0 to {schema.changed_defaults_in}.2, false before and since",
            allowed="true or false, written out",
            remedy=f"Write {', '.join(f'{name}: false' for name in missing)}.",
            versions=[schema.changed_defaults_in],
        )


def _check_resources(check: _Check, resources: Mapping[str, object], path: Path) -> None:
    given = False
    for key in ("gpus", "mig"):
        entries = resources.get(key)
        for index, entry in enumerate(entries if isinstance(entries, list) else []):
            given = True
            _check_pattern(check, entry, (*path, key, index))
    if given:
        check.findings.add(
            path,
            "ignored",
            "custom resource names",
            really="`Customizing the 'resources' field is not yet supported in the config. Ignoring...`",
            allowed="no `resources`: the names follow from the MIG strategy and renameByDefault",
            remedy="Remove the section.",
            versions=check.all_versions,
        )


def _check_pattern(check: _Check, entry: object, path: Path) -> None:
    error = _pattern_error({} if entry is None else entry)
    if error:
        check.crash(
            path,
            f"{show(entry)} is not a resource",
            error=error,
            allowed="{pattern, name}, the name a lower-case DNS subdomain",
            remedy="Remove the section; it is ignored even where it is right.",
        )


def _pattern_error(entry: object) -> str:
    """The plugin's words about a custom resource that it refuses; empty where it does not."""
    if not isinstance(entry, dict):
        return "cannot unmarshal"
    missing = [key for key in ("pattern", "name") if key not in entry]
    if missing:
        return f"resources must have a '{missing[0]}' field set"
    if not all(entry[key] is None or isinstance(entry[key], str) for key in ("pattern", "name")):
        return "cannot unmarshal"
    return "" if entry["name"] is not None and resource_name(entry["name"]) else _name_error(entry["name"])


def _check_imex(check: _Check, imex: Mapping[str, object]) -> None:
    channels = imex.get("channelIDs")
    if isinstance(channels, list) and [entry or 0 for entry in channels] not in ([], [0]):
        check.crash(
            (*check.base, "imex", "channelIDs"),
            f"{channels} are not IMEX channels",
            error="invalid IMEX channel IDs",
            allowed="[] or [0]",
            remedy="Write [0].",
            refuses=_PLUGIN_REFUSES,
        )
    elif channels and imex.get("required") is True:
        check.findings.add(
            (*check.base, "imex", "required"),
            "unknown",
            "IMEX channel 0 is required",
            really="on a node that lacks it the plugin exits: `requested IMEX channel channel0 does not exist`",
            allowed="false, where a node may lack it",
            remedy="Make sure that every node with this config has the channel.",
            versions=check.all_versions,
        )


def _check_sharing(check: _Check, known: Mapping[str, object]) -> None:
    sharing = known.get("sharing")
    if not isinstance(sharing, dict):
        return
    path = (*check.base, "sharing")
    strategy = _strategy(check, known)
    slicing = "timeSlicing" in sharing and _check_replicated(check, sharing["timeSlicing"], "timeSlicing", path, strategy)
    mps = sharing.get("mps") is not None and _check_replicated(check, sharing["mps"], "mps", path, strategy)
    if mps:
        _check_mps(check, strategy, path)
    if slicing and mps:
        check.findings.add(
            (*path, "timeSlicing"),
            "overridden",
            "timeSlicing and mps are both given",
            really="MPS wins; time-slicing is dropped without an error",
            allowed="exactly one of timeSlicing and mps",
            remedy="Remove one of the two.",
            versions=check.all_versions,
        )


def _strategy(check: _Check, known: Mapping[str, object]) -> str | None:
    """The MIG strategy that holds; None where the file cannot tell."""
    written = _dict(known, "flags").get("migStrategy")
    if check.context.strategy:
        return check.context.strategy
    if isinstance(written, str):
        return written
    return "none" if check.context.runner == "chart" or check.context.strategy == "" else None


def _check_mps(check: _Check, strategy: str | None, path: Path) -> None:
    if strategy == "mixed":
        check.crash(
            (*path, "mps"),
            "MPS with MIG strategy mixed",
            error="using --mig-strategy=mixed is not supported with MPS",
            allowed="MIG strategy none (or single, without MIG devices)",
            remedy="Share MIG instances by timeSlicing, or drop MIG on these nodes.",
            refuses=_PLUGIN_REFUSES,
        )
    elif strategy == "single":
        check.findings.add(
            (*path, "mps"),
            "unknown",
            "MPS with MIG strategy single",
            really="on a node with MIG devices plugin and GFD exit: `sharing using MPS is not supported for MIG devices`",
            allowed="MPS on whole GPUs only",
            remedy="Make sure that these nodes have no MIG devices; share those by timeSlicing.",
            versions=check.all_versions,
        )


def _check_replicated(check: _Check, value: object, kind: str, path: Path, strategy: str | None) -> bool:
    """Check one of the two sharing blocks; whether it would load."""
    before = _crashes(check)
    here = (*path, kind)
    if isinstance(value, dict) and value.get("resources"):
        block = _mapping(check, value, f"sharing.{kind}", here) or {}
        _check_entries(check, block.get("resources"), kind, here, strategy)
        if kind == "mps":
            _check_mps_fail(check, block, here)
    elif value is None or (isinstance(value, dict) and value.get("resources", []) in ([], None)):
        check.crash(
            here,
            f"`{kind}` without resources",
            error="no resources specified",
            allowed=f"a list `resources` of at least one {{name, replicas}}; or no `{kind}` at all",
            remedy=f"Remove `{kind}`, even where the plugin's own log prints it empty, or add resources.",
        )
    elif isinstance(value, dict):
        _wrong_type(check, (*here, "resources"), value["resources"], "list")
    else:
        _wrong_type(check, here, value, "mapping")
    return _crashes(check) == before


def _crashes(check: _Check) -> int:
    return sum(finding.severity == "crash" for finding in check.findings.sorted())


def _check_mps_fail(check: _Check, block: Mapping[str, object], path: Path) -> None:
    schema = plugin_schema()
    if block.get("failRequestsGreaterThanOne") is not False:
        return
    old = schema.before(schema.mps_fail_honoured_since)
    differs = any(version not in old for version in check.findings.versions)
    check.findings.add(
        (*path, "failRequestsGreaterThanOne"),
        "changed" if differs else "overridden",
        "false under MPS",
        really=f"true is forced whatever is written; false is honoured from {schema.mps_fail_honoured_since} on",
        allowed="true",
        remedy="Write true: a second replica gives a pod no more memory or threads that it could use.",
        versions=old,
    )


def _check_entries(check: _Check, entries: object, kind: str, path: Path, strategy: str | None) -> None:
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        here = (*path, "resources", index)
        name = _check_entry(check, entry, kind, here, strategy)
        if name is None:
            continue
        if name in seen:
            check.findings.add(
                here,
                "overridden",
                f"{name} is given twice",
                really="both are applied; the node advertises the larger number",
                allowed="each resource once",
                remedy=f"Remove resources[{seen[name]}] or resources[{index}].",
                versions=check.all_versions,
            )
        seen.setdefault(name, index)


def _check_entry(check: _Check, entry: object, kind: str, path: Path, strategy: str | None) -> str | None:
    """The completed name of one shared resource, None where it would not load."""
    if _mapping(check, {} if entry is None else entry, "replicated resource", path) is None:
        return None
    written: Mapping[str, object] = entry if isinstance(entry, dict) else {}
    name = _check_name(check, written, path)
    _check_replicas(check, written, kind, path)
    _check_rename(check, written, name, path)
    _check_devices(check, written, path)
    if name is not None:
        _check_resource(check, name, kind, path, strategy)
    return name


def _check_name(check: _Check, entry: Mapping[str, object], path: Path) -> str | None:
    if "name" not in entry:
        check.crash(path, "no `name`", error="no resource name specified", allowed=_GPU, remedy=f"Add `name: {_GPU}`.")
        return None
    return _full_name(
        check,
        entry["name"],
        (*path, "name"),
        allowed="nvidia.com/gpu, or nvidia.com/mig-<profile>",
        remedy="Write nvidia.com/gpu; the prefix nvidia.com/ is put before everything else.",
    )


def _full_name(check: _Check, value: object, path: Path, *, allowed: str, remedy: str) -> str | None:
    """The completed name; None where it would not load, or where its type was reported already."""
    full = resource_name(value) if isinstance(value, str) else None
    if full is None and (value is None or isinstance(value, str)):
        check.crash(path, f"{show(value)} is not a resource name", error=_name_error(value), allowed=allowed, remedy=remedy)
    return full


def _check_replicas(check: _Check, entry: Mapping[str, object], kind: str, path: Path) -> None:
    schema = plugin_schema()
    replicas = entry.get("replicas")
    here = (*path, "replicas")
    if "replicas" not in entry:
        check.crash(path, "no `replicas`", error="no replicas specified", allowed="at least 2", remedy="Add `replicas: 4`.")
        return
    if replicas is not None and not is_whole(replicas):
        return  # its type was reported already
    number = int(replicas) if isinstance(replicas, int | float) else 0
    if number < schema.fewest_replicas:
        check.crash(
            here,
            f"{show(replicas)} is too few replicas",
            error="number of replicas must be >= 2",
            allowed="at least 2",
            remedy="Remove the entry: one replica is not sharing.",
        )
    elif kind == "mps" and number > schema.mps_most_old:
        _too_many_clients(check, number, here)


def _too_many_clients(check: _Check, replicas: int, path: Path) -> None:
    schema = plugin_schema()
    certain = replicas > schema.mps_most
    error = f"`maximum allowed replicas exceeded: {replicas} > {schema.mps_most if certain else schema.mps_most_old}`"
    check.findings.add(
        path,
        "crash" if certain else "unknown",
        f"{replicas} MPS replicas",
        really=f"{'' if certain else 'below compute capability 7.5 (V100 and older) '}the MPS control daemon exits: {error}",
        allowed=f"at most {schema.mps_most}; {schema.mps_most_old} below compute capability 7.5",
        remedy="Choose fewer, or use timeSlicing." if certain else "Make sure that no such GPU gets this config.",
        versions=schema.versions,
    )


def _check_rename(check: _Check, entry: Mapping[str, object], name: str | None, path: Path) -> None:
    if "rename" not in entry:
        return
    rename, here = entry["rename"], (*path, "rename")
    remedy = "Remove it; the only other name there is comes with renameByDefault."
    full = _full_name(check, rename, here, allowed="nothing", remedy=remedy)
    if full is not None and full != f"{name}.shared":
        _ignored_setting(check, here, "rename", show(rename))


def _check_devices(check: _Check, entry: Mapping[str, object], path: Path) -> None:
    if "devices" not in entry or entry["devices"] == "all":
        return
    devices = entry["devices"]
    good = (is_whole(devices) and float(devices) > 0) or (isinstance(devices, list) and all(map(_is_device, devices)))  # type: ignore[arg-type]
    if good:
        _ignored_setting(check, (*path, "devices"), "devices", show(devices))
    else:
        check.crash(
            (*path, "devices"),
            f"{show(devices)} names no devices",
            error="a count of devices must be > 0" if is_whole(devices) else "the only valid string input is 'all'",
            allowed="nothing, or all",
            remedy="Remove it: sharing always applies to every GPU of the node.",
        )


def _is_device(value: object) -> bool:
    if isinstance(value, str):
        return bool(_DEVICE.fullmatch(value))
    return value is None or (is_whole(value) and float(value) >= 0)  # type: ignore[arg-type]


def _ignored_setting(check: _Check, path: Path, setting: str, value: str) -> None:
    check.findings.add(
        path,
        "ignored",
        f"`{setting}: {value}`",
        really=f"`the '{setting}' field in sharing.*.resources is not yet supported in the config. Ignoring...`",
        allowed="nothing" if setting == "rename" else "nothing, or all",
        remedy="Use renameByDefault for the name .shared; no other exists."
        if setting == "rename"
        else "Put GPUs that are shared differently into node pools of their own.",
        versions=check.all_versions,
    )


def _check_resource(check: _Check, name: str, kind: str, path: Path, strategy: str | None) -> None:
    """Whether a node would have that resource at all."""
    if name == _GPU:
        return
    profile = name.removeprefix(f"{_PREFIX}mig-")
    if profile == name:
        _no_resource(check, path, name, "no GPU is advertised under that name", "nvidia.com/gpu, nvidia.com/mig-<profile>")
    elif kind == "mps":
        _no_resource(check, path, name, "MPS shares whole GPUs only", "nvidia.com/gpu")
    elif not models_with(profile):
        _no_resource(
            check, path, name, "no GPU model is known that has this MIG profile", "nvidia.com/mig-<profile> of the node's GPU"
        )
    elif strategy in {"none", "single"}:
        _no_resource(check, path, name, f"under MIG strategy {strategy} every device is called nvidia.com/gpu", "nvidia.com/gpu")
    elif plain := re.match(r"\d+g\.\d+gb(?=[.-])", profile):
        _plain_name(check, path, name, f"{_PREFIX}mig-{plain[0]}")


def _plain_name(check: _Check, path: Path, name: str, plain: str) -> None:
    first = plugin_schema().own_names_since
    check.findings.add(
        (*path, "name"),
        "ignored",
        f"{name} matches nothing before version {first}",
        really=f"the entry is skipped without a word: older plugins advertise such instances as {plain}, with the plain ones",
        allowed=plain,
        remedy=f"Use device plugin {first} or newer.",
        versions=plugin_schema().before(first),
    )


def _no_resource(check: _Check, path: Path, name: str, why: str, allowed: str) -> None:
    check.findings.add(
        (*path, "name"),
        "ignored",
        f"{name} matches nothing",
        really=f"the entry is skipped without a word: {why}",
        allowed=allowed,
        remedy="Use MIG strategy mixed." if "under MIG strategy" in why else f"Write {allowed}.",
        versions=check.all_versions,
    )


def _dict(mapping: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = mapping.get(key)
    return value if isinstance(value, dict) else {}


def _written(dotted: str) -> Path:
    return tuple(dotted.split("."))
