"""Labels and taints: what Kubernetes takes, whose keys they are, and which have a way to the nodes of a platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.hardware.resource_names import mig_resource
from gpu_pools.platforms.aks.labels import AKS_SPOT_TAINT, label_refused_by_aks, taint_refused_by_aks
from gpu_pools.platforms.known import PLATFORMS
from gpu_pools.reading.section import Section
from gpu_pools.stack.kubernetes_names import Taint, check_labels, label_value, parse_taint, qualified_name, refused_by_nfd
from gpu_pools.stack.platform_reader import PoolContext, PoolSection
from gpu_pools.stack.pool_labels import check_distinct
from gpu_pools.text.errors import Problems

if TYPE_CHECKING:
    from gpu_pools.hardware.platforms import Platform

P253 = ".".join(["a" * 63] * 4)[:253]


@pytest.mark.parametrize(
    "key", ["a", "A9", "a-b_c.d", "a" * 63, "example.com/a", "a/a", f"{P253}/a", "0.1/9", "x-y.z/a", "nvidia.com/gpu.deploy.dcgm"]
)
def test_keys_that_kubernetes_takes(key: str) -> None:
    assert qualified_name(key)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/a",
        "a/",
        "a" * 64,
        "-a",
        "a-",
        ".a",
        "a.",
        "a b",
        f"a{P253}/a",
        "A.com/a",
        "a..b/c",
        "-a/b",
        "a-/b",
        "a/b/c",
        "ä",
    ],
)
def test_keys_that_it_refuses(key: str) -> None:
    assert not qualified_name(key)


@pytest.mark.parametrize(
    ("value", "good"),
    [
        *(("", True), ("a", True), ("A-b_c.9", True), ("a" * 63, True)),
        *(("a" * 64, False), ("-a", False), ("a-", False), ("a b", False), ("a/b", False)),
    ],
)
def test_values_that_kubernetes_takes(value: str, good: bool) -> None:  # noqa: FBT001
    assert label_value(value) is good


@pytest.mark.parametrize(
    ("written", "taint"),
    [
        ("sku=gpu:NoSchedule", Taint("sku", "gpu", "NoSchedule")),
        ("sku:NoExecute", Taint("sku", "", "NoExecute")),
        ("sku=:PreferNoSchedule", Taint("sku", "", "PreferNoSchedule")),
        ("example.com/sku=a.b:NoSchedule", Taint("example.com/sku", "a.b", "NoSchedule")),
    ],
)
def test_a_taint(written: str, taint: Taint) -> None:
    problems = Problems()
    assert parse_taint(written, "p", problems) == taint
    assert not problems.found
    assert str(taint) == written.replace("=:", ":")


@pytest.mark.parametrize(
    "written",
    [
        *("", "sku", "sku=gpu", "sku=gpu:Never", "=gpu:NoSchedule", "a b=c:NoSchedule", "sku=a b:NoSchedule"),
        *("a=b=c:NoSchedule", "sku=gpu:NoSchedule:x", 7, None, {"key": "sku"}),
    ],
)
def test_no_taint(written: object) -> None:
    problems = Problems()
    assert parse_taint(written, "p", problems) is None
    (problem,) = problems.found
    assert (problem.path, problem.message.endswith(" is not a taint")) == ("p", True)


def test_taints_are_in_the_order_of_their_keys() -> None:
    first, second = Taint("a", "b", "NoSchedule"), Taint("b", "a", "NoSchedule")
    assert first < second


def test_the_resource_of_a_profile() -> None:
    assert mig_resource("1g.10gb+me") == "nvidia.com/mig-1g.10gb.me"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("example.com/team", "ml", ""),
        ("nvidia.com/gpu.deploy.dcgm", "false", ""),
        ("nvidia.com/gpu.workload.config", "container", ""),
        ("nvidia.community/x", "y", ""),
        ("a/b/c", "ml", '"a/b/c" is not a label key'),
        ("team", "two words", '"two words" is not a label value'),
        *(
            (key, "x", f'"{key}" is set by the plan or by the GPU operator')
            for key in (
                "nvidia.com/device-plugin.config",
                "nvidia.com/mig.config",
                "gpu-pools/pool",
                "gpu-pools/generation",
                "gpu-pools/dra-driver",
                "nvidia.com/gpu.product",
                "nvidia.com/gpu.deploy",
            )
        ),
    ],
)
def test_labels_that_are_the_users_to_set(key: str, value: str, message: str) -> None:
    problems = Problems()
    check_labels({"good": "", key: value}, "p", problems)
    assert [(problem.path, problem.message) for problem in problems.found] == ([(f"p.{key}", message)] if message else [])


AZURE = "AKS keeps the prefix kubernetes.azure.com for itself"


@pytest.mark.parametrize(
    ("key", "why"),
    [
        *(
            (key, None)
            for key in ("team", "example.com/team", "node.kubernetes.io/a", "kubelet.kubernetes.io/a", "a.node.k8s.io/b")
        ),
        *((key, None) for key in ("node-role.kubernetes.io/a", "mykubernetes.io/a", "kubernetes.io.example.com/a")),
        ("kubernetes.azure.com/a", AZURE),
        ("a.kubernetes.azure.com/a", AZURE),
        *(
            (f"{prefix}/a", f"no kubelet may set a label below {namespace} but those of node, kubelet, node-role")
            for namespace in ("kubernetes.io", "k8s.io")
            for prefix in (namespace, f"app.{namespace}", f"node2.{namespace}")
        ),
    ],
)
def test_labels_that_aks_refuses(key: str, why: str | None) -> None:
    assert label_refused_by_aks(key) == why


@pytest.mark.parametrize(
    ("taint", "spot", "refused"),
    [
        (Taint("sku", "gpu", "NoSchedule"), False, False),
        (Taint("kubernetes.azure.com/x", "", "NoSchedule"), False, True),
        (Taint("kubernetes.azure.com/x", "", "NoSchedule"), True, True),
        (AKS_SPOT_TAINT, True, False),
        (AKS_SPOT_TAINT, False, True),
        (Taint("kubernetes.azure.com/scalesetpriority", "spot", "NoSchedule"), True, False),
        (Taint("kubernetes.azure.com/scalesetpriority", "spot", "NoExecute"), True, True),
    ],
)
def test_taints_that_aks_refuses(taint: Taint, spot: bool, refused: bool) -> None:  # noqa: FBT001
    assert taint_refused_by_aks(taint, spot=spot) is refused


BELOW = "NFD sets no key below kubernetes.io"


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("team", "NFD sets no key without a prefix"),
        ("example.com/team", None),
        ("mykubernetes.io/a", None),
        ("kubernetes.io/a", BELOW),
        ("node.kubernetes.io/a", BELOW),
        ("feature.node.kubernetes.io/a", None),
        ("x.feature.node.kubernetes.io/a", None),
        ("profile.node.kubernetes.io/a", None),
    ],
)
def test_keys_that_nfd_refuses(key: str, why: str | None) -> None:
    assert refused_by_nfd(key) == why


def _section(**values: Any) -> Section:
    return Section(values, "p", Problems())


def test_taints_of_one_key_differ_in_their_effect() -> None:
    section = _section()
    check_distinct((Taint("a", "x", "NoSchedule"), Taint("a", "x", "NoExecute"), Taint("b", "x", "NoSchedule")), section)
    assert not section.problems.found
    check_distinct((Taint("a", "x", "NoSchedule"), Taint("b", "", "NoExecute"), Taint("a", "y", "NoSchedule")), section)
    (problem,) = section.problems.found
    assert (problem.path, problem.message) == ("p.taints", '"a" is given twice with the effect NoSchedule')


@pytest.mark.parametrize(
    ("platform", "labels", "told"),
    [
        ("aks", {"team": "ml", "nvidia.com/gpu.deploy.dcgm": "false"}, {}),
        (
            "aks",
            {"kubernetes.azure.com/a": "x"},
            {"kubernetes.azure.com/a": f'"kubernetes.azure.com/a" is reserved by AKS: {AZURE}'},
        ),
        (
            "aks",
            {"nvidia.com/gpu.deploy.dcgm": "true"},
            {
                "nvidia.com/gpu.deploy.dcgm": '"true" could not be paused by driver and MIG managers: AKS lets nobody change a '
                "pool's label on its nodes"
            },
        ),
        *(
            (
                platform,
                {"example.com/a": "x", "team": "ml", "nvidia.com/gpu.deploy.dcgm": "true"},
                {"team": '"team" cannot reach the nodes: NFD sets no key without a prefix'},
            )
            for platform in ("magnum", "existing")
        ),
    ],
)
def test_labels_have_a_way_to_the_nodes(platform: Platform, labels: dict[str, str], told: dict[str, str]) -> None:
    section = _section()
    PLATFORMS[platform].check_labels(labels, section)
    assert {problem.path: problem.message for problem in section.problems.found} == {
        f"p.labels.{key}": message for key, message in told.items()
    }


@pytest.mark.parametrize(
    ("platform", "driver", "spot", "places"),
    [
        ("aks", None, None, [2, 3]),
        ("aks", None, {}, [2]),
        ("magnum", "heat", None, []),
        ("magnum", None, None, []),
        ("magnum", "magnum-cluster-api", None, [1]),
        ("magnum", "capi-helm", None, [1]),
        ("existing", "capi-helm", None, []),
    ],
)
def test_taints_have_a_way_to_the_nodes(platform: Platform, driver: str | None, spot: object, places: list[int]) -> None:
    context = PoolContext(PLATFORMS[platform], {}, Problems(), magnum_driver=driver)
    section = PoolSection({} if spot is None else {"spot": spot}, "p", context)
    kinds = ("example.com/a", "sku", "kubernetes.azure.com/x")
    taints = (*(Taint(key, "", "NoSchedule") for key in kinds), AKS_SPOT_TAINT)
    PLATFORMS[platform].check_taints(taints, section)
    assert [problem.path for problem in section.problems.found] == [f"p.taints[{index}]" for index in places]
    nfd = f"NFD sets no key without a prefix, and the driver {driver} sets no taints"
    said = {
        "aks": '"kubernetes.azure.com/x:NoSchedule" is refused by AKS, which keeps the prefix kubernetes.azure.com for itself',
        "magnum": f'"sku:NoSchedule" cannot reach the nodes: {nfd}',
    }
    assert not places or section.problems.found[0].message == said[platform]
