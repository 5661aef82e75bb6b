"""Labels that no source of a Magnum driver lists: mostly typing errors, which Magnum takes and its drivers never look at.

What the drivers read is data with sources (labels.yaml). A site may have taught its driver more, so that an unknown label
is told and not refused. Values are not looked at.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpu_pools.platforms.magnum.cluster import MagnumDriver


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    data: dict[str, Any] = load_yaml((resources.files("gpu_pools.platforms.magnum") / "labels.yaml").read_text(encoding="utf-8"))
    return data


def listed(driver: MagnumDriver) -> frozenset[str]:
    """The labels that a driver's source reads."""
    return frozenset(_data()[driver]["labels"])


def unlisted(driver: MagnumDriver, labels: Iterable[str], place: str) -> Iterator[str]:
    """A warning for each label that it does not.

    Args:
        driver: Magnum's.
        labels: as written.
        place: the key of the stack file that they stand in.
    """
    known = listed(driver)
    for label in labels:
        if label in known:
            continue
        near = difflib.get_close_matches(label, known, n=1, cutoff=0.75)
        meant = f"; did you mean `{near[0]}`?" if near else ""
        yield (
            f"`{place}.{label}` is not a label that the driver {driver} is known to read ({_data()[driver]['read']}), and others "
            f"have no effect: whether this cloud's has more cannot be checked before the deploy{meant}"
        )
