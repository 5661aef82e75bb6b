"""The Helm charts: where they come from, which values they know, and the values that the plan gives them.

Helm ignores value keys that a chart doesn't know, so overrides are checked against the keys of the pinned chart version
(gpu_pools/stack/charts). Overrides are merged last and stay visible as a value of their own; they may not undo what the plan
derives from the pools, because the expectation would then be false.
"""

from __future__ import annotations

import copy
import difflib
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from gpu_pools.hardware.operands import Operand, brought
from gpu_pools.reading.fields import Kind, Row, flag, image_name, inner, one_of, read, reads, row, text, whole_number
from gpu_pools.reading.section import Section
from gpu_pools.stack.driver_upgrade import DriverUpgrade
from gpu_pools.stack.own_chart import OwnChart, read_own_chart
from gpu_pools.stack.refused_values import refused_nfd_values, refused_operator_values
from gpu_pools.text.errors import show
from gpu_pools.text.nested import at
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpu_pools.stack.pools import DriverOwner
    from gpu_pools.stack.refused_values import Refused
    from gpu_pools.text.errors import Problems

ChartName = Literal["gpu-operator", "node-feature-discovery", "kube-prometheus-stack", "dra-driver-nvidia-gpu"]
MigStrategy = Literal["single", "mixed"]

#: The versions whose value keys are known; the first is the default.
VERSIONS: Final[Mapping[ChartName, tuple[str, ...]]] = {
    "gpu-operator": ("v26.7.0", "v26.3.3", "v25.10.1", "v25.3.4"),
    "node-feature-discovery": ("0.19.0",),
    "kube-prometheus-stack": ("88.5.3",),
    "dra-driver-nvidia-gpu": ("0.5.0",),
}
#: Version of the operator's chart -> the version of node-feature-discovery's chart in it (charts/ of NVIDIA/gpu-operator at each
#: tag, and the dependencies in Chart.yaml).
NFD_WITHIN: Final[Mapping[str, str]] = {"v26.7.0": "0.19.0", "v26.3.3": "0.18.3", "v25.10.1": "0.18.2", "v25.3.4": "0.17.3"}
#: A repository, or an OCI registry: the DRA driver's own installation guide names no repository.
_SOURCES: Final[Mapping[ChartName, str]] = {
    "gpu-operator": "https://helm.ngc.nvidia.com/nvidia",
    "node-feature-discovery": "https://kubernetes-sigs.github.io/node-feature-discovery/charts",
    "kube-prometheus-stack": "https://prometheus-community.github.io/helm-charts",
    "dra-driver-nvidia-gpu": "oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu",
}
#: Whose repositories these are, in words.
_WHOSE: Final[Mapping[ChartName, str]] = {
    "gpu-operator": "NVIDIA's",
    "node-feature-discovery": "the project's",
    "kube-prometheus-stack": "its makers'",
    "dra-driver-nvidia-gpu": "the project's",
}
_IGNORED: Final = "Remove it; Helm would silently ignore it."
_NOT_IN_THE_FILE: Final = (
    "Remove it; Helm would silently ignore it. "
    "If the chart's templates read it all the same, add the key to the file of `valuesFile`."
)
_VERSION: Final = r"v?\d+(\.\d+){1,2}([-+][0-9A-Za-z.+-]+)?"
#: Mappings that Kubernetes defines, not the chart: any key may appear in them.
_OPEN_MAPPINGS: Final = frozenset(
    {
        "resources",
        "nodeSelector",
        "affinity",
        "labels",
        "annotations",
        "securityContext",
        "podSecurityContext",
        "limits",
        "requests",
        "config",
    }
)
#: Operator values that follow from the pools -> the setting that decides them.
_DERIVED: Final[Mapping[str, str]] = {
    "mig.strategy": "gpu-pools:operator.migStrategy",
    "devicePlugin.config": "gpu-pools:sharing",
    "devicePlugin.enabled": "nothing: without the plugin nothing is advertised",
    "gfd.enabled": "nothing: without gpu-feature-discovery MPS never starts and labels are missing",
    "migManager.config": "gpu-pools:sharing",
    "migManager.enabled": "partitionedBy of the pools",
    "driver.enabled": "gpu-pools:operator.driver, or driver of the pools",
    "toolkit.enabled": "gpu-pools:operator.driver, or driver of the pools",
    "operator.runtimeClass": "gpu-pools:operator.driver, or driver of the pools",
    "daemonsets.tolerations": "taints of the pools",
    "nfd.enabled": "gpu-pools:nodeFeatureDiscovery",
    "clusterPolicy.deployCR": "nothing: the plan needs the ClusterPolicy",
    "gpuCluster.deployCR": "nothing: this project does not use DRA",
}
#: Environment variables of operands that the plan decides; an operand's own list wins over what the operator sets.
DERIVED_ENVIRONMENT: Final[Mapping[str, tuple[str, ...]]] = {
    "devicePlugin": ("MIG_STRATEGY", "CONFIG_FILE"),
    "gfd": ("MIG_STRATEGY", "CONFIG_FILE"),
    "migManager": ("CONFIG_FILE",),
}
#: Operator values of which Kubernetes accepts only these in the ClusterPolicy (api/nvidia/v1/clusterpolicy_types.go); the chart
#: leaves out empty ones.
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "mig.strategy": ("none", "single", "mixed"),
    "daemonsets.updateStrategy": ("RollingUpdate", "OnDelete"),
    "driver.kernelModuleType": ("auto", "open", "proprietary"),
    "sandboxWorkloads.defaultWorkload": ("container", "vm-passthrough", "vm-vgpu"),
    "sandboxWorkloads.mode": ("kubevirt", "kata"),
}
#: Has sh, printf and mv, and nothing else of interest. The digest is the one that public manifests name; it was not pulled here.
DEFAULT_LABELLER_IMAGE: Final = "busybox:1.37.0@sha256:9db7b59979c38555a39def84a31fb98b5296952f9e3afd4f6f11f05b07adfab0"
#: The kubelet's own default (`syncFrequency`), which AKS and Magnum's drivers leave alone.
KUBELET_SYNC_SECONDS: Final = 60
_LONGEST_SYNC_SECONDS: Final = 3600
_NFD_DERIVED: Final[Mapping[str, str]] = {
    "worker.tolerations": "taints of the pools",
    "master.enableTaints": "taints of the pools",
    "master.extraLabelNs": "labels of the pools",
    "master.config.extraLabelNs": "labels of the pools",
    "master.config.enableTaints": "taints of the pools",
    "master.config.informerPageSize": "nothing: with pages nfd-master may miss nodes for minutes",
    "master.enable": "nothing: without the master no label reaches a node",
    "worker.enable": "nothing: without workers no GPU is found",
}


