"""The platforms that there are, stack files read with them, and the keys of pools in the words of each."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.aks.platform import Aks
from gpu_pools.platforms.existing.platform import Existing
from gpu_pools.platforms.magnum.platform import Magnum
from gpu_pools.reading.fields import BY_PLATFORM, rows
from gpu_pools.stack import clusters, settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.platforms.platform import Platform
    from gpu_pools.reading.fields import Row
    from gpu_pools.stack.cluster import Cluster
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

#: Name -> platform, in the order in which messages list them; the first is that of a file whose pools point to no other.
PLATFORMS: Final[dict[str, Platform[Any]]] = {platform.name: platform for platform in (Aks(), Magnum(), Existing())}


def platform_of(cluster: Cluster) -> Platform[Any]:
    """Return the platform of a cluster."""
    return PLATFORMS[cluster.platform]


def rows_of(settings: type) -> Iterator[Row]:
    """Yield each key of a settings class, with what each platform says of it where that is the platform's to say."""
    for one in rows(settings):
        texts = {name: platform.row_texts[one.key] for name, platform in PLATFORMS.items() if one.key in platform.row_texts}
        said: dict[str, Any] = {
            part: {name: value for name, text in texts.items() if (value := getattr(text, part))}
            for part in ("says", "sets", "change")
            if getattr(one, part) is BY_PLATFORM
        }
        yield dataclasses.replace(one, **said)


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
