"""The pack as the engine talks to it: the SDK's own servicer, with requests as the engine writes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from gpu_pools.hardware.prices import Prices
from gpu_pools.plan.planning import plan_config
from gpu_pools.policies import kinds
from gpu_pools.policies.engine import _remembering, _Shown
from tests.hostile import WORST, harmful

from .programs import ALLOWED, BAD, GOOD, OPERATOR, POOL, SLICED, Program, acknowledging

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
ADVISORY, MANDATORY = 0, 1


@pytest.fixture(scope="module")
def running() -> Iterator[Any]:
    """The pack as a process, started as the Python language host starts it: without -u, with the engine's address."""
    with subprocess.Popen(
        [sys.executable, str(ROOT / "policies"), "127.0.0.1:1"], stdout=subprocess.PIPE, cwd=ROOT / "docs", text=True
    ) as process:
        assert process.stdout
        port = process.stdout.readline().strip()
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_http_proxy", 0)]) as channel:
            yield analyzer_pb2_grpc.AnalyzerStub(channel)
        process.terminate()


@pytest.fixture
def pack(running: Any) -> Iterator[Any]:
    """The pack, with no configuration before and after."""
    running.Configure(analyzer_pb2.ConfigureAnalyzerRequest())
    yield running
    running.Configure(analyzer_pb2.ConfigureAnalyzerRequest())


def resource(kind: str, name: str, inputs: dict[str, Any], **given: Any) -> dict[str, Any]:
    urn = f"urn:pulumi:t::t::{kind}::{name}"
    return {"type": kind, "name": name, "urn": urn, "properties": inputs, "options": {}, **given}


def analyzed(pack: Any, *args: Any, **given: Any) -> list[Any]:
    request = json_format.ParseDict(resource(*args, **given), analyzer_pb2.AnalyzeRequest())
    return list(pack.Analyze(request).diagnostics)


def analyzed_stack(pack: Any, *resources: dict[str, Any]) -> list[Any]:
    """As the engine asks: about each resource, then about all."""
    for one in resources:
        shown = {key: value for key, value in one.items() if key not in {"parent", "dependencies"}}
        pack.Analyze(json_format.ParseDict(shown, analyzer_pb2.AnalyzeRequest()))
    return judged_whole(pack, *resources)


def judged_whole(pack: Any, *resources: dict[str, Any]) -> list[Any]:
    request = json_format.ParseDict({"resources": list(resources)}, analyzer_pb2.AnalyzeStackRequest())
    return list(pack.AnalyzeStack(request).diagnostics)


def configure(pack: Any, rule: str, level: int, **settings: Any) -> None:
    written = {"policyConfig": {rule: {"enforcementLevel": level, "properties": settings}}}
    pack.Configure(json_format.ParseDict(written, analyzer_pb2.ConfigureAnalyzerRequest()))


def test_the_pack_tells_its_rules_with_the_settings_that_they_have(pack: Any) -> None:
    info = pack.GetAnalyzerInfo(empty_pb2.Empty())
    schemas = {policy.name: set(policy.configSchema.properties) for policy in info.policies}
    assert schemas["max-gpus"] == {"gpus", "exceptions"}
    assert schemas["one-nfd"] == {"exceptions"}


def test_a_violation_has_the_level_of_its_rule(pack: Any) -> None:
    (found,) = analyzed(pack, kinds.AGENT_POOL, "gpu", {**POOL, "scaleSetPriority": "Spot"})
    assert (found.policyName, found.enforcementLevel) == ("spot-taint-written", MANDATORY)
    assert "nodeTaints: a spot pool without" in found.message


def test_a_stack_can_set_level_and_exceptions(pack: Any) -> None:
    spot = {**POOL, "scaleSetPriority": "Spot"}
    configure(pack, "spot-taint-written", ADVISORY)
    assert [found.enforcementLevel for found in analyzed(pack, kinds.AGENT_POOL, "gpu", spot)] == [ADVISORY]
    exceptions = [{"resource": "gpu", "reason": "the taint comes next week", "until": "2999-01-01"}]
    configure(pack, "spot-taint-written", MANDATORY, exceptions=exceptions)
    assert analyzed(pack, kinds.AGENT_POOL, "gpu", spot) == []


def test_a_broken_configuration_does_not_pass(pack: Any) -> None:
    configure(pack, "spot-taint-written", MANDATORY, exceptions=[{"resource": "*", "reason": "x", "until": "x"}])
    (found,) = analyzed(pack, kinds.AGENT_POOL, "gpu", POOL)
    assert found.enforcementLevel == MANDATORY
    assert "nothing was judged" in found.message


