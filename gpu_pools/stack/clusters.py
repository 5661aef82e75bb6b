"""The cluster section: which platform it is, and then what that platform reads of it.

Planning needs only the platform (and Magnum's driver, which decides how labels and taints reach nodes); `complete=True`
demands what a deploy needs besides.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from gpu_pools.reading.section import Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.stack.cluster import Cluster
    from gpu_pools.stack.platform_reader import PlatformReader
    from gpu_pools.text.errors import Problems


def read_cluster(
    value: object, path: str, problems: Problems, platforms: Mapping[str, PlatformReader], *, complete: bool
) -> Cluster | None:
    """Read the cluster section; None, and problems, where the platform cannot be told."""
    section = Section(value, path, problems, what="a mapping with `platform`")
    platform = _platform(section, platforms)
    return None if platform is None else platform.read_cluster(section, complete=complete)


def _platform(section: Section, platforms: Mapping[str, PlatformReader]) -> PlatformReader | None:
    """The platform; one that is misspelled, key or value, is a problem, and what else is wrong comes out in the same round."""
    names = tuple(platforms)
    meant = None if section.given("platform") else section.misspelled("platform")
    if isinstance(meant, str) and meant in names:
        return platforms[meant]
    platform = section.text("platform", required=section.readable, choices=names)
    written = section.raw("platform")
    if platform is None and isinstance(written, str):
        platform = next(iter(difflib.get_close_matches(written, names, n=1)), None)
    return None if platform is None else platforms[platform]
