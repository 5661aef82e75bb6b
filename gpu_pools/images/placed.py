"""Every image that this project itself puts into a cluster: who names it, which pods run it, on which kind of nodes.

Our own are by digest. A stack file may name others for sites that mirror them; those of the verifier must be by digest, since who
can exchange it is root on the nodes. The smoke test's and the labellers' may be by tag, as they always could: their pods have no
rights, so that is a warning, and a finding of the policy pack where a stack asks for digests. Not here: images that NVIDIA's
operator and NFD run, which their charts name by tag in the pinned version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.image_names import read_image_name
from gpu_pools.stack.charts import DEFAULT_LABELLER_IMAGE
from gpu_pools.stack.verification import DEFAULT_IMAGE, DEFAULT_SMOKE_TEST_IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.reading.image_names import ImageName
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings

_VERIFIER: Final = "gpu-pools:verification.image"
_SMOKE_TEST: Final = "gpu-pools:verification.smokeTestImage"
_MARKER: Final = "gpu-pools:nodeFeatureDiscovery.markerImage"
#: GPUs that are sold on a board with NVIDIA's own arm64 processor only.
_ON_ARM64: Final = frozenset({"gh200-144gb", "gb200-186gb", "gb300-278gb"})


@dataclass(frozen=True)
class PlacedImage:
    """An image that a stack puts into its cluster.

    Attributes:
        path: the key of the stack file that names it, or would.
        text: its name as it is placed.
        given: whether the stack file names it, or we do.
        pods: what runs it.
        architectures: of the nodes that run it, as far as they are known.
    """

    path: str
    text: str
    given: bool
    pods: str
    architectures: frozenset[str]

    @property
    def name(self) -> ImageName | None:
        """What the name says; None only where nobody has checked it."""
        return read_image_name(self.text)

    @property
    def pinned(self) -> bool:
        """Whether it is by digest."""
        return self.name is not None and self.name.pinned


def placed_images(settings: Settings) -> tuple[PlacedImage, ...]:
    """The images of a stack."""
    verification = settings.verification
    architectures = frozenset(filter(None, map(_architecture, settings.pools)))
    cleans = not settings.cluster.makes_nodes
    verifier = ["the verifiers"] * verification.enabled + ["the Job that cleans the nodes after a destroy"] * cleans
    images = [(_MARKER, settings.nfd.labeller_image, DEFAULT_LABELLER_IMAGE, "the pools' labellers, the waits around labels")]
    if verifier:
        images.append((_VERIFIER, verification.image, DEFAULT_IMAGE, ", ".join(verifier)))
    if verification.enabled and verification.smoke_test:
        images.append((_SMOKE_TEST, verification.smoke_test_image, DEFAULT_SMOKE_TEST_IMAGE, "the smoke tests"))
    return tuple(PlacedImage(path, text, text != own, pods, architectures) for path, text, own, pods in images)


def tag_warnings(settings: Settings) -> Iterator[str]:
    """What somebody who can push to a registry could exchange."""
    for image in placed_images(settings):
        if not image.pinned:
            yield (
                f"{image.path} names {image.text} by tag: whoever can push it there decides what runs on the nodes (W91); "
                "`python -m gpu_pools images STACKFILE` tells the digest to write instead"
            )


def _architecture(pool: Pool) -> str:
    """Of a pool's nodes; empty where it is not known."""
    if pool.placement.architecture is not None:
        return pool.placement.architecture
    return "arm64" if pool.hardware and pool.hardware.model.key in _ON_ARM64 else ""
