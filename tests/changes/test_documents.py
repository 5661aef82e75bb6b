"""What comes in: previews in both forms, pods, acknowledgements; and what is told of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from changes.acknowledged import SECTION, replacements
from changes.steps import Step, read_preview
from changes.workloads import Asking, of_cluster, of_stack
from gpus.errors import InvalidStackError
from gpus.plan import plan_config

from .stacks import BEFORE

HERE = Path(__file__).parent
POOL, CLUSTER = "azure-native:containerservice:AgentPool", "azure-native:containerservice:ManagedCluster"


def train_pool(text: str) -> Step:
    """What becomes of the pool whose size changes."""
    (step,) = [one for one in read_preview("p", text).steps if one.name == "gpu-train-pool"]
    return step


def replaced(kind: str, name: str, *because: str, new: Any = "b", old: Any = "a") -> Step:
    return Step("replace", f"urn:pulumi:a::b::{kind}::{name}", kind, {"vmSize": old}, {"vmSize": new}, because)


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


class TestAcknowledged:
    """Somebody has to have read of exactly this replacement."""

    def _acknowledge(self, number: str, reason: str = "moved by hand on Monday") -> dict[str, object]:
        return {SECTION: [{"change": number, "reason": reason}]}

    def test_a_replacement_is_acknowledged_by_its_id(self) -> None:
        steps = [replaced(POOL, "x", "vmSize")]
        (before,) = replacements(steps, {})
        assert before.acknowledged is None
        assert before.changes == (("vmSize", '"a"', '"b"'),)
        (after,) = replacements(steps, self._acknowledge(before.id))
        assert after.acknowledged == "moved by hand on Monday"

    @pytest.mark.parametrize(
        "other",
        [
            replaced(POOL, "x", "vmSize", new="c"),
            replaced(POOL, "x", "vmSize", old="c"),
            replaced(POOL, "y", "vmSize"),
            replaced(CLUSTER, "x", "vmSize"),
        ],
    )
    def test_an_acknowledgement_holds_for_no_other_change(self, other: Step) -> None:
        (first,) = replacements([replaced(POOL, "x", "vmSize")], {})
        (found,) = replacements([other], self._acknowledge(first.id))
        assert found.acknowledged is None

    def test_a_cluster_that_follows_has_the_reason_of_what_it_follows(self) -> None:
        group = "azure-native:resources:ResourceGroup"
        ids = {
            replacements([replaced(group, "g", "vmSize", new=new), replaced(CLUSTER, "c"), replaced(POOL, "p")], {})[0].id
            for new in "bcd"
        }
        assert len(ids) == 3

    def test_pools_that_follow_their_cluster_need_none_of_their_own_and_others_do(self) -> None:
        steps = [replaced(POOL, "follows"), replaced(POOL, "own", "vmSize"), replaced(CLUSTER, "c", "vmSize")]
        assert [one.resource for one in replacements(steps, {})] == ["c", "own"]

    @pytest.mark.parametrize("op", ["create", "update", "delete", "same"])
    def test_only_replacements_count(self, op: str) -> None:
        assert replacements([Step(op, "urn:pulumi:a::b::c::x", POOL)], {}) == ()

    @pytest.mark.parametrize(
        ("written", "message"),
        [
            ("all", "is no list"),
            (["all"], "is not a mapping"),
            ([{"change": "*", "reason": "whatever it is"}], "does not fit"),
            ([{"change": "0123abcd"}], "is missing"),
            ([{"change": "0123abcd", "reason": "because"}], "does not fit"),
            ([{"change": "0123abcd", "reason": "moved by hand", "until": "2027-01-01"}], "unknown key"),
        ],
    )
    def test_a_wrong_section_acknowledges_nothing_in_silence(self, written: object, message: str) -> None:
        with pytest.raises(InvalidStackError, match=message):
            replacements([], {SECTION: written})


def test_the_plan_knows_the_section_and_takes_nothing_from_it() -> None:
    config = yaml.safe_load(BEFORE)["config"]
    acknowledged = {**config, SECTION: [{"change": "0123abcd", "reason": "moved by hand"}]}
    assert plan_config(acknowledged).as_json() == plan_config(config).as_json()
    with pytest.raises(InvalidStackError, match=f"Did you mean `{SECTION}`"):
        plan_config({**config, f"{SECTION}s": []})


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
        with pytest.raises(InvalidStackError, match="no list of pods"):
            of_cluster("pods", text)
