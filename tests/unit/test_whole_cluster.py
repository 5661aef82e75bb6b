"""What the comparison of two states of a cluster finds, and what it takes for moving by itself."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.whole_cluster import KEPT, check_as_before, differences, taken

if TYPE_CHECKING:
    from collections.abc import Callable

NODE: dict[str, Any] = {
    "metadata": {"name": "n", "uid": "1", "resourceVersion": "7", "labels": {"a": "1"}, "annotations": {"b": "2"}},
    "spec": {"taints": [{"key": "t"}]},
    "status": {
        "allocatable": {"cpu": "4", "nvidia.com/gpu": "0"},
        "capacity": {"cpu": "4"},
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "now"}],
    },
}


class Served:
    """An API server with nodes, config maps and events."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        self.objects: dict[str, list[dict[str, Any]]] = {"nodes": [*nodes], "configmaps": [], "events": []}

    def list(self, path: str) -> dict[str, Any]:
        if path == "/apis":
            return {"groups": []}
        if path == "/api/v1":
            return {"resources": [{"name": kind, "verbs": ["list"]} for kind in (*self.objects, "nodes/status")]}
        return {"items": copy.deepcopy(self.objects[path.rpartition("/")[2]])}


def found(change: Callable[[dict[str, Any]], object]) -> list[str]:
    changed = copy.deepcopy(NODE)
    change(changed)
    return differences(taken(Served(NODE)), taken(Served(changed)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda node: node["metadata"]["labels"].update(c="3"), "~ /nodes/n .metadata.labels.c: None -> '3'"),
        (lambda node: node["metadata"]["annotations"].clear(), "~ /nodes/n .metadata.annotations.b: '2' -> None"),
        (lambda node: node["metadata"].update(uid="2"), "~ /nodes/n .metadata.uid: '1' -> '2'"),
        (lambda node: node["spec"].update(taints=[]), "~ /nodes/n .spec.taints: [{'key': 't'}] -> []"),
        (lambda node: node["spec"].update(unschedulable=True), "~ /nodes/n .spec.unschedulable: None -> True"),
        (
            lambda node: node["status"]["conditions"].append({"type": "Ours"}),
            "~ /nodes/n .status.conditions.Ours: None -> {'type': 'Ours'}",
        ),
        (
            lambda node: node["status"]["allocatable"].update({"nvidia.com/gpu": "1"}),
            "~ /nodes/n .status.allocatable.nvidia.com/gpu: None -> '1'",
        ),
    ],
)
def test_whatever_is_another_is_named(change: Callable[[dict[str, Any]], object], line: str) -> None:
    assert found(change) == [line]


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node["metadata"].update(resourceVersion="8"),
        lambda node: node["metadata"].update(managedFields=[{}]),
        lambda node: node["status"]["conditions"][0].update(lastHeartbeatTime="later"),
        lambda node: node["status"]["allocatable"].pop("nvidia.com/gpu"),
        # Its plugin went less than five minutes ago.
        lambda node: node["status"]["capacity"].update({"nvidia.com/gpu": "7"}),
    ],
)
def test_what_moves_by_itself_is_no_difference(change: Callable[[dict[str, Any]], object]) -> None:
    assert found(change) == []


def test_what_has_come_and_gone_is_named_but_events_and_what_is_kept() -> None:
    before, after = Served(NODE), Served()
    after.objects["events"] = [{"metadata": {"name": "e", "namespace": "x"}}]
    after.objects["configmaps"] = [{"metadata": {"name": "left", "namespace": "x"}}]
    seen = taken(before)  # type: ignore[arg-type]
    assert differences(seen, taken(after)) == ["- /nodes/n", "+ /configmaps/x/left"]  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match=r"\n- /nodes/n\n[+] /configmaps/x/left"):
        check_as_before(after, seen, seconds=-1.0)  # type: ignore[arg-type]
    check_as_before(after, taken(Served()), kept=(*KEPT, "/configmaps/x/"), seconds=-1.0)  # type: ignore[arg-type]
