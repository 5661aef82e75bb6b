"""What the GPU operator's chart, and its ClusterPolicy, do with values: ignore them, refuse them, let something else win.

Unknown values are judged by the keys of the chart's version, or of the pinned one where the file does not tell it
(gpu_pools/stack/charts.py). The traps come from the chart's own validations, from the operator's controllers (NVIDIA/gpu-operator
at a22dbf671) and from incidents D01 to D22.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.existing.kinds import MIG_FILE
from gpu_pools.hardware.operands import parse_version
from gpu_pools.stack.charts import (
    CHOICES,
    flattened_values,
    overridden_environment,
    refused_choices,
    refused_combinations,
    unknown_values,
)
from gpu_pools.stack.doubtful_values import driver_of_nobody, strategy_without_cdi
from gpu_pools.stack.refused_values import refused_nfd_values, refused_operator_values
from gpu_pools.text.errors import show
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.existing.findings import Findings, Severity
    from gpu_pools.existing.yaml_tree import Path
    from gpu_pools.stack.doubtful_values import Doubtful
    from gpu_pools.stack.refused_values import Refused

_CHART: Final = "gpu-operator"
_CONFIG_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "devicePlugin": ("create", "name", "default", "data"),
    "migManager": ("create", "name", "default", "data"),
}
#: The ConfigMap that the operator itself owns.
_OWNED_MAP: Final = "default-mig-parted-config"
_GPU_TAINT: Final = "nvidia.com/gpu"
_NO_DEFAULT: Final = (
    "a node without the label nvidia.com/device-plugin.config gets an empty configuration: "
    "its GPUs are not shared, and no error says so"
)


def check_operator_values(
    values: Mapping[str, object], base: Path, findings: Findings, version: str, *, has_driver_objects: bool
) -> None:
    """Check Helm values of the GPU operator's chart.

    Args:
        values: the values.
        base: where they stand.
        findings: are added to.
        version: the chart's, one of those whose keys are known.
        has_driver_objects: whether NVIDIADriver objects are known to exist beside the values.
    """
    for key, inside, siblings in unknown_values(values, _CHART, version):
        findings.add(
            (*base, *inside.split(".")[:-1], key),
            "ignored",
            f"the chart {version} has no value `{inside}{key}`",
            really="Helm ignores values that a chart doesn't know",
            allowed=", ".join(siblings),
            remedy="Correct or remove it.",
        )
    for dotted, value, keys in flattened_values(values, _CHART, version):
        findings.add(
            (*base, *dotted.split(".")),
            "crash",
            f"{show(value)} in place of the mapping `{dotted}`",
            really="the chart's templates fail on what is missing below it",
            allowed=f"a mapping with {', '.join(keys)}",
            remedy="Write the mapping, or leave the key out.",
        )
    _check_validations(values, base, findings)
    _check_tolerations(values, base, findings)
    for operand in ("devicePlugin", "migManager"):
        _check_created(values, operand, base, findings)
    nfd = values.get("node-feature-discovery")
    if isinstance(nfd, dict):
        _add_refused(refused_nfd_values(nfd), (*base, "node-feature-discovery"), findings)
    driver = driver_of_nobody(values)
    if driver is not None and not has_driver_objects:
        _add_doubtful(driver, "unknown", base, findings)
    check_policy(values, base, findings, created=True, version=version)


def check_policy(spec: Mapping[str, object], base: Path, findings: Findings, *, created: bool = False, version: str = "") -> None:
    """Check what chart values and the ClusterPolicy's spec have in common.

    Args:
        spec: the mapping with ``mig``, ``devicePlugin``, ``migManager``.
        base: where it stands.
        findings: are added to.
        created: whether ConfigMaps may be given inline (chart values only).
        version: the chart's; empty where it is not known.
    """
    for dotted, value in refused_choices(spec):
        findings.add(
            (*base, *dotted.split(".")),
            "crash",
            f"{show(value)} is not a value of {dotted}",
            really="Kubernetes refuses the ClusterPolicy: unsupported value",
            allowed=", ".join(CHOICES[dotted]),
            remedy="Choose one.",
        )
    _add_refused(refused_operator_values(spec), base, findings)
    plugins = {operand: spec.get(operand) for operand in ("devicePlugin", "gfd")}
    for place, name in overridden_environment(plugins):
        findings.add(
            (*base, *place),
            "overridden",
            f"{name} is set by hand",
            really="it wins over mig.strategy and over every config file, on all nodes alike",
            allowed="mig.strategy, and devicePlugin.config",
            remedy="Remove it, and say it there.",
        )
    strategy = strategy_without_cdi(spec, parse_version(version))
    if strategy is not None:
        _add_doubtful(strategy, "overridden", base, findings)
    _check_plugin_config(spec, base, findings, inline=created)
    _check_mig_config(spec, base, findings, inline=created)


def _add_refused(found: Iterable[Refused], base: Path, findings: Findings) -> None:
    for one in found:
        findings.add(
            (*base, *one.place),
            "crash",
            f"{show(one.value)}",
            really=one.why,
            allowed=one.allowed,
            remedy="Change it, or leave it out.",
        )


def _add_doubtful(found: Doubtful, severity: Severity, base: Path, findings: Findings) -> None:
    findings.add((*base, *found.place), severity, found.what, really=found.why, allowed=found.allowed, remedy=found.remedy)


def strategy_of(spec: Mapping[str, object], *, default: str) -> str:
    """mig.strategy as it holds; `default` where nothing is written."""
    mig = spec.get("mig")
    written = mig.get("strategy", default) if isinstance(mig, dict) else default
    return written if isinstance(written, str) else ""


def _check_plugin_config(spec: Mapping[str, object], base: Path, findings: Findings, *, inline: bool) -> None:
    config = at(spec, "devicePlugin", "config")
    if not isinstance(config, dict):
        return
    path = (*base, "devicePlugin", "config")
    _check_config_keys(config, "devicePlugin", path, findings, inline=inline)
    name, default, data = config.get("name"), config.get("default"), config.get("data")
    if default and not name:
        findings.add(
            (*path, "default"),
            "ignored",
            f"default {show(default)}, but no name",
            really="without a name the operator mounts no ConfigMap; nothing is shared",
            allowed="name and default together",
            remedy="Add devicePlugin.config.name.",
        )
    if name and not default:
        findings.add(
            (*path, "default") if "default" in config else path,
            "ignored",
            f"the ConfigMap {show(name)} has no default",
            really=_NO_DEFAULT,
            allowed="devicePlugin.config.default, or the label on every GPU node",
            remedy="Set the default to a key without sharing, and label the nodes of each pool.",
        )
    if default and inline and isinstance(data, dict) and data:
        check_default(default, tuple(data), (*path, "default"), findings)


def check_default(default: object, keys: tuple[str, ...], path: Path, findings: Findings) -> None:
    """Report a default that names no key of its ConfigMap."""
    if default in keys:
        return
    findings.add(
        path,
        "crash",
        f"the default {show(default)} is not a key of the ConfigMap",
        really="the plugin's init container loops: `specified config  does not exist` (the name is printed empty)",
        allowed=", ".join(keys),
        remedy="Add the key, or name one that exists.",
    )


def _check_mig_config(spec: Mapping[str, object], base: Path, findings: Findings, *, inline: bool) -> None:
    config = at(spec, "migManager", "config")
    if not isinstance(config, dict):
        return
    path = (*base, "migManager", "config")
    _check_config_keys(config, "migManager", path, findings, inline=inline)
    default = config.get("default")
    if default not in (None, "", "all-disabled"):
        findings.add(
            (*path, "default"),
            "crash",
            f"{show(default)} is not a default of the mig-manager",
            really="Kubernetes refuses the ClusterPolicy: only all-disabled or an empty text is allowed there",
            allowed='all-disabled, or ""',
            remedy="Label the nodes nvidia.com/mig.config instead.",
        )
    if config.get("name") == _OWNED_MAP:
        owned_map((*path, "name"), findings)
    data = config.get("data")
    if inline and isinstance(data, dict) and data and MIG_FILE not in data:
        check_mig_file(tuple(data), (*path, "data"), findings)


def owned_map(path: Path, findings: Findings) -> None:
    """Report the use of the operator's own ConfigMap."""
    findings.add(
        path,
        "overridden",
        f"the ConfigMap {_OWNED_MAP} belongs to the operator",
        really="the operator writes its own content back at its next reconciliation",
        allowed="a ConfigMap under another name",
        remedy="Rename it, and name it in migManager.config.name.",
    )


