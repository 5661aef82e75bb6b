"""What AKS refuses of a change, told before the deploy."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.platforms.aks.changes import left_out, refused_cluster_changes

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

    @pytest.mark.parametrize(("system", "refused_"), [("1.31.4", True), ("1.32.4", False), (None, False)])
    def test_leaves_no_pool_too_far_behind(self, system: str | None, *, refused_: bool) -> None:
        pools = [
            {"name": "system", "currentOrchestratorVersion": system},
            {"name": "gpu", "currentOrchestratorVersion": "1.34.2"},
        ]
        problems = list(refused_cluster_changes(inputs(), inputs("1.35"), "1.34.2", pools))
        assert [problem.path for problem in problems] == (["kubernetesVersion"] if refused_ else [])
        if refused_:
            assert "more than 3 minor versions ahead of the pool system, which was at 1.31.4" in problems[0].message
            assert "--name system --kubernetes-version 1.34; then pulumi refresh" in problems[0].remedy

    def test_a_pool_of_which_only_the_asked_version_is_known_is_held_by_that(self) -> None:
        pools = [{"name": "gpu", "orchestratorVersion": "1.31"}]
        (problem,) = refused_cluster_changes(inputs(), inputs("1.35"), "1.34.2", pools)
        assert "the pool gpu, which was at 1.31 " in problem.message

    def test_long_term_support_skips_versions(self) -> None:
        assert refused(inputs(), {**inputs("1.37"), "supportPlan": "AKSLongTermSupport"}) == []

    @pytest.mark.parametrize("running", [None, "", "unknown"])
    def test_what_azure_does_not_tell_is_not_judged(self, running: object) -> None:
        assert refused(inputs(), inputs("1.36"), running) == []


class TestOneWay:
    """What Azure never switches off again, or changes in one direction alone."""

    ZONE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/privateDnsZones/z"

    @pytest.mark.parametrize("after", [{}, {"oidcIssuerProfile": {"enabled": False}}])
    def test_the_issuer_of_tokens_stays_on(self, after: dict[str, Any]) -> None:
        assert refused({**inputs(), "oidcIssuerProfile": {"enabled": True}}, {**inputs(), **after}) == ["oidcIssuer"]

    def test_the_api_server_stays_in_its_network(self) -> None:
        there = {**inputs(), "apiServerAccessProfile": {"enableVnetIntegration": True}}
        assert refused(there, {**inputs(), "apiServerAccessProfile": {}}) == [
            "properties.apiServerAccessProfile.enableVnetIntegration"
        ]
        assert refused(there, there) == []

    @pytest.mark.parametrize("before", [{}, {"oidcIssuerProfile": {"enabled": False}}])
    def test_it_is_switched_on(self, before: dict[str, Any]) -> None:
        assert refused({**inputs(), **before}, {**inputs(), "oidcIssuerProfile": {"enabled": True}}) == []

    @pytest.mark.parametrize(
        ("before", "after", "places"),
        [
            ("system", ZONE, ["apiServer.privateDnsZone"]),
            (ZONE, "system", ["apiServer.privateDnsZone"]),
            (ZONE, None, ["apiServer.privateDnsZone"]),
            (ZONE, "none", []),
            ("system", "none", []),
            (None, "none", []),
        ],
    )
    def test_a_zone_becomes_none_at_most(self, before: str | None, after: str | None, places: list[str]) -> None:
        old, new = ({**inputs(), "apiServerAccessProfile": {"privateDNSZone": zone}} for zone in (before, after))
        assert refused(old, new) == places

    def test_an_application_of_ones_own_has_a_call_of_its_own(self) -> None:
        old, new = ({**inputs(), "servicePrincipalProfile": {"clientId": one}} for one in ("a", "b"))
        assert refused(old, new) == ["properties.servicePrincipalProfile"]

    @pytest.mark.parametrize(
        ("key", "place"),
        [
            ("vnetSubnetID", "network.nodeSubnet"),
            ("podSubnetID", "network.podSubnet"),
            ("maxPods", "systemPool.properties.maxPods"),
        ],
    )
    def test_the_system_pool_keeps_what_a_gpu_pool_is_replaced_for(self, key: str, place: str) -> None:
        assert refused(inputs(**{key: "a"}), inputs(**{key: "b"})) == [place]
        assert refused(inputs(), inputs(tags={"a": "b"})) == []

    def test_what_azure_has_filled_in_is_not_judged(self) -> None:
        assert refused(inputs(maxPods=250, osDiskType="Ephemeral"), inputs()) == []


class TestLeftOut:
    """What is written no more stays in Azure, and somebody must be told."""

    @pytest.mark.parametrize(
        ("old", "told"),
        [
            ({"upgradeSettings": {"maxSurge": "1", "drainTimeoutInMinutes": 60}}, "upgradeSettings.drainTimeoutInMinutes"),
            ({"scaleDownMode": "Deallocate"}, "scaleDownMode"),
            ({"enableFIPS": True}, "enableFIPS"),
        ],
    )
    def test_of_a_pool(self, old: dict[str, Any], told: str) -> None:
        (warning,) = left_out("AgentPool", old, {"upgradeSettings": {"maxSurge": "1"}})
        assert warning.startswith(f"{told} is written no more")

    @pytest.mark.parametrize(
        "old",
        [
            {"maxPods": 60, "nodeLabels": {"a": "b"}, "nodeTaints": ["a"], "tags": {"a": "b"}, "minCount": 1},
            {"networkProfile": {"allowedHostPorts": []}, "orchestratorVersion": "1.34", "spotMaxPrice": -1},
        ],
    )
    def test_not_what_is_replaced_or_sent_whole(self, old: dict[str, Any]) -> None:
        assert [*left_out("AgentPool", old, {})] == []

    def test_of_a_cluster(self) -> None:
        old = {
            "addonProfiles": {"omsagent": {"enabled": True}},
            "autoScalerProfile": {"expander": "random"},
            "sku": {"tier": "Free"},
        }
        new = {"addonProfiles": {"azureKeyvaultSecretsProvider": {"enabled": True}}}
        assert [one.partition(" ")[0] for one in left_out("ManagedCluster", old, new)] == [
            "addonProfiles.omsagent",
            "autoScalerProfile",
        ]