class ChartSection(Section):
    """A section that declares a chart, and which one."""

    def __init__(self, value: object, path: str, problems: Problems, chart: ChartName, *, what: str = "a mapping") -> None:
        super().__init__(value, path, problems, what=what)
        self.chart = chart


def _url(pattern: str, allowed: str) -> Kind:
    def read_url(section: Section, one: Row) -> str | None:
        return section.text(one.key, pattern=pattern, allowed=allowed, remedy=_other_key(section, one.key))

    return Kind(read_url, "str")


def _other_key(section: Section, key: str) -> str:
    """What to do with a source under the wrong key: its beginning tells the right one."""
    written = section.raw(key)
    scheme = written.partition("://")[0] if isinstance(written, str) and "://" in written else ""
    if key == "repository" and scheme == "oci":
        return f"Write it under `oci`: `chart: {{oci: {written}}}`."
    if key == "oci" and scheme in {"http", "https"}:
        return f"Write it under `repository`: `chart: {{repository: {written}}}`."
    return ""


@dataclass(frozen=True)
class ChartSource:
    """Where a chart is fetched from: exactly one of the three."""

    repository: str | None = row("URL of a Helm repository.", _url(r"https?://\S+", "the URL of a Helm repository"))
    oci: str | None = row("An oci:// reference.", _url(r"oci://\S+", "an oci:// reference"))
    path: str | None = row("A local folder or .tgz.", text(), doc="A local folder or .tgz, for air-gapped sites.")


def _default_source(name: ChartName) -> ChartSource:
    address = _SOURCES[name]
    return ChartSource(oci=address) if address.startswith("oci://") else ChartSource(repository=address)


def _read_version(section: ChartSection, one: Row) -> str:
    """One of the versions that are known, or any with a file of the user's own."""
    if section.given("valuesFile"):
        return section.text(one.key, required=True, pattern=_VERSION, allowed="the version of that chart, e.g. v26.9.0") or ""
    version = section.text(
        one.key,
        choices=VERSIONS[section.chart],
        remedy="Only versions whose value keys are known can be checked; for another one write `valuesFile` beside it: a file "
        "with what `helm show values` prints.",
    )
    return version or VERSIONS[section.chart][0]


