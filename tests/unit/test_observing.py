"""What the section makes of a plan: the exporter's values by version and sharing, problems, rules and dashboards as texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from gpu_pools.hardware.dcgm_fields import dcgm_fields, measures_pods, per_pod_fields
from gpu_pools.observing.alerts import RUNBOOK, alert_group, alerts
from gpu_pools.observing.dashboards import dashboards
from gpu_pools.observing.objects import dashboard_config_maps, service_monitor_spec
from gpu_pools.observing.rules import recording_group
from gpu_pools.observing.series import declared, most_series, replicas_of
from gpu_pools.observing.xids import meanings, raising, source
from gpu_pools.plan.planning import plan_config
from gpu_pools.rendering.dcgm_exporter import COUNTERS_FILE, counters_config_map, counters_file
from gpu_pools.stack.verification import VerificationSettings
from gpu_pools.text.errors import InvalidStackError
from tests.observing import fleets

ROOT: Final = Path(__file__).parents[2]
REFERENCE: Final = ROOT / "docs" / "reference" / "observability.md"
RUNBOOKS: Final = ROOT / "docs" / "runbooks"
VERIFIERS: Final = VerificationSettings(enabled=True)
EXPORTER: Final = "gpu-pools:operator.values.dcgmExporter"


def exporter(*pools: str, version: str = fleets.NEWEST, **section: Any) -> dict[str, Any]:
    found: dict[str, Any] = fleets.plan_of(pools=pools, version=version, **section).operator_values["dcgmExporter"]
    return found


def env(values: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in values["env"]}


def problems(**changed: Any) -> list[Any]:
    stack = fleets.stack(pools=("whole",)) | {f"gpu-pools:{key}": value for key, value in changed.items()}
    with pytest.raises(InvalidStackError) as told:
        plan_config(stack)
    return list(told.value.problems)


class TestTheExporter:
    def test_without_the_section_the_chart_is_told_nothing(self) -> None:
        stack = fleets.stack()
        del stack["gpu-pools:observability"]
        assert "dcgmExporter" not in plan_config(stack).operator_values

    def test_the_file_has_three_columns_and_each_field_once(self) -> None:
        lines = [line.split(", ") for line in counters_file().splitlines() if not line.startswith("#")]
        assert {len(line) for line in lines} == {3}
        names = [line[0] for line in lines]
        assert len(names) == len(set(names)) == len(dcgm_fields())
        assert {line[1] for line in lines} == {"gauge", "counter", "label"}
        assert not any('"' in line[2] or "," in line[2] for line in lines)

    def test_another_list_is_another_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        name = counters_config_map()
        assert re.fullmatch(r"gpu-pools-dcgm-counters-[0-9a-f]{8}", name)
        monkeypatch.setattr("gpu_pools.rendering.dcgm_exporter.dcgm_fields", lambda: dcgm_fields()[1:])
        assert counters_config_map() != name

    @pytest.mark.parametrize("pool", ["whole", "alike", "mixed", "some", "small"])
    def test_where_no_pods_share_it_gets_no_rights_for_it(self, pool: str) -> None:
        values = exporter(pool)
        assert "hostPID" not in values
        assert "enablePodUID" not in values
        assert "KUBERNETES_VIRTUAL_GPUS" not in env(values)

    @pytest.mark.parametrize("pool", ["turns", "renamed", "served", "cut"])
    def test_where_pods_share_it_measures_them_as_far_as_its_version_can(self, pool: str) -> None:
        values, old = exporter(pool), exporter(pool, version=fleets.OLD)
        assert values["hostPID"] is values["enablePodUID"] is True
        assert env(values)["KUBERNETES_VIRTUAL_GPUS"] == "true"
        assert not {"hostPID", "enablePodUID"} & old.keys()
        assert "KUBERNETES_VIRTUAL_GPUS" not in env(old)

    @pytest.mark.parametrize(
        ("version", "measures"),
        [
            ("v25.3.4", False),
            ("v25.10.1", False),
            ("v26.3.1", False),
            ("v26.3.2", True),
            ("v26.3.3", True),
            ("v26.7.0", True),
            ("x", False),
        ],
    )
    def test_which_versions_measure_pods(self, version: str, measures: bool) -> None:  # noqa: FBT001
        assert measures_pods(version) is measures

    def test_resources_that_are_renamed_are_told(self) -> None:
        assert env(exporter("renamed", "mixed"))["NVIDIA_RESOURCE_NAMES"] == "nvidia.com/gpu.shared"
        assert "NVIDIA_RESOURCE_NAMES" not in env(exporter("turns", "mixed"))

    def test_it_collects_as_often_as_it_is_scraped(self) -> None:
        plan = fleets.plan_of(pools=("whole",), intervalSeconds=15)
        assert env(plan.operator_values["dcgmExporter"])["DCGM_EXPORTER_INTERVAL"] == "15000"
        (endpoint,) = service_monitor_spec(plan)["endpoints"]
        assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("15s", "10s")

    def test_nothing_is_scraped_twice(self) -> None:
        assert exporter("whole")["serviceMonitor"] == {"enabled": False}

    def test_values_of_the_user_s_own_are_merged_over_it(self) -> None:
        more = {
            "dcgmExporter": {
                "resources": {"limits": {"memory": "1Gi"}},
                "env": [{"name": "DCGM_EXPORTER_DEBUG", "value": "true"}],
            }
        }
        stack = fleets.stack(pools=("turns",))
        stack["gpu-pools:operator"]["values"] = more
        values = plan_config(stack).operator_values["dcgmExporter"]
        assert values["resources"] == more["dcgmExporter"]["resources"]
        assert {"KUBERNETES_VIRTUAL_GPUS", "DCGM_EXPORTER_DEBUG"} <= env(values).keys()


class TestWhatDoesNotGoWithIt:
    @pytest.mark.parametrize(
        ("values", "place", "why"),
        [
            ({"enabled": False}, ".enabled", "no exporter to read"),
            ({"hostPID": False}, ".hostPID", "finds the processes of pods"),
            ({"enablePodUID": False}, ".enablePodUID", "finds pods by it"),
            ({"serviceMonitor": {"enabled": True}}, ".serviceMonitor.enabled", "scraped twice"),
            (
                {"env": [{"name": "A", "value": "b"}, {"name": "DCGM_EXPORTER_COLLECTORS", "value": "/x"}]},
                ".env[1]",
                "these fields",
            ),
            ({"env": [{"name": "DCGM_EXPORTER_DEVICES_STR", "value": "g+i"}]}, ".env[0]", "would both count"),
            ({"env": [{"name": "KUBERNETES_VIRTUAL_GPUS", "value": "false"}]}, ".env[0]", "decided by the pools"),
        ],
    )
    def test_values_against_it_are_refused_at_their_place(self, values: dict[str, Any], place: str, why: str) -> None:
        operator = {"version": fleets.NEWEST, "driver": "preinstalled", "values": {"dcgmExporter": values}}
        (problem,) = problems(operator=operator)
        assert problem.path == f"{EXPORTER}{place}"
        assert why in problem.message
        assert "gpu-pools:observability" in problem.remedy

    def test_several_come_at_once(self) -> None:
        values = {"dcgmExporter": {"enabled": False, "serviceMonitor": {"enabled": True}}}
        found = problems(operator={"version": fleets.NEWEST, "driver": "preinstalled", "values": values})
        assert [one.path for one in found] == [f"{EXPORTER}.enabled", f"{EXPORTER}.serviceMonitor.enabled"]

    def test_without_the_section_they_are_the_user_s_own_business(self) -> None:
        stack = fleets.stack(pools=("whole",))
        del stack["gpu-pools:observability"]
        stack["gpu-pools:operator"]["values"] = {"dcgmExporter": {"enabled": False}}
        assert plan_config(stack).operator_values["dcgmExporter"] == {"enabled": False}

    def test_an_operator_of_somebody_else_is_refused(self) -> None:
        (problem,) = problems(operator={"install": False, "driver": "preinstalled"})
        assert problem.path == "gpu-pools:observability"
        assert "gpu-pools:operator.install is false" in problem.message
        assert "Leave the section out" in problem.remedy


class TestRulesAndSeries:
    def test_what_the_plan_tells(self) -> None:
        plan = fleets.plan_of()
        told = {(one.name.split(":")[1], *(value for _, value in one.labels)): one.value for one in declared(plan)}
        assert told["declared_gpus", "mixed", "a100-80gb", "mig"] == 2
        assert told["declared_slices", "small"] == 4
        assert told["declared_slices", "alike"] == 7
        assert told["declared_replicas", "cut", "3g.40gb", "mig"] == 3
        assert told["declared_replicas", "turns", "timeSlicing"] == 4
        # A GPU that stays whole in a pool with MIG.
        assert told["declared_replicas", "some", "mig"] == 1

    def test_instances_of_a_profile_may_be_shared_by_another_number(self) -> None:
        stack = fleets.stack(pools=("mixed",))
        layout = {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}
        stack["gpu-pools:sharing"]["mixed"] = {"mig": {"layout": layout, "timeSlicing": {"replicas": {"3g.40gb": 4}}}}
        (pool,) = plan_config(stack).pools
        found = replicas_of(pool)
        assert (found["3g.40gb"], found["1g.10gb"]) == (4, 1)

    def test_every_rule_is_of_this_stack_s_pools(self) -> None:
        """A metric of the exporter without `gpu_pool` would count a second scrape of it."""
        for rule in recording_group(fleets.plan_of())["rules"]:
            for selector in re.findall(r"(?:DCGM_\w+|\bup)(\{[^}]*\})?", rule["expr"]):
                assert not selector or 'gpu_pool!=""' in selector, rule
            assert not re.search(
                r"\b(DCGM_FI_\w+|DCGM_EXP_\w+)\b(?![\w{(|)])", rule["expr"].replace('"DCGM_FI_DEV_(FB_USED|GPU_TEMP)"', "")
            ), rule

    def test_names_say_of_what_and_in_what(self) -> None:
        for rule in recording_group(fleets.plan_of())["rules"]:
            assert re.fullmatch(r"gpu_pools:(gpu|unit|pods?|pool|node|declared)_\w+:[a-z]+", rule["record"])

    def test_the_reference_has_every_recorded_series(self) -> None:
        text = REFERENCE.read_text(encoding="utf-8")
        names = {rule["record"] for rule in recording_group(fleets.plan_of())["rules"]}
        assert {name for name in names if f"`{name}`" not in text} == set()
        assert set(re.findall(r"gpu_pools:[a-z_]+:[a-z]+", text)) == names

    def test_the_reference_has_the_number_of_series(self) -> None:
        shapes: dict[str, Any] = {
            "exclusive": {"exclusive": {}},
            "time-sliced by 4": {"timeSlicing": {"replicas": 4}},
            "used by 8 clients of MPS": {"mps": {"replicas": 8}},
            "cut into 7 MIG instances": {"mig": {"layout": {"1g.10gb": 7}}},
            "cut into 2 MIG instances, each time-sliced by 3": {
                "mig": {"layout": {"3g.40gb": 2}, "timeSlicing": {"replicas": 3}}
            },
        }
        rows = []
        for shape, sharing in shapes.items():
            counts = []
            for version in (fleets.NEWEST, fleets.OLD):
                # Beside a pool that shares: then pods are measured everywhere.
                stack = fleets.stack(pools=("whole", "turns"), version=version)
                stack["gpu-pools:sharing"]["whole"] = sharing
                stack["gpu-pools:pools"][0]["gpusPerNode"] = 1
                plan = plan_config(stack)
                counts.append(most_series(plan, plan.pools[0]))
            rows.append(f"| {shape} | {counts[0]} | {counts[1]} |")
        assert [row for row in rows if row not in REFERENCE.read_text(encoding="utf-8")] == []


class TestAlertsAndXids:
    def test_each_says_what_to_do_and_has_its_runbook(self) -> None:
        headings = re.findall(r"^## (\w+)$", (RUNBOOKS / RUNBOOK).read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == list(dict.fromkeys(headings))
        assert set(headings) == {one.name for one in alerts(VERIFIERS)}
        for one in alerts(VERIFIERS):
            assert len(one.remedy.split()) > 4
            assert one.summary.endswith((".", ").")) or ":" in one.summary
            assert one.severity in {"critical", "warning", "info"}

    def test_a_link_is_there_where_somebody_says_where(self) -> None:
        notes = [rule["annotations"] for rule in alert_group("https://docs.example/runbooks/", VERIFIERS)["rules"]]
        assert notes[0]["runbook_url"] == "https://docs.example/runbooks/alerts.md#gpuexporterdown"
        assert all("runbook_url" not in rule["annotations"] for rule in alert_group("", VERIFIERS)["rules"])

    def test_each_xid_means_one_thing(self) -> None:
        numbers = [number for one in meanings() for number in one.numbers]
        assert len(numbers) == len(set(numbers))
        assert source().startswith("https://docs.nvidia.com/deploy/xid-errors/")

    def test_what_raises_an_alert_is_an_alert(self) -> None:
        named = {one.alert for one in meanings() if one.alert}
        assert named <= {one.name for one in alerts(VERIFIERS)}
        assert all(raising(name) for name in named)
        runbook = (RUNBOOKS / RUNBOOK).read_text(encoding="utf-8")
        for one in meanings():
            if one.alert == "GpuNeedsReset":
                assert ", ".join(map(str, one.numbers)) in runbook

    def test_the_words_of_an_alert_name_labels_that_it_has(self) -> None:
        for one in alerts(VERIFIERS):
            if "max(" in one.expression:
                continue
            used = set(re.findall(r"\$labels\.(\w+)", one.summary))
            assert used <= {"instance", "gpu_pool", "gpu", "UUID", "xid", "clock_event", "namespace", "pod", "resource"}, one.name


class TestDashboards:
    def test_they_ask_recorded_series_alone(self) -> None:
        recorded = {rule["record"] for rule in recording_group(fleets.plan_of())["rules"]}
        for board in dashboards(fleets.plan_of()).values():
            for panel in board["panels"]:
                for target in panel.get("targets", ()):
                    asked = set(re.findall(r"gpu_pools:[a-z_]+:[a-z]+", target["expr"]))
                    assert asked, panel
                    assert asked <= recorded, panel
                    assert "DCGM_" not in target["expr"]

    def test_panels_lie_beside_each_other(self) -> None:
        for board in dashboards(fleets.plan_of()).values():
            taken = set()
            for panel in board["panels"]:
                place = panel["gridPos"]
                cells = {
                    (x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])
                }
                assert not cells & taken
                assert place["x"] + place["w"] <= 24
                taken |= cells

    def test_they_have_names_of_their_own(self) -> None:
        plan = fleets.plan_of()
        assert len({board["uid"] for board in dashboards(plan).values()}) == 4
        for name, data in dashboard_config_maps(plan).items():
            ((file, text),) = data.items()
            assert file == f"{name.replace('-dashboard', '')}.json"
            assert json.loads(text)["uid"] == name.replace("-dashboard", "")

    @pytest.mark.parametrize("version", [fleets.NEWEST, fleets.OLD])
    def test_what_cannot_be_had_of_a_pod_is_said(self, version: str) -> None:
        board = dashboards(fleets.plan_of(version=version))["pods"]
        said = dict(re.findall(r"\*\*(\w+)\*\* \(\w+\): (.+)", board["panels"][0]["options"]["content"]))
        assert said.keys() == fleets.SHARING.keys()
        for pool, text in said.items():
            own = "pod's own" in text
            assert own == (version == fleets.NEWEST or pool not in {"turns", "renamed", "cut", "served"}), pool
        for pool in ("cut", "served"):
            assert ("memory alone" in said[pool]) is (version == fleets.NEWEST)


def test_the_monitor_s_labels_are_those_that_rules_join_by() -> None:
    (endpoint,) = service_monitor_spec(fleets.plan_of())["endpoints"]
    by_target = {one.get("targetLabel"): one["sourceLabels"] for one in endpoint["relabelings"] if one["action"] == "replace"}
    assert by_target == {
        "instance": ["__meta_kubernetes_pod_node_name"],
        "gpu_pool": ["__meta_kubernetes_node_label_gpu_pools_pool"],
    }
    (dropped,) = [one["regex"] for one in endpoint["relabelings"] if one["action"] == "labeldrop"]
    assert set(dropped.split("|")) == {"pod", "namespace", "container", "service", "endpoint"}


def test_fields_of_pods_are_among_those_that_are_collected() -> None:
    assert per_pod_fields() <= {one.name for one in dcgm_fields()}
    assert COUNTERS_FILE == "dcgm-metrics.csv"
