"""What only the whole program shows: pools, charts and ConfigMaps that must fit one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gpu_pools.existing.findings import Findings
from gpu_pools.existing.mig_parted_check import check_mig_parted
from gpu_pools.existing.plugin_check import check_plugin_config
from gpu_pools.existing.plugin_schema import plugin_schema
from gpu_pools.existing.run_context import RunContext
from gpu_pools.hardware.azure_sizes import size
from gpu_pools.hardware.resource_names import WHOLE_GPU
from gpu_pools.platforms.aks.node_boot import MANAGED_TAG, boot_tags
from gpu_pools.policies import kinds
from gpu_pools.policies.rule import Found, Rule
from gpu_pools.rendering.startup_taint import STARTUP_TAINT
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.policies.described import Resource
    from gpu_pools.policies.reading import Field
    from gpu_pools.policies.rule import Case

_Check = Callable[[object, tuple[str, ...], Findings, RunContext], None]
_NODE_POOLS: Final = (kinds.AGENT_POOL, kinds.NODE_GROUP)
_CUSTOM: Final = ("kubernetes:nfd.k8s-sigs.io/", "kubernetes:nvidia.com/")
_OPERATOR_OBJECTS: Final = ("kubernetes:nvidia.com/v1:ClusterPolicy", "kubernetes:nfd.k8s-sigs.io/v1alpha1:NodeFeatureRule")
#: What the operator's chart has where values give no list (its values.yaml): operands' and NFD workers' are the same.
_CHART_DEFAULT: Final = ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)
#: The class of the DRA driver's chart that has the name nvidia.com/gpu.
_CHARTS_CLASS: Final = "gpu.nvidia.com"
#: GPUs that change MIG mode only by a reboot inside a VM (incident R03).
_REBOOTING: Final = ("a100", "a30")


def _driver_owner(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None:
        return
    place = values.at("driver", "enabled")
    by_operator = kinds.on(values, "driver", "enabled", default=True)
    for pool, inputs in kinds.gpu_pools(case):
        by_aks = inputs.at("gpuProfile", "driver").text() != "None"
        if by_aks and by_operator:
            yield Found(place.path, f"{show(place.value() is not False)}, and AKS installs its driver on {pool.name}")
        elif not by_aks and not by_operator:
            yield Found(place.path, f"false, and {pool.name} has gpuProfile.driver None: nobody installs a driver")


def _runtime_class(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None or not kinds.gpu_pools(case) or kinds.on(values, "toolkit", "enabled", default=True):
        return
    place = values.at("operator", "runtimeClass")
    if place.text() != "nvidia-container-runtime":
        yield Found(place.path, f"{show(place.value())}, while AKS's image provides nvidia-container-runtime")


def _config_source(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    pools = values is not None and (bool(kinds.gpu_pools(case)) or bool(case.of(kinds.NODE_GROUP)))
    if values is None or not pools or not kinds.on(values, "toolkit", "enabled", default=True):
        return
    if not kinds.environment(values, "toolkit").get("RUNTIME_CONFIG_SOURCE", "").startswith("file"):
        yield Found(values.at("toolkit", "env").path, "no RUNTIME_CONFIG_SOURCE=file")


def _one_nfd(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None:
        return
    place, inside = values.at("nfd", "enabled"), kinds.on(values, "nfd", "enabled", default=True)
    for resource, _ in kinds.releases(case, kinds.NFD_CHART) if inside else ():
        yield Found(place.path, f"{show(place.value())}, beside the release {resource.name}")


def _one_class(case: Case) -> Iterator[Found]:
    place = case.inputs.at("spec", "extendedResourceName")
    name = place.text()
    if not name:
        return
    others = [resource.name for resource, inputs in case.of(kinds.DEVICE_CLASS) if _is_other(case, resource, inputs, name)]
    if name == WHOLE_GPU and case.inputs.at("metadata", "name").text() != _CHARTS_CLASS:
        others += [resource.name for resource, _ in kinds.releases(case, kinds.DRA_CHART)]
    if others:
        yield Found(place.path, f'"{name}", as {others[0]} has it')


def _is_other(case: Case, resource: Resource, inputs: Field, name: str) -> bool:
    return resource.urn != case.resource.urn and inputs.at("spec", "extendedResourceName").text() == name


def _tolerated(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None:
        return
    lists: list[tuple[str, Field, Sequence[Mapping[str, object]]]] = [
        ("operands", values.at("daemonsets", "tolerations"), _CHART_DEFAULT)
    ]
    if kinds.on(values, "nfd", "enabled", default=True):
        lists.append(("NFD's workers", values.at("node-feature-discovery", "worker", "tolerations"), _CHART_DEFAULT))
    for _, inputs in kinds.releases(case, kinds.NFD_CHART):
        lists.append(("NFD's workers", inputs.at("values", "worker", "tolerations"), ()))
    registered = [(pool.name, taint) for pool, inputs in kinds.gpu_pools(case) for taint in _taints(inputs)]
    registered += [(resource.name, str(STARTUP_TAINT)) for resource, _ in case.of(kinds.STARTUP_TAINT)]
    for whose, taint in registered:
        for who, place, default in lists:
            if not _tolerates(place, default, taint):
                yield Found(place.path, f"{who} do not tolerate {taint} of {whose}")


def _taints(inputs: Field) -> list[str]:
    written = [taint.text() for taint in inputs.at("nodeTaints").each()]
    return [taint for taint in written if not taint.endswith(":PreferNoSchedule")]


def _tolerates(tolerations: Field, default: Sequence[Mapping[str, object]], taint: str) -> bool:
    pair, _, effect = taint.rpartition(":")
    key, _, value = pair.partition("=")
    given = [entry.value() for entry in tolerations.each()] if tolerations.present() else default
    return any(isinstance(entry, dict) and _matches(entry, key, value, effect) for entry in given)


def _matches(entry: Mapping[str, object], key: str, value: str, effect: str) -> bool:
    """Kubernetes' own rule: no key tolerates all, no effect every effect."""
    if entry.get("effect") not in {None, "", effect}:
        return False
    if entry.get("operator") == "Exists":
        return entry.get("key") in {None, "", key}
    return entry.get("key") == key and (entry.get("value") or "") == value


