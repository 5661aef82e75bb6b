"""AKS pools that people write themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.azure_sizes import retired, size
from gpu_pools.policies import kinds
from gpu_pools.policies.rule import Found, Rule
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.policies.reading import Field
    from gpu_pools.policies.rule import Case

_SPOT_TAINT: Final = "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"


def _known_size(case: Case) -> Iterator[Found]:
    place = case.inputs.at("vmSize")
    day = retired(place.text())
    if day:
        yield Found(place.path, f'"{place.text()}" was retired on {day}')


def _aks_mig(case: Case) -> Iterator[Found]:
    place, name = case.inputs.at("gpuInstanceProfile"), case.inputs.at("vmSize").text()
    known = size(name)
    if place.text() and known and known.mig is False:
        yield Found(place.path, f'"{place.text()}" on {name}, whose GPU ({known.gpu_model}) has no MIG on AKS')


def _one_mig_owner(case: Case) -> Iterator[Found]:
    aks, label = case.inputs.at("gpuInstanceProfile"), case.inputs.at("nodeLabels", kinds.MIG_LABEL)
    if aks.text() and label.text() not in {"", "all-disabled"}:
        yield Found(aks.path, f'"{aks.text()}", and the label {kinds.MIG_LABEL} says "{label.text()}"')


def _mps_on_mig(case: Case) -> Iterator[Found]:
    if not case.inputs.at("gpuInstanceProfile").text():
        return
    label = kinds.sharing_label(case, kinds.CONFIG_LABEL)
    for resource, value in kinds.configs_named(case, label):
        if kinds.sharing_of(value).get("mps"):
            yield Found(label.path, f'"{label.text()}" of {resource.name} is MPS, on a pool that AKS partitions')


def _secure_boot(case: Case) -> Iterator[Found]:
    place = case.inputs.at("securityProfile", "enableSecureBoot")
    if not kinds.is_gpu_pool(case.inputs) or place.value() is not True:
        return
    for resource, values in kinds.operators(case):
        if kinds.installs_driver(resource, values) and not kinds.on(values, "driver", "usePrecompiled", default=False):
            yield Found(place.path, f"true, and {resource.name} builds the driver's modules on the node")


def _spot(case: Case) -> Iterator[Found]:
    taints = [taint.text() for taint in case.inputs.at("nodeTaints").each()]
    if case.inputs.at("scaleSetPriority").text() == "Spot" and _SPOT_TAINT not in taints:
        yield Found("nodeTaints", f"a spot pool without {_SPOT_TAINT}, which AKS adds by itself")


def _autoscaled_count(case: Case) -> Iterator[Found]:
    if case.inputs.at("enableAutoScaling").value() is not True:
        return
    if case.inputs.at("count").number() is None:
        yield Found("count", "none is given, beside enableAutoScaling")
    elif "count" not in case.resource.ignore_changes:
        yield Found("count", "its changes are not ignored, beside enableAutoScaling")


def _autoscaled_names(case: Case) -> Iterator[Found]:
    if not kinds.is_gpu_pool(case.inputs) or case.inputs.at("enableAutoScaling").value() is not True:
        return
    label = kinds.sharing_label(case, kinds.CONFIG_LABEL)
    for resource, value in kinds.configs_named(case, label):
        if _renames(value):
            yield Found(label.path, f'"{label.text()}" of {resource.name} advertises names that the autoscaler does not know')


def _renames(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    flags = value.get("flags")
    if isinstance(flags, dict) and flags.get("migStrategy") == "mixed":
        return True
    return any(isinstance(mode, dict) and mode.get("renameByDefault") is True for mode in kinds.sharing_of(value).values())


def _born_tainted(case: Case) -> bool:
    """Whether new nodes take no pods at first: by the startup taint, or by AKS's own preview of initialization taints."""
    return bool(case.of(kinds.STARTUP_TAINT)) or bool(list(case.inputs.at("nodeInitializationTaints").each()))


def _autoscaled_mig(case: Case) -> Iterator[Found]:
    label = kinds.sharing_label(case, kinds.MIG_LABEL)
    scaled = case.inputs.at("enableAutoScaling").value() is True
    if scaled and label.text() not in {"", "all-disabled"} and not _born_tainted(case):
        yield Found(label.path, f'"{label.text()}" on new nodes, and nothing keeps pods off until it is applied')