def _read_source(section: ChartSection, one: Row) -> ChartSource:
    within = section.section(one.key, what="a mapping with one of repository, oci, path")
    if within is None or not within.readable:
        return _default_source(section.chart)
    source = read(ChartSource, within)
    within.finish()
    # One that is wrong is a problem of its own.
    given = [key for key in ("repository", "oci", "path") if within.given(key)]
    if len(given) != 1:
        within.problems.add(
            within.path,
            "names several sources" if given else "names no source",
            allowed="exactly one of repository, oci, path",
            remedy="Keep one." if given else "Add one of them, or leave `chart` out.",
        )
    return source


def _read_values(section: Section, one: Row) -> dict[str, Any] | None:
    values = section.raw(one.key)
    if values is None or isinstance(values, dict):
        return values
    section.problems.add(
        section.at(one.key), f"{show(values)} is not a mapping", allowed="chart values", remedy="Write a mapping."
    )
    return None


@dataclass(frozen=True)
class ChartSettings:
    """One chart to install; `own` is what the user's own file says of a version that is not known here."""

    name: ChartName
    own: OwnChart | None = row(
        "With a version that is not known: a file with what `helm show values` prints of it.",
        Kind(lambda section, one: read_own_chart(section, one.key), "str"),
        key="valuesFile",
        doc="A file with what `helm show values CHART --version VERSION` prints, for a version that is not known here: overrides "
        "are held against its keys, and the versions of operands are taken from it. A key that only the templates of that chart "
        "read is not printed: add it to the file.",
    )
    version: str = row(
        "The chart's version.",
        Kind(_read_version, "str"),
        "",
        doc="Of the operator `v26.7.0` (default), `v26.3.3`, `v25.10.1` or `v25.3.4`, of NFD `0.19.0`: versions whose value keys "
        "are known; any other one with `valuesFile`. What an older operator's operands would make of the pools is refused or a "
        "warning.",
    )
    source: ChartSource = row(
        {name: f"Where it is fetched from; {whose} repository by default." for name, whose in _WHOSE.items()},
        Kind(_read_source, ChartSource),
        ChartSource(),
        key="chart",
        doc="Where it is fetched from, by exactly one of these; its makers' repository by default.",
    )
    values: Mapping[str, Any] = row(
        "Values of the chart, merged last.",
        Kind(_read_values, "dict[str, Any]"),
        {},
        doc="Raw overrides, merged last and visible in the preview. Keys that the chart lacks are refused (Helm would ignore "
        "them), and so are values that the plan derives. Of an older `<operand>.version` (`driver`, `devicePlugin`, `gfd`, "
        "`migManager`) what it would make of the pools is refused or a warning: MPS, media and graphics profiles, drivers older "
        "than a profile (facts in `gpu_pools/hardware/operands.yaml`).",
    )

    @property
    def keys(self) -> Mapping[str, Any]:
        """The values that it knows."""
        return self.own.keys if self.own else _known_keys(self.name, self.version)

    @property
    def operands(self) -> Mapping[str, str]:
        """Operand -> the version that it brings; those that are known."""
        return self.own.operands if self.own else brought(self.version)


