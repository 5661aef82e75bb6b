"""`import`: declarations from existing files, in the numbers that the files mean, and nothing lost without a word."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.allocation.device_plugin import device_plugin_config
from gpu_pools.allocation.mig_parted import mig_parted_key
from gpu_pools.cli.main import main
from gpu_pools.existing.imported import import_files
from gpu_pools.sharing.mig import Mig
from gpu_pools.text.yaml_text import load_yaml
from tests.unit.existing_files import DATA, FIXTURES, config_map, mig, plugin, sliced
from tests.unit.stacks import existing, plan_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_pools.existing.imported import Imported
    from gpu_pools.plan.planned import Plan


def imported(folder: Path, text: str) -> Imported:
    path = folder / "existing.yaml"
    path.write_text(text, encoding="utf-8")
    return import_files([str(path)])


def fixture(name: str) -> Imported:
    return import_files([str(DATA / name)])


def planned(result: Imported, name: str, *, gpu: str, gpus: int = 1) -> Plan:
    """The plan of a pool with one of the declarations."""
    return plan_of(existing({"gpuModel": gpu, "gpusPerNode": gpus, "sharing": name}, sharing=result.sharing))


def advertised(result: Imported, name: str, *, gpu: str, gpus: int = 1) -> dict[str, int]:
    return dict(planned(result, name, gpu=gpu, gpus=gpus).pools[0].advertises)


def rendered(plan: Plan) -> Any:
    """The sharing section of the device plugin's config that the plan renders for its pool."""
    return load_yaml(plan.device_plugin_configs[plan.pools[0].config_key]).get("sharing")


# --- the numbers of files from the field ------------------------------------------------------------------------------------


def test_eight_gpus_with_five_replicas_advertise_forty() -> None:
    result = fixture("dgx-plugin-config.yaml")
    assert advertised(result, "imported", gpu="a100-80gb", gpus=8) == {"nvidia.com/gpu": 40}


def test_the_aks_config_map_advertises_four() -> None:
    assert advertised(fixture("aks-time-slicing-map.yaml"), "any", gpu="a100-80gb") == {"nvidia.com/gpu": 4}


def test_the_research_clouds_slices_are_renamed_and_its_mig_layout_is_kept() -> None:
    result = fixture("research-cloud.yaml")
    assert advertised(result, "slice-4", gpu="a100-40gb") == {"nvidia.com/gpu.shared": 4}
    assert result.sharing["3g.20gb-2x2g.10gb"] == {"mig": {"layout": {"2g.10gb": 2, "3g.20gb": 1}}}
    assert advertised(result, "3g.20gb-2x2g.10gb", gpu="a100-40gb") == {"nvidia.com/mig-2g.10gb": 2, "nvidia.com/mig-3g.20gb": 1}


def test_the_openshift_overlays_come_out_under_their_names() -> None:
    result = fixture("openshift-overlays.yaml")
    assert {name: advertised(result, name, gpu="a10g-24gb")["nvidia.com/gpu"] for name in result.sharing} == {
        "no-sharing": 1,
        "time-sliced-2": 2,
        "time-sliced-4": 4,
        "mps-2": 2,
        "mps-4": 4,
        "mig-single": 1,
        "mig-mixed": 1,
    }


def test_the_standalone_charts_map_comes_out() -> None:
    result = fixture("standalone-chart-values.yaml")
    assert list(result.sharing) == ["default", "sliced", "mps"]
    assert {loss.why for loss in result.lost if loss.path == "config.default"} == {
        "a value of the plugin's own chart: the GPU operator brings the plugin, and the plan names its configs"
    }
    assert advertised(result, "mps", gpu="l40s-48gb") == {"nvidia.com/gpu": 10}


