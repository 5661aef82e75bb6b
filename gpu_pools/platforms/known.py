"""The platforms that there are, and stack files read with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.aks.platform import Aks
from gpu_pools.platforms.existing.platform import Existing
from gpu_pools.platforms.magnum.platform import Magnum
from gpu_pools.stack import clusters, settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.platforms.platform import Platform
    from gpu_pools.stack.cluster import Cluster
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

#: Name -> platform, in the order in which messages list them; the first is that of a file whose pools point to no other.
PLATFORMS: Final[dict[str, Platform[Any]]] = {platform.name: platform for platform in (Aks(), Magnum(), Existing())}


def platform_of(cluster: Cluster) -> Platform[Any]:
    """Return the platform of a cluster."""
    return PLATFORMS[cluster.platform]


def parse_settings(config: Mapping[str, object], *, complete: bool = True) -> Settings:
    """Read a stack's ``config``; see gpu_pools/stack/settings.py.

    Raises:
        InvalidStackError: with every problem found.
    """
    return settings.parse_settings(config, PLATFORMS, complete=complete)


def try_parse_settings(config: Mapping[str, object], *, complete: bool = True) -> tuple[Settings | None, Problems]:
    """Read what can be understood; the problems let a caller collect later ones, too."""
    return settings.try_parse_settings(config, PLATFORMS, complete=complete)


def parse_cluster(value: object, path: str, problems: Problems, *, complete: bool) -> Cluster | None:
    """Read a cluster section; None, and problems, where the platform cannot be told."""
    return clusters.read_cluster(value, path, problems, PLATFORMS, complete=complete)
