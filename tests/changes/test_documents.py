"""What comes in: previews in both forms, pods, acknowledgements; and what is told of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_pools.changes.steps import Step, name_of, read_preview
from gpu_pools.changes.workloads import Asking, of_cluster, of_stack
from gpu_pools.text.errors import InvalidStackError

HERE = Path(__file__).parent
POOL, CLUSTER = "azure-native:containerservice:AgentPool", "azure-native:containerservice:ManagedCluster"


def train_pool(text: str) -> Step:
    """What becomes of the pool whose size changes."""
    (step,) = [one for one in read_preview("p", text).steps if one.name == "gpu-train-pool"]
    return step


def protected_error(kind: str, name: str, how: str) -> dict[str, Any]:
    """What the engine says of something protected; from its previews of the stack of tests/engine/test_changes.py."""
    urn = f"urn:pulumi:a::b::gpu-pools:index:GpuPlatform$gpu-pools:index:X${kind}::{name}"
    group = "urn:pulumi:a::b::gpu-pools:index:GpuPlatform$azure-native:resources:ResourceGroup::gpu-group"
    mark = "as it is currently marked for protection. To unprotect the resource, remove the `protect` flag"
    messages = {
        "replaced": f'unable to replace resource "{urn}"\n{mark}',
        "goes along": f'unable to replace resource "{urn}" as part of replacing "{group}" {mark}',
        "deleted": f'Preview failed: resource "{urn}" cannot be deleted\nbecause it is protected. To unprotect',
    }
    return {"severity": "error", "message": messages[how]}


class TestPreview:
    """The engine's two forms."""

    def test_a_stream_tells_the_parts_of_a_replacement_as_one_step(self) -> None:
        step = train_pool((HERE / "previews" / "vm-size.jsonl").read_text())
        assert (step.op, step.name, step.because, step.creates_first) == ("replace", "gpu-train-pool", ("vmSize",), False)
        assert (step.old["vmSize"], step.new["vmSize"]) == ("Standard_NC24ads_A100_v4", "Standard_NC48ads_A100_v4")

    def test_a_replacement_that_is_created_first_is_told(self) -> None:
        lines = (HERE / "previews" / "vm-size.jsonl").read_text().splitlines()
        order = sorted(lines, key=lambda line: "delete-replaced" in line)
        step = train_pool("\n".join(order))
        assert not step.creates_first  # `replace` came first, which does not tell
        order = sorted(lines, key=lambda line: "create-replacement" not in line)
        step = train_pool("\n".join(order))
        assert step.creates_first

    def test_what_follows_another_replacement_has_no_reason_of_its_own(self) -> None:
        steps = read_preview("p", (HERE / "previews" / "region.jsonl").read_text()).steps
        reasons = {step.name: step.because for step in steps if step.op == "replace"}
        assert reasons["gpu-group"] == ("location",)
        assert reasons["gpu-cluster"] == reasons["gpu-train-pool"] == ()

    def test_a_digest_says_the_same_without_findings(self) -> None:
        state = {"type": POOL, "inputs": {"vmSize": "a"}}
        changed = {"type": POOL, "inputs": {"vmSize": "b"}}
        one = {"op": "replace", "urn": "u::x", "oldState": state, "newState": changed, "replaceReasons": ["vmSize"]}
        other = {"op": "same", "urn": "u::y", "oldState": state, "newState": state}
        preview = read_preview("p", json.dumps({"steps": [one, other]}))
        assert [(step.op, step.because) for step in preview.steps] == [("replace", ("vmSize",)), ("same", ())]
        assert preview.findings == ()

    def test_policies_speak_in_a_stream(self) -> None:
        found = read_preview("p", (HERE / "previews" / "vm-size.jsonl").read_text()).findings
        assert {(one.rule, one.level, one.resource) for one in found} == {
            ("gpus-only-on-request", "advisory", "gpu-operator-release"),
            ("metrics-know-shares", "advisory", "gpu-operator-release"),
        }

    @pytest.mark.parametrize(
        ("level", "messages", "counts"),
        [
            ("mandatory", ["preview failed\n"], True),
            ("advisory", ["preview failed\n"], False),
            ("mandatory", ["bad stack\n", "an unhandled error occurred\n"], False),
            ("mandatory", ["bad stack\n", "preview failed\n"], False),
        ],
    )
    def test_a_failed_preview_may_lack_steps_unless_only_a_policy_stopped_it(
        self,
        level: str,
        messages: list[str],
        counts: bool,  # noqa: FBT001
    ) -> None:
        found = {"policyName": "a", "enforcementLevel": level, "resourceUrn": "u::x", "message": "m"}
        said = [{"diagnosticEvent": {"severity": "error", "message": message}} for message in messages]
        said.append({"diagnosticEvent": {"severity": "warning", "message": "using a language host"}})
        text = "\n".join(json.dumps(one) for one in [*said, {"policyEvent": found}, {"summaryEvent": {}}])
        if counts:
            assert [one.level for one in read_preview("p", text).findings] == ["mandatory"]
        else:
            with pytest.raises(InvalidStackError, match="the preview failed"):
                read_preview("p", text)

    @pytest.mark.parametrize(
        ("how", "kind", "complete"),
        [
            ("replaced", POOL, True),
            ("replaced", CLUSTER, True),
            ("replaced", "aws:rds:Instance", True),
            ("deleted", POOL, True),
            ("goes along", POOL, False),
            ("goes along", CLUSTER, False),
        ],
    )
    def test_what_is_protected_fails_a_preview_that_is_read_all_the_same(self, how: str, kind: str, complete: bool) -> None:  # noqa: FBT001
        said = [protected_error(kind, "gpu-x", how)]
        if complete:
            said.append({"severity": "error", "message": "preview failed\n"})
        text = "\n".join(json.dumps(one) for one in [*({"diagnosticEvent": one} for one in said), {"summaryEvent": {}}])
        preview = read_preview("p", text)
        assert [name_of(urn) for urn in preview.protected] == ["gpu-x"]
        assert preview.complete == complete
        digest = read_preview("p", json.dumps({"steps": [], "diagnostics": said}))
        assert (digest.protected, digest.complete) == (preview.protected, preview.complete)

    @pytest.mark.parametrize(
        "said",
        [
            [protected_error("aws:rds:Instance", "x", "goes along")],
            [protected_error(POOL, "x", "replaced"), {"severity": "error", "message": "bad stack"}],
        ],
        ids=["the engine stopped at something else", "something else failed too"],
    )
    def test_a_preview_that_lacks_steps_for_another_reason_is_refused(self, said: list[dict[str, Any]]) -> None:
        text = "\n".join(json.dumps(one) for one in [*({"diagnosticEvent": one} for one in said), {"summaryEvent": {}}])
        with pytest.raises(InvalidStackError, match="the preview failed"):
            read_preview("p", text)

    def test_a_failed_digest_says_nothing_of_policies_and_is_refused(self) -> None:
        text = json.dumps({"steps": [], "diagnostics": [{"severity": "error", "message": "error: preview failed\n"}]})
        with pytest.raises(InvalidStackError, match="the preview failed"):
            read_preview("p", text)

    @pytest.mark.parametrize("text", ["", "{}", "[]", "no JSON", '{"steps": [{}]}', '{"steps": 1}', '{"resourcePreEvent": {}}'])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidStackError, match="preview"):
            read_preview("p", text)

    def test_a_preview_that_broke_off_is_no_preview_of_nothing(self) -> None:
        lines = (HERE / "previews" / "vm-size.jsonl").read_text().splitlines()
        with pytest.raises(InvalidStackError, match="did not come to its end"):
            read_preview("p", "\n".join(line for line in lines if "summaryEvent" not in line))

    @pytest.mark.parametrize("levels", [[], ["advisory"], ["advisory", "mandatory"]])
    def test_one_policy_that_stops_it_explains_why_it_failed(self, levels: list[str]) -> None:
        found = [{"policyEvent": {"policyName": "a", "enforcementLevel": level, "message": "m"}} for level in levels]
        said = {"diagnosticEvent": {"severity": "error", "message": "preview failed"}}
        text = "\n".join(json.dumps(one) for one in [said, *found, {"summaryEvent": {}}])
        if "mandatory" in levels:
            assert [one.level for one in read_preview("p", text).findings] == levels
        else:
            with pytest.raises(InvalidStackError, match="the preview failed: preview failed"):
                read_preview("p", text)

    @pytest.mark.parametrize("op", ["same", "read", "refresh"])
    def test_what_is_only_looked_at_stays_the_same(self, op: str) -> None:
        preview = read_preview("p", json.dumps({"steps": [{"op": op, "urn": "u::x"}]}))
        assert [(one.op, one.type, one.old, one.new) for one in preview.steps] == [("same", "", {}, {})]

    def test_what_was_taken_for_the_same_first_is_what_it_becomes(self) -> None:
        steps = [{"op": op, "urn": "u::x"} for op in ("same", "create-replacement", "delete-replaced", "same")]
        (step,) = read_preview("p", json.dumps({"steps": steps})).steps
        assert (step.op, step.creates_first) == ("replace", True)

    def test_what_is_not_known_yet_forces_nothing_by_itself(self) -> None:
        unknown = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
        new = {"type": POOL, "inputs": {"a": [{"b": unknown}], "c": "2", "d": "1"}}
        one = {"op": "replace", "urn": "u::x", "newState": new, "replaceReasons": ["a[0].b", "c", "d.e"]}
        (step,) = read_preview("p", json.dumps({"steps": [one]})).steps
        assert step.because == ("c", "d.e")

    def test_inputs_that_are_none_are_refused(self) -> None:
        one = {"op": "create", "urn": "u::x", "newState": {"type": POOL, "inputs": ["a"]}}
        with pytest.raises(InvalidStackError, match="it is not a preview of the engine: TypeError"):
            read_preview("p", json.dumps({"steps": [one]}))


