"""The section ``gpu-pools:verification``: whether, and how patiently, the nodes of all pools are verified after a deploy.

Only settings. What the verifier may do is in gpu_pools/proof/verifier_rights.py, its pods are in
gpu_pools/proof/verifier_pods.py, and what a node must be in gpu_pools/proof/node_expectation.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.fields import flag, image_name, pinned_image, read, row, whole_number
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
_DAY_SECONDS: Final = 86_400
_LEAST_SECONDS: Final = 10


@dataclass(frozen=True)
class VerificationSettings:
    """A stack file's section `verification`: of the nodes, after a deploy."""

    enabled: bool = row("Whether nodes are verified; true where the section is there.", flag(), default=True)
    deadline_seconds: int = row(
        "How long a node may take to become what was declared.",
        whole_number(_LEAST_SECONDS, _DAY_SECONDS),
        1200,  # The operator compiles a driver for some ten minutes; MIG may cost a reboot.
        doc="How long a node may take to become what was declared, in seconds from the start of its verifier.",
    )
    interval_seconds: int = row(
        "Between two assertions afterwards.",
        whole_number(_LEAST_SECONDS, _DAY_SECONDS),
        300,
        doc="Seconds between two assertions afterwards; a change of the node object makes one at once.",
    )
    startup_taint: bool = row(
        "Whether new nodes register with a taint that goes once they have passed.",
        flag(),
        default=False,
        doc="`true`: new nodes [register with a taint](verification.md#the-startup-taint) that goes once they have passed; "
        "`false` by default.",
    )
    # Who can exchange it is root on the nodes.
    image: str = row(
        "Python 3.11 or newer, by digest.",
        pinned_image("python:3.12-slim"),
        DEFAULT_IMAGE,
        doc="Python 3.11 or newer on glibc, fastest 3.11, whose bytecode is packed here; by default "
        "`python:3.11.13-slim-bookworm`. By digest: a tag alone is refused ([`images`](commands.md#images), or "
        "`docker buildx imagetools inspect IMAGE`, prints the digest). On existing clusters the Job that cleans the nodes after "
        "a destroy runs with it, too: a site that cannot pull the default names its own (with `enabled: false` where nothing is "
        "verified).",
    )
    smoke_test: bool = row(
        "Whether pods use each pool after its nodes were verified.",
        flag(),
        default=False,
        doc="`true`: after its nodes were verified, each pool is [used by pods](verification.md#the-smoke-test); `false` by "
        "default.",
    )
    smoke_test_image: str = row(
        "A shell, and a CUDA program /cuda-samples/sample.",
        image_name("cuda-sample:vectoradd"),
        DEFAULT_SMOKE_TEST_IMAGE,
        doc="A shell, and a CUDA program `/cuda-samples/sample` that ends with 0 where it can compute; by default NVIDIA's "
        "vectorAdd for amd64 and arm64, `nvcr.io/nvidia/k8s/cuda-sample`, by digest. A tag is a warning ([W91](rules.md)).",
    )


def parse_verification(value: object, path: str, problems: Problems) -> VerificationSettings:
    """The section; absent means that nothing is verified, an empty one that all pools are, with defaults."""
    if value is None:
        return VerificationSettings(enabled=False)
    section = Section(value, path, problems)
    found = read(VerificationSettings, section)
    section.finish()
    return found if found.enabled else replace(found, startup_taint=False)
