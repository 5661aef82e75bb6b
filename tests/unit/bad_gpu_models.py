"""Stacks with GPU models of their own that cannot be, each with the problem that must be told; a part of bad_stacks.py."""

from __future__ import annotations

from typing import Any, Final

from tests.unit.bad_case import Case
from tests.unit.stacks import GONE, aks, existing

_HERE: Final = "gpu-pools:gpuModels.card"
_MIG: Final[dict[str, Any]] = {
    "source": "nvidia-smi mig -lgip",
    "computeSlices": 7,
    "profiles": {"1g.18gb": {"starts": [0, 1, 2, 3, 4, 5, 6], "size": 1}, "7g.144gb": {"starts": [0], "size": 8}},
}


def _model(id_: str, says: Any, place: str, message: str, allowed: str = "", remedy: str = "", *, problems: int = 1) -> Case:
    stack = existing({"gpuModel": "card"}, gpuModels={"card": {"mig": False, **says} if isinstance(says, dict) else says})
    return Case(f"gpu-model-{id_}", stack, f"{_HERE}{place}", message, allowed, remedy, problems=problems)


def _mig(
    id_: str, says: dict[str, Any], place: str, message: str, allowed: str = "", remedy: str = "", *, problems: int = 1
) -> Case:
    mig = {key: value for key, value in {**_MIG, **says}.items() if value is not GONE}
    return _model(f"mig-{id_}", {"mig": mig}, f".mig{place}", message, allowed, remedy, problems=problems)


def _profile(id_: str, says: Any, place: str, message: str, allowed: str = "", remedy: str = "", *, problems: int = 1) -> Case:
    profiles = {"2g.36gb": {"starts": [0, 2, 4], "size": 2, **says} if isinstance(says, dict) else says}
    return _mig(
        f"profile-{id_}", {"profiles": profiles}, f".profiles.2g.36gb{place}", message, allowed, remedy, problems=problems
    )


