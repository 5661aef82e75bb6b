"""GPU nodes of any cluster, by its Kubernetes objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from gpu_pools.adopting.adopter import Adopter, unnamed_cluster

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from gpu_pools.adopting.adopted import Adopted
    from gpu_pools.adopting.inside import Inside


class ExistingAdopter(Adopter):
    """GPU nodes of any cluster."""

    name: ClassVar[str] = "existing"
    says: ClassVar[str] = "GPU nodes of any cluster, by its Kubernetes objects"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: the options that all platforms have say where the cluster's objects are read from."""

    def adopt(self, options: argparse.Namespace, look: Callable[[], Inside], owner: str) -> tuple[Adopted, str]:  # noqa: ARG002
        """Adopt the cluster's GPU nodes, of which nothing but labels becomes the stack's."""
        from gpu_pools.adopting.existing.nodes import adopt_existing  # noqa: PLC0415 - see adopter.py

        inside = look()
        if not inside.looked:
            raise unnamed_cluster("--kubernetes FILE, or --context NAME")
        source = ", ".join(options.kubernetes) or f"the context {options.context}"
        return adopt_existing(inside, options.context or ""), source
