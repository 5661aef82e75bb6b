"""How config-manager of one release of NVIDIA's device plugin behaves: its image says which release it is.

Its main.go has three versions (k8s-device-plugin v0.17.0 to v0.18.1, v0.18.2 to v0.19.3, v0.20.0), which differ in two points:
whether it waits for the node before its first choice, and whether it survives a process without a command line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TAG: Final = re.compile(r":v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-+][\w.-]*)?$")


@dataclass(frozen=True)
class PluginRelease:
    """What decides how config-manager behaves.

    Attributes:
        since: the first release that behaves so.
        waits_for_node: whether its first choice is made after it has read the node; else it always begins with the default.
        skips_nameless: whether it skips processes without a command line, such as kernel threads; else it panics at the first.
    """

    since: tuple[int, int, int]
    waits_for_node: bool
    skips_nameless: bool


FIRST: Final = PluginRelease((0, 0, 0), waits_for_node=True, skips_nameless=False)
HASTY: Final = PluginRelease((0, 18, 2), waits_for_node=False, skips_nameless=False)
NEWEST: Final = PluginRelease((0, 20, 0), waits_for_node=False, skips_nameless=True)
_RELEASES: Final = (NEWEST, HASTY, FIRST)


def release_of(image: str) -> PluginRelease:
    """The release of an image of the device plugin.

    Args:
        image: as the pod names it; where the tag tells no version, as a digest does, the newest one.
    """
    found = _TAG.search(image)
    if found is None:
        return NEWEST
    version = (int(found[1]), int(found[2]), int(found[3] or 0))
    return next(release for release in _RELEASES if version >= release.since)