GPU_MODEL_CASES: Final = (
    Case(
        "gpu-models-a-list",
        existing(gpuModels=[{"mig": False}]),
        "gpu-pools:gpuModels",
        "is not a mapping of names",
        "a mapping of names",
    ),
    _model("a-text", "a100", "", '"a100" is not a mapping', "a mapping with mig"),
    _model("without-mig", {"mig": None}, ".mig", "is missing", "false, true", "mig: false"),
    _model("mig-a-text", {"mig": "no"}, ".mig", '"no" is not', "false, true, or a mapping"),
    _model("mig-a-number", {"mig": 7}, ".mig", "7 is not", "computeSlices"),
    _model("key-mistyped", {"memoryMib": 24564}, ".memoryMib", "unknown key", "memoryMiB", "`memoryMiB`"),
    _model("key-of-a-pool", {"gpusPerNode": 8}, ".gpusPerNode", "unknown key", "computeCapability"),
    _model("memory-in-gib", {"memoryMiB": 48}, ".memoryMiB", "48 is out of bounds", "at least 256"),
    _model("memory-a-text", {"memoryMiB": "48Gi"}, ".memoryMiB", '"48Gi" is not a whole number'),
    _model("capability-a-number", {"computeCapability": 8.6}, ".computeCapability", "8.6 is not a text", "in quotes", "quotes"),
    _model("capability-of-an-image", {"computeCapability": "sm_86"}, ".computeCapability", '"sm_86" does not fit', '"8.6"'),
    _model("multiprocessors-none", {"multiprocessors": 0}, ".multiprocessors", "0 is out of bounds", "at least 1"),
    _model("product-a-list", {"product": ["NVIDIA RTX A6000"]}, ".product", "is not a text", "as nvidia-smi -L prints it"),
    _model(
        "product-of-the-tables", {"product": "NVIDIA A100-SXM4-80GB"}, ".product", "a100-80gb", "lacks", "gpuModel: a100-80gb"
    ),
    _model("product-as-a-label", {"product": "NVIDIA-A30"}, ".product", "is a model that the tables have, a30-24gb"),
    Case(
        "gpu-model-of-the-tables",
        existing(gpuModels={"t4-16gb": {"mig": False}}),
        "gpu-pools:gpuModels.t4-16gb",
        "is a model that the tables have",
        "a model that `python -m gpu_pools models` lacks",
        "take this out",
    ),
    Case(
        "gpu-model-in-capitals",
        existing(gpuModels={"RTX A6000": {"mig": False}}),
        "gpu-pools:gpuModels.RTX A6000",
        '"RTX A6000" is not a name of a model',
        "lower-case letters",
        "Choose another name",
    ),
    Case(
        "gpu-model-twice",
        existing(gpuModels={name: {"mig": False, "product": "NVIDIA Next"} for name in ("next", "other")}),
        "gpu-pools:gpuModels.other.product",
        '"NVIDIA Next" is that of next, too',
        "one model for a product",
        "Declare it once",
    ),
    Case(
        "gpu-model-undeclared",
        existing({"gpuModel": "rtx-a6k"}, gpuModels={"rtx-a6000": {"mig": False}}),
        "gpu-pools:pools[0].gpuModel",
        '"rtx-a6k" is not a known GPU model',
        "rtx-a6000",
        "Did you mean rtx-a6000?",
    ),
    Case(
        "gpu-model-that-is-wrong-is-told-once",
        aks({"vmSize": "Standard_ND40rs_v2", "gpuModel": "card", "gpusPerNode": 8}, gpuModels={"card": {"mig": "none"}}),
        f"{_HERE}.mig",
        '"none" is not',
    ),
    Case(
        "gpu-model-beside-a-known-size",
        aks({"gpuModel": "card"}, gpuModels={"card": {"mig": False}}),
        "gpu-pools:pools[0].gpuModel",
        "has a100-80gb, not card",
        "a100-80gb",
        "Leave it out",
    ),
    Case(
        "gpu-model-without-mig-partitioned",
        existing({"gpuModel": "card"}, gpuModels={"card": {"mig": False}}, sharing={"m": {"mig": {"layout": {"1g.10gb": 7}}}}),
        "gpu-pools:pools[0].sharing",
        "needs MIG, which pool gpu (card) does not have",
        "timeSlicing or mps",
        "hardware with MIG",
    ),
    Case(
        "gpu-model-too-old-for-many-mps-clients",
        existing(
            {"gpuModel": "card"},
            gpuModels={"card": {"mig": False, "computeCapability": "6.0"}},
            sharing={"m": {"mps": {"replicas": 20}}},
        ),
        "gpu-pools:sharing.m.mps.replicas",
        "card has compute capability 6.0",
        "2 to 16",
        "at most 16",
    ),
    Case(
        "gpu-model-with-too-little-memory",
        existing(
            {"gpuModel": "card"},
            gpuModels={"card": {"mig": False, "memoryMiB": 16384}},
            sharing={"m": {"timeSlicing": {"replicas": 4}, "needs": {"memoryPerReplica": "6Gi"}}},
        ),
        "gpu-pools:sharing.m.needs.memoryPerReplica",
        "6144 MiB do not fit",
        "at most 4096Mi",
        "at most 2 replicas",
    ),
    Case(
        "gpu-model-profile-that-it-lacks",
        existing({"gpuModel": "card"}, gpuModels={"card": {"mig": _MIG}}, sharing={"m": {"mig": {"layout": {"1g.10gb": 7}}}}),
        "gpu-pools:sharing.m.mig.layout.1g.10gb",
        'card (pool "gpu") has no MIG profile "1g.10gb"',
        "1g.18gb, 7g.144gb",
        "1g.18gb",
    ),
    _mig("without-source", {"source": GONE}, ".source", "is missing", "where they were read"),
    _mig("source-a-number", {"source": 580}, ".source", "580 is not a text", "nvidia-smi mig -lgip"),
    _mig("without-slices", {"computeSlices": GONE}, ".computeSlices", "is missing", "at least 1"),
    _mig("many-slices", {"computeSlices": 14}, ".computeSlices", "14 is out of bounds", "at most 8"),
    _mig("without-profiles", {"profiles": GONE}, ".profiles", "is missing", "at least one profile", "-lgip"),
    _mig("no-profiles", {"profiles": {}}, ".profiles", "declares 0 profiles", "1 to 12"),
    _mig("profiles-a-list", {"profiles": ["1g.18gb"]}, ".profiles", "is not a mapping of profiles"),
    _mig("profile-by-its-id", {"profiles": {"19": {"starts": [0], "size": 1}}}, ".profiles.19", "is not a name of a MIG profile"),
    _mig("larger-than-the-gpu", {"computeSlices": 4}, ".profiles.7g.144gb", "it takes 7 compute slices", "1g to 4g"),
    _mig("key-unknown", {"slices": 7}, ".slices", "unknown key", "computeSlices"),
    _profile("a-number", 3, "", "3 is not a mapping", "starts and size"),
    _profile("without-starts", {"starts": None}, ".starts", "is missing", "[0, 4]", "-lgipp"),
    _profile("without-size", {"size": None}, ".size", "is missing", "at least 1"),
    _profile("no-starts", {"starts": []}, ".starts", "names no unit", "at least one"),
    _profile("starts-a-text", {"starts": "0-4"}, ".starts", "is not a list of placement units"),
    _profile("starts-out-of-order", {"starts": [4, 0, 2]}, ".starts", "[4, 0, 2] are not in order", "rising"),
    _profile("starts-beyond-the-gpu", {"starts": [0, 40]}, ".starts[1]", "40 is not a placement unit", "0 to 14"),
    _profile("max-none", {"max": 0}, ".max", "0 is out of bounds", "at least 1"),
    _profile("id-a-text", {"id": "19"}, ".id", '"19" is not a whole number'),
    _profile("key-unknown", {"placements": [0]}, ".placements", "unknown key", "starts"),
)
#: Those of which the model alone is wrong.
ALONE: Final = tuple(case for case in GPU_MODEL_CASES if case.path.startswith(f"{_HERE}.") and "once" not in case.id)