@pytest.mark.parametrize(
    ("name", "gpu", "instances"),
    [
        ("all-1g.10gb-a100-80gb", "a100-80gb", 7),
        ("all-1g.10gb-a100-40gb", "a100-40gb", 4),
        ("all-2g.20gb", "a100-80gb", 3),
        ("all-3g.40gb", "a100-80gb", 2),
        ("all-7g.80gb", "h100-80gb", 1),
        ("all-1g.5gb", "a100-40gb", 7),
        ("all-2g.10gb", "a100-40gb", 3),
        ("all-1g.10gb.me", "a100-80gb", 1),
    ],
)
def test_the_well_known_layouts_advertise_what_they_always_did(name: str, gpu: str, instances: int) -> None:
    assert advertised(fixture("mig-parted-a100-h100.yaml"), name, gpu=gpu) == {"nvidia.com/gpu": instances}


def test_a_config_with_filters_is_one_declaration_per_layout_with_its_models_named() -> None:
    declarations = {each.name: each for each in fixture("mig-parted-a100-h100.yaml").declarations}
    assert "for a100-80gb, h100-80gb" in declarations["all-balanced-a100-80gb"].comments
    assert declarations["all-balanced-a100-40gb"].sharing == {"mig": {"layout": {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}}}
    assert sorted(name for name in declarations if name.startswith("all-balanced")) == [
        "all-balanced-a100-40gb",
        "all-balanced-a100-80gb",
    ]


def test_layouts_by_gpu_index_stay_by_index() -> None:
    result = fixture("mig-parted-a100-h100.yaml")
    assert advertised(result, "by-index", gpu="a100-80gb", gpus=4) == {
        "nvidia.com/gpu": 2,
        "nvidia.com/mig-1g.10gb": 7,
        "nvidia.com/mig-2g.20gb": 2,
        "nvidia.com/mig-3g.40gb": 1,
    }


def test_a_profile_under_its_other_name_comes_out_with_a_comment(tmp_path: Path) -> None:
    result = imported(tmp_path, mig("{devices: all, mig-enabled: true, mig-devices: {3g.95gb: 2}}"))
    assert result.declarations[0].comments == (
        "fits on gb200-186gb",
        "3g.95gb is called 3g.93gb by other drivers or on other GPUs: ask `nvidia-smi mig -lgip` on a node",
    )
    assert advertised(result, "mine", gpu="gb200-186gb") == {"nvidia.com/gpu": 2}


def test_a_layout_for_a_model_of_unknown_geometry_comes_out_unchecked(tmp_path: Path) -> None:
    result = imported(tmp_path, mig("{devices: all, mig-enabled: true, mig-devices: {2g.32gb: 1}}"))
    (comment,) = result.declarations[0].comments
    assert comment.startswith("listed for rtx-pro-4500-blackwell")
    assert advertised(result, "mine", gpu="rtx-pro-4500-blackwell") == {"nvidia.com/gpu": 1}


def test_a_profile_that_only_older_programs_refuse_comes_out(tmp_path: Path) -> None:
    result = imported(tmp_path, mig("{devices: all, mig-enabled: true, mig-devices: {1g.24gb-me: 4}}"))
    assert result.sharing == {"mine": {"mig": {"layout": {"1g.24gb-me": 4}}}}
    assert not result.lost


def test_mig_off_everywhere_is_exclusive() -> None:
    assert fixture("mig-parted-a100-h100.yaml").sharing["all-disabled"] == {"exclusive": {}}


def test_operator_values_with_everything_inline_come_out() -> None:
    result = fixture("operator-values.yaml")
    assert list(result.sharing) == ["whole", "four", "all-disabled", "half"]
    lost = {loss.path: loss.why for loss in result.lost}
    assert "gpu-pools:operator.migStrategy" in lost["mig.strategy"]
    assert "gpu-pools:operator.values" in lost["toolkit.version"]