def check_mig_file(keys: tuple[str, ...], path: Path, findings: Findings) -> None:
    """Report a ConfigMap without the one key that mig-manager reads."""
    if MIG_FILE in keys:
        return
    findings.add(
        path,
        "crash",
        f"there is no key {MIG_FILE}",
        really=f"mig-manager mounts the ConfigMap and finds no {MIG_FILE}; mig.config.state=failed",
        allowed=f"the file under the key {MIG_FILE}",
        remedy=f"Rename {show(keys[0])} to {MIG_FILE}.",
    )


def _check_config_keys(config: Mapping[str, object], operand: str, path: Path, findings: Findings, *, inline: bool) -> None:
    known = _CONFIG_KEYS[operand] if inline else ("name", "default")
    for key in config:
        if key not in known:
            findings.add(
                (*path, key),
                "ignored",
                f"`{operand}.config` has no `{key}`",
                really="Helm ignores it"
                if inline
                else "it is not a field of the ClusterPolicy and is dropped, or refused by kubectl",
                allowed=", ".join(known),
                remedy="Give the ConfigMap inline under `data`, with `create: true` and a name."
                if inline
                else "Make the ConfigMap yourself, and name it.",
            )


def _check_created(values: Mapping[str, object], operand: str, base: Path, findings: Findings) -> None:
    config = at(values, operand, "config")
    if not isinstance(config, dict):
        return
    path = (*base, operand, "config")
    if config.get("create") is True:
        for key in ("data", "name"):
            if not config.get(key):
                findings.add(
                    (*path, "create"),
                    "crash",
                    f"create, but no {key}",
                    really=f"`{operand}.config.{key} cannot be empty when {operand}.config.create is set to true`; "
                    "older charts leave the pods waiting for a ConfigMap that nobody makes",
                    allowed="create, name and data together",
                    remedy=f"Add {operand}.config.{key}.",
                )
    elif config.get("data"):
        findings.add(
            (*path, "data"),
            "ignored",
            "data without `create: true`",
            really="the chart makes no ConfigMap of it",
            allowed="create, name and data together",
            remedy=f"Set {operand}.config.create to true.",
        )


