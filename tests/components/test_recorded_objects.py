"""A deploy fails, and a preview warns, where the cluster lacks what the state records: over HTTP on loopback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.engine import log
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.components.proof.verification import Verification, Verifier
from gpu_pools.proof.recorded_objects import RecordedObject, describe_missing, missing_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.api_server import ApiServer

    from .conftest import Recorder

    Run = Callable[..., Recorder]

POOL: dict[str, Any] = {"name": "a", "nodeSelector": {"p": "a"}, "gpuModel": "NVIDIA A10", "gpusPerNode": 1, "sharing": "s"}
LOOKED_AT = ("DaemonSet", "NodeFeatureRule", "ConfigMap", "ConfigMapPatch")


def config(reached: str) -> dict[str, Any]:
    return {
        "cluster": {"platform": "existing", "kubeconfigContent": reached},
        "sharing": {"s": {"timeSlicing": {"replicas": 4}}},
        "pools": [{**POOL}],
        "verification": {},
    }


def platform(run: Run, api: ApiServer, *, preview: bool = False, uids: bool = True) -> Recorder:
    return run(lambda: GpuPlatform("gpu", config(api.kubeconfig)), preview=preview, uids=uids)


def in_cluster(made: Recorder) -> dict[str, Any]:
    """Everything that a program has registered, as the API lists it."""
    items: dict[str, Any] = {"deployments": [], "nodes": [], "daemonsets": [], "configmaps": [], "nodefeaturerules": []}
    for resource in made.resources:
        kind = resource.type.rpartition(":")[2]
        # What is read from the cluster has no metadata of its own.
        if kind in LOOKED_AT and "metadata" in resource.inputs:
            items[f"{kind.removesuffix('Patch').lower()}s"].append(
                {"metadata": dict(resource.inputs["metadata"]), "data": dict(resource.inputs.get("data") or {})}
            )
    # The keys of one ConfigMap are written by several resources.
    for one in items["configmaps"]:
        for other in items["configmaps"]:
            if one["metadata"]["name"] == other["metadata"]["name"]:
                one["data"] |= other["data"]
    return items


@pytest.fixture
def whole(run: Run, api: ApiServer) -> dict[str, Any]:
    """A cluster that has all of it."""
    items = in_cluster(platform(run, api, uids=False))
    api.items = items
    return items


@pytest.mark.parametrize("preview", [True, False])
def test_what_a_cluster_has_ends_nothing(run: Run, api: ApiServer, whole: dict[str, Any], *, preview: bool) -> None:
    assert whole["nodefeaturerules"]
    api.asked.clear()
    platform(run, api, preview=preview)
    assert any("nodefeaturerules" in path for path in api.asked)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(log, "warn", lambda text, *_where: heard.append(text))
    return heard


@pytest.mark.parametrize("preview", [True, False])
def test_what_the_leave_hook_has_deleted_is_named_with_the_command_that_brings_it_back(
    run: Run, api: ApiServer, whole: dict[str, Any], said: list[str], *, preview: bool
) -> None:
    """A preview only warns: drift is looked for by one."""
    whole["nodefeaturerules"].clear()
    whole["daemonsets"] = [one for one in whole["daemonsets"] if one["metadata"]["name"] != "gpu-pools-verifier-a"]
    if preview:
        platform(run, api, preview=True)
        (text,) = [one for one in said if "missing in the cluster" in one]
    else:
        with pytest.raises(pulumi.RunError) as caught:
            platform(run, api)
        text = str(caught.value)
    assert text.startswith("2 objects of this stack are missing in the cluster")
    assert "- DaemonSet gpu-pools-verifier/gpu-pools-verifier-a" in text
    assert "- NodeFeatureRule gpu-pools-a" in text
    assert "pulumi up --refresh" in text


@pytest.mark.parametrize("kind", ["daemonsets", "configmaps", "nodefeaturerules"])
def test_each_object_of_a_pool_is_missed(run: Run, api: ApiServer, whole: dict[str, Any], kind: str) -> None:
    names = {one["metadata"]["name"] for one in whole[kind]} & looked_at(run, api)
    assert names
    every = whole[kind]
    for name in sorted(names):
        whole[kind] = [one for one in every if one["metadata"]["name"] != name]
        with pytest.raises(pulumi.RunError, match=name):
            platform(run, api)


def looked_at(run: Run, api: ApiServer) -> set[str]:
    """The names of all objects that are missed in a cluster that has nothing."""
    items, api.items = api.items, {"deployments": [], "daemonsets": [], "nodes": [], "configmaps": []}
    with pytest.raises(pulumi.RunError) as caught:
        platform(run, api)
    api.items = items
    lines = [line for line in str(caught.value).splitlines() if line.startswith("- ")]
    return {line.split()[2].split(",")[0].rpartition("/")[2] for line in lines}


def test_a_key_that_is_missing_in_a_config_map_is_named(run: Run, api: ApiServer, whole: dict[str, Any]) -> None:
    for one in whole["configmaps"]:
        one["data"] = {key: text for key, text in one["data"].items() if not key.startswith("time-slicing-4")}
    with pytest.raises(pulumi.RunError, match="ConfigMap gpu-operator/gpu-pools-device-plugin, key time-slicing-4-"):
        platform(run, api)


def test_what_is_still_to_be_created_is_not_missing(run: Run, api: ApiServer) -> None:
    api.items = {"deployments": [], "daemonsets": [], "nodes": [], "configmaps": [], "nodefeaturerules": []}
    platform(run, api, preview=True, uids=False)
    assert not any("nodefeaturerules" in path for path in api.asked)


def test_a_cluster_that_does_not_answer_ends_nothing_and_is_said(
    run: Run, api: ApiServer, whole: dict[str, Any], said: list[str]
) -> None:
    whole["configmaps"] = 503
    platform(run, api)
    assert [text for text in said if "whether the cluster has all objects of this stack is not known" in text]


def test_a_verification_of_ones_own_program_looks_as_well(run: Run, api: ApiServer) -> None:
    api.items = {"nodes": [], "daemonsets": [], "configmaps": []}
    sections = {f"gpu-pools:{key}": value for key, value in config(api.kubeconfig).items()}

    def program() -> None:
        verifier = Verifier("v", {})
        args: Any = {"pool": "a", "program": verifier.program, "config": sections, "kubeconfig": api.kubeconfig}
        Verification("a", args, pulumi.ResourceOptions(depends_on=[verifier]))

    with pytest.raises(pulumi.RunError, match="DaemonSet gpu-pools-verifier/gpu-pools-verifier-a"):
        run(program, uids=True)


def test_a_list_of_several_pages_is_read_to_its_end(run: Run, api: ApiServer, whole: dict[str, Any]) -> None:
    every = whole["configmaps"]
    pages = {"": {"items": every[:1], "metadata": {"continue": "next"}}, "next": {"items": every[1:]}}
    api.pages["configmaps"] = pages
    platform(run, api)
    pages["next"] = {"items": []}
    with pytest.raises(pulumi.RunError):
        platform(run, api)


def test_each_is_named_once_and_in_order() -> None:
    rule = RecordedObject("NodeFeatureRule", "", "gpu-pools-a")
    key = RecordedObject("ConfigMap", "gpu-operator", "c", ("k",))
    found = {rule.collection: {"another": frozenset[str]()}, key.collection: {"c": frozenset({"other"})}}
    assert missing_from([rule, key, rule], found) == (key, rule)
    assert missing_from([key], {key.collection: {"c": frozenset({"k", "other"})}}) == ()
    assert describe_missing([key]).startswith("1 object of this stack is missing in the cluster")