def test_levels_of_a_rule_that_there_is_not_are_refused(pack: Any) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        configure(pack, "gpu-only-on-request", ADVISORY)
    said: Any = refused.value
    assert said.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert said.details().startswith(
        "the policy configuration sets `gpu-only-on-request`, and there is no such rule: did you mean "
    )
    assert "`gpus-only-on-request`" in said.details()
    configure(pack, "all", ADVISORY)


def test_an_unknown_is_said_as_advice_and_hides_no_violation(pack: Any) -> None:
    given = {**POOL, "scaleSetPriority": UNKNOWN, "gpuInstanceProfile": "MIG1g", "vmSize": "Standard_NC4as_T4_v3"}
    found = {one.policyName: one for one in analyzed(pack, kinds.AGENT_POOL, "gpu", given)}
    assert found["aks-mig-on-mig-size"].enforcementLevel == MANDATORY
    assert found["spot-taint-written"].enforcementLevel == ADVISORY
    assert "not known before the deploy: scaleSetPriority" in found["spot-taint-written"].message


def test_a_violation_in_one_part_stays_beside_an_unknown_in_another(pack: Any) -> None:
    containers = [{"resources": {"limits": UNKNOWN}}, {"resources": {"limits": {"nvidia.com/gpu.shared": "2"}}}]
    found = analyzed(pack, "kubernetes:core/v1:Pod", "app", {"spec": {"containers": containers}})
    (mine,) = [one for one in found if one.policyName == "one-share-per-container"]
    assert mine.enforcementLevel == MANDATORY
    assert "also:   app: cannot be judged" in mine.message


def test_secret_values_are_judged_and_never_printed(pack: Any) -> None:
    secret = {**SECRET, "value": {"x": SLICED.replace("replicas: 4", "replicas: 1, rename: hush-hush")}}
    found = analyzed(pack, kinds.CONFIG_MAP, "sharing", {"metadata": {"name": "x"}, "data": secret})
    assert {one.policyName for one in found} == {"device-plugin-config"}
    assert "hush" not in "".join(one.message for one in found)


def test_an_unknown_inside_a_secret_is_unknown(pack: Any) -> None:
    (found,) = analyzed(pack, kinds.QUOTA, "quota", {"spec": {**SECRET, "value": {"hard": UNKNOWN}}})
    assert (found.policyName, found.enforcementLevel) == ("quota-counts", ADVISORY)


def test_rules_about_whole_programs_see_other_resources_and_what_waits_for_what(pack: Any) -> None:
    operator = resource(kinds.RELEASE, "operator", OPERATOR)
    pool = resource(kinds.AGENT_POOL, "gpu", {**POOL, "nodeTaints": ["sku=gpu:NoSchedule"]})
    found = analyzed_stack(pack, operator, pool)
    assert {(one.policyName, one.urn) for one in found} == {("pool-taints-tolerated", operator["urn"])}
    groups = [resource(kinds.NODE_GROUP, name, {"clusterId": UNKNOWN}) for name in "ab"]
    cluster = resource(kinds.MAGNUM_CLUSTER, "m", {})
    for group in groups:
        group["dependencies"] = [cluster["urn"]]
    assert [one.policyName for one in analyzed_stack(pack, cluster, *groups)] == ["node-groups-chained"]
    groups[1]["dependencies"] += [groups[0]["urn"]]
    assert analyzed_stack(pack, cluster, *groups) == []


def test_whole_programs_are_judged_by_inputs_not_by_what_a_preview_makes_of_them(pack: Any) -> None:
    declared = {"metadata": {"name": "sharing", "namespace": "gpu-operator"}, "data": {"whole": "version: v1\n"}}
    shown = resource(kinds.CONFIG_MAP, "sharing", declared)
    operator = resource(kinds.RELEASE, "operator", OPERATOR)
    for one in (shown, operator):
        pack.Analyze(json_format.ParseDict(one, analyzer_pb2.AnalyzeRequest()))
    stale = {**declared, "data": {**declared["data"], "old": "version: v1\nflags: {migStrategy: mixed}\n"}}  # type: ignore[dict-item]
    assert judged_whole(pack, resource(kinds.CONFIG_MAP, "sharing", stale), operator) == []
    # A program that is judged anew is shown anew; what was shown of the last one is forgotten.
    assert [one.policyName for one in analyzed_stack(pack, resource(kinds.CONFIG_MAP, "sharing", stale), operator)] == [
        "mig-strategy-fits"
    ]


def test_numbers_are_as_they_were_written(pack: Any) -> None:
    given = json.loads(json.dumps({**OPERATOR, "timeout": 60}))
    (found,) = analyzed(pack, kinds.RELEASE, "operator", given)
    assert "timeout: 60; at least 1800 s" in found.message


