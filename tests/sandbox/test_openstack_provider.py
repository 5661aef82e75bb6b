"""What the openstack plugin does on its own side: names, replacements, what it demands. The rest is asked of a real Magnum."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.openstack.magnum_api import MagnumApi, MagnumError
from sandbox.providers.base import Request, ServiceError
from sandbox.providers.openstack import OpenStackStandIn, group_values
from sandbox.providers.values import UNKNOWN

TEMPLATE_TYPE = "openstack:containerinfra/clusterTemplate:ClusterTemplate"
CLUSTER_TYPE = "openstack:containerinfra/cluster:Cluster"
GROUP_TYPE = "openstack:containerinfra/nodeGroup:NodeGroup"
NOBODY = {
    "OS_AUTH_URL": "http://127.0.0.1:9/v3",
    "OS_USERNAME": "nobody",
    "OS_PASSWORD": "none",
    "OS_PROJECT_NAME": "none",
    "OS_USER_DOMAIN_ID": "default",
    "OS_PROJECT_DOMAIN_ID": "default",
}


@pytest.fixture
def plugin() -> OpenStackStandIn:
    """A plugin whose service does not answer: nothing here asks it."""
    return OpenStackStandIn(MagnumApi(NOBODY), {})


def test_it_wants_an_address(plugin: OpenStackStandIn) -> None:
    with pytest.raises(ServiceError, match="One of 'auth_url' or 'cloud' must be specified"):
        plugin.configure({}, {})
    plugin.configure({"openstack:config:authUrl": "https://keystone.invalid"}, {})
    plugin.configure({}, {"cloud": "dev"})
    OpenStackStandIn(MagnumApi(NOBODY), NOBODY).configure({}, {})


def test_check(plugin: OpenStackStandIn) -> None:
    with plugin.answering(Request(name="nb", random_seed=b"\xab\xcd\xef\x01")):
        inputs, failures = plugin.check(GROUP_TYPE, {}, {})
    assert inputs["name"] == "nb-abcdef0"
    assert failures[0][0] == "clusterId"
    assert 'The argument "cluster_id" is required' in failures[0][1]


@pytest.mark.parametrize(
    ("type_", "old", "new", "replaces"),
    [
        (GROUP_TYPE, {"nodeCount": 1}, {"nodeCount": 2}, []),
        (GROUP_TYPE, {"minNodeCount": 1}, {"minNodeCount": 2}, []),
        (GROUP_TYPE, {"labels": {"a": "b"}}, {"labels": {"a": "c"}}, ["labels"]),
        (GROUP_TYPE, {"flavorId": "a"}, {"flavorId": "b"}, ["flavorId"]),
        (GROUP_TYPE, {"imageId": "a"}, {"imageId": "b"}, ["imageId"]),
        (CLUSTER_TYPE, {"nodeCount": 1}, {"nodeCount": 2}, []),
        (CLUSTER_TYPE, {"clusterTemplateId": "a"}, {"clusterTemplateId": "b"}, []),
        (CLUSTER_TYPE, {"labels": {}}, {"labels": {"a": "b"}}, ["labels"]),
        (CLUSTER_TYPE, {"masterCount": 1}, {"masterCount": 3}, ["masterCount"]),
        (TEMPLATE_TYPE, {"labels": {}}, {"labels": {"a": "b"}}, []),
    ],
)
def test_replacements(plugin: OpenStackStandIn, type_: str, old: Any, new: Any, replaces: list[str]) -> None:
    diff = plugin.diff(type_, "id", old, old, new)
    assert diff.changes
    assert diff.replaces == replaces
    assert diff.delete_before_replace is bool(replaces)


@pytest.mark.parametrize(
    ("type_", "given", "changes"),
    [
        (GROUP_TYPE, {"imageId": "a"}, False),
        (GROUP_TYPE, {"labels": {"a": "b"}}, False),
        (GROUP_TYPE, {"minNodeCount": 1}, False),
        (GROUP_TYPE, {"dockerVolumeSize": 80}, False),
        (GROUP_TYPE, {"maxNodeCount": 3}, True),
        (CLUSTER_TYPE, {"keypair": "a"}, False),
        (CLUSTER_TYPE, {"labels": {"a": "b"}}, False),
        (TEMPLATE_TYPE, {"networkDriver": "calico"}, False),
        (TEMPLATE_TYPE, {"dnsNameserver": "8.8.8.8"}, True),
    ],
)
def test_what_is_given_no_more_stays_where_the_plugin_computes_it(
    plugin: OpenStackStandIn, type_: str, given: Any, *, changes: bool
) -> None:
    """`Optional` and `Computed` in the resources of terraform-provider-openstack 3.4.0."""
    old = {"name": "a", **given}
    assert plugin.diff(type_, "id", old, old, {"name": "a"}).changes is changes


def test_an_import_takes_over_all_that_could_be_given(plugin: OpenStackStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the bridge does it (extractInputsFromOutputs): what is only computed, as the project's id, is no input."""
    shown = {
        "name": "a",
        "clusterId": "c",
        "flavorId": "g",
        "labels": {"x": "y"},
        "nodeCount": 2,
        "region": "r",
        "projectId": "p",
    }
    monkeypatch.setattr(plugin, "_found", lambda *_: shown)
    found = plugin.read(GROUP_TYPE, "c/a", {}, {})
    assert found is not None
    assert found[1] == {key: value for key, value in shown.items() if key != "projectId"}
    # What was given before decides from then on.
    again = plugin.read(GROUP_TYPE, "c/a", {"name": "a", "clusterId": "c"}, found[2])
    assert again is not None
    assert set(again[1]) == {"name", "clusterId"}


def test_a_preview_asks_for_nothing(plugin: OpenStackStandIn) -> None:
    assert plugin.create(GROUP_TYPE, "nb", {"clusterId": UNKNOWN, "name": "nb"}, 0, preview=True) == ("", {"name": "nb"})


def test_a_service_that_does_not_answer_is_named(plugin: OpenStackStandIn) -> None:
    with pytest.raises(MagnumError, match=r"http://127\.0\.0\.1:9/v3/auth/tokens: no answer"):
        plugin.read(GROUP_TYPE, "a/b", {}, {})


def test_the_plugin_sends_no_upper_limit_of_0() -> None:
    sent = group_values({"clusterId": "c", "nodeCount": 0, "minNodeCount": 0, "maxNodeCount": 0})
    assert sent == {"nodeCount": 0, "minNodeCount": 0}
    assert group_values({"clusterId": "c", "maxNodeCount": 2}) == {"maxNodeCount": 2}