@dataclass(frozen=True)
class OperatorSettings:
    """A stack file's section `operator`: the GPU operator."""

    driver: DriverOwner = row(
        "Who installs the driver on pools that do not say it: operator or preinstalled.",
        one_of(("operator", "preinstalled")),
        "operator",
        doc="Who installs driver and toolkit on pools that do not say it: `operator`, or `preinstalled`: the image has them.",
    )
    mig_strategy: MigStrategy | None = row(
        "single or mixed; derived from the pools by default.",
        one_of(("single", "mixed"), "Leave it out to have it derived from the pools."),
    )
    install: bool | None = row(
        "False: the cluster has one already, which is configured.",
        flag(),
        doc="`false` where the cluster has one already: it is configured, and nothing is installed; "
        "`true` by default. With Magnum's driver capi-helm it must be said.",
    )
    kubelet_sync_seconds: int = row(
        "How often kubelets bring changed ConfigMaps to pods; 60 by default.",
        whole_number(1, _LONGEST_SYNC_SECONDS),
        KUBELET_SYNC_SECONDS,
        doc="How often the kubelets of the nodes synchronise (`syncFrequency`), in seconds; 60 by default, as Kubernetes'. Where "
        "nodes share GPUs already, a changed declaration waits one and a half times as long and a little more (95 s) before "
        "labels move, so that each node has its new config when its label names it "
        "([how](../architecture.md#how-a-changed-declaration-reaches-a-node)).",
    )
    driver_upgrade: DriverUpgrade | None = row(
        "How drivers are replaced on living nodes; as the chart has it by default.",
        inner(DriverUpgrade, "a mapping with maxUnavailable, drainTimeoutSeconds or podsThatStay"),
        doc="How the operator replaces drivers on living nodes ([upgrades](../operations.md#the-driver)). Left out: as the chart "
        "has it, and a pod without a controller or with an emptyDir leaves its node cordoned.",
    )
    chart: ChartSettings = reads(Kind(lambda section, _: parse_chart(section, _DERIVED), ChartSettings))

    @property
    def adopted(self) -> bool:
        """Whether an operator that is there already is configured, instead of one being installed."""
        return self.install is False


@dataclass(frozen=True)
class NfdSettings:
    """A stack file's section `nodeFeatureDiscovery`."""

    install: bool | None = row(
        "False: the cluster has one already.",
        flag(),
        doc="`false` where the cluster has one already: it is used, and nothing is installed; `true` by default. With Magnum's "
        "driver capi-helm it must be said.",
    )
    labeller_image: str = row(
        "Image of the labellers; it needs sh.",
        image_name("busybox:1.37"),
        DEFAULT_LABELLER_IMAGE,
        key="markerImage",
        doc="The image of the pools' labellers and of what waits around their labels (`sh`, `printf`, `mv`, `sleep`), for sites "
        "that cannot pull the default. By digest; a tag is a warning ([W91](rules.md)), and [`images`](commands.md#images) tells "
        "its digest.",
    )
    chart: ChartSettings = reads(Kind(lambda section, _: parse_chart(section, _NFD_DERIVED), ChartSettings))

    @property
    def adopted(self) -> bool:
        """Whether one that is there already is used."""
        return self.install is False


def parse_operator(value: object, path: str, problems: Problems) -> OperatorSettings:
    """The section ``gpu-pools:operator``; absent means all defaults."""
    section = ChartSection({} if value is None else value, path, problems, "gpu-operator")
    found = read(OperatorSettings, section)
    section.finish()
    _check_operator_values(found.chart.values, section.at("values"), problems, toolkit=found.driver != "preinstalled")
    if found.install is False:
        _check_nothing_of_a_chart(section)
    return found


def parse_nfd(value: object, path: str, problems: Problems) -> NfdSettings:
    """The section ``gpu-pools:nodeFeatureDiscovery``; absent means: install it with defaults."""
    section = ChartSection({} if value is None else value, path, problems, "node-feature-discovery")
    found = read(NfdSettings, section)
    section.finish()
    _check_refused(refused_nfd_values(found.chart.values), section.at("values"), problems)
    return found


def _check_nothing_of_a_chart(section: Section) -> None:
    """Refuse what would be silently ignored: an operator that is there already has its owner's chart and values."""
    for key in ("version", "valuesFile", "chart", "values", "driverUpgrade"):
        if section.given(key):
            section.problems.add(
                section.at(key),
                "has no effect on an operator that is there already",
                allowed="driver and migStrategy",
                remedy="Leave it out: its owner sets it. Where the cluster has no operator, write `install: true`.",
            )


def default_chart(name: ChartName) -> ChartSettings:
    """A chart of which nothing is said."""
    return ChartSettings(name, version=VERSIONS[name][0], source=_default_source(name))


def parse_chart(section: ChartSection, derived: Mapping[str, str]) -> ChartSettings:
    """The chart that a section's version, valuesFile, chart and values declare.

    Args:
        section: where they are written.
        derived: dotted path of a value that is not the user's -> the setting that decides it.
    """
    chart = read(ChartSettings, section, name=section.chart)
    if section.given("valuesFile") and chart.own is None:
        # A problem already; the rest is held against what is known.
        chart = replace(chart, version=VERSIONS[chart.name][0])
    keys = chart.own.keys if chart.own else None
    check_values(chart.values, chart.name, chart.version, section.at("values"), section.problems, derived, keys)
    return chart


