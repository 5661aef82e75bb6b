"""What in a cluster is a GPU operator, NFD or device plugin already, and why none is installed beside it."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.plan.cluster_checks import There, found_in, layouts_in, of_layouts, refusals


def workload(
    name: str, image: str = "x", labels: dict[str, str] | None = None, owner: str = "", pods: dict[str, str] | None = None
) -> dict[str, Any]:
    owners = [{"kind": owner, "name": "o"}] if owner else []
    metadata = {"name": name, "namespace": "ns", "labels": labels or {}, "ownerReferences": owners}
    template = {"metadata": {"labels": pods or {}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {"metadata": metadata, "spec": {"template": template}}


@pytest.mark.parametrize(
    ("one", "what"),
    [
        (workload("a", "nvcr.io/nvidia/gpu-operator:v26.7.0"), "operator"),
        (workload("a", "localhost:5000/mirror/gpu-operator:v1@sha256:abc"), "operator"),
        (workload("a", labels={"app.kubernetes.io/component": "gpu-operator"}), "operator"),
        (workload("a", "registry.k8s.io/nfd/node-feature-discovery:v0.19"), "nfd"),
        (workload("a", labels={"app.kubernetes.io/name": "node-feature-discovery"}), "nfd"),
        (workload("a", "mcr.microsoft.com/oss/v2/nvidia/k8s-device-plugin:v0.18.0"), "plugin"),
        (workload("a", pods={"name": "nvidia-device-plugin-ds"}), "plugin"),
        (workload("a", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", owner="ClusterPolicy"), None),
        (workload("gpu-operator", "example.com/web:1"), None),
        ({"metadata": {"name": "a", "namespace": "ns"}}, None),
    ],
)
def test_workloads_are_known_by_image_or_label(one: dict[str, Any], what: str | None) -> None:
    assert list(found_in("DaemonSet", [one])) == ([There(what, "DaemonSet", "ns/a")] if what else [])


def test_each_is_refused_where_it_would_be_installed_twice() -> None:
    found = [There("operator", "Deployment", "a/b"), There("nfd", "Deployment", "c/d"), There("plugin", "DaemonSet", "e/f")]
    operator, nfd = refusals("operator", found), refusals("nfd", found)
    assert [one.path for one in operator] == ["gpu-pools:operator.install"] * 2
    assert [one.path for one in nfd] == ["gpu-pools:nodeFeatureDiscovery.install"]
    assert operator[0].message == "the cluster has a GPU operator already (Deployment a/b), and two of them break each other"
    assert "`install: false`" in operator[0].remedy
    assert "`install: false`" in nfd[0].remedy
    assert operator[1].remedy == "Have its owner take it away: kubectl delete daemonset --namespace e f."


def test_layouts_of_the_stacks_nodes_are_found_and_said() -> None:
    def node(name: str, layout: str, pool: str = "a") -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": {"pool": pool, "nvidia.com/mig.config": layout}}}

    others = [{"metadata": {"name": "bare"}}, {"metadata": {"name": "n", "labels": {"pool": "a"}}}]
    nodes = [
        node("b", "all-balanced"),
        node("a", "all-1g.10gb"),
        node("off", "all-disabled"),
        node("a-stacks", "mig-7x1g.10gb-0a1b2c3d"),
        node("elsewhere", "all-1g.10gb", "c"),
    ]
    found = layouts_in([*nodes, *others], [{"pool": "a"}, {"pool": "b"}])
    assert found == {"a": "all-1g.10gb", "b": "all-balanced"}
    assert "(label nvidia.com/mig.config): a all-1g.10gb, b all-balanced. The declared" in of_layouts(found)
