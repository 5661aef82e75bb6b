"""The section ``gpu-pools:verification``: whether, and how patiently, the nodes of all pools are verified after a deploy.

Only settings. What the verifier may do is in gpu_pools/proof/verifier_rights.py, its pods are in
gpu_pools/proof/verifier_pods.py, and what a node must be in gpu_pools/proof/node_expectation.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.section import Section

if TYPE_CHECKING:
    from gpu_pools.text.errors import Problems

#: Of the oldest Python that this project runs on: the verifier then starts with the bytecode that was packed here. The digest is
#: that of the index for all architectures, as public Dockerfiles and lock files agree on it; it was not pulled here.
DEFAULT_IMAGE: Final = "python:3.11.13-slim-bookworm@sha256:86adf8dbadc3d6e82ee5dd2c74bec2e1c2467cdad47886280501df722372d2e1"
#: NVIDIA's vectorAdd with a shell, for amd64 and arm64, by the digest that NVIDIA's own NemoClaw proves GPUs with
#: (NVIDIA/NemoClaw, container-gpu-proof.ts, 2026); it was not pulled here.
DEFAULT_SMOKE_TEST_IMAGE: Final = (
    "nvcr.io/nvidia/k8s/cuda-sample@sha256:7c7540bdf1f942d4fb6db97069fd6c289471b54ac29e3c7fcdf914cf77af7d41"
)
#: The operator compiles a driver for some ten minutes; MIG may cost a reboot.
_DEADLINE_SECONDS: Final = 1200
_INTERVAL_SECONDS: Final = 300
_DAY_SECONDS: Final = 86_400
_LEAST_SECONDS: Final = 10


@dataclass(frozen=True)
class VerificationSettings:
    """How nodes are verified.

    Attributes:
        enabled: whether they are.
        deadline_seconds: how long a node may take to become what was declared, from the start of its verifier on.
        interval_seconds: between two assertions afterwards.
        image: Python 3.11 or newer with nothing else in it, by digest.
        startup_taint: whether new nodes register with a taint that goes once they have passed.
        smoke_test: whether pods use each pool after its nodes were verified.
        smoke_test_image: a shell, and a CUDA program /cuda-samples/sample.
    """

    enabled: bool
    deadline_seconds: int = _DEADLINE_SECONDS
    interval_seconds: int = _INTERVAL_SECONDS
    image: str = DEFAULT_IMAGE
    startup_taint: bool = False
    smoke_test: bool = False
    smoke_test_image: str = DEFAULT_SMOKE_TEST_IMAGE


def parse_verification(value: object, path: str, problems: Problems) -> VerificationSettings:
    """The section; absent means that nothing is verified, an empty one that all pools are, with defaults."""
    if value is None:
        return VerificationSettings(enabled=False)
    section = Section(value, path, problems)
    enabled = section.flag("enabled")
    deadline = section.integer("deadlineSeconds", minimum=_LEAST_SECONDS, maximum=_DAY_SECONDS)
    interval = section.integer("intervalSeconds", minimum=_LEAST_SECONDS, maximum=_DAY_SECONDS)
    startup_taint = section.flag("startupTaint")
    # Who can exchange it is root on the nodes.
    image = section.pinned_image("image", example="python:3.12-slim")
    smoke_test = section.flag("smokeTest")
    smoke_test_image = section.image("smokeTestImage", example="cuda-sample:vectoradd")
    section.finish()
    return VerificationSettings(
        enabled=enabled is not False,
        deadline_seconds=deadline or _DEADLINE_SECONDS,
        interval_seconds=interval or _INTERVAL_SECONDS,
        image=image or DEFAULT_IMAGE,
        startup_taint=enabled is not False and startup_taint is True,
        smoke_test=bool(smoke_test),
        smoke_test_image=smoke_test_image or DEFAULT_SMOKE_TEST_IMAGE,
    )
