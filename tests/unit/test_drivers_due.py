"""Which nodes still get another driver, as their labels say."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.plan.before_upgrade import HAS, STATE
from gpu_pools.plan.drivers_due import Due, drivers_due

WANTED = "595.91.07"


def node(name: str, has: str | None = WANTED, state: str = "", pool: str = "a", **labels: str) -> dict[str, Any]:
    own = {"gpu-pools/pool": pool, HAS: has, STATE: state, **{f"nvidia.com/{key}": value for key, value in labels.items()}}
    return {"metadata": {"name": name, "labels": {key: value for key, value in own.items() if value}}}


@pytest.mark.parametrize(
    ("one", "due"),
    [
        (node("n"), False),
        (node("n", state="upgrade-done"), False),
        (node("n", "580.105.08"), True),
        (node("n", "580.105.08", "upgrade-done"), True),
        (node("n", state="uncordon-required"), True),
        (node("n", None, "pod-restart-required"), True),
        (node("n", None), False),
        (node("n", "595.91"), True),
        (node("n", "580.105.08", **{"gpu.deploy.driver": "pre-installed"}), False),
        (node("n", state="upgrade-required", **{"gpu.deploy.driver": "true"}), True),
        ({"metadata": {"name": "n"}}, False),
    ],
    ids=str,
)
def test_a_node_waits_until_it_has_the_driver_and_its_upgrade_is_over(one: dict[str, Any], due: bool) -> None:  # noqa: FBT001
    assert drivers_due([one], "a", WANTED) == Due(("n",) if due else (), int(due), ())


def test_a_branch_is_any_version_of_it() -> None:
    assert drivers_due([node("n", "595.12")], "a", "595").pool == ()
    assert drivers_due([node("n", "580.12")], "a", "595").pool == ("n",)


def test_nodes_of_other_pools_count_for_the_cluster_alone() -> None:
    found = drivers_due([node("b1", "580.1", pool="b"), node("a2", "580.1"), node("a1", "580.1"), node("a3")], "a", WANTED)
    assert found == Due(("a1", "a2"), 3, ())


def test_a_failed_node_is_waited_for_on_its_way_back_alone() -> None:
    assert drivers_due([node("n", "580.1", "upgrade-failed")], "a", WANTED) == Due((), 0, ("n",))
    assert drivers_due([node("n", WANTED, "upgrade-failed")], "a", WANTED) == Due(("n",), 1, ())