def check_values(
    values: Mapping[str, Any],
    name: ChartName,
    version: str,
    path: str,
    problems: Problems,
    derived: Mapping[str, str] | None = None,
    keys: Mapping[str, Any] | None = None,
) -> None:
    """Report overrides that the chart would ignore, and those that would undo the plan; `keys` are those of a user's own file."""
    for key, inside, siblings in unknown_values(values, name, version, keys):
        near = difflib.get_close_matches(key, siblings, n=1)
        problems.add(
            f"{path}.{inside}{key}",
            f"the chart {name} {version} has no value `{inside}{key}`",
            allowed=", ".join(siblings),
            remedy=f"Did you mean `{near[0]}`?" if near else _IGNORED if keys is None else _NOT_IN_THE_FILE,
        )
    for where, value, siblings in flattened_values(values, name, version, keys):
        problems.add(
            f"{path}.{where}",
            f"{show(value)} is not a mapping, as the chart's own `{where}` is",
            allowed=f"a mapping with {', '.join(siblings)}",
            remedy="Override single values in it; the whole would erase what the plan derives.",
        )
    for dotted, setting in (derived or {}).items():
        if _written(values, dotted):
            problems.add(
                f"{path}.{dotted}",
                f"`{dotted}` is " + ("not the user's to set" if name == "kube-prometheus-stack" else "derived from the pools"),
                allowed="any other value of the chart",
                remedy=f"Remove it: {setting.removeprefix('nothing: ')}."
                if setting.startswith("nothing: ")
                else f"Remove it; it is decided by {setting}.",
            )


def _check_operator_values(values: Mapping[str, Any], path: str, problems: Problems, *, toolkit: bool) -> None:
    """Report overrides by which an operand would not do as the plan says, and those that chart or cluster would refuse."""
    for (operand, key, index), name in overridden_environment(values):
        problems.add(
            f"{path}.{operand}.{key}[{index}]",
            f"{name} is derived from the pools",
            allowed="anything else",
            remedy="Remove it: there it would win over what the operator sets, and nodes would show something else.",
        )
    _check_refused(refused_operator_values(values), path, problems)
    for operand in get_args(Operand):
        version = at(values, operand, "version")
        if isinstance(version, bool | list | dict):
            problems.add(
                f"{path}.{operand}.version",
                f"{show(version)} is not a version",
                allowed="the tag or the digest of an image, as a text",
                remedy="Leave it out, or write a tag in quotes.",
            )
    for dotted, value in refused_choices(values):
        problems.add(
            f"{path}.{dotted}",
            f"Kubernetes refuses {show(value)} in the ClusterPolicy",
            allowed=" | ".join(CHOICES[dotted]),
            remedy="Choose one of those.",
        )
    for dotted, why in refused_combinations({**values, "toolkit": {"enabled": toolkit}}):
        problems.add(
            f"{path}.{dotted}",
            f"`{dotted}` {why}",
            allowed="one that goes with the others",
            remedy="Set the other one accordingly, or leave this out.",
        )


def _check_refused(found: Iterable[Refused], path: str, problems: Problems) -> None:
    for one in found:
        problems.add(
            path + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in one.place),
            f"{show(one.value)}: {one.why}",
            allowed=one.allowed,
            remedy="Change it, or leave it out: the chart takes it, and nothing would work afterwards.",
        )


def overridden_environment(values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, int], str]]:
    """(place, name) of each variable or argument of an operand by which it would not do as its config files say."""
    for operand, names in DERIVED_ENVIRONMENT.items():
        section = values.get(operand)
        given = section if isinstance(section, dict) else {}
        env, args = given.get("env"), given.get("args")
        for index, entry in enumerate(env if isinstance(env, list) else []):
            if isinstance(entry, dict) and entry.get("name") in names:
                yield (operand, "env", index), str(entry["name"])
        for index, argument in enumerate(args if isinstance(args, list) else []):
            option = str(argument).partition("=")[0]
            if option.lstrip("-").replace("-", "_").upper() in names:
                yield (operand, "args", index), option