def _whole(pack: Any, given: Program, about: str, folder: Path) -> set[str]:
    """The rules that the running pack names for a program: resource by resource, then as a whole, as the engine asks."""
    settings = {name: _written(value, folder) for name, value in given.limits.items()}
    if settings:
        configure(pack, about, MANDATORY, **settings)
    requests = [
        resource(
            one.type,
            one.name,
            dict(one.inputs),
            urn=one.urn,
            options={"protect": one.protect, "ignoreChanges": list(one.ignore_changes), "parent": one.parent},
        )
        for one in given.resources
    ]
    found = [diagnostic for request in requests for diagnostic in _alone(pack, request)]
    for request, one in zip(requests, given.resources, strict=True):
        request["dependencies"] = sorted(one.dependencies)
        request["parent"] = one.parent
    return {one.policyName for one in [*found, *judged_whole(pack, *requests)]}


def _alone(pack: Any, request: dict[str, Any]) -> list[Any]:
    return list(pack.Analyze(json_format.ParseDict(request, analyzer_pb2.AnalyzeRequest())).diagnostics)


def _written(value: Any, folder: Path) -> Any:
    if not isinstance(value, Prices):
        return value
    (folder / "prices.yaml").write_text(json.dumps({"currency": value.currency, "perHour": dict(value.per_hour)}))
    return str(folder / "prices.yaml")


@pytest.mark.parametrize(("name", "index"), [(name, index) for name, programs in BAD.items() for index in range(len(programs))])
def test_the_pack_stops_each_bad_program_with_the_intended_rule_alone(pack: Any, name: str, index: int, tmp_path: Path) -> None:
    assert _whole(pack, BAD[name][index], name, tmp_path) == {name}


@pytest.mark.parametrize("name", [*GOOD, *ALLOWED])
def test_the_pack_stops_no_good_program(pack: Any, name: str, tmp_path: Path) -> None:
    assert _whole(pack, GOOD.get(name) or ALLOWED[name], name, tmp_path) == set()


def test_what_the_stack_s_own_configuration_acknowledges_needs_no_protection(pack: Any) -> None:
    plan = plan_config(acknowledging(), complete=False)
    entries = [("train", plan.pools[0].change)]
    configure(pack, "pools-protected", MANDATORY, required=True)
    for written, stopped in (({}, ["train", "other"]), (acknowledging(*entries), ["other"]), ({}, ["train", "other"])):
        config = {key: json.dumps(value) for key, value in written.items()}
        pack.ConfigureStack(analyzer_pb2.AnalyzerStackConfigureRequest(stack="t", project="t", config=config))
        pools = {name: analyzed(pack, kinds.AGENT_POOL, name, {**POOL, "agentPoolName": name}) for name in ("train", "other")}
        assert [name for name, found in pools.items() if found] == stopped


def test_a_conversion_is_remembered_for_the_very_object_only() -> None:
    made: list[object] = []

    def convert(value: object, *how: object) -> int:
        made.append((value, *how))
        return len(made)

    once = _remembering(convert)
    first, equal = {"a": 1}, {"a": 1}
    assert [once(first), once(first), once(equal), once(first)] == [1, 1, 2, 1]
    # Of objects that are gone, too, another one may have the id.
    assert len({once({"number": number}) for number in range(100)}) == 100
    assert [once(first, "marked"), once(first, "marked")] == [103, 104]


def test_after_a_judgement_a_new_program_begins_and_all_of_it_is_remembered() -> None:
    shown, none = _Shown(), SimpleNamespace(parent="", protect=False, ignore_changes=None)
    resources = [
        SimpleNamespace(urn=f"u::{name}", resource_type="a:b:C", name=name, props={"out": 1}, opts=none) for name in ("a", "b")
    ]
    for number in (1, 2):
        for one in resources:
            shown.remember(SimpleNamespace(urn=one.urn, props={"in": f"{one.name}{number}"}))
        assert [one.inputs for one in shown.whole(resources).resources] == [{"in": f"a{number}"}, {"in": f"b{number}"}]


def test_attack_by_names_and_values_in_what_policies_say(pack: Any) -> None:
    """Tries escapes and turns of direction: the engine prints messages of policies as they are."""
    for text in WORST:
        sent = text.replace("\ud800", "\x1b")  # gRPC carries no half letters
        data = {sent: SLICED.replace("replicas: 4", f"replicas: 1, rename: {json.dumps(sent)}")}
        found = analyzed(pack, kinds.CONFIG_MAP, "sharing", {"metadata": {"name": sent}, "data": data})
        assert found
        assert not harmful("".join(one.message for one in found))