# --- the way back -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["timeSlicing", "mps"])
@pytest.mark.parametrize("rename", [True, False])
@pytest.mark.parametrize("fail", [True, False])
def test_the_plan_renders_the_sharing_that_was_imported(kind: str, rename: bool, fail: bool, tmp_path: Path) -> None:  # noqa: FBT001
    sharing = {
        kind: {
            "renameByDefault": rename,
            "failRequestsGreaterThanOne": fail,
            "resources": [{"name": "nvidia.com/gpu", "replicas": 6}],
        }
    }
    result = imported(tmp_path, yaml.safe_dump({"version": "v1", "sharing": sharing}))
    assert rendered(planned(result, "imported", gpu="a100-80gb")) == sharing


@pytest.mark.parametrize(("kind", "default"), [("timeSlicing", False), ("mps", True)])
def test_a_default_that_differs_is_written_out(kind: str, default: bool, tmp_path: Path) -> None:  # noqa: FBT001
    result = imported(tmp_path, sliced("name: gpu, replicas: 3", kind=kind))
    assert result.sharing["imported"][kind]["failRequestsGreaterThanOne"] is default


@pytest.mark.parametrize("name", FIXTURES)
def test_every_declaration_of_a_file_from_the_field_is_planned_and_rendered_alike(name: str) -> None:
    """For each declaration: a pool that fits, and the files that the plan renders from it."""
    result = fixture(name)
    for declaration in result.declarations:
        comment = next((text for text in declaration.comments if text.startswith("fits on ")), "fits on a100-80gb")
        plan = planned(result, declaration.name, gpu=comment.removeprefix("fits on ").split(", ")[0], gpus=4)
        sharing = plan.pools[0].sharing
        if isinstance(sharing, Mig):
            specs = load_yaml(plan.mig_parted_config)["mig-configs"][mig_parted_key(sharing)]
            layouts = [entry.get("mig-devices", {}) for entry in specs]
            mine = declaration.sharing["mig"]
            assert layouts == ([mine["layout"]] if "layout" in mine else [group["layout"] for group in mine["gpus"]])
        else:
            assert rendered(plan) == load_yaml(device_plugin_config(sharing, "single")[1]).get("sharing")


def test_the_printed_section_is_the_section_of_a_stack_file(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(DATA / name) for name in FIXTURES]
    assert main(["import", *files]) == 0
    captured = capsys.readouterr()
    printed = load_yaml(captured.out)["config"]["gpu-pools:sharing"]
    assert printed == import_files(files).sharing
    assert plan_of(existing({"sharing": "slice-4"}, sharing=printed)).pools


HALF = mig("{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 1, 1g.10gb: 2, 1g.10gb+me: 1}}")


def both(folder: Path, resources: str, layouts: str = HALF) -> Imported:
    """A config that time-slices those resources, and mig-parted's file."""
    (folder / "two.yaml").write_text(config_map("x", two=plugin(f"sharing: {{timeSlicing: {{resources: [{resources}]}}}}\n")))
    (folder / "mig.yaml").write_text(layouts)
    return import_files([str(folder / "two.yaml"), str(folder / "mig.yaml")])


def test_time_slicing_of_mig_resources_joins_the_layout_that_has_them(tmp_path: Path) -> None:
    resources = "{name: nvidia.com/mig-1g.10gb, replicas: 2}, {name: mig-1g.10gb.me, replicas: 3}"
    result = both(tmp_path, resources)
    assert list(result.sharing) == ["mine", "mine-two"]
    assert result.sharing["mine-two"]["mig"]["timeSlicing"] == {
        "replicas": {"1g.10gb": 2, "1g.10gb+me": 3},
        "renameByDefault": False,
        "failRequestsGreaterThanOne": False,
    }
    assert result.declarations[1].comments[-1] == "for nodes that have both configs"
    assert result.declarations[1].source.endswith(
        "mig-configs.mine and " + str(tmp_path / "two.yaml") + ": data.two.sharing.timeSlicing"
    )
    # By name, so that a file is the same each time.
    assert list(result.sharing["mine-two"]["mig"]["timeSlicing"]["replicas"]) == ["1g.10gb", "1g.10gb+me"]
    assert not [loss for loss in result.lost if "timeSlicing" in loss.path]
    plan = planned(result, "mine-two", gpu="a100-80gb")
    assert plan.pools[0].advertises == {"nvidia.com/mig-1g.10gb": 4, "nvidia.com/mig-1g.10gb.me": 3, "nvidia.com/mig-3g.40gb": 1}
    assert rendered(plan)["timeSlicing"]["resources"] == [
        {"name": "nvidia.com/mig-1g.10gb", "replicas": 2},
        {"name": "nvidia.com/mig-1g.10gb.me", "replicas": 3},
    ]


