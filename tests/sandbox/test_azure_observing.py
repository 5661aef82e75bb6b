"""What the stand-in of Azure refuses of rule groups and of what names others, and what goes with what."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.azure_add_ons import monitor_definitions
from sandbox.clouds.azure_errors import AzureError
from sandbox.clouds.azure_ids import cluster_id
from sandbox.clouds.azure_observing import ASSOCIATION, ENDPOINT, GRAFANA, RULE, RULE_GROUP, WORKSPACE, id_of
from sandbox.providers import azure_native

from .test_azure_cloud import CLUSTER, FakeHost

if TYPE_CHECKING:
    from pathlib import Path

PLACE = {"location": "westeurope"}
RECORD = {"record": "a:b:c", "expression": "up"}
ALERT = {"alert": "Down", "expression": "up == 0"}


@pytest.fixture
def fake() -> FakeHost:
    return FakeHost()


@pytest.fixture
def cloud(tmp_path: Path, fake: FakeHost) -> AzureCloud:
    made = AzureCloud(tmp_path, fake.host())
    made.put_group("dev", PLACE)
    made.put_observing(WORKSPACE, "dev", "w", PLACE)
    return made


def group(cloud: AzureCloud, **body: Any) -> dict[str, Any]:
    whole = {**PLACE, "scopes": [id_of(WORKSPACE, "dev", "w")], "rules": [RECORD, ALERT], **body}
    return cloud.put_observing(RULE_GROUP, "dev", "rules", whole)


def test_a_rule_group_is_kept_as_it_was_sent(cloud: AzureCloud) -> None:
    assert group(cloud, interval="PT15M")["rules"] == [RECORD, ALERT]
    cluster = cluster_id("dev", "gpu")
    with pytest.raises(AzureError, match="was not found"):
        group(cloud, scopes=[id_of(WORKSPACE, "dev", "w"), cluster])
    cloud.put_cluster("dev", "gpu", CLUSTER)
    group(cloud, scopes=[id_of(WORKSPACE, "dev", "w"), cluster])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"rules": []}, "rules: 0 rules"),
        ({"rules": [RECORD] * 21}, "rules: 21 rules"),
        ({"rules": [{**RECORD, **ALERT}]}, "exactly one of record and alert"),
        ({"rules": [{"expression": "up"}]}, "exactly one of record and alert"),
        ({"rules": [{"record": "a"}]}, "expression: it is required"),
        ({"rules": [{**RECORD, "labels": {f"l{index}": "" for index in range(11)}}]}, "11 labels"),
        ({"rules": [{**RECORD, "labels": {"__name": "a"}}]}, "labels.__name"),
        ({"rules": [{**ALERT, "annotations": {"a": "x" * 1025}}]}, "annotations.a"),
        ({"rules": [{**ALERT, "for": "15m"}]}, "is not a duration of ISO 8601"),
        ({"rules": [{**ALERT, "severity": 5}]}, "severity: it must be 0 to 4"),
        ({"rules": [{**ALERT, "resolveConfiguration": {"autoResolved": True}}]}, "timeToResolve"),
        ({"interval": "PT30S"}, "between 1 and 15 minutes"),
        ({"interval": "PT16M"}, "between 1 and 15 minutes"),
        ({"scopes": []}, "one Azure Monitor workspace is required"),
        ({"scopes": [id_of(WORKSPACE, "dev", "gone")]}, "was not found"),
    ],
)
def test_a_rule_group_that_azure_does_not_take_is_refused(cloud: AzureCloud, body: dict[str, Any], says: str) -> None:
    with pytest.raises(AzureError, match=says):
        group(cloud, **body)


def test_what_is_named_must_be_there(cloud: AzureCloud) -> None:
    endpoint, workspace = id_of(ENDPOINT, "dev", "e"), id_of(WORKSPACE, "dev", "w")
    body = {
        **PLACE,
        "dataCollectionEndpointId": endpoint,
        "destinations": {"monitoringAccounts": [{"accountResourceId": workspace, "name": "a"}]},
    }
    with pytest.raises(AzureError, match="dataCollectionEndpoints/e was not found"):
        cloud.put_observing(RULE, "dev", "r", body)
    cloud.put_observing(ENDPOINT, "dev", "e", PLACE)
    rule = cloud.put_observing(RULE, "dev", "r", body)
    named = {"dataCollectionRuleId": rule["id"]}
    with pytest.raises(AzureError, match="managedClusters/gpu was not found"):
        cloud.put_observing(ASSOCIATION, cluster_id("dev", "gpu"), "a", named)
    with pytest.raises(AzureError, match="ResourceGroupNotFound"):
        cloud.put_observing(ENDPOINT, "other", "e", PLACE)


def test_associations_go_with_their_cluster_and_all_goes_with_the_group(cloud: AzureCloud) -> None:
    cloud.put_cluster("dev", "gpu", CLUSTER)
    cloud.put_observing(ENDPOINT, "dev", "e", PLACE)
    rule = cloud.put_observing(RULE, "dev", "r", {**PLACE, "dataCollectionEndpointId": id_of(ENDPOINT, "dev", "e")})
    made = cloud.put_observing(ASSOCIATION, cluster_id("dev", "gpu"), "a", {"dataCollectionRuleId": rule["id"]})
    cloud.delete_cluster("dev", "gpu")
    assert cloud.get(made["id"]) is None
    assert cloud.get(rule["id"]) is not None
    cloud.delete_group("dev")
    assert cloud.read()["observing"] == {}


def test_a_grafana_has_an_identity_that_stays(cloud: AzureCloud) -> None:
    body = {**PLACE, "identity": {"type": "SystemAssigned"}}
    first = cloud.put_observing(GRAFANA, "dev", "g", body)["identity"]["principalId"]
    assert cloud.put_observing(GRAFANA, "dev", "g", {**body, "tags": {"a": "b"}})["identity"]["principalId"] == first


def test_a_cluster_with_metrics_knows_azures_kinds(cloud: AzureCloud, fake: FakeHost) -> None:
    cloud.put_cluster("dev", "plain", CLUSTER)
    assert fake.defined == []
    metrics = {"azureMonitorProfile": {"metrics": {"enabled": True}}}
    cloud.put_cluster("dev", "gpu", {**CLUSTER, **metrics})
    assert len(fake.defined) == 1
    cloud.put_cluster("dev", "plain", {**CLUSTER, **metrics})
    assert len(fake.defined) == 2
    names = {one["metadata"]["name"] for one in monitor_definitions()}
    assert names == {"servicemonitors.azmonitoring.coreos.com", "podmonitors.azmonitoring.coreos.com"}


@pytest.mark.parametrize("token", sorted(azure_native._OBSERVING))
def test_names_and_versions_are_those_of_the_sdk(token: str) -> None:
    kind, name, types, required = azure_native._OBSERVING[token]
    _, module, resource = token.split(":")
    arguments = getattr(import_module(f"pulumi_azure_native.{module}"), f"{resource}Args")
    getters = {key: one.fget for key, one in vars(arguments).items() if isinstance(one, property)}
    known = {getattr(getter, "_pulumi_name", None) or key for key, getter in getters.items()}
    assert known == {name, "resourceUri" if kind is ASSOCIATION else "resourceGroupName", *types}
    needed = {key for key, one in inspect.signature(arguments).parameters.items() if one.default is inspect.Parameter.empty}
    assert {re.sub(r"_(.)", lambda found: found[1].upper(), key) for key in needed} == set(required)
    told = inspect.getsource(getattr(import_module(f"pulumi_azure_native.{module}"), resource))
    assert f"Uses Azure REST API version {kind.api_version}." in told
