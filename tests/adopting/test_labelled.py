"""What a node's labels tell of its GPUs, in the forms that gpu-feature-discovery gives them; the module names its source."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.adopting.existing.nodes import adopt_existing
from gpu_pools.adopting.inside import look
from gpu_pools.adopting.labelled import Labelled, labelled
from gpu_pools.adopting.sharing import gpus_of, shared_as

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "2"}
HOST = {"kubernetes.io/hostname": "a"}
LAYOUTS = "version: v1\nmig-configs:\n  one:\n  - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 1}}\n"
POLICY = {
    "kind": "ClusterPolicy",
    "metadata": {"name": "cluster-policy"},
    "spec": {"mig": {"strategy": "single"}, "migManager": {"config": {"name": "layouts"}}},
}
CONFIG = {"kind": "ConfigMap", "metadata": {"namespace": "gpu-operator", "name": "layouts"}, "data": {"config.yaml": LAYOUTS}}


def single(profile: str, count: int, **labels: str) -> dict[str, str]:
    """Under strategy single instances are labelled as GPUs."""
    product = f"NVIDIA-A100-SXM4-40GB-MIG-{profile}"
    return {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(count), **labels}


def told(labels: dict[str, str]) -> Labelled:
    found = labelled(labels)
    assert isinstance(found, Labelled), found
    return found


@pytest.mark.parametrize(
    ("labels", "gpus", "layout"),
    [
        (A100, 2, {}),
        (single("1g.5gb", 14), 2, {"1g.5gb": 7}),
        (single("1g.5gb-SHARED", 14), 2, {"1g.5gb": 7}),
        (single("7g.40gb", 3), 3, {"7g.40gb": 1}),
        # What is no multiple of a full GPU does not tell how many there are.
        (single("1g.5gb", 10), None, {}),
        ({**A100, "nvidia.com/mig-3g.20gb.count": "4"}, 2, {"3g.20gb": 2}),
        # In the name of a resource a plus sign is a dot.
        ({**A100, "nvidia.com/mig-1g.5gb.me.count": "2"}, 2, {"1g.5gb+me": 1}),
        # One GPU has seven, the other none.
        ({**A100, "nvidia.com/mig-1g.5gb.count": "7"}, 2, {}),
        ({**A100, "nvidia.com/mig-1g.5gb.count": "0"}, 2, {}),
    ],
)
def test_instances_are_not_taken_for_gpus(labels: dict[str, str], gpus: int | None, layout: dict[str, int]) -> None:
    found = told(labels)
    assert found.gpus({}) == gpus
    assert found.layout == layout
    assert found.model.key == "a100-40gb"


def test_in_a_product_the_plus_sign_is_left_out() -> None:
    assert told(single("1g.5gbme", 2)).instances == {"1g.5gb+me": 2}


def test_a_config_that_was_read_tells_how_many_instances_a_gpu_has() -> None:
    """Seven GPUs with one instance each, not one with seven."""
    labels = {**single("1g.5gb", 7), "nvidia.com/mig.config": "one"}
    found = gpus_of("a", labels, look([POLICY, CONFIG]))
    assert found
    assert (found[0].key, found[2]) == ("a100-40gb", 7)
    shared = shared_as("a", labels, look([POLICY, CONFIG]))
    assert shared.layout == {"1g.5gb": 1}
    assert not any("its nodes show" in one.why for one in shared.unsaid)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({}, "told by no label, ? of it"),
        ({**A100, "nvidia.com/gpu.product": "Some-Card-9000"}, "Some-Card-9000, 2 of it"),
        (
            {**A100, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-INVALID", "nvidia.com/gpu.count": "0"},
            "not all their MIG",
        ),
        ({**A100, "nvidia.com/vgpu.present": "true"}, "virtual ones (NVIDIA-A100-SXM4-40GB)"),
        ({**A100, "nvidia.com/gpu.count": "many"}, "many of it"),
    ],
)
def test_what_does_not_tell_says_why(labels: dict[str, str], says: str) -> None:
    found = labelled(labels)
    assert isinstance(found, str)
    assert says in found


@pytest.mark.parametrize(
    ("labels", "sharing"),
    [
        ({"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "8"}, {"timeSlicing": {"replicas": 8}}),
        (
            {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.replicas": "8"},
            {"timeSlicing": {"replicas": 8, "renameByDefault": True}},
        ),
        (
            {
                "nvidia.com/gpu.product": "Tesla-T4-SHARED",
                "nvidia.com/gpu.replicas": "4",
                "nvidia.com/gpu.sharing-strategy": "mps",
            },
            {"mps": {"replicas": 4}},
        ),
        ({"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.replicas": "1"}, {"exclusive": {}}),
        ({"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.replicas": "0"}, {"exclusive": {}}),
    ],
)
def test_a_node_that_is_shared_does_not_become_whole_gpus(labels: dict[str, str], sharing: dict[str, Any]) -> None:
    found = adopt_existing(look([node({**HOST, **labels, "nvidia.com/gpu.count": "1"})]), "")
    (declared,) = found.sections["sharing"].values()
    assert declared == sharing
    assert any("its nodes show" in one.why for one in found.unsaid) is (sharing != {"exclusive": {}})


def test_instances_that_are_shared_or_uneven_are_said_and_no_layout_is_made_up() -> None:
    for labels in (
        {**A100, "nvidia.com/mig-1g.5gb.count": "7"},
        {**single("1g.5gb-SHARED", 14), "nvidia.com/gpu.replicas": "4"},
    ):
        found = adopt_existing(look([node({**HOST, **labels})]), "")
        (said,) = [one.why for one in found.unsaid if "what each GPU has is not known" in one.why]
        assert "Write its sharing by hand" in said
        assert list(found.sections["sharing"]) == ["whole"]


def test_gpus_that_cannot_be_counted_are_left_out() -> None:
    found = adopt_existing(look([node({**HOST, **single("1g.5gb", 10)})]), "")
    assert "pools" not in found.sections
    assert any("10 MIG instances of 1g.5gb, which does not tell how many GPUs there are" in one.why for one in found.unsaid)


def test_nodes_that_are_partitioned_by_hand_in_two_ways_are_two_pools() -> None:
    nodes = [
        node({"kubernetes.io/hostname": name, **A100, **shown}, name)
        for name, shown in (("a", {"nvidia.com/mig-3g.20gb.count": "4"}), ("b", {"nvidia.com/mig-7g.40gb.count": "2"}))
    ]
    found = adopt_existing(look(nodes), "")
    assert [pool["sharing"] for pool in found.sections["pools"]] == ["mig-3g.20gb", "mig-7g.40gb"]


@pytest.mark.parametrize(
    "label",
    [
        "node.kubernetes.io/exclude-from-external-load-balancers",
        "eks.amazonaws.com/nodegroup-image",
        "run.tanzu.vmware.com/tkr",
        "kubernetes.azure.com/node-image-version",
        "k8s.io/cloud-provider-aws",
    ],
)
def test_labels_that_say_a_version_or_a_duty_select_no_pool(label: str) -> None:
    """They are on real nodes: tests/adopting/clusters; aws/containers-roadmap#1706."""
    gpu = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "1"}
    found = adopt_existing(look([node({label: "x", **HOST, **gpu}), node({}, "cpu")]), "")
    assert found.sections["pools"][0]["nodeSelector"] == HOST


def test_labels_of_an_operator_without_its_policy_are_told_of() -> None:
    labels = {**HOST, **A100, "nvidia.com/gpu.deploy.driver": "true"}
    assert any(one.place == "the GPU operator" for one in adopt_existing(look([node(labels)]), "").unsaid)
    assert not any(one.place == "the GPU operator" for one in adopt_existing(look([node(labels), POLICY]), "").unsaid)


def node(labels: dict[str, str], name: str = "a") -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}}