def test_where_all_profiles_of_a_layout_are_shared_alike_one_number_says_it(tmp_path: Path) -> None:
    uniform = mig("{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}")
    result = both(tmp_path, "{name: nvidia.com/mig-1g.10gb, replicas: 2}", uniform)
    assert result.sharing["mine-two"]["mig"]["timeSlicing"]["replicas"] == 2
    assert advertised(result, "mine-two", gpu="a100-80gb") == {"nvidia.com/gpu": 14}


def test_whole_gpus_beside_a_layout_are_not_shared_and_that_is_said(tmp_path: Path) -> None:
    beside = mig("{devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}, {devices: [1], mig-enabled: false}")
    result = both(tmp_path, "{name: nvidia.com/gpu, replicas: 4}, {name: nvidia.com/mig-1g.10gb, replicas: 2}", beside)
    assert list(result.sharing) == ["two", "mine", "mine-two"]
    assert "the config also shares whole GPUs, 4 replicas each" in result.declarations[2].comments[-1]
    assert advertised(result, "mine-two", gpu="a100-80gb", gpus=2) == {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 14}


def test_a_mig_resource_that_no_layout_has_is_lost(tmp_path: Path) -> None:
    result = both(tmp_path, "{name: nvidia.com/mig-1g.10gb, replicas: 2}, {name: nvidia.com/mig-1g.5gb, replicas: 2}")
    assert list(result.sharing) == ["mine", "mine-two"]
    assert [loss.path for loss in result.lost if "belongs to a layout" in loss.why] == [
        "data.two.sharing.timeSlicing.resources[1]"
    ]


def test_a_mig_resource_given_twice_has_the_larger_number(tmp_path: Path) -> None:
    result = both(tmp_path, "{name: nvidia.com/mig-3g.40gb, replicas: 4}, {name: nvidia.com/mig-3g.40gb, replicas: 2}")
    assert result.sharing["mine-two"]["mig"]["timeSlicing"]["replicas"] == {"3g.40gb": 4}
    assert [loss.path for loss in result.lost if "given twice" in loss.why] == ["data.two.sharing.timeSlicing.resources[1]"]


def test_mps_of_mig_resources_is_lost(tmp_path: Path) -> None:
    (tmp_path / "mps.yaml").write_text(sliced("name: nvidia.com/mig-1g.10gb, replicas: 2", kind="mps"))
    (tmp_path / "mig.yaml").write_text(HALF)
    result = import_files([str(tmp_path / "mps.yaml"), str(tmp_path / "mig.yaml")])
    assert list(result.sharing) == ["mine"]
    assert [loss for loss in result.lost if "MPS shares whole GPUs only" in loss.why]