def _check_validations(values: Mapping[str, object], base: Path, findings: Findings) -> None:
    for dotted, why in refused_combinations(values):
        findings.add(
            (*base, *dotted.split(".")),
            "crash",
            f"{dotted} {why}",
            really="the chart refuses to render",
            allowed="one that goes with the others",
            remedy="Change one of the two.",
        )


def _check_tolerations(values: Mapping[str, object], base: Path, findings: Findings) -> None:
    """Lists replace the chart's defaults; NFD's workers need what the operands need."""
    given = at(values, "daemonsets", "tolerations")
    if not isinstance(given, list):
        return
    path = (*base, "daemonsets", "tolerations")
    keys = [entry.get("key") for entry in given if isinstance(entry, dict)]
    if _GPU_TAINT not in keys and None not in keys:
        findings.add(
            path,
            "overridden",
            f"the list does not repeat {_GPU_TAINT}",
            really="lists replace the chart's default: operands no longer tolerate the usual GPU taint",
            allowed=f"your tolerations and {_GPU_TAINT}",
            remedy=f"Add {{key: {_GPU_TAINT}, operator: Exists, effect: NoSchedule}}.",
        )
    worker = at(values, "node-feature-discovery", "worker", "tolerations")
    worker_keys = [entry.get("key") for entry in worker if isinstance(entry, dict)] if isinstance(worker, list) else [_GPU_TAINT]
    missing = [show(key) for key in keys if key is not None and key not in worker_keys]
    if missing and None not in worker_keys and at(values, "nfd", "enabled") is not False:
        findings.add(
            path,
            "ignored",
            f"NFD's workers do not tolerate {', '.join(missing)}",
            really="no worker runs on such nodes, so the operator never learns that they have GPUs",
            allowed="the same tolerations in node-feature-discovery.worker.tolerations",
            remedy="Repeat them there.",
        )