def refused_choices(values: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """(dotted path, value) of each value that Kubernetes refuses in the ClusterPolicy."""
    for dotted, choices in CHOICES.items():
        value = at(values, *dotted.split("."))
        if value not in (None, "") and value not in choices:
            yield dotted, value


def refused_combinations(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(dotted path, why) of each value that the chart's own validations refuse, with its defaults where nothing is written."""
    if at(values, "cdi", "nriPluginEnabled") is True:
        for needed in ("cdi.enabled", "toolkit.enabled"):
            if at(values, *needed.split(".")) is False:
                yield "cdi.nriPluginEnabled", f"needs {needed} (W42)"
    if at(values, "gpuCluster", "deployCR") is True:
        if at(values, "clusterPolicy", "deployCR") is not False:
            yield "gpuCluster.deployCR", "excludes clusterPolicy.deployCR, which is true by default"
        if at(values, "driver", "enabled") is not False and at(values, "driver", "nvidiaDriverCRD", "enabled") is not True:
            yield "gpuCluster.deployCR", "needs driver.nvidiaDriverCRD.enabled, which is false by default"


def unknown_values(
    values: Mapping[str, Any], name: ChartName, version: str, keys: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """(key, dotted prefix, known siblings) of each value that a chart lacks: Helm ignores it in silence."""
    return _unknown(values, _known_keys(name, version) if keys is None else keys, "")


def flattened_values(
    values: Mapping[str, Any], name: ChartName, version: str, keys: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, object, Sequence[str]]]:
    """(dotted path, value, keys of the chart) of each mapping of a chart that something else would replace."""
    return _flattened(values, _known_keys(name, version) if keys is None else keys, "")


def merge_values(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Chart values with the overrides merged in.

    Mappings merge, everything else is replaced, as Helm does it. Only lists of environment variables merge too, by name, and
    the user's own objects come after the plan's: replaced, they would take away what the plan needs in them.
    """
    merged = copy.deepcopy(dict(base))
    for key, value in overrides.items():
        mine = merged.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            merged[key] = merge_values(mine, value)
        elif key == "env" and isinstance(mine, list) and isinstance(value, list):
            merged[key] = _merge_environment(mine, value)
        elif key == "extraObjects" and isinstance(mine, list) and isinstance(value, list):
            merged[key] = mine + copy.deepcopy(value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def _merge_environment(mine: list[Any], overrides: list[Any]) -> list[Any]:
    given = {entry.get("name") for entry in overrides if isinstance(entry, dict)}
    return [entry for entry in mine if entry["name"] not in given] + copy.deepcopy(overrides)


@lru_cache(maxsize=8)
def _known_keys(name: ChartName, version: str) -> Mapping[str, Any]:
    """Return the keys of a chart and of the charts in it."""
    keys = _read_keys(name, version)
    if name == "gpu-operator":
        return {**keys, "node-feature-discovery": _read_keys("node-feature-discovery", NFD_WITHIN[version])}
    return keys


def _read_keys(name: ChartName, version: str) -> dict[str, Any]:
    text = (resources.files("gpu_pools.stack") / "charts" / f"{name}-{version}.yaml").read_text(encoding="utf-8")
    keys: dict[str, Any] = load_yaml(text)
    return keys


def _unknown(values: Mapping[str, Any], known: Mapping[str, Any], inside: str) -> Iterator[tuple[str, str, Sequence[str]]]:
    """(key, dotted prefix, known siblings) of each key that the chart lacks."""
    for key, value in values.items():
        if key not in known:
            yield str(key), inside, tuple(known)
        elif isinstance(value, dict) and isinstance(known[key], dict) and known[key] and key not in _OPEN_MAPPINGS:
            yield from _unknown(value, known[key], f"{inside}{key}.")


def _flattened(values: Mapping[str, Any], known: Mapping[str, Any], inside: str) -> Iterator[tuple[str, object, Sequence[str]]]:
    """(dotted path, value, keys of the chart) of each mapping of the chart that something else would replace."""
    for key, value in values.items():
        keys = known.get(key)
        if not keys or key in _OPEN_MAPPINGS:
            continue
        if isinstance(value, dict):
            yield from _flattened(value, keys, f"{inside}{key}.")
        else:
            yield f"{inside}{key}", value, tuple(keys)


def _written(values: Mapping[str, Any], dotted: str) -> bool:
    """Whether the override is there at all: a null counts, since Helm takes it as "delete the default"."""
    found: object = values
    for part in dotted.split("."):
        if not isinstance(found, dict) or part not in found:
            return False
        found = found[part]
    return True
