from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sandbox.cluster.machine_groups import Hardware, MachineGroup, groups, put, remove, scale
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

GROUP = MachineGroup(
    "pool",
    "aks-pool-",
    2,
    Hardware(24, 220, "a100-80gb", None, 1),
    labels={"a": "b"},
    taints=[{"key": "sku", "value": "gpu", "effect": "NoSchedule"}],
    driver_preinstalled=True,
)


def test_what_was_put_is_read_back(tmp_path: Path) -> None:
    put(tmp_path, GROUP)
    assert groups(tmp_path) == {"pool": GROUP}
    assert GROUP.node_names == ("aks-pool-0", "aks-pool-1")


def test_a_cluster_without_groups_has_none(tmp_path: Path) -> None:
    assert groups(tmp_path) == {}
    remove(tmp_path, "pool")


def test_put_replaces_scale_counts_remove_removes(tmp_path: Path) -> None:
    put(tmp_path, GROUP)
    put(tmp_path, replace(GROUP, labels={}))
    scale(tmp_path, "pool", 0)
    assert groups(tmp_path) == {"pool": replace(GROUP, labels={}, count=0)}
    remove(tmp_path, "pool")
    assert groups(tmp_path) == {}


def test_two_groups_cannot_claim_the_same_node_names(tmp_path: Path) -> None:
    put(tmp_path, GROUP)
    with pytest.raises(SandboxError, match="node prefix"):
        put(tmp_path, replace(GROUP, id="other"))


@pytest.mark.parametrize(("group", "count"), [("nobody", 1), ("pool", -1)])
def test_only_what_is_there_can_be_scaled(tmp_path: Path, group: str, count: int) -> None:
    put(tmp_path, GROUP)
    with pytest.raises(SandboxError, match="cannot scale"):
        scale(tmp_path, group, count)
