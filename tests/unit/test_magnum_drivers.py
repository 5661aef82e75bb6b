"""What Magnum's drivers pass over, as far as the stack file tells it; what they refuse is in tests/unit/bad_stacks.py."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest

from gpu_pools.platforms.magnum.cluster import NODE_GROUP_LABELS
from gpu_pools.platforms.magnum.labels import listed
from gpu_pools.text.errors import InvalidStackError
from tests.unit.stacks import GONE, magnum, plan_of


@pytest.mark.parametrize(
    ("driver", "pool", "template", "id_"),
    [
        ("capi-helm", {"image": "gpu"}, {}, "W80"),
        ("capi-helm", {"nodeGroupLabels": {"a": "b"}}, {}, "W80"),
        ("capi-helm", {}, {}, None),
        ("heat", {"image": "gpu"}, {}, None),
        ("magnum-cluster-api", {}, {}, "W81"),
        ("magnum-cluster-api", {"image": "gpu"}, {"networkDriver": "calico"}, None),
    ],
)
def test_what_a_driver_of_magnum_passes_over_is_told(
    driver: str, pool: dict[str, Any], template: dict[str, Any], id_: str | None
) -> None:
    made = {"image": "i", "externalNetwork": "n", "flavor": "f", **template}
    stack = magnum(pool, cluster={"driver": driver, "templateId": GONE, "template": made})
    warnings = " ".join(plan_of(stack).pools[0].warnings)
    assert re.findall(r"\((W8\d)\)", warnings) == ([id_] if id_ else [])


def test_everything_that_capi_helm_passes_over_is_named() -> None:
    stack = magnum({"image": "gpu", "dockerVolumeSize": 80, "nodeGroupLabels": {"a": "b"}}, cluster={"driver": "capi-helm"})
    (warning,) = [text for text in plan_of(stack).pools[0].warnings if "W80" in text]
    assert warning.endswith("passes over `image`, `dockerVolumeSize`, `nodeGroupLabels` (W80)")


@pytest.mark.parametrize(
    ("driver", "labels", "count", "refused"),
    [
        ("capi-helm", {"auto_scaling_enabled": "true"}, 0, True),
        ("capi-helm", {"auto_scaling_enabled": "true"}, 1, False),
        ("capi-helm", {}, 0, False),
        ("heat", {"auto_scaling_enabled": "true"}, 0, False),
    ],
)
def test_an_empty_group_is_refused_by_capi_helm_beside_an_autoscaler_alone(
    driver: str, labels: dict[str, str], count: int, *, refused: bool
) -> None:
    stack = magnum({"count": count}, cluster={"driver": driver, "labels": labels})
    with pytest.raises(InvalidStackError, match="0 is too few") if refused else contextlib.nullcontext():
        plan_of(stack)


@pytest.mark.parametrize(
    ("driver", "labels", "pool", "told"),
    [
        ("magnum-cluster-api", {"auto_scaling_enabled": "true"}, {"count": 0}, True),
        ("magnum-cluster-api", {"auto_scaling_enabled": "true"}, {"count": 1}, False),
        ("magnum-cluster-api", {"auto_scaling_enabled": "true"}, {"count": GONE, "nodes": {"min": 0, "max": 2}}, False),
        ("magnum-cluster-api", {}, {"count": 0}, False),
        ("heat", {"auto_scaling_enabled": "true"}, {"count": 0}, False),
    ],
)
def test_a_fixed_number_of_no_nodes_that_is_not_kept_is_told(
    driver: str, labels: dict[str, str], pool: dict[str, Any], *, told: bool
) -> None:
    warnings = plan_of(magnum(pool, cluster={"driver": driver, "labels": labels})).pools[0].warnings
    assert any("(W95)" in warning for warning in warnings) is told


@pytest.mark.parametrize(("driver", "network", "refused"), [("magnum-cluster-api", "flannel", True), ("heat", "flannel", False)])
def test_a_network_is_refused_by_the_driver_that_fails_on_it_alone(driver: str, network: str, *, refused: bool) -> None:
    made = {"image": "i", "externalNetwork": "n", "flavor": "f", "networkDriver": network}
    stack = magnum(cluster={"driver": driver, "templateId": GONE, "template": made})
    with pytest.raises(InvalidStackError, match=re.escape('fails on "flannel"')) if refused else contextlib.nullcontext():
        plan_of(stack)


SCALED = {"count": GONE, "nodes": {"min": 1, "max": 4}}
ON = {"auto_scaling_enabled": "true"}


@pytest.mark.parametrize(
    ("driver", "pool", "labels", "id_"),
    [
        ("heat", SCALED, ON, "W87"),
        ("heat", {}, ON, None),
        ("magnum-cluster-api", SCALED, ON, None),
        ("magnum-cluster-api", {**SCALED, "nodes": {"min": 0, "max": 4}}, ON, "W88"),
        ("magnum-cluster-api", {}, {**ON, "min_node_count": "7", "max_node_count": "9"}, "W86"),
    ],
)
def test_what_the_autoscaler_of_a_driver_makes_of_a_pool_is_told(
    driver: str, pool: dict[str, Any], labels: dict[str, str], id_: str | None
) -> None:
    warnings = " ".join(plan_of(magnum(pool, cluster={"driver": driver, "labels": labels})).pools[0].warnings)
    assert re.findall(r"\(((?:W8[6-9]|C03))\)", warnings) == ([id_] if id_ else [])


@pytest.mark.parametrize("driver", ["heat", "magnum-cluster-api", "capi-helm"])
def test_a_template_of_the_stack_that_turns_no_autoscaler_on_scales_no_pool(driver: str) -> None:
    made = {"image": "i", "externalNetwork": "n", "flavor": "f", "networkDriver": "calico"}
    cluster = {"driver": driver, "templateId": GONE, "template": made}
    told = " ".join(plan_of(magnum(SCALED, cluster=cluster)).pools[0].warnings)
    assert "nobody scales this pool (W87)" in told
    assert "W87" not in " ".join(plan_of(magnum({}, cluster=cluster)).pools[0].warnings)


class TestLabels:
    """What the sources of a driver do not list is told, with what was meant."""

    @staticmethod
    def _told(driver: str, **cluster: Any) -> list[str]:
        group = cluster.pop("group", {})
        stack = magnum({"nodeGroupLabels": group}, cluster={"driver": driver, **cluster})
        return [text for text in plan_of(stack).pools[0].warnings if "known to read" in text]

    @pytest.mark.parametrize(
        ("driver", "label", "meant"),
        [
            ("heat", "etcd_volum_size", "etcd_volume_size"),
            ("heat", "auto_scaling_enable", "auto_scaling_enabled"),
            # Its documentation has it so, its code does not.
            ("magnum-cluster-api", "audit_log_maxage", "audit_log_max_age"),
            ("capi-helm", "monitoring_enable", "monitoring_enabled"),
        ],
    )
    def test_one_that_is_mistyped_is_told_with_the_nearest(self, driver: str, label: str, meant: str) -> None:
        (told,) = self._told(driver, labels={label: "1"})
        assert f"`cluster.labels.{label}`" in told
        assert driver in told
        assert told.endswith(f"did you mean `{meant}`?")

    @pytest.mark.parametrize("driver", ["heat", "magnum-cluster-api", "capi-helm"])
    def test_the_limits_of_the_default_workers_are_read_with_each_driver(self, driver: str) -> None:
        assert self._told(driver, labels={"min_node_count": "1", "max_node_count": "3"}) == []

    def test_a_sites_own_is_told_without(self) -> None:
        (told,) = self._told("heat", labels={"nvidia_gpu_enabled": "true"})
        assert "cannot be checked before the deploy" in told
        assert "did you mean" not in told

    def test_those_of_a_group_are_looked_at_where_the_driver_reads_them(self) -> None:
        (told,) = self._told("heat", group={"kubelet_option": "--v=2"})
        assert "`nodeGroupLabels.kubelet_option`" in told
        assert self._told("capi-helm", group={"kubelet_option": "--v=2"}) == []

    @pytest.mark.parametrize("driver", NODE_GROUP_LABELS)
    def test_what_the_stack_sets_by_keys_is_read_or_said_to_be_passed_over(self, driver: str) -> None:
        written = {"autoHealing": True, "bootVolume": {"size": 50, "type": "ssd"}, "availabilityZone": "nova"}
        set_ = plan_of(magnum(cluster={"driver": driver, **written})).settings.cluster.options.labels  # type: ignore[union-attr]
        warnings = " ".join(plan_of(magnum(cluster={"driver": driver, **written})).pools[0].warnings)
        passed_over = {"availability_zone"} if "passes over `availabilityZone`" in warnings else set()
        assert set(set_) - listed(driver) == passed_over  # type: ignore[arg-type]


def test_what_is_passed_over_of_the_cluster_is_told_once_and_only_by_its_first_pool() -> None:
    pools = [{"name": name, "flavor": "g2.5xlarge", "count": 1, "sharing": "whole"} for name in ("first", "second")]
    stack = magnum(cluster={"driver": "capi-helm", "availabilityZone": "nova"}, pools=pools)
    told = [["availabilityZone" in " ".join(pool.warnings)] for pool in plan_of(stack).pools]
    assert told == [[True], [False]]
