"""What a node of a pool must be: the document that the plan writes and the verifier reads.

`gpu-pools expect` prints it; gpu_pools/proof/node_expectation.py makes it. Values that no source gives are null, and are then not
compared. Nothing here is compared with anything.
"""

from __future__ import annotations

from .documents import DocumentError, Record, parse_json, read
from .names import COMPUTE_MODES

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike
    from typing import Final

API_VERSION: Final = "gpu-pools/v1"
KIND: Final = "NodeExpectation"
MIG_MODES: Final = ("enabled", "disabled", "unsupported")


class Minimum(Record):
    """The oldest driver and CUDA version that will do, such as ``525`` or ``570.133.20`` and ``12.4``; None: any."""

    driver: str | None
    cuda: str | None


class GpuExpectation(Record):
    """One GPU by its NVML index: one of MIG_MODES, and its MIG instances (profile -> count)."""

    index: int
    mig_mode: str
    instances: Mapping[str, int]


class Profile(Record):
    """What is known of a declared MIG profile.

    Attributes:
        id: the id by which instances of it are made.
        other_names: what other drivers call it.
        starts: placement units at which it may start.
        size: placement units that it covers.
    """

    id: int | None
    other_names: tuple[str, ...]
    starts: tuple[int, ...]
    size: int


class MpsExpectation(Record):
    """The split that the MPS daemon must have: clients per GPU, MiB and percent of the GPU's threads for each."""

    replicas: int
    pinned_memory_mib: int | None
    active_thread_percentage: int


class ConfigMapExpectation(Record):
    """A key of a ConfigMap, and the SHA-256 of the text that must be below it."""

    name: str
    key: str
    sha256: str


class DeviceExpectation(Record):
    """Devices of one kind that the DRA driver must announce.

    Attributes:
        resource: the extended resource by which pods ask for them.
        type: ``gpu`` or ``mig``.
        profile: the MIG profile; None of whole GPUs.
        count: how many.
        shares: how many claims may share each; None: one has it whole.
    """

    resource: str
    type: str
    profile: str | None
    count: int
    shares: int | None


class ClaimsExpectation(Record):
    """What pods get through resource claims: the driver's name, where its pods are, and what it must announce."""

    driver: str
    namespace: str
    devices: tuple[DeviceExpectation, ...]


class NodeExpectation(Record):
    """What Kubernetes must show of a node.

    Attributes:
        allocatable: each nvidia.com resource -> count, to the unit.
        labels: labels that must be on the node; they make the operands act.
        discovered_labels: labels that gpu-feature-discovery must have written.
        taints: as ``key=value:Effect``; others may be there too.
        namespace: where the GPU operator and its operands live.
        searched_namespaces: where else a second device plugin is looked for.
        device_plugin_config: what the device plugin must serve.
        operands: names of the DaemonSets that must have a ready pod on the node.
        excluded_operands: names of those that must have none.
        mig_manager: whether mig-manager partitions, so that its state label counts.
        claims: what NVIDIA's DRA driver must announce; None with the device plugin.
    """

    allocatable: Mapping[str, int]
    labels: Mapping[str, str]
    discovered_labels: Mapping[str, str]
    taints: tuple[str, ...]
    namespace: str
    searched_namespaces: tuple[str, ...]
    device_plugin_config: ConfigMapExpectation
    operands: tuple[str, ...]
    excluded_operands: tuple[str, ...]
    mig_manager: bool
    claims: ClaimsExpectation | None = None


class Expectation(Record):
    """The whole document.

    Attributes:
        pool: the pool's name.
        gpu_model: this project's key of the model.
        products: names that nvmlDeviceGetName may answer; none where no source gives them.
        count: GPUs on the node.
        minimum: the oldest driver and CUDA version that will do.
        driver: the driver's version, or the beginning of one, that the operator was told to install; None: its own choice.
        compute_mode: one of COMPUTE_MODES.
        gpus: one entry per GPU.
        profiles: what is known of the declared profiles, by name.
        mps: the MPS split, None without MPS.
        node: what Kubernetes must show; None leaves Kubernetes out.
    """

    api_version: str
    kind: str
    pool: str
    gpu_model: str
    products: tuple[str, ...]
    count: int
    minimum: Minimum
    driver: str | None
    compute_mode: str
    gpus: tuple[GpuExpectation, ...]
    profiles: Mapping[str, Profile]
    mps: MpsExpectation | None
    node: NodeExpectation | None


def read_expectation(path: str | PathLike[str], sha256: str | None = None) -> tuple[Expectation, bytes]:
    """(the document of a file, its content); the file is read once, so that the one belongs to the other.

    Args:
        path: the file.
        sha256: what it must have; None where nobody said so.

    Raises:
        DocumentError: when it cannot be read, is another one, or is not an expectation.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes time to load
            content = file.read()
    except OSError as error:
        raise DocumentError([f"{path}: cannot be read: {error.strerror}"]) from error
    if sha256 is not None:
        import hashlib  # noqa: PLC0415 - it takes time to load

        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise DocumentError([f"W90: {path}: is not the one that was deployed: its SHA-256 is {found}, not {sha256}"])
    try:
        document = parse_json(content.decode().removeprefix("\ufeff"))
    except ValueError as error:
        raise DocumentError([f"{path}: is not JSON: {error}"]) from error
    return parse_expectation(document), content


def parse_expectation(document: object) -> Expectation:
    """The document as an Expectation.

    Raises:
        DocumentError: with everything that is wrong in it.
    """
    head = [document.get("apiVersion"), document.get("kind")] if isinstance(document, dict) else None
    if head is not None and head != [API_VERSION, KIND]:
        raise DocumentError([f"apiVersion and kind are {head}, not {[API_VERSION, KIND]}"])
    expectation = read(Expectation, document)
    problems = list(_contradictions(expectation))
    if problems:
        raise DocumentError(problems)
    return expectation


def _is_version(text: str) -> bool:
    """Whether it is numbers with dots between them."""
    return all(part.isdecimal() for part in text.split("."))


def _contradictions(expectation: Expectation) -> list[str]:
    problems = []
    if expectation.compute_mode not in COMPUTE_MODES:
        problems.append(f"computeMode is {expectation.compute_mode!r}, not one of {', '.join(COMPUTE_MODES)}")
    for what, version in (("driver", expectation.minimum.driver), ("cuda", expectation.minimum.cuda)):
        if version is not None and not _is_version(version):
            problems.append(f"minimum.{what} is {version!r}, not numbers with dots")
    if expectation.driver is not None and not _is_version(expectation.driver):
        problems.append(f"driver is {expectation.driver!r}, not numbers with dots")
    indexes = [gpu.index for gpu in expectation.gpus]
    if expectation.count < 1 or indexes != list(range(expectation.count)):
        problems.append(f"gpus has the indexes {indexes}, but count says {expectation.count}")
    for gpu in expectation.gpus:
        if gpu.mig_mode not in MIG_MODES:
            problems.append(f"gpus[{gpu.index}].migMode is {gpu.mig_mode!r}, not one of {', '.join(MIG_MODES)}")
        if bool(gpu.instances) != (gpu.mig_mode == "enabled"):
            problems.append(f"gpus[{gpu.index}] has MIG mode {gpu.mig_mode} and instances {dict(gpu.instances)}")
        problems += [
            f"gpus[{gpu.index}].instances.{profile} is not described in profiles"
            for profile in gpu.instances
            if profile not in expectation.profiles
        ]
    return problems