def test_names_that_are_taken_get_a_number(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(config_map("x", a=sliced("name: gpu, replicas: 2")), encoding="utf-8")
    assert list(import_files([str(path), str(path), str(path)]).sharing) == ["a", "a-2", "a-3"]


# --- losses -----------------------------------------------------------------------------------------------------------------

LOSSES = [
    ("flags: {migStrategy: none}", "flags.migStrategy", "gpu-pools:operator.migStrategy"),
    ("flags: {gfd: {sleepInterval: 60s}}", "flags.gfd.sleepInterval", "not how the plugin runs"),
    ("flags: {typo: 1}", "flags.typo", "ignores it"),
    ("flags: {gfd: {typo: {a: 1}}}", "flags.gfd.typo", "ignores it"),
    ("flags: {MigStrategy: none}", "flags.MigStrategy", "gpu-pools:operator.migStrategy"),
    ("typo: 1", "typo", "ignores it"),
    ("imex: {channelIDs: [0]}", "imex", "not how the plugin runs"),
    ("resources: {gpus: [{pattern: '*', name: x}]}", "resources", "ignores custom"),
    ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}", "sharing", "refuses"),
    (
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, rename: small}]}}",
        "sharing.timeSlicing.resources[0].rename",
        "default name",
    ),
    (
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: [0]}]}}",
        "sharing.timeSlicing.resources[0].devices",
        "every GPU of the node",
    ),
    (
        "sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 2}]}}",
        "sharing.timeSlicing.resources[0]",
        "belongs to a layout",
    ),
    ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2000}]}}", "sharing.timeSlicing", "at most 1000"),
    ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}], x: 1}}", "sharing.timeSlicing.x", "ignores it"),
]


@pytest.mark.parametrize(("body", "path", "why"), LOSSES)
def test_what_a_declaration_has_no_place_for_is_said(body: str, path: str, why: str, tmp_path: Path) -> None:
    result = imported(tmp_path, plugin(body))
    assert [loss for loss in result.lost if loss.path == path and why in loss.why]


def test_time_slicing_that_mps_beats_is_said(tmp_path: Path) -> None:
    block = "{resources: [{name: gpu, replicas: 4}]}"
    result = imported(tmp_path, plugin(f"sharing: {{timeSlicing: {block}, mps: {block}}}"))
    assert list(result.sharing["imported"]) == ["mps"]
    assert [loss.path for loss in result.lost] == ["sharing.timeSlicing"]


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ("{devices: all, mig-enabled: true, mig-devices: {}}", "MIG on, without any MIG device"),
        ("{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 3}}", "fits on no GPU model"),
        ("{devices: all, mig-enabled: true, mig-devices: {1c.3g.40gb: 1}}", "fits on no GPU model"),
        ("{devices: [0], mig-enabled: false}, {devices: [0], mig-enabled: false}", "given twice"),
        ("{devices: all, mig-enabled: false}, {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}", "`all` beside"),
        ("{devices: all, mig-enabled: 1}, {devices: [0], mig-enabled: false}", "not all of its entries"),
    ],
)
def test_a_mig_config_that_no_declaration_can_say_is_said(entries: str, why: str, tmp_path: Path) -> None:
    result = imported(tmp_path, mig(entries))
    assert result.sharing == {}
    assert [loss for loss in result.lost if why in loss.why]


def test_losses_are_told_once_as_comments_and_machines_get_them_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(plugin("flags: {migStrategy: none}"), encoding="utf-8")
    assert main(["import", str(path)]) == 0
    captured = capsys.readouterr()
    line = f'{path}: flags.migStrategy = "none": derived from the pools, or given as gpu-pools:operator.migStrategy'
    assert f"# - {line}" in captured.out
    assert captured.err == ""
    assert main(["import", "--json", str(path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sharing"] == {"imported": {"exclusive": {}}}
    assert document["lost"] == [
        {
            "file": str(path),
            "path": "flags.migStrategy",
            "value": "none",
            "why": "derived from the pools, or given as gpu-pools:operator.migStrategy",
        }
    ]


def test_a_lost_value_that_json_cannot_carry_comes_as_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(plugin("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}], x: [.inf]}}"), encoding="utf-8")
    main(["import", "--json", str(path)])
    assert [one["value"] for one in json.loads(capsys.readouterr().out)["lost"]] == ["[inf]"]


def test_no_declaration_is_exit_1_and_an_unreadable_file_exit_2(tmp_path: Path) -> None:
    refused = tmp_path / "x.yaml"
    refused.write_text(sliced("name: gpu, replicas: 1"), encoding="utf-8")
    assert main(["import", str(refused)]) == 1
    assert main(["import", str(refused), str(tmp_path / "none.yaml")]) == 2
