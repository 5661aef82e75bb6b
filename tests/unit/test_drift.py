"""What a refresh tells, judged. The events have the shape of the engine's; tests/engine/test_drift.py has the engine's own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.cli.main import main
from gpu_pools.drift.differences import CLUSTER, POOL
from gpu_pools.drift.judged import Drift, Up, Verdict, judge
from gpu_pools.drift.own_changes import listed, rules
from gpu_pools.drift.paths import MISSING, SECRET, steps_of, text_of, value_at
from gpu_pools.drift.programmed import Programmed, read_export
from gpu_pools.drift.refreshed import read_refresh
from gpu_pools.drift.showing import drift_json, drift_text
from gpu_pools.platforms.aks import azure_types
from gpu_pools.platforms.aks.properties import properties
from gpu_pools.text.errors import InvalidStackError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
RELEASE = "kubernetes:helm.sh/v3:Release"
SECRET_VALUE = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "[secret]"}
ROOT = {"op": "same", "urn": "urn:pulumi:shop::gpu-pools::pulumi:pulumi:Stack::gpu-pools-shop", "type": "pulumi:pulumi:Stack"}
NB: dict[str, Any] = {
    "agentPoolName": "nb",
    "resourceName": "dev",
    "count": 1,
    "enableAutoScaling": True,
    "maxCount": 4,
    "nodeLabels": {"team": "ml"},
    "nodeTaints": ["sku=gpu:NoSchedule"],
    "orchestratorVersion": "1.34",
}


def urn(type_: str, name: str) -> str:
    return f"urn:pulumi:shop::gpu-pools::gpu-pools:index:GpuPlatform${type_}::{name}"


def told(
    type_: str,
    name: str,
    before: Mapping[str, Any],
    now: Mapping[str, Any] | None,
    changes: Mapping[str, str] | None,
    outputs: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
) -> dict[str, Any]:
    """What the engine tells of one resource; `now` None: it is gone."""
    op = "delete" if now is None else "update" if changes is None or changes else "same"
    detailed = None if changes is None else {path: {"diffKind": kind, "inputDiff": True} for path, kind in changes.items()}
    return {
        "op": op,
        "urn": urn(type_, name),
        "type": type_,
        "old": {"inputs": before, "outputs": outputs[0]},
        "new": None if now is None else {"inputs": now, "outputs": outputs[1]},
        "detailedDiff": detailed,
    }


def events(*resources: Mapping[str, Any], more: tuple[Mapping[str, Any], ...] = (), **summary: Any) -> list[dict[str, Any]]:
    """A whole stream; `more`: events before its end."""
    every = [ROOT, *resources]
    counted: dict[str, int] = {}
    for one in every:
        counted[one["op"]] = counted.get(one["op"], 0) + 1
    end = {"resourceChanges": counted, "isPreview": True, "maybeCorrupt": False, "result": "succeeded", **summary}
    return [
        {"preludeEvent": {"config": {}}},
        *({"resourcePreEvent": {"metadata": {**one, "op": "refresh"}}} for one in every),
        *({"resOutputsEvent": {"metadata": dict(one)}} for one in every),
        *map(dict, more),
        {"summaryEvent": end},
        {"cancelEvent": {}},
    ]


def text(stream: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(one) + "\n" for one in stream)


def judged(*resources: Mapping[str, Any], programs: Mapping[str, Programmed] | None = None) -> Drift:
    return judge("shop", read_refresh("events", text(events(*resources))), programs)


def drifted(drift: Drift) -> dict[str, Up | None]:
    return {one.difference.place: one.up for one in drift.drift}


def explained(drift: Drift) -> dict[str, str]:
    return {one.difference.place: one.rule.id for one in drift.others if one.rule}


def pool(changes: Mapping[str, str], **now: Any) -> dict[str, Any]:
    return told(POOL, "nb-pool", NB, {**NB, **now}, changes)


def profile(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "count": 1, "vmSize": "Standard_D4s_v5", "eTag": "1", **more}


def cluster(before: list[dict[str, Any]], now: list[dict[str, Any]], **inputs: Any) -> dict[str, Any]:
    """A cluster that was made with the pool `system`, and whose list of pools was one thing and is another."""
    declared = {"resourceName": "dev", "agentPoolProfiles": [{"name": "system", "count": 1}], **inputs}
    changes = {f"agentPoolProfiles[{place}]": "add" for place in range(1, len(now))} or {"agentPoolProfiles[0].count": "update"}
    outputs = ({"agentPoolProfiles": before}, {"agentPoolProfiles": now})
    return told(CLUSTER, "dev-cluster", declared, {**declared, "agentPoolProfiles": now}, changes, outputs)


class TestNobody:
    """What nobody has changed is no drift."""

    def test_nothing_differs(self) -> None:
        drift = judged(told(POOL, "nb-pool", NB, NB, {}))
        assert (drift.verdict, drift.drift, drift.others) == (Verdict.NONE, (), ())

    def test_pools_of_the_stack_in_the_list_of_the_cluster(self) -> None:
        own = told(POOL, "nb-pool", NB, NB, {})
        drift = judged(own, cluster([profile("system")], [profile("nb"), profile("system")]))
        assert (drift.verdict, explained(drift)) == (Verdict.NONE, {"agentPoolProfiles": "pools-of-the-stack"})

    def test_the_order_of_that_list_and_what_is_no_input(self) -> None:
        """Azure's order is another one than that of the inputs, and the plugin goes by places."""
        own = told(POOL, "nb-pool", NB, NB, {})
        now = [profile("nb", count=3), profile("system", eTag="2", nodeImageVersion="new")]
        drift = judged(own, cluster([profile("system"), profile("nb")], now))
        assert (drift.verdict, drift.drift) == (Verdict.NONE, ())

    def test_that_list_after_a_refresh_that_was_written_into_the_state(self) -> None:
        """It is among the inputs then, until the next `up`; the pool itself is what is judged."""
        own = told(POOL, "nb-pool", NB, NB, {})
        before, now = [profile("nb"), profile("system")], [profile("nb", count=3), profile("system")]
        inputs = {"resourceName": "dev", "agentPoolProfiles": before}
        outputs = ({"agentPoolProfiles": before}, {"agentPoolProfiles": now})
        listed_too = told(CLUSTER, "dev", inputs, inputs, {"agentPoolProfiles[0].count": "update"}, outputs)
        assert explained(judged(own, listed_too)) == {"agentPoolProfiles": "pools-of-the-stack"}
        assert judged(listed_too).verdict is Verdict.DRIFT, "the stack has asked for it, and no other resource is it"

    def test_a_pool_of_another_stack(self) -> None:
        drift = judged(cluster([profile("system")], [profile("apps"), profile("system")]))
        assert (drift.verdict, explained(drift)) == (Verdict.NONE, {"agentPoolProfiles[apps]": "pools-of-others"})

    @pytest.mark.parametrize(
        ("changes", "now", "rule"),
        [
            ({"count": "update"}, {"count": 3}, "autoscaled-count"),
            (
                {"nodeTaints[1]": "add"},
                {"nodeTaints": ["sku=gpu:NoSchedule", "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]},
                "own-labels-and-taints",
            ),
            (
                {'nodeLabels["kubernetes.azure.com/scalesetpriority"]': "add"},
                {"nodeLabels": {"team": "ml", "kubernetes.azure.com/scalesetpriority": "spot"}},
                "own-labels-and-taints",
            ),
        ],
    )
    def test_what_azure_does_to_a_pool(self, changes: dict[str, str], now: dict[str, Any], rule: str) -> None:
        drift = judged(pool(changes, **now))
        assert (drift.verdict, list(explained(drift).values())) == (Verdict.NONE, [rule])

    def test_a_version_that_the_stack_does_not_pin(self) -> None:
        unpinned = {key: value for key, value in NB.items() if key != "orchestratorVersion"}
        drift = judged(told(POOL, "nb-pool", unpinned, NB, {"orchestratorVersion": "add"}))
        assert explained(drift) == {"orchestratorVersion": "version-not-declared"}

    @pytest.mark.parametrize("channel", ["patch", "stable", "rapid"])
    def test_a_version_that_a_channel_raises(self, channel: str) -> None:
        before = {"kubernetesVersion": "1.34", "autoUpgradeProfile": {"upgradeChannel": channel}}
        now = {**before, "kubernetesVersion": "1.35"}
        assert judged(told(CLUSTER, "dev", before, now, {"kubernetesVersion": "update"})).verdict is Verdict.NONE

    def test_what_the_program_ignores_or_only_reads(self) -> None:
        group = told(
            "openstack:containerinfra/nodeGroup:NodeGroup", "g", {"nodeCount": 1}, {"nodeCount": 2}, {"nodeCount": "update"}
        )
        tags = ({"tags": {}, "location": "x"}, {"tags": {"a": "b"}, "location": "x"})
        # As the engine tells it: a resource that is only read has no inputs in the state, and has them after a refresh.
        read = told("azure-native:resources:ResourceGroup", "r", {}, {"location": "x", "tags": {"a": "b"}}, None, tags)
        programs = {group["urn"]: Programmed(ignored=("nodeCount",)), read["urn"]: Programmed(only_read=True)}
        drift = judged(group, read, programs=programs)
        assert (drift.verdict, explained(drift)) == (Verdict.NONE, {"nodeCount": "ignored", "tags": "only-read"})
        assert judged(group, read).verdict is Verdict.DRIFT, "without the state nobody knows"


class TestSomebody:
    """What a person changes is drift, with what `up` would do about it."""

    @pytest.mark.parametrize(
        ("changes", "now", "place", "up"),
        [
            ({"nodeLabels.team": "update"}, {"nodeLabels": {"team": "other"}}, "nodeLabels.team", Up.UPDATES),
            ({"nodeTaints[0]": "update"}, {"nodeTaints": ["a=b:NoSchedule"]}, "nodeTaints", Up.UPDATES),
            ({"nodeTaints[0]": "delete"}, {"nodeTaints": []}, "nodeTaints", Up.UPDATES),
            ({"maxCount": "update"}, {"maxCount": 9}, "maxCount", Up.UPDATES),
            ({"orchestratorVersion": "update"}, {"orchestratorVersion": "1.35"}, "orchestratorVersion", Up.ROLLS),
            ({"vmSize": "update-replace"}, {"vmSize": "b"}, "vmSize", Up.REPLACES),
            ({"maxPods": "add"}, {"maxPods": 30}, "maxPods", Up.REPLACES),
            (
                {'nodeLabels["kubernetes.azure.com/scalesetpriority"]': "delete"},
                {},
                "nodeLabels[kubernetes.azure.com/scalesetpriority]",
                Up.UPDATES,
            ),
            (
                {"nodeTaints[0]": "update", "nodeTaints[1]": "add"},
                {"nodeTaints": ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule", "mine=x:NoSchedule"]},
                "nodeTaints",
                Up.UPDATES,
            ),
        ],
    )
    def test_a_pool(self, changes: dict[str, str], now: dict[str, Any], place: str, up: Up) -> None:
        drift = judged(pool(changes, **now))
        assert (drift.verdict, drifted(drift)) == (Verdict.DRIFT, {place: up})

    @pytest.mark.parametrize("now", [{}, {"kubernetes.azure.com/scalesetpriority": "regular"}])
    def test_the_label_of_spot_machines_is_lost(self, now: dict[str, str]) -> None:
        label = "kubernetes.azure.com/scalesetpriority"
        spot = {**NB, "nodeLabels": {label: "spot"}}
        kind = {f'nodeLabels["{label}"]': "update" if now else "delete"}
        drift = judged(told(POOL, "nb-pool", spot, {**NB, "nodeLabels": now}, kind))
        assert drifted(drift) == {f"nodeLabels[{label}]": Up.UPDATES}

    def test_the_number_of_nodes_of_a_fixed_pool(self) -> None:
        fixed = {**NB, "enableAutoScaling": False}
        assert drifted(judged(told(POOL, "nb-pool", fixed, {**fixed, "count": 2}, {"count": "update"}))) == {"count": Up.UPDATES}

    def test_the_system_pool_in_whatever_order(self) -> None:
        own = told(POOL, "nb-pool", NB, NB, {})
        before, now = (
            [profile("nb"), profile("system")],
            [profile("nb"), profile("system", count=5, powerState={"code": "Stopped"})],
        )
        drift = judged(own, cluster(before, now))
        assert drifted(drift) == {
            "agentPoolProfiles[system].count": Up.UPDATES,
            "agentPoolProfiles[system].powerState": Up.UPDATES,
        }

    def test_the_system_pool_follows_by_the_command(self) -> None:
        before, now = [profile("system", orchestratorVersion="1.34.0")], [profile("system", orchestratorVersion="1.35.0")]
        drift = judged(cluster(before, now))
        assert (drift.verdict, list(explained(drift).values())) == (Verdict.NONE, ["version-not-declared"])

    def test_the_system_pool_is_gone(self) -> None:
        drift = judged(cluster([profile("system")], [profile("apps"), profile("other")]))
        assert drifted(drift) == {"agentPoolProfiles[system]": Up.UPDATES}

    def test_what_is_told_of_a_cluster_s_pools_in_another_way_is_kept(self) -> None:
        odd = told(CLUSTER, "dev", {"agentPoolProfiles": []}, {"agentPoolProfiles": []}, {"agentPoolProfiles[0].count": "update"})
        assert judged(odd).verdict is Verdict.DRIFT
        unnamed = {**told(CLUSTER, "dev", {}, {}, {}), "op": "update"}
        assert judged(unnamed).verdict is Verdict.DRIFT

    @pytest.mark.parametrize("type_", [POOL, CLUSTER, CONFIG_MAP, RELEASE])
    def test_a_resource_is_gone(self, type_: str) -> None:
        drift = judged(told(type_, "x", NB, None, None))
        assert [one.up for one in drift.drift] == [Up.MAKES]

    def test_what_the_stack_only_reads_is_gone(self) -> None:
        gone = told(CONFIG_MAP, "x", {}, None, None)
        drift = judged(gone, programs={gone["urn"]: Programmed(only_read=True)})
        assert [one.up for one in drift.drift] == [Up.READS]

    def test_a_key_of_a_config_map_and_a_value_of_a_chart(self) -> None:
        before, now = {"data": {"time-slicing-4": "a"}}, {"data": {"time-slicing-4": "b"}}
        keys = told(CONFIG_MAP, "keys", before, now, {'data["time-slicing-4"]': "update"})
        values = {"values": {"driver": {"enabled": True}}}
        chart = told(RELEASE, "operator", values, {"values": {"driver": {"enabled": False}}}, {"values.driver.enabled": "update"})
        assert drifted(judged(keys, chart)) == {"data.time-slicing-4": Up.DEPENDS, "values.driver.enabled": Up.UPDATES}
        patched = told(f"{CONFIG_MAP}Patch", "key", before, now, {'data["time-slicing-4"]': "update"})
        assert drifted(judged(patched)) == {"data.time-slicing-4": Up.CONFLICTS}
        lost = told(CONFIG_MAP, "keys", before, {"data": {}}, {'data["time-slicing-4"]': "delete"})
        assert drifted(judged(lost)) == {"data.time-slicing-4": Up.UPDATES}

    def test_a_version_that_the_stack_pins(self) -> None:
        before = {"kubernetesVersion": "1.34", "autoUpgradeProfile": {"upgradeChannel": "none"}}
        drift = judged(told(CLUSTER, "dev", before, {**before, "kubernetesVersion": "1.35"}, {"kubernetesVersion": "update"}))
        assert drifted(drift) == {"kubernetesVersion": Up.UPDATES}

    def test_a_pool_that_is_only_held_or_that_the_program_replaces(self) -> None:
        changed = pool({"nodeLabels.team": "update"}, nodeLabels={"team": "b"})
        held = {changed["urn"]: Programmed(held=True)}
        replacing = {changed["urn"]: Programmed(replacing=("*",))}
        assert drifted(judged(changed, programs=held)) == {"nodeLabels.team": Up.REFUSES}
        assert drifted(judged(changed, programs=replacing)) == {"nodeLabels.team": Up.REPLACES}


class TestSecrets:
    """A value that is a secret on one side is shown on neither."""

    @pytest.mark.parametrize(
        ("type_", "before", "now"),
        [
            (RELEASE, {"values": SECRET_VALUE}, {"values": {"password": "hunter2"}}),
            (RELEASE, {"values": {"password": SECRET_VALUE}}, {"values": {"password": "hunter2"}}),
            (RELEASE, {"values": {"password": "hunter2"}}, {"values": {"password": "[secret]"}}),
            ("kubernetes:core/v1:Secret", {"values": {}, "data": {"a": "hunter2"}}, {"data": {"a": "hunter3"}}),
        ],
    )
    def test_it_is_in_no_output(self, type_: str, before: dict[str, Any], now: dict[str, Any]) -> None:
        path = "data.a" if type_.endswith("Secret") else "values.password"
        drift = judged(told(type_, "x", before, now, {path: "update"}))
        assert drift.verdict is Verdict.DRIFT
        shown = drift_text(drift) + drift_json(drift)
        assert "hunter" not in shown
        assert "(secret)" in shown

    def test_of_a_whole_mapping_in_which_one_is(self) -> None:
        drift = judged(told(RELEASE, "x", {}, {"values": {"a": {"b": [SECRET_VALUE]}, "c": "hunter2"}}, {"values": "add"}))
        assert "hunter" not in drift_text(drift) + drift_json(drift)


class TestCannotTell:
    """A refresh that was cut off or that failed is never one without differences."""

    WHOLE = events(told(POOL, "nb-pool", NB, NB, {}), told(CONFIG_MAP, "keys", {}, {}, {}))

    def test_the_whole_one_can(self) -> None:
        assert judge("shop", read_refresh("x", text(self.WHOLE))).verdict is Verdict.NONE

    def test_cut_off_anywhere(self) -> None:
        """Between events, and within each: none of it is green."""
        whole = text(self.WHOLE)
        for length in range(whole.index('{"cancelEvent"') - 1):
            try:
                drift = judge("shop", read_refresh("x", whole[:length]))
            except InvalidStackError:
                continue
            assert drift.verdict is Verdict.CANNOT_TELL, whole[:length][-60:]

    @pytest.mark.parametrize(
        ("more", "summary", "why"),
        [
            ({"diagnosticEvent": {"severity": "error", "message": "no way\n", "urn": "a::b"}}, {}, "b: no way"),
            ({}, {"result": "failed"}, "the refresh failed"),
            ({}, {"maybeCorrupt": True}, "corrupt"),
            ({}, {"isPreview": False}, "it was no preview"),
            ({}, {"resourceChanges": {"same": 3, "update": 1}}, "counts 3 same, 1 update, and tells of 3 same"),
            ({}, {"resourceChanges": None}, "counts nothing"),
            ({"resourcePreEvent": {"metadata": {"urn": "a::lost"}}}, {}, "lost was not read"),
            ({"summaryEvent": {}}, {}, "did not come to its end"),
            ({"diagnosticEvent": {}}, {}, "not as the engine writes it"),
            ({"resOutputsEvent": {"metadata": []}}, {}, "not as the engine writes it"),
        ],
    )
    def test_ended_badly(self, more: dict[str, Any], summary: dict[str, Any], why: str) -> None:
        stream = events(told(POOL, "nb-pool", NB, NB, {}), told(CONFIG_MAP, "k", {}, {}, {}), more=(more,), **summary)
        drift = judge("shop", read_refresh("x", text(stream)))
        assert drift.verdict is Verdict.CANNOT_TELL
        assert why in drift_text(drift)

    def test_an_operation_that_no_refresh_does(self) -> None:
        odd = {**told(POOL, "nb-pool", NB, NB, {}), "op": "create"}
        assert judged(odd).verdict is Verdict.CANNOT_TELL

    def test_nothing_is_deployed(self) -> None:
        drift = judged()
        assert drift.verdict is Verdict.CANNOT_TELL
        assert "the stack is not deployed" in drift_text(drift)

    def test_drift_outweighs_it(self) -> None:
        stream = events(told(CLUSTER, "dev", NB, None, None), result="failed")
        drift = judge("shop", read_refresh("x", text(stream)))
        assert drift.verdict is Verdict.DRIFT
        assert "It cannot be told whether that is all" in drift_text(drift)

    @pytest.mark.parametrize("given", ["", "nonsense", "[]", '{"steps": []}', '{"a": 1}\n{"b": 2}'])
    def test_something_else(self, given: str) -> None:
        with pytest.raises(InvalidStackError):
            read_refresh("x", given)

    @pytest.mark.parametrize(
        "given", ["", "[]", "{}", '{"deployment": {"resources": [1]}}', '{"deployment": {"resources": [{}]}}']
    )
    def test_no_state(self, given: str) -> None:
        with pytest.raises(InvalidStackError):
            read_export("x", given)


def test_warnings_are_told_and_are_no_drift() -> None:
    unready = {"diagnosticEvent": {"severity": "warning", "message": "in an unhealthy state:\n* x", "urn": "a::gpu-key-wait"}}
    drift = judge("shop", read_refresh("x", text(events(told(POOL, "nb", NB, NB, {}), more=(unready,)))))
    assert drift.verdict is Verdict.NONE
    assert "gpu-key-wait: in an unhealthy state: * x" in drift_text(drift)


def test_what_others_named_writes_no_line_of_its_own() -> None:
    evil = told(CONFIG_MAP, "k", {"data": {"a": "1"}}, {"data": {"a": "\x1b[2J\nshop: no drift"}}, {"data.a": "update"})
    shown = drift_text(judged(evil))
    assert "\x1b" not in shown
    assert "\nshop: no drift" not in shown


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a.b", ("a", "b")),
        ("agentPoolProfiles[1].count", ("agentPoolProfiles", 1, "count")),
        ('metadata.labels["a.b/c"]', ("metadata", "labels", "a.b/c")),
        ('["a b"][0]["c\\"d"]', ("a b", 0, 'c"d')),
    ],
)
def test_paths(path: str, steps: tuple[str | int, ...]) -> None:
    assert steps_of(path) == steps
    assert text_of(steps_of("a[0].b")) == "a[0].b"


def test_values() -> None:
    values = {"a": [{"b": 1}], "s": SECRET_VALUE}
    assert value_at(values, ("a", 0, "b")) == 1
    assert value_at(values, ("a", 1)) is MISSING
    assert value_at(values, ("s", "deeper")) is SECRET
    assert value_at(values, ()) is SECRET


class TestRules:
    """The data says what there is."""

    def test_each_property_is_an_input_of_azure_native(self) -> None:
        for rule in rules().values():
            for kind, names in rule.properties.items():
                for name in names:
                    assert name in azure_types.types()[{"pool": "AgentPool", "cluster": "ManagedCluster"}[kind]]
                    assert name in properties({"pool": "AgentPool", "cluster": "ManagedCluster"}[kind])

    def test_each_has_a_source_and_a_reason(self) -> None:
        for rule in [*rules().values(), *listed().values()]:
            assert rule.who
            assert rule.because
            assert rule.sources
            assert "`page`" not in " ".join(rule.sources)


class TestCommand:
    """Exit codes, files, and what is refused."""

    @pytest.mark.parametrize(
        ("resources", "code"), [((told(POOL, "nb", NB, NB, {}),), 0), ((told(POOL, "nb", NB, None, None),), 1), ((), 2)]
    )
    def test_exit_codes(
        self, resources: tuple[dict[str, Any], ...], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file, written = tmp_path / "e.jsonl", tmp_path / "drift.json"
        file.write_text(text(events(*resources)), encoding="utf-8")
        assert main(["drift", "--events", str(file), "--json", str(written)]) == code
        document = json.loads(written.read_text(encoding="utf-8"))
        assert (document["kind"], document["exitCode"]) == ("Drift", code)
        capsys.readouterr()
        assert main(["drift", "--events", str(file), "--json", "-"]) == code
        out, err = capsys.readouterr()
        assert json.loads(out) == document
        assert document["verdict"] in err

    def test_the_state_says_what_is_ignored(self, tmp_path: Path) -> None:
        changed = told("x:y:Z", "z", {"a": {"b": 1}}, {"a": {"b": 2}}, {"a.b": "update"})
        (tmp_path / "e").write_text(text(events(changed)), encoding="utf-8")
        state = {"deployment": {"resources": [{"urn": changed["urn"], "ignoreChanges": ["a"]}]}}
        (tmp_path / "s").write_text(json.dumps(state), encoding="utf-8")
        assert main(["drift", "--events", str(tmp_path / "e")]) == 1
        assert main(["drift", "--events", str(tmp_path / "e"), "--state", str(tmp_path / "s")]) == 0

    def test_all_that_is_wrong_is_told_at_once(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "s").write_text("{}", encoding="utf-8")
        assert main(["drift", "--events", str(tmp_path / "none"), "--state", str(tmp_path / "s")]) == 2
        said = capsys.readouterr().err
        assert "2 problems" in said
        assert "it is not a state" in said

    @pytest.mark.parametrize("arguments", [[], ["shop", "--events", "e"], ["shop", "--state", "s"]])
    def test_a_call_that_means_nothing(self, arguments: list[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["drift", *arguments])
        assert ended.value.code == 2

    @pytest.mark.parametrize(
        ("does", "code", "said"),
        [
            ("cat events", 0, "no drift"),
            ("cat events; echo lost >&2; exit 1", 2, "pulumi: lost"),
            ("echo no stack >&2; exit 255", 2, "no stack"),
            ("head -c 900 events", 2, "cut off"),
            ("true", 2, "told nothing"),
        ],
    )
    def test_the_engine_is_asked(
        self,
        does: str,
        code: int,
        said: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        resource = told(POOL, "nb", NB, NB, {})
        (tmp_path / "events").write_text(text(events(resource)), encoding="utf-8")
        script = f"""#!/bin/sh
cd {tmp_path}
if [ "$1" = stack ]; then echo '{{"deployment": {{"resources": []}}}}'; exit; fi
[ "$PULUMI_ENABLE_STREAMING_JSON_PREVIEW $*" = \
  "true refresh --preview-only --json --non-interactive --stack shop --config-file f" ] || exit 99
{does}
"""
        (tmp_path / "pulumi").write_text(script, encoding="utf-8")
        (tmp_path / "pulumi").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        assert main(["drift", "shop", "--config-file", "f"]) == code
        out, err = capsys.readouterr()
        assert said in out + err

    def test_there_is_no_engine(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert main(["drift", "shop"]) == 2