def _shared_from_zero(case: Case) -> Iterator[Found]:
    least = case.inputs.at("minCount")
    if case.inputs.at("enableAutoScaling").value() is not True or least.number() not in {None, 0}:
        return
    if _born_tainted(case):
        return
    label = kinds.sharing_label(case, kinds.CONFIG_LABEL)
    for resource, value in kinds.configs_named(case, label):
        if kinds.sharing_of(value):
            yield Found(least.path, f'none is kept, and "{label.text()}" of {resource.name} shares each GPU')
    # A partitioned GPU is several to pods as well (Azure/AKS#5161, #3427; NVIDIA/gpu-operator#693).
    profile, layout = case.inputs.at("gpuInstanceProfile"), kinds.sharing_label(case, kinds.MIG_LABEL)
    for place in (profile, layout):
        if place.text() not in {"", "all-disabled", "MIG7g"}:
            yield Found(least.path, f'none is kept, and "{place.text()}" partitions each GPU')


def _deallocate(case: Case) -> Iterator[Found]:
    place = case.inputs.at("scaleDownMode")
    if kinds.is_gpu_pool(case.inputs) and place.text() == "Deallocate" and _driver_by_operator(case.inputs):
        yield Found(place.path, '"Deallocate", with a driver that the operator installs')


def _driver_by_operator(inputs: Field) -> bool:
    return inputs.at("gpuProfile", "driver").text() == "None"


def _inline(case: Case) -> Iterator[Found]:
    def judge(profile: Field) -> Iterator[Found]:
        if kinds.is_gpu_pool(profile):
            yield Found(
                f"{profile.path}.vmSize", f"{show(profile.at('vmSize').value())} is a GPU size in a pool of the cluster itself"
            )

    yield from case.each(case.inputs.at("agentPoolProfiles").each(), judge)


def _owned_labels(case: Case) -> Iterator[Found]:
    for name, place in case.inputs.at("nodeLabels").items():
        if name.startswith("nvidia.com/gpu.deploy.") or name == "nvidia.com/gpu.present":
            yield Found(place.path, f"{name} belongs to the operator")


