"""Workloads and quotas that stand in the same program as the pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.resource_names import MIG_RESOURCE, WHOLE_GPU, mig_resource
from gpu_pools.policies import kinds
from gpu_pools.policies.rule import Found, Rule
from gpu_pools.verifier.quantities import read_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.policies.described import Resource
    from gpu_pools.policies.reading import Field
    from gpu_pools.policies.rule import Case

#: Labels that gpu-feature-discovery sets once a node lives.
_DISCOVERED: Final = ("nvidia.com/gpu.", "nvidia.com/mig", "nvidia.com/cuda", "nvidia.com/mps")


def _one_share(case: Case) -> Iterator[Found]:
    def judge(container: Field) -> Iterator[Found]:
        for name, (place, amount) in kinds.requested(container).items():
            if name.endswith(".shared") and read_count(amount) not in {0, 1}:
                yield Found(place.path, f"{amount} of {name}")

    yield from case.each(kinds.containers(kinds.pod_spec(case.resource, case.inputs)), judge)


def _asked(case: Case) -> Iterator[Found]:
    names = _advertised(case)

    def judge(container: Field) -> Iterator[Found]:
        for name, (place, _) in kinds.requested(container).items():
            if names and name not in names and name.startswith((WHOLE_GPU, MIG_RESOURCE)):
                yield Found(place.path, f"{name}, but the program's configs advertise {', '.join(sorted(names))}")

    yield from case.each(kinds.containers(kinds.pod_spec(case.resource, case.inputs)), judge)


def _advertised(case: Case) -> set[str]:
    """All names that some config of the program may advertise; empty where it has no config."""
    names: set[str] = set()
    plain = {mig_resource(profile) for profile in _profiles(case)}
    for _, _, value in kinds.parsed_configs(case, "plugin"):
        renamed = _renamed(value)
        names |= {f"{name}.shared" for name in renamed} | ({WHOLE_GPU, *plain} - renamed)
    return names


def _renamed(value: object) -> set[str]:
    sharing = value.get("sharing") if isinstance(value, dict) else None
    modes = [mode for mode in sharing.values() if isinstance(mode, dict)] if isinstance(sharing, dict) else []
    return {
        str(entry["name"])
        for mode in modes
        if mode.get("renameByDefault") is True
        for entry in mode.get("resources") or []
        if isinstance(entry, dict) and "name" in entry
    }


def _profiles(case: Case) -> set[str]:
    found: set[str] = set()
    for _, _, value in kinds.parsed_configs(case, "mig-parted"):
        configs = value.get("mig-configs") if isinstance(value, dict) else None
        for entries in configs.values() if isinstance(configs, dict) else ():
            for entry in entries if isinstance(entries, list) else ():
                devices = entry.get("mig-devices") if isinstance(entry, dict) else None
                found |= {str(profile) for profile in devices} if isinstance(devices, dict) else set()
    return found


def _sees_all(case: Case) -> Iterator[Found]:
    if _is_verifier(case.resource):
        return

    def judge(container: Field) -> Iterator[Found]:
        if kinds.requested(container):
            return
        for entry in container.at("env").each():
            if entry.at("name").text() == "NVIDIA_VISIBLE_DEVICES" and entry.at("value").text() not in {"", "void", "none"}:
                yield Found(entry.path, f'NVIDIA_VISIBLE_DEVICES is "{entry.at("value").text()}", and no GPU is requested')

    spec = kinds.pod_spec(case.resource, case.inputs)
    yield from case.each(kinds.containers(spec), judge)
    yield from case.each(spec.at("volumes").each(), _device_path)


def _is_verifier(resource: Resource) -> bool:
    """Whether it is what our Verification makes: it looks at GPUs without using any (gpu_pools/proof/verifier_pods.py)."""
    kind = "".join(resource.parent.split("::")[2:3]).rpartition("$")[2]
    return resource.type == kinds.DAEMON_SET and kind == kinds.VERIFICATION


def _device_path(volume: Field) -> Iterator[Found]:
    place = volume.at("hostPath", "path")
    if place.text().startswith("/dev/nvidia"):
        yield Found(place.path, f'"{place.text()}" of the node is mounted')


def _quota(case: Case) -> Iterator[Found]:
    for name, place in case.inputs.at("spec", "hard").items():
        if name.startswith(("nvidia.com/", "limits.nvidia.com/")):
            yield Found(place.path, f"{name} counts nothing; write requests.{name.removeprefix('limits.')}")


def _from_zero(case: Case) -> Iterator[Found]:
    empty = [one for one in kinds.gpu_pools(case) if one[1].at("minCount").number() == 0]
    for name, place in kinds.pod_spec(case.resource, case.inputs).at("nodeSelector").items():
        lack = [
            pool.name for pool, inputs in empty if name.startswith(_DISCOVERED) or _is_set_by_rollout(case, name, pool, inputs)
        ]
        if lack:
            yield Found(place.path, f"{name}, which no node has while {lack[0]} is empty")


def _is_set_by_rollout(case: Case, name: str, pool: Resource, inputs: Field) -> bool:
    """Whether nodes of a pool get the label one by one, so that the pool itself does not have it (`rollout`)."""
    own = inputs.at("nodeLabels", name).present()
    return name == kinds.CONFIG_LABEL and not own and kinds.sharing_label(case, name, (pool, inputs)).present()


def _one_user(case: Case) -> Iterator[Found]:
    if not any("mps" in kinds.sharing_of(value) for _, _, value in kinds.parsed_configs(case, "plugin")):
        return
    mine = _user(kinds.pod_spec(case.resource, case.inputs))
    for resource, inputs in case.of(*kinds.WORKLOADS):
        if resource.urn == case.resource.urn:
            return
        other = _user(kinds.pod_spec(resource, inputs))
        if mine is not None and other is not None and mine != other and not _apart(case, resource, inputs):
            yield Found("securityContext.runAsUser", f"user {mine:g}, and {resource.name} runs as {other:g}")


def _apart(case: Case, resource: Resource, inputs: Field) -> bool:
    """Whether node selectors keep the two on different nodes, and so on different MPS servers."""
    mine = dict(kinds.pod_spec(case.resource, case.inputs).at("nodeSelector").items())
    theirs = kinds.pod_spec(resource, inputs).at("nodeSelector").items()
    return any(key in mine and mine[key].value() != place.value() for key, place in theirs)


def _user(spec: Field) -> float | None:
    """The user of a pod that asks for GPUs."""
    if not any(kinds.requested(container) for container in kinds.containers(spec)):
        return None
    return spec.at("securityContext", "runAsUser").number()


RULES: Final = (
    Rule(
        name="one-share-per-container",
        title="A container asks for one share of a GPU",
        incidents=("D11",),
        types=kinds.WORKLOADS,
        judge=_one_share,
        why="two shares are refused (UnexpectedAdmissionError), or are the same GPU twice and bring nothing",
        repair="Ask for 1; for more memory or time use a pool with fewer replicas, MIG or whole GPUs.",
    ),
    Rule(
        name="asked-resource-is-advertised",
        title="Workloads ask for resources that some pool advertises",
        incidents=("D18",),
        types=kinds.WORKLOADS,
        judge=_asked,
        why="the pods stay Pending for ever: after a rename the old name is gone",
        repair="Ask for one of the names that are advertised; `python -m gpu_pools plan STACKFILE` prints them.",
        whole=True,
    ),
    Rule(
        name="gpus-are-requested",
        title="Whoever uses GPUs requests them",
        incidents=("I13",),
        types=kinds.WORKLOADS,
        judge=_sees_all,
        why="the pod sees all GPUs of its node, also those that others were given",
        repair="Remove the variable or the mount, and request nvidia.com/gpu.",
    ),
    Rule(
        name="quota-counts",
        title="Quotas use keys that count extended resources",
        incidents=("D17",),
        types=(kinds.QUOTA,),
        judge=_quota,
        why="Kubernetes counts extended resources by requests.<name> only; other keys limit nothing and say nothing",
        repair="Write requests.<name>.",
    ),
    Rule(
        name="selectable-from-zero",
        title="Workloads for pools that start empty select by labels of the pool",
        incidents=("C03",),
        types=kinds.WORKLOADS,
        judge=_from_zero,
        why="the autoscaler sees no node with that label and never starts one: the pods stay Pending",
        repair="Select by a label that stands on the pool, or keep one node.",
        level="advisory",
        whole=True,
    ),
    Rule(
        name="mps-one-user",
        title="Workloads on MPS run as one Linux user",
        incidents=("R13",),
        types=kinds.WORKLOADS,
        judge=_one_user,
        why="the MPS server serves one user at a time; pods of others wait or hang",
        repair="Give them the same runAsUser, or pools of their own.",
        level="advisory",
        whole=True,
    ),
)
