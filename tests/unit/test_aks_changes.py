"""What AKS refuses of a change, told before the deploy."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.clouds.aks_changes import refused_cluster_changes, system_pool_left_behind

SYSTEM: dict[str, Any] = {"name": "system", "vmSize": "Standard_D4s_v5", "count": 2, "availabilityZones": ["1"]}


def inputs(version: str | None = "1.34", **system: Any) -> dict[str, Any]:
    """Inputs of a managed cluster."""
    given = {"resourceGroupName": "dev", "resourceName": "gpu", "agentPoolProfiles": [{**SYSTEM, **system}]}
    return given if version is None else {**given, "kubernetesVersion": version}


def refused(old: dict[str, Any], new: dict[str, Any], running: object = "1.34.2") -> list[str]:
    """The places of what is refused."""
    return [problem.path for problem in refused_cluster_changes(old, new, running)]


class TestSystemPool:
    """Its number of nodes changes, its machines do not."""

    @pytest.mark.parametrize("change", [{"count": 5}, {"enableAutoScaling": True, "minCount": 1, "maxCount": 3}])
    def test_the_number_of_nodes_may_change(self, change: dict[str, Any]) -> None:
        assert refused(inputs(), inputs(**change)) == []

    @pytest.mark.parametrize(
        ("change", "place", "shown"),
        [
            ({"vmSize": "Standard_D8s_v5"}, "systemPool.vmSize", "Standard_D8s_v5 is asked for"),
            ({"availabilityZones": ["1", "2"]}, "systemPool.zones", "1, 2 is asked for"),
            ({"availabilityZones": None}, "systemPool.zones", "none is asked for"),
        ],
    )
    def test_its_machines_may_not(self, change: dict[str, Any], place: str, shown: str) -> None:
        (problem,) = refused_cluster_changes(inputs(), inputs(**change), "1.34.2")
        assert problem.path == place
        assert shown in problem.message
        assert "second stack" in problem.remedy

    def test_it_is_found_among_the_pools_that_a_refresh_put_into_the_inputs(self) -> None:
        refreshed = inputs()
        refreshed["agentPoolProfiles"].insert(0, {"name": "nb", "vmSize": "Standard_NC24ads_A100_v4"})
        assert refused(refreshed, inputs()) == []
        assert refused(refreshed, inputs(vmSize="Standard_D8s_v5")) == ["systemPool.vmSize"]

    @pytest.mark.parametrize(("old", "new"), [([], None), (None, [])])
    def test_no_zones_are_no_zones(self, old: object, new: object) -> None:
        assert refused(inputs(availabilityZones=old), inputs(availabilityZones=new)) == []

    def test_a_pool_that_is_not_told_is_not_judged(self) -> None:
        assert refused({}, inputs()) == refused(inputs(), {}) == []


class TestVersion:
    """One minor version at a time, and never back."""

    @pytest.mark.parametrize("wanted", ["1.34", "1.34.2", "1.34.7", "1.35", "1.35.1", "2.40", None])
    def test_goes_on(self, wanted: str | None) -> None:
        assert refused(inputs(), inputs(wanted)) == []

    @pytest.mark.parametrize("wanted", ["1.33", "1.33.9", "1.34.1", "1.36", "1.40.1"])
    def test_skips_nothing_and_never_goes_back(self, wanted: str) -> None:
        assert refused(inputs(), inputs(wanted)) == ["kubernetesVersion"]

    def test_the_remedy_names_the_next_step(self) -> None:
        (problem,) = refused_cluster_changes(inputs(), inputs("1.36"), "1.34.2")
        assert 'kubernetesVersion: "1.35"' in problem.remedy

    def test_long_term_support_skips_versions(self) -> None:
        assert refused(inputs(), {**inputs("1.37"), "supportPlan": "AKSLongTermSupport"}) == []

    @pytest.mark.parametrize("running", [None, "", "unknown"])
    def test_what_azure_does_not_tell_is_not_judged(self, running: object) -> None:
        assert refused(inputs(), inputs("1.36"), running) == []

    def test_a_changed_version_says_how_the_system_pool_follows(self) -> None:
        told = system_pool_left_behind(inputs("1.33"), inputs("1.34"))
        assert told is not None
        assert "az aks nodepool upgrade --resource-group dev --cluster-name gpu --name system --kubernetes-version 1.34" in told

    @pytest.mark.parametrize("new", ["1.34", None])
    def test_else_nothing_is_said(self, new: str | None) -> None:
        assert system_pool_left_behind(inputs("1.34"), inputs(new)) is None