def _default_key(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None:
        return
    for operand in ("devicePlugin", "migManager"):
        place = values.at(operand, "config", "default")
        keys = kinds.keys_of_map(case, values, operand)
        if operand == "devicePlugin" and keys is not None and place.text() and place.text() not in keys:
            yield Found(place.path, f'"{place.text()}" is not a key of the ConfigMap; it has {", ".join(keys)}')


def _config_map_made(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None:
        return
    unnamed = [
        resource.name for resource, inputs in case.of(kinds.CONFIG_MAP) if not kinds.own_name(inputs) and _of_operands(inputs)
    ]
    for operand in ("devicePlugin", "migManager"):
        place = values.at(operand, "config", "name")
        if place.text() and unnamed and not kinds.makes_map(case, place.text()):
            yield Found(place.path, f'"{place.text()}", while {", ".join(unnamed)} gets a made-up name')


def _of_operands(inputs: Field) -> bool:
    return any(True for kind in ("plugin", "mig-parted") for _ in kinds.texts_of(inputs, kind))


def _pool_key(case: Case) -> Iterator[Found]:
    yield from _labelled(case, "devicePlugin", kinds.CONFIG_LABEL)


def _mig_key(case: Case) -> Iterator[Found]:
    place = kinds.sharing_label(case, kinds.MIG_LABEL)
    configs = [value.get("mig-configs") for _, _, value in kinds.parsed_configs(case, "mig-parted") if isinstance(value, dict)]
    names = [name for config in configs if isinstance(config, dict) for name in config]
    if place.text() and configs and place.text() not in names:
        yield Found(
            place.path, f'"{place.text()}" is in no mig-parted config of the program; they have {", ".join(map(str, names))}'
        )


def _labelled(case: Case, operand: str, label: str) -> Iterator[Found]:
    place = kinds.sharing_label(case, label)
    for resource, values in kinds.operators(case):
        keys = kinds.keys_of_map(case, values, operand)
        if place.text() and keys is not None and place.text() not in keys:
            yield Found(
                place.path, f'"{place.text()}" is not a key of the ConfigMap that {resource.name} reads; it has {", ".join(keys)}'
            )


def _strategy(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None:
        return
    place = values.at("mig", "strategy")
    # A strategy of "" leaves it to each file, and what a ClusterPolicy does not say is its owner's matter.
    if not place.text() and (place.present() or case.resource.type != kinds.RELEASE):
        return
    strategy = place.text() or "single"
    checks: tuple[tuple[str, str, _Check], ...] = (("mig-parted", "mixed", check_mig_parted), ("plugin", "", check_plugin_config))
    for kind, harmless, check in checks:
        for resource, config, value in kinds.parsed_configs(case, kind):
            for one in _strategy_findings(value, check, strategy, harmless):
                yield Found(place.path, f'"{strategy}", and {config.path} of {resource.name}: {one}')


def _strategy_findings(value: object, check: _Check, strategy: str, harmless: str) -> list[str]:
    """What is wrong with a config under this strategy, and is not wrong under one that fits every config."""
    texts = []
    for context in (RunContext("operator", strategy), RunContext("operator", harmless)):
        findings = Findings({}, (plugin_schema().versions[-1],))
        check(value, (), findings, context)
        texts.append([f"{one.path}: {one.message}" for one in findings.sorted() if one.severity in {"crash", "overridden"}])
    return [text for text in texts[0] if text not in texts[1]]


def _reboot(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None or kinds.environment(values, "migManager").get("WITH_REBOOT", "").lower() == "true":
        return
    for pool, inputs in kinds.gpu_pools(case):
        known = size(inputs.at("vmSize").text())
        layout = kinds.sharing_label(case, kinds.MIG_LABEL, (pool, inputs)).text()
        if known and known.gpu_model.startswith(_REBOOTING) and layout not in {"", "all-disabled"}:
            yield Found(values.at("migManager", "env").path, f"no WITH_REBOOT=true, and {pool.name} partitions {known.product}")


def _managed(case: Case) -> Iterator[Found]:
    place = case.inputs.at("gpuProfile", "nvidia", "managementMode")
    operators = [resource.name for resource, _ in kinds.operators(case)]
    for operator in operators if place.text() == "Managed" else ():
        yield Found(place.path, f'"Managed", beside the operator of {operator}')
    # azure-native cannot send the input above so far; the node's boot reads a tag, too (gpu_pools/platforms/aks/node_boot.py).
    for name, tag in case.inputs.at("tags").items():
        for operator in operators if [*boot_tags({name: tag.text()}, MANAGED_TAG)] else ():
            yield Found(tag.path, f'"{tag.text()}", beside the operator of {operator}')


def _second_plugin(case: Case) -> Iterator[Found]:
    operators = [resource.name for resource, _ in kinds.operators(case)]
    if not operators:
        return
    if case.resource.type == kinds.RELEASE:
        if kinds.is_chart(case.inputs, "nvidia-device-plugin"):
            yield Found("chart", f"a device plugin of its own, beside that of {operators[0]}")
        return

    def judge(container: Field) -> Iterator[Found]:
        image = container.at("image")
        if "k8s-device-plugin" in image.text():
            yield Found(image.path, f'"{image.text()}" beside the device plugin of {operators[0]}')

    yield from case.each(kinds.containers(kinds.pod_spec(case.resource, case.inputs)), judge)


def _exporter(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None or not kinds.on(values, "dcgmExporter", "enabled", default=True):
        return
    shared = [place.path for _, place, value in kinds.parsed_configs(case, "plugin") if _shares(value)]
    if shared and kinds.environment(values, "dcgmExporter").get("KUBERNETES_VIRTUAL_GPUS", "").lower() != "true":
        yield Found(values.at("dcgmExporter", "env").path, f"no KUBERNETES_VIRTUAL_GPUS=true, and {shared[0]} shares GPUs")


def _shares(value: object) -> bool:
    return any(isinstance(mode, dict) and mode.get("resources") for mode in kinds.sharing_of(value).values())


def _monitor(case: Case) -> Iterator[Found]:
    if case.resource.type in kinds.MONITORS:
        yield from _own_monitor(case)
        return
    values = kinds.operator(case)
    if values is None or not kinds.on(values, "dcgmExporter", "serviceMonitor", "enabled", default=False):
        return
    if not _monitor_charts(case):
        yield Found(
            values.at("dcgmExporter", "serviceMonitor", "enabled").path, "true, and the program installs no ServiceMonitor CRD"
        )


def _own_monitor(case: Case) -> Iterator[Found]:
    """A cluster that the program makes has at first what it installs there; of another one nothing is known."""
    if case.resource.type.startswith(kinds.AZURE_GROUP):
        clusters = case.of(kinds.MANAGED_CLUSTER)
        if clusters and not any(
            kinds.on(inputs, "azureMonitorProfile", "metrics", "enabled", default=False) for _, inputs in clusters
        ):
            yield Found("apiVersion", "the cluster has azureMonitorProfile.metrics off, and its add-on brings this kind")
    elif case.of(kinds.MANAGED_CLUSTER, kinds.MAGNUM_CLUSTER) and not _monitor_charts(case):
        yield Found("apiVersion", "the program makes the cluster, and installs no CRD of this kind")


def _monitor_charts(case: Case) -> list[tuple[Resource, Field]]:
    return [release for chart in kinds.MONITOR_CHARTS for release in kinds.releases(case, chart)]


def _patches(case: Case) -> Iterator[Found]:
    for name, place in case.inputs.at("metadata", "labels").items():
        if name in {kinds.CONFIG_LABEL, kinds.MIG_LABEL} and case.stack.of(*_NODE_POOLS):
            yield Found(place.path, f"{name} on a single node of a pool")
        elif name.startswith("nvidia.com/gpu.deploy."):
            yield Found(place.path, f"{name} belongs to the operator")


def _charts(case: Case) -> Iterator[Found]:
    by_urn = {resource.urn: resource for resource in case.stack.resources}
    if case.resource.type in kinds.CHARTS:
        if kinds.chart_name(case.inputs) in {kinds.OPERATOR_CHART, kinds.NFD_CHART}:
            yield Found("chart", f"{kinds.chart_name(case.inputs)} is rendered here, its hooks do not run")
        return
    parent = by_urn.get(case.resource.parent)
    if parent is not None and parent.type in kinds.CHARTS and not kinds.chart_name(_inputs(case, parent)):
        yield Found("(parent)", f"{parent.name} renders the chart, its hooks do not run")


def _inputs(case: Case, resource: Resource) -> Field:
    return next(inputs for other, inputs in case.of(resource.type) if other.urn == resource.urn)


def _after_crds(case: Case) -> Iterator[Found]:
    makers = _makers(case)
    if case.resource.parent and not makers:
        return
    waits = case.stack.of(kinds.RELEASE) and _reaches(case, {maker.urn for maker, _ in makers})
    if makers and not waits:
        yield Found("dependsOn", f"it does not wait for {makers[0][0].name}, which brings its kind")


def _makers(case: Case) -> list[tuple[Resource, Field]]:
    """The releases that bring the kind of the resource under judgement."""
    if case.resource.type in kinds.MONITORS:
        return _monitor_charts(case)
    return kinds.releases(case, kinds.NFD_CHART if case.resource.type.startswith(_CUSTOM[0]) else kinds.OPERATOR_CHART)


def _reaches(case: Case, targets: set[str]) -> bool:
    """Whether the resource, or a component around it, waits for one of the targets."""
    by_urn = {resource.urn: resource for resource in case.stack.resources}
    here: Resource | None = case.resource
    while here is not None:
        if case.stack.awaited[here.urn] & targets:
            return True
        here = by_urn.get(here.parent)
    return False


_RELEASE: Final = (kinds.RELEASE,)

RULES: Final = (
    Rule(
        name="one-driver-owner",
        title="Exactly one of AKS and the operator installs the driver",
        incidents=("C01",),
        types=_RELEASE,
        judge=_driver_owner,
        why="two drivers fight over the node's kernel modules, or there is none and no GPU appears",
        repair="Set gpuProfile.driver to None on every GPU pool and driver.enabled to true, or Install and false.",
        whole=True,
    ),
    Rule(
        name="runtime-class-exists",
        title="The runtime class is one that the nodes have",
        incidents=("I05",),
        types=_RELEASE,
        judge=_runtime_class,
        why='pods do not start: `no runtime for "nvidia" is configured`',
        repair="Set operator.runtimeClass to nvidia-container-runtime, or let the toolkit run.",
        whole=True,
    ),
    Rule(
        name="toolkit-reads-config-file",
        title="The toolkit takes containerd's config from its file",
        incidents=("C02",),
        types=_RELEASE,
        judge=_config_source,
        why="it writes a drop-in newer than containerd's config, and the nodes' runtime dies",
        repair="Add RUNTIME_CONFIG_SOURCE=file to toolkit.env.",
        whole=True,
    ),
    Rule(
        name="one-nfd",
        title="NFD is installed once",
        incidents=("I02",),
        types=_RELEASE,
        judge=_one_nfd,
        why="two masters take each other's labels away, and operands come and go",
        repair="Set nfd.enabled to false in the operator's values.",
        whole=True,
    ),
    Rule(
        name="one-class-per-resource",
        title="Each resource name has one DeviceClass",
        incidents=("E07",),
        types=(kinds.DEVICE_CLASS,),
        judge=_one_class,
        why="where one of two is deleted, the scheduler forgets the name, and all pods of the cluster that ask for it wait",
        repair="Keep one class per resource name; nvidia.com/gpu belongs to the class of the driver's chart.",
        whole=True,
    ),
    Rule(
        name="pool-taints-tolerated",
        title="Operands and NFD's workers tolerate every taint of every GPU pool, and the startup taint",
        incidents=("C11", "I01"),
        types=_RELEASE,
        judge=_tolerated,
        why="nothing runs on the nodes, nothing is advertised, and nothing says why",
        repair="Add {key: …, operator: Exists} for each taint to daemonsets.tolerations and to the NFD worker's tolerations.",
        whole=True,
    ),
    Rule(
        name="default-config-exists",
        title="The default config is a key of its ConfigMap",
        incidents=("D01",),
        types=kinds.OPERATORS,
        judge=_default_key,
        why="the device plugin's pods wait for ever: `specified config  does not exist`",
        repair="Correct devicePlugin.config.default.",
        whole=True,
    ),
    Rule(
        name="config-map-named",
        title="The ConfigMap that the operator reads has the name that the operator is told",
        incidents=("P05",),
        types=kinds.OPERATORS,
        judge=_config_map_made,
        why="a ConfigMap without metadata.name gets another name at each change, and the operator looks for the old one",
        repair="Set metadata.name of the ConfigMap.",
        whole=True,
    ),
    Rule(
        name="pool-config-exists",
        title="A pool's config label names a key of the device plugin's ConfigMap",
        incidents=("D03",),
        types=(kinds.AGENT_POOL,),
        judge=_pool_key,
        why="the device plugin of these nodes crash-loops: `specified config … does not exist`",
        repair="Correct the label, or add the key.",
        whole=True,
    ),
    Rule(
        name="pool-mig-config-exists",
        title="A pool's MIG label names a layout of the mig-parted config",
        incidents=("D14",),
        types=(kinds.AGENT_POOL,),
        judge=_mig_key,
        why="mig-manager fails: `selected mig-config not present`",
        repair="Correct the label, or add the layout.",
        whole=True,
    ),
    Rule(
        name="mig-strategy-fits",
        title="The MIG strategy fits every layout",
        incidents=("D12",),
        types=kinds.OPERATORS,
        judge=_strategy,
        why="under single the device plugin exits on nodes whose GPUs differ",
        repair="Set mig.strategy to mixed.",
        whole=True,
    ),
    Rule(
        name="mig-mode-may-reboot",
        title="mig-manager may reboot where the GPU needs it",
        incidents=("R03",),
        types=_RELEASE,
        judge=_reboot,
        why="A100 and A30 in VMs change MIG mode only by a reboot; without it the layout stays pending for ever",
        repair="Add WITH_REBOOT=true to migManager.env.",
        whole=True,
    ),
    Rule(
        name="aks-managed-gpus-alone",
        title="Pools whose GPUs AKS manages have no operator beside it",
        incidents=("C08", "I12"),
        types=(kinds.AGENT_POOL,),
        judge=_managed,
        why="AKS and the operator both run a device plugin on the nodes",
        repair="Leave managementMode and the tag EnableManagedGPUExperience out, or do not install the operator.",
        whole=True,
    ),
    Rule(
        name="one-device-plugin",
        title="The operator's device plugin is the only one",
        incidents=("I12", "R04"),
        types=(kinds.RELEASE, kinds.DAEMON_SET),
        judge=_second_plugin,
        why="two plugins register the same resource; the kubelet takes the last one, which shares nothing and misses MIG changes",
        repair="Remove it.",
        whole=True,
    ),
    Rule(
        name="metrics-know-shares",
        title="The exporter tells pods on shared GPUs apart",
        incidents=("O01",),
        types=_RELEASE,
        judge=_exporter,
        why="metrics of shared GPUs carry no pod",
        repair="Add KUBERNETES_VIRTUAL_GPUS=true to dcgmExporter.env.",
        stack_repair="Add KUBERNETES_VIRTUAL_GPUS=true to operator.values.dcgmExporter.env.",
        level="advisory",
        whole=True,
    ),
    Rule(
        name="service-monitor-exists",
        title="The kinds of monitors are there before the operator and before monitors",
        incidents=("I09",),
        types=(*_RELEASE, *kinds.MONITORS),
        judge=_monitor,
        why="the operator cannot make its ServiceMonitor and reconciles no further; one of the program's is refused",
        repair="Make sure that the cluster has it: kube-prometheus-stack first, or on AKS azureMonitorProfile.metrics.",
        level="advisory",
        whole=True,
    ),
    Rule(
        name="labels-through-pools",
        title="Sharing labels are set on pools, not on single nodes",
        incidents=("C07", "P06"),
        types=(kinds.NODE_PATCH,),
        judge=_patches,
        why="nodes that are upgraded, re-imaged or new lack the label; removing the patch switches sharing off",
        repair="Use the pool's nodeLabels, or PoolLabels.",
        whole=True,
    ),
    Rule(
        name="charts-as-releases",
        title="The operator and NFD are installed as releases",
        incidents=("P02", "T01"),
        types=(*kinds.CHARTS, *_OPERATOR_OBJECTS),
        judge=_charts,
        why="a Chart is rendered without its hooks: CRDs are not upgraded, nothing is cleaned up",
        repair="Use kubernetes.helm.v3.Release.",
        whole=True,
    ),
    Rule(
        name="objects-after-their-crd",
        title="Custom objects wait for the release that brings their kind",
        incidents=("P10", "P04"),
        types=(*_OPERATOR_OBJECTS, *(kind for kind in kinds.MONITORS if kind.startswith(kinds.COREOS_GROUP))),
        judge=_after_crds,
        why='the first deploy fails: `no matches for kind "NodeFeatureRule"`; a destroy hangs on what is left',
        repair="Add depends_on with the release.",
        whole=True,
    ),
)
