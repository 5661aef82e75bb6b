"""Releases of the GPU operator and of NFD, and operators of another owner: what can be said from their own inputs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.operands import brought, parse_version, version_text
from gpu_pools.policies import kinds
from gpu_pools.policies.rule import Found, Limit, Rule
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.policies.reading import Field
    from gpu_pools.policies.rule import Case

_OPERANDS: Final = ("devicePlugin", "migManager")
_LEAST_SECONDS: Final = 1800
_OLDEST_NFD: Final = (0, 17, 0)


def _nfd(case: Case) -> Field | None:
    return case.inputs.at("values") if kinds.is_chart(case.inputs, kinds.NFD_CHART) else None


def _ours(case: Case) -> bool:
    return kinds.chart_name(case.inputs) != "" and (kinds.operator(case) is not None or _nfd(case) is not None)


def _timeout(case: Case) -> Iterator[Found]:
    if not _ours(case) or case.inputs.at("skipAwait").value() is True:
        return
    place = case.inputs.at("timeout")
    seconds = place.number()
    if seconds is None or seconds < case.limits["leastSeconds"]:
        yield Found(place.path, f"{show(place.value())}; at least {case.limits['leastSeconds']} s")


def _named(case: Case) -> Iterator[Found]:
    place = case.inputs.at("name")
    # The provider has made a name up by the time that rules are asked.
    made_up = re.fullmatch(rf"{re.escape(case.resource.name)}-[0-9a-f]{{8}}", place.text())
    if _ours(case) and (made_up or not place.text()):
        yield Found(place.path, "the release has no name of its own")


def _created(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    for operand in _OPERANDS if values else ():
        config = values.at(operand, "config")  # type: ignore[union-attr]
        for key in ("data", "name"):
            if kinds.on(config, "create", default=False) and not config.at(key).value():
                yield Found(config.at("create").path, f"create, but no {key}")


def _default(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None:
        return
    config = values.at("devicePlugin", "config")
    if config.at("name").value() and not config.at("default").value():
        yield Found(config.at("default").path, "no default beside a ConfigMap")


def _crds(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is not None and not kinds.on(values, "operator", "upgradeCRD", default=True):
        yield Found(values.at("operator", "upgradeCRD").path, "false")


def _cleanup(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is not None and kinds.on(values, "operator", "cleanupCRD", default=False):
        yield Found(values.at("operator", "cleanupCRD").path, "true")


def _operand_versions(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None:
        return
    for operand, bundled in brought(case.inputs.at("version").text()).items():
        place = values.at(operand, "version")
        given, least = parse_version(place.text()), parse_version(bundled)
        if operand != "driver" and given and least and given < least:
            yield Found(place.path, f"{version_text(given)}, older than {version_text(least)}, which the chart brings")


def _driver_upgrade(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None or not values.at("driver", "version").value():
        return
    policy = values.at("driver", "upgradePolicy")
    drains = kinds.on(policy, "drain", "enable", default=False) or kinds.on(policy, "gpuPodDeletion", "force", default=False)
    if kinds.on(policy, "autoUpgrade", default=True) and not drains:
        yield Found(
            policy.path, f"driver {show(values.at('driver', 'version').value())}, and neither drain nor forced pod deletion"
        )


def _precompiled(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None or not kinds.on(values, "driver", "usePrecompiled", default=False):
        return
    place = values.at("driver", "version")
    if not re.fullmatch(r"\d+", place.text()):
        yield Found(place.path, f"{show(place.value())} with usePrecompiled, which wants a branch such as 580")


def _health(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None:
        return
    if kinds.environment(values, "devicePlugin").get("DP_DISABLE_HEALTHCHECKS", "").lower() in {"all", "xids"}:
        yield Found(values.at("devicePlugin", "env").path, "DP_DISABLE_HEALTHCHECKS switches every health check off")


def _nfd_version(case: Case) -> Iterator[Found]:
    place = case.inputs.at("version")
    version = parse_version(place.text())
    if _nfd(case) is not None and version and version < _OLDEST_NFD:
        yield Found(place.path, f"{version_text(version)}, older than {version_text(_OLDEST_NFD)}")


def _nfd_namespaces(case: Case) -> Iterator[Found]:
    values = _nfd(case)
    if values is None:
        return
    config = values.at("master", "config")
    denied = [entry.text() for entry in config.at("denyLabelNs").each()]
    allowed = [entry.text() for entry in config.at("extraLabelNs").each()]
    if any(pattern in {"*", "nvidia.com", "*.nvidia.com"} for pattern in denied) and "nvidia.com" not in allowed:
        yield Found(config.at("denyLabelNs").path, f"{', '.join(denied)} refuses labels below nvidia.com")


def _waits(case: Case) -> Iterator[Found]:
    """A ClusterPolicy of the chart never says `ready` in time; see `no-wait-on-cluster-policy`."""
    for key, place in case.inputs.at("metadata", "annotations").items():
        if key == "pulumi.com/waitFor":
            yield Found(place.path, show(place.value()))


def _visible(case: Case) -> Iterator[Found]:
    """All GPUs for a pod that asks for none: the toolkit's switches."""
    values = kinds.operator(case)
    if values is None or not kinds.on(values, "toolkit", "enabled", default=True):
        return
    switches = kinds.environment(values, "toolkit")
    if switches.get("ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "true").lower() != "false":
        yield Found(values.at("toolkit", "env").path, "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED is not false")


def _mps_gfd(case: Case) -> Iterator[Found]:
    values = kinds.operator(case)
    if values is None or kinds.on(values, "gfd", "enabled", default=True):
        return
    for resource, place, value in kinds.parsed_configs(case, "plugin"):
        if kinds.sharing_of(value).get("mps"):
            yield Found(values.at("gfd", "enabled").path, f"false, and {place.path} of {resource.name} is MPS")


#: With CDI the device plugin's own strategies give a pod what it asked for, and no other works (gpu_pools/stack/doubtful_values).
_WITHOUT_CDI: Final = (
    "Only where CDI is off (cdi.enabled: false, or a chart before v25.10), also set "
    "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS=true there, and DEVICE_LIST_STRATEGY=volume-mounts in devicePlugin.env: with "
    "CDI that would leave pods without a driver (W93)."
)
RULES: Final = (
    Rule(
        name="release-has-time",
        title="Releases of the operator and of NFD have time to become ready",
        incidents=("P01", "T05"),
        types=(kinds.RELEASE,),
        judge=_timeout,
        why="images and drivers take longer than the default of 5 minutes; the release then stays pending and "
        "every later update fails",
        repair="Set timeout to 1800 or more.",
        limits=(Limit("leastSeconds", {"type": "integer", "minimum": 300}, _LEAST_SECONDS),),
    ),
    Rule(
        name="release-has-name",
        title="Releases of the operator and of NFD have a fixed name",
        incidents=("P01",),
        types=(kinds.RELEASE,),
        judge=_named,
        why="after a failed update the state may lose a release with a made-up name, and a second one is installed beside it",
        repair="Set name.",
    ),
    Rule(
        name="config-created-whole",
        title="A ConfigMap that the chart shall make has a name and data",
        incidents=("D04",),
        types=(kinds.RELEASE,),
        judge=_created,
        why="the pods wait for a ConfigMap that nobody makes",
        repair="Give name and data, or make the ConfigMap yourself.",
    ),
    Rule(
        name="config-has-default",
        title="The device plugin's ConfigMap has a default",
        incidents=("D02", "D19"),
        types=kinds.OPERATORS,
        judge=_default,
        why="nodes without the label share nothing, and no error says so",
        repair="Set devicePlugin.config.default to a key without sharing, and label the nodes of each pool.",
    ),
    Rule(
        name="crds-upgraded",
        title="The operator's CRDs are upgraded with its chart",
        incidents=("T01",),
        types=(kinds.RELEASE,),
        judge=_crds,
        why="the new operator writes fields that the old CRD drops, and reconciles for ever",
        repair="Leave operator.upgradeCRD on.",
        stack_repair="Take operator.upgradeCRD out of operator.values.",
    ),
    Rule(
        name="crds-kept",
        title="Removing the operator does not remove CRDs with their objects",
        incidents=("T02",),
        types=(kinds.RELEASE,),
        judge=_cleanup,
        why="deleting the CRDs deletes every object of them, those of a shared NFD too, and hangs on finalizers",
        repair="Leave operator.cleanupCRD off.",
        stack_repair="Take operator.cleanupCRD out of operator.values.",
    ),
    Rule(
        name="operands-not-older-than-chart",
        title="Operands are not pinned to versions older than the chart's",
        incidents=("T06",),
        types=(kinds.RELEASE,),
        judge=_operand_versions,
        why="an old operand outlives node upgrades and then fails on them: `unsupported config version: 3`",
        repair="Remove the version, or pin one that is at least the chart's.",
        stack_repair="Take that version out of operator.values, or write one that is at least the chart's.",
    ),
    Rule(
        name="driver-upgrade-drains",
        title="Driver upgrades say what happens to pods that use GPUs",
        incidents=("T04",),
        types=(kinds.RELEASE,),
        judge=_driver_upgrade,
        why="the driver cannot be unloaded while pods use it: nodes stay cordoned with upgrade-required",
        repair="Set driver.upgradePolicy.drain.enable or driver.upgradePolicy.gpuPodDeletion.force, or set "
        "driver.upgradePolicy.autoUpgrade to false.",
        stack_repair="Declare operator.driverUpgrade: {maxUnavailable: 1}, or set driver.upgradePolicy.autoUpgrade to false.",
        level="advisory",
    ),
    Rule(
        name="precompiled-driver-is-a-branch",
        title="Precompiled drivers are named by their branch",
        incidents=("I07",),
        types=(kinds.RELEASE,),
        judge=_precompiled,
        why="image tags of precompiled drivers are <branch>-<kernel>-<os>; with a full version there is no such image",
        repair="Write the branch only, e.g. 580.",
        stack_repair="In operator.values.driver.version write the branch only, e.g. 580.",
    ),
    Rule(
        name="health-checks-on",
        title="The device plugin's health checks are on",
        incidents=("R11",),
        types=kinds.OPERATORS,
        judge=_health,
        why="pods keep being placed on GPUs that fell off the bus",
        repair="Name single Xids instead of all.",
        stack_repair="Name single Xids in operator.values.devicePlugin.env instead of all.",
    ),
    Rule(
        name="nfd-recent",
        title="NFD is 0.17 or newer",
        incidents=("R09",),
        types=(kinds.RELEASE,),
        judge=_nfd_version,
        why="older masters overload the API server and drop labels; the operator then removes its operands",
        repair="Take a newer chart.",
    ),
    Rule(
        name="nfd-takes-nvidia-labels",
        title="NFD accepts labels below nvidia.com",
        incidents=("I03",),
        types=(kinds.RELEASE,),
        judge=_nfd_namespaces,
        why="labels of gpu-feature-discovery and of pools never appear",
        repair="Add nvidia.com to master.config.extraLabelNs.",
    ),
    Rule(
        name="gpus-only-on-request",
        title="Pods that ask for no GPU see none",
        incidents=("I13",),
        types=(kinds.RELEASE,),
        judge=_visible,
        why="any pod gets all GPUs of its node by the variable NVIDIA_VISIBLE_DEVICES, whatever others were promised",
        repair=f"Set ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED=false in toolkit.env. {_WITHOUT_CDI}",
        stack_repair="Set ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED=false in operator.values.toolkit.env. "
        f"{_WITHOUT_CDI}",
        level="advisory",
    ),
    Rule(
        name="mps-has-feature-discovery",
        title="MPS has gpu-feature-discovery",
        incidents=("I11",),
        types=kinds.OPERATORS,
        judge=_mps_gfd,
        why="the MPS daemon starts only on nodes with a label that gpu-feature-discovery sets",
        repair="Leave gfd.enabled on.",
        whole=True,
    ),
    Rule(
        name="no-wait-on-cluster-policy",
        title="Nothing waits for the ClusterPolicy's status",
        incidents=("P07", "I04"),
        types=kinds.CLUSTER_POLICIES,
        judge=_waits,
        why="it says ready while no GPU is usable, and an update that changes nothing waits until its timeout",
        repair="Remove the annotation and verify the nodes instead.",
    ),
)