class TestWorkloads:
    """Who asks."""

    def test_workloads_of_the_stack_by_their_pods(self) -> None:
        containers = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1, "cpu": 1}}}]}
        template = {"spec": {"template": {"spec": containers}}}
        steps = [
            Step("create", "u::web", "kubernetes:apps/v1:Deployment", {}, template),
            Step("same", "u::one", "kubernetes:core/v1:Pod", {"spec": containers}, {"spec": containers}),
            Step("delete", "u::old", "kubernetes:apps/v1:Deployment", template),
            Step("create", "u::idle", "kubernetes:core/v1:Pod", {}, {"spec": {"containers": [{"name": "x"}]}}),
            Step("create", "u::map", "kubernetes:core/v1:ConfigMap", {}, template),
        ]
        assert of_stack(steps) == (Asking("Deployment web", "nvidia.com/gpu"), Asking("Pod one", "nvidia.com/gpu"))

    @pytest.mark.parametrize(
        ("kind", "path"),
        [
            ("core/v1:Pod", ("spec",)),
            ("batch/v1:CronJob", ("spec", "jobTemplate", "spec", "template", "spec")),
            *(
                (f"apps/v1:{kind}", ("spec", "template", "spec"))
                for kind in ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet")
            ),
            ("batch/v1:Job", ("spec", "template", "spec")),
        ],
    )
    def test_each_kind_has_its_pods_where_kubernetes_has_them(self, kind: str, path: tuple[str, ...]) -> None:
        asked = {"limits": {"cpu": 1}, "requests": {"nvidia.com/gpu": 1}}
        workload: Any = {"initContainers": [{"resources": asked}], "containers": [{"name": "x"}]}
        for key in reversed(path):
            workload = {key: workload}
        wanted = (Asking(f"{kind.partition(':')[2]} x", "nvidia.com/gpu"),)
        for old, new in (({}, workload), (workload, {})):
            assert of_stack([Step("same", "u::x", f"kubernetes:{kind}", old, new)]) == wanted
        assert of_stack([Step("delete", "u::x", f"kubernetes:{kind}", workload)]) == ()

    def test_a_pod_may_run_where_nothing_that_is_known_keeps_it_off(self) -> None:
        asking = Asking("pod a/b", "nvidia.com/gpu", (("a", "1"), ("b", "2")))
        for labels, may in (({"a": "1", "b": "2"}, True), ({"a": "1"}, True), ({}, True), ({"a": "1", "b": "3"}, False)):
            assert asking.may_run(labels) is may

    def test_where_a_workload_wants_to_run_is_read(self) -> None:
        spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}], "nodeSelector": {"b": "2", "a": "1"}}
        (found,) = of_stack([Step("create", "u::one", "kubernetes:core/v1:Pod", {}, {"spec": spec})])
        assert found.selector == (("a", "1"), ("b", "2"))

    def test_running_pods_of_a_cluster(self) -> None:
        spec = {"containers": [{"resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}]}
        pods = [
            {"metadata": {"namespace": "a", "name": name}, "spec": spec, "status": {"phase": phase}}
            for name, phase in [("runs", "Running"), ("waits", "Pending"), ("done", "Succeeded"), ("broke", "Failed")]
        ]
        found = of_cluster("pods", json.dumps({"items": pods}))
        assert [one.who for one in found] == ["pod a/runs", "pod a/waits"]

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"items": [1]}', '{"items": [{}]}'])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidStackError, match="not a list of pods"):
            of_cluster("pods", text)