RULES: Final = (
    Rule(
        name="vm-size-exists",
        title="The VM size of a pool can still be had",
        incidents=("C09",),
        types=(kinds.AGENT_POOL,),
        judge=_known_size,
        why="Azure refuses the pool after the rest of the stack was made",
        repair="Take a size that is not retired.",
    ),
    Rule(
        name="aks-mig-on-mig-size",
        title="AKS partitions only GPUs that have MIG",
        incidents=("D15",),
        types=(kinds.AGENT_POOL,),
        judge=_aks_mig,
        why="the pool fails, or its GPUs stay whole",
        repair="Remove gpuInstanceProfile, or take a size with A100, H100 or H200.",
    ),
    Rule(
        name="one-mig-owner",
        title="Either AKS or the operator partitions a pool's GPUs",
        incidents=("C08",),
        types=(kinds.AGENT_POOL,),
        judge=_one_mig_owner,
        why="mig-manager and AKS set different layouts on the same GPUs, and AKS's cannot be changed after creation",
        repair=f"Remove gpuInstanceProfile, or set {kinds.MIG_LABEL} to all-disabled or nothing.",
    ),
    Rule(
        name="no-mps-on-mig",
        title="MPS and MIG are not combined on a pool",
        incidents=("D10",),
        types=(kinds.AGENT_POOL,),
        judge=_mps_on_mig,
        why="the device plugin exits: `sharing using MPS is not supported for MIG devices`",
        repair="Share MIG devices by time-slicing, or remove gpuInstanceProfile.",
        whole=True,
    ),
    Rule(
        name="secure-boot-needs-signed-driver",
        title="Secure Boot goes with precompiled or preinstalled drivers only",
        incidents=("I08",),
        types=(kinds.AGENT_POOL,),
        judge=_secure_boot,
        why="the kernel refuses modules that the operator built: no driver, no GPU",
        repair="Set driver.usePrecompiled, leave the driver to AKS, or switch Secure Boot off.",
        whole=True,
    ),
    Rule(
        name="spot-taint-written",
        title="A spot pool writes the taint that AKS gives it anyway",
        incidents=("P08",),
        types=(kinds.AGENT_POOL,),
        judge=_spot,
        why="the next update tries to take the taint away, and Azure refuses: `Changing property "
        "'properties.nodeTaints' is not allowed`",
        repair=f"Add {_SPOT_TAINT} to nodeTaints.",
    ),
    Rule(
        name="autoscaled-count-left-alone",
        title="The node count of an autoscaled pool is given once and then left to the autoscaler",
        incidents=("P08",),
        types=(kinds.AGENT_POOL,),
        judge=_autoscaled_count,
        why="Azure refuses a pool without count, and each deploy would set the autoscaler's count back",
        repair="Give count, and ignore its changes: ResourceOptions(ignore_changes=['count']).",
    ),
    Rule(
        name="autoscaler-knows-names",
        title="Autoscaled pools advertise nvidia.com/gpu",
        incidents=("C04", "D18"),
        types=(kinds.AGENT_POOL,),
        judge=_autoscaled_names,
        why="the autoscaler knows only nvidia.com/gpu: it takes such nodes for unready, and scales on or not at all",
        repair="Use strategy single and no rename on this pool, or a fixed count.",
        stack_repair="Share the pool without renameByDefault and with layouts of one profile, or give it a fixed count.",
        level="advisory",
        whole=True,
    ),
    Rule(
        name="new-mig-nodes-wait",
        title="New nodes take no pods until they are partitioned",
        incidents=("C06",),
        types=(kinds.AGENT_POOL,),
        judge=_autoscaled_mig,
        why="pods start on the whole GPU, and mig-manager then cannot partition it",
        repair="Add a StartupTaint beside a Verification of the pool (Kubernetes 1.36 or newer), or let AKS partition "
        "(gpuInstanceProfile).",
        stack_repair="Set verification.startupTaint (Kubernetes 1.36 or newer), give the pool a fixed count, or let AKS "
        "partition (partitionedBy: aks, which needs driver: preinstalled).",
        level="advisory",
        whole=True,
    ),
    Rule(
        name="shared-pools-keep-a-node",
        title="Autoscaled pools of shared GPUs keep a node, or a taint until their GPUs are advertised",
        incidents=("C05",),
        types=(kinds.AGENT_POOL,),
        judge=_shared_from_zero,
        why="the autoscaler counts a new node's GPUs unshared and takes it for full until they are advertised: "
        "four waiting pods start four nodes",
        repair="Set minCount to 1, or add a StartupTaint beside a Verification of the pool (Kubernetes 1.36 or newer).",
        stack_repair="Set nodes.min of the pool to 1, or verification.startupTaint (Kubernetes 1.36 or newer).",
        level="advisory",
        whole=True,
    ),
    Rule(
        name="gpu-nodes-are-deleted",
        title="GPU nodes are deleted on scale-down, not deallocated",
        incidents=("C10",),
        types=(kinds.AGENT_POOL,),
        judge=_deallocate,
        why="after some starts the driver container no longer comes up",
        repair="Set scaleDownMode to Delete.",
    ),
    Rule(
        name="gpu-pools-stand-alone",
        title="GPU pools are resources of their own, not profiles inside the cluster",
        incidents=("P09",),
        types=(kinds.MANAGED_CLUSTER,),
        judge=_inline,
        why="each change of one pool then writes all of them, and some replace the whole cluster",
        repair="Declare it as an AgentPool, or with AksGpuNodePool.",
    ),
    Rule(
        name="operator-labels-left-alone",
        title="Nobody but the operator sets its own labels",
        incidents=("R09",),
        types=(kinds.AGENT_POOL,),
        judge=_owned_labels,
        why="the operator deploys and removes operands by these labels; two writers make nodes lose them",
        repair="Remove the label; to keep operands off, leave the pool out or use nvidia.com/gpu.deploy.operands on "
        "a node by hand.",
    ),
)
