"""What of a pod may differ from what its workload says, so that its programs still run."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import pytest

from sandbox.machines.makers import Makers

if TYPE_CHECKING:
    from sandbox.machines.world import World

SPEC: dict[str, Any] = {
    "containers": [
        {"name": "daemon", "command": ["mps-control-daemon"]},
        {
            "name": "config-manager",
            "command": ["config-manager"],
            "env": [
                {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "CONFIG_FILE_DST", "value": "/config/config.yaml"},
                {"name": "PROCESS_TO_SIGNAL", "value": "/usr/bin/mps-control-daemon"},
            ],
        },
    ]
}
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "set", "uid": "s", "controller": True}


class _Api:
    def get(self, path: str) -> dict[str, Any] | None:
        found = {"metadata": {"name": "set", "uid": "s"}, "spec": {"template": {"spec": SPEC}}}
        return found if path.endswith("/daemonsets/set") else None


class _World:
    api = _Api()
    pods: tuple[dict[str, Any], ...] = ()


def objection(change: dict[str, Any] | None) -> str:
    """To a pod of the DaemonSet in which a variable of config-manager is another one."""
    spec = copy.deepcopy(SPEC)
    if change:
        variables = spec["containers"][1]["env"]
        spec["containers"][1]["env"] = [change if item["name"] == change["name"] else item for item in variables]
    metadata = {"name": "pod", "namespace": "n", "uid": "p", "ownerReferences": [OWNER]}
    return Makers().objection(cast("World", _World()), {"metadata": metadata, "spec": spec})


@pytest.mark.parametrize("change", [None, {"name": "PROCESS_TO_SIGNAL", "value": "mps-control-daemon"}])
def test_a_policy_may_say_whom_config_manager_signals(change: dict[str, Any] | None) -> None:
    assert objection(change) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"name": "CONFIG_FILE_DST", "value": "/root/.profile"},
        {"name": "PROCESS_TO_SIGNAL", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "NODE_NAME", "value": "another"},
    ],
)
def test_no_other_variable_may_differ(change: dict[str, Any]) -> None:
    assert "would make another one" in objection(change)
