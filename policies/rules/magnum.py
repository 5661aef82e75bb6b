"""Magnum node groups that people write themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpu_pools.policies import kinds
from gpu_pools.policies.rule import Found, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.policies.described import Resource
    from gpu_pools.policies.reading import Field
    from gpu_pools.policies.rule import Case

_NO_DRIVER_IMAGE: Final = re.compile(r"flatcar|fedora-?coreos|fcos", re.IGNORECASE)


def _labels(case: Case) -> Iterator[Found]:
    for name, place in case.inputs.at("labels").items():
        if name.startswith(("nvidia.com/", "feature.node.kubernetes.io/")):
            yield Found(place.path, f"{name} is meant for the nodes")


def _merge(case: Case) -> Iterator[Found]:
    if list(case.inputs.at("labels").items()) and case.inputs.at("mergeLabels").value() is not True:
        yield Found("mergeLabels", "labels without `mergeLabels: true`")


def _zero(case: Case) -> Iterator[Found]:
    for key in ("minNodeCount", "nodeCount"):
        place = case.inputs.at(key)
        if place.number() == 0:
            yield Found(place.path, "0 nodes")


def _chained(case: Case) -> Iterator[Found]:
    for other, inputs in case.of(kinds.NODE_GROUP):
        if other.urn == case.resource.urn:
            return
        apart = not _waits(case, case.resource.urn, other.urn) and not _waits(case, other.urn, case.resource.urn)
        if apart and _clusters(case, case.resource, case.inputs) & _clusters(case, other, inputs):
            yield Found("dependsOn", f"neither {case.resource.name} nor {other.name} waits for the other")


def _clusters(case: Case, group: Resource, inputs: Field) -> set[str]:
    """What identifies a group's cluster: the cluster's resource, which is known before its id is, else the id."""
    made = {cluster.urn for cluster in case.stack.of(kinds.MAGNUM_CLUSTER) if _waits(case, group.urn, cluster.urn)}
    return made or {inputs.at("clusterId").text()}


def _waits(case: Case, urn: str, target: str) -> bool:
    return target in case.stack.awaited[urn]


def _image(case: Case) -> Iterator[Found]:
    place = case.inputs.at("imageId")
    if not _NO_DRIVER_IMAGE.search(place.text()):
        return
    for resource, values in kinds.operators(case):
        if kinds.installs_driver(resource, values):
            yield Found(place.path, f'"{place.text()}", and {resource.name} installs the driver by container')


RULES: Final = (
    Rule(
        name="node-group-labels-are-for-magnum",
        title="Node labels are not written as labels of a node group",
        incidents=("C12",),
        types=(kinds.NODE_GROUP,),
        judge=_labels,
        why="node-group labels configure Magnum's driver and never reach the nodes: nothing is shared, and nothing says so",
        repair="Use PoolLabels, or a NodeFeatureRule.",
    ),
    Rule(
        name="node-group-labels-merged",
        title="Labels of a node group are merged with the cluster's",
        incidents=("C14",),
        types=(kinds.NODE_GROUP,),
        judge=_merge,
        why="without it they replace all labels of the cluster, among them those that the nodes need to join",
        repair="Set mergeLabels to true.",
    ),
    Rule(
        name="node-groups-not-empty",
        title="Node groups keep at least one node",
        incidents=("C15",),
        types=(kinds.NODE_GROUP,),
        judge=_zero,
        why="many Magnum clouds refuse 0 nodes, or cannot scale up from it",
        repair="Use 1, or make this rule advisory where your cloud's API (1.10 or newer) and driver allow 0.",
        stack_repair="Set count (or nodes.min) of the pool to 1, where your cloud's API (1.10 or newer) or driver allows no 0.",
        level="advisory",
    ),
    Rule(
        name="node-groups-chained",
        title="Node groups of one cluster wait for one another",
        incidents=("C13",),
        types=(kinds.NODE_GROUP,),
        judge=_chained,
        why="Magnum accepts a second operation while one is in progress, and then loses one of the two",
        repair="Let each group depend on the one before it.",
        whole=True,
    ),
    Rule(
        name="driver-image-exists",
        title="The driver is in the image where no driver container exists for the system",
        incidents=("I06",),
        types=(kinds.NODE_GROUP,),
        judge=_image,
        why="there is no driver container for it: the pods end in ImagePullBackOff",
        repair="Build the driver into the image and set driver.enabled to false.",
        stack_repair="Build the driver into the image, and set operator.driver to preinstalled.",
        whole=True,
    ),
)
