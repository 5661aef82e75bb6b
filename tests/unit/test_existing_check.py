"""`check`: what the real software does with existing files; a test after each incident that concerns such files.

D01 to D16, and D20 on.

D17 (quota keys) and D18 (consumers of a renamed resource) are about other files; D19 (one sharing for all pools) is a choice
that no file can be blamed for: a stack has one declaration per pool.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpu_pools.cli.main import main
from gpu_pools.existing.check import check_file
from gpu_pools.existing.documents import UnreadableFileError
from gpu_pools.existing.findings import SEVERITIES
from gpu_pools.hardware.models import model, model_keys
from tests.unit.existing_files import DATA, DECODED, FIXTURES, check_text, config_map, found, mig, plugin, sliced

if TYPE_CHECKING:
    from pathlib import Path

GPU = "name: nvidia.com/gpu"
DISABLED = "all-disabled: [{devices: all, mig-enabled: false}]"
ENTRY = "sharing.timeSlicing.resources[0]"
MPS_ENTRY = "sharing.mps.resources[0]"
MINE = "mig-configs.mine[0]"
OFF = "mig-enabled: false"
SLICES = "mig-enabled: true, mig-devices: {1g.10gb: 7}"
HALVES = "mig-enabled: true, mig-devices: {3g.40gb: 2}"
#: Of no GPU in particular, and of the A100 80GB.
FILTERS = ["", 'device-filter: ["0x20B210DE"], ']


def values(plugin_config: str = "", mig_config: str = "", more: str = "") -> str:
    return f"devicePlugin: {{config: {{{plugin_config}}}}}\nmigManager: {{config: {{{mig_config}}}}}\n{more}"


# --- D01 to D16 -------------------------------------------------------------------------------------------------------------


def test_d01_a_default_that_is_no_key_of_the_config_map_is_a_crash(tmp_path: Path) -> None:
    text = values('create: true, name: x, default: nope, data: {good: "version: v1"}')
    finding = found(check_text(tmp_path, text), "crash", "devicePlugin.config.default")
    assert "specified config  does not exist" in finding.really
    assert finding.allowed == "good"


def test_d01_also_where_the_config_map_is_another_document_of_the_file(tmp_path: Path) -> None:
    text = config_map("shared", good="version: v1\n") + "---\n" + values("name: shared, default: nope")
    assert found(check_text(tmp_path, text), "crash", "[1].devicePlugin.config.default").allowed == "good"


def test_json_in_a_config_map_is_read_as_yaml_is(tmp_path: Path) -> None:
    text = json.dumps({"version": "v1", "sharing": {"timeSlicing": {"nope": 1}}})
    assert check_text(tmp_path, config_map("c", config=text)).findings


def test_a_text_in_a_config_map_that_says_what_else_it_is_is_no_config(tmp_path: Path) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "Other", "version": "v1", "sharing": {"timeSlicing": {"nope": 1}}})
    with pytest.raises(UnreadableFileError, match="holds nothing that is known here"):
        check_text(tmp_path, config_map("c", config=text))


def test_d02_a_config_map_without_a_default_is_silently_without_effect_under_the_operator(tmp_path: Path) -> None:
    finding = found(check_text(tmp_path, values("name: shared")), "ignored", "devicePlugin.config")
    assert "empty configuration" in finding.really


def test_d02_and_a_crash_under_the_standalone_chart(tmp_path: Path) -> None:
    text = 'config: {map: {a: "version: v1", b: "version: v1"}}\n'
    assert "all fallbacks failed" in found(check_text(tmp_path, text), "crash", "config").really


@pytest.mark.parametrize("keys", ['a: "version: v1"', 'a: "version: v1", default: "version: v1"'])
def test_d02_unless_one_of_its_fallbacks_holds(keys: str, tmp_path: Path) -> None:
    assert check_text(tmp_path, f"config: {{map: {{{keys}}}}}\n").findings == ()


def test_d03_a_default_of_a_cluster_policy_is_held_against_the_config_map_beside_it(tmp_path: Path) -> None:
    policy = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nspec: {devicePlugin: {config: {name: shared, default: gone}}}\n"
    checked = check_text(tmp_path, config_map("shared", here="version: v1\n") + "---\n" + policy)
    assert found(checked, "crash", "[1].spec.devicePlugin.config.default").allowed == "here"


@pytest.mark.parametrize(("given", "missing"), [("name: x", "data"), ('data: {a: "version: v1"}', "name")])
def test_d04_create_without_data_or_name_is_a_crash(given: str, missing: str, tmp_path: Path) -> None:
    checked = check_text(tmp_path, values(f"create: true, default: a, {given}"))
    assert f"no {missing}" in found(checked, "crash", "devicePlugin.config.create").message


def test_d04_data_without_create_makes_no_config_map(tmp_path: Path) -> None:
    checked = check_text(tmp_path, values('name: x, default: a, data: {a: "version: v1"}'))
    assert found(checked, "ignored", "devicePlugin.config.data")


def test_d05_a_config_map_in_an_unusual_namespace_is_pointed_out(tmp_path: Path) -> None:
    text = config_map("x", a="version: v1\n").replace("namespace: gpu-operator", "namespace: kube-system")
    assert "same namespace" in found(check_text(tmp_path, text), "unknown", "metadata.namespace").really
    assert check_text(tmp_path, config_map("x", a="version: v1\n")).findings == ()


def test_d06_a_misplaced_key_is_ignored_and_its_place_is_named(tmp_path: Path) -> None:
    finding = found(check_text(tmp_path, plugin("flags: {renameByDefault: true}")), "ignored", "flags.renameByDefault")
    assert finding.remedy == "Move it: `renameByDefault` belongs to sharing.timeSlicing or sharing.mps."


def test_d06_a_misspelt_key_is_ignored_and_the_right_one_is_suggested(tmp_path: Path) -> None:
    finding = found(check_text(tmp_path, plugin("flags: {migStrategi: none}")), "ignored", "flags.migStrategi")
    assert finding.remedy == "Did you mean `migStrategy`?"


def test_d06_the_decoder_takes_another_case_of_a_key_but_not_inside_the_sharing_blocks(tmp_path: Path) -> None:
    good = "version: v1\nSharing: {TIMESLICING: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n"
    assert check_text(tmp_path, good).findings == ()
    bad = "version: v1\nsharing: {timeSlicing: {RenameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n"
    assert found(check_text(tmp_path, bad), "ignored", "sharing.timeSlicing.RenameByDefault")


@pytest.mark.parametrize("setting", ["rename: nvidia.com/small", "devices: [0]", "devices: 2", 'devices: ["0:1"]'])
def test_d07_rename_and_devices_are_ignored(setting: str, tmp_path: Path) -> None:
    checked = check_text(tmp_path, sliced(f"{GPU}, replicas: 2, {setting}"))
    assert "not yet supported" in found(checked, "ignored", f"{ENTRY}.{setting.partition(':')[0]}").really


@pytest.mark.parametrize(
    ("second", "loads"),
    [
        ("Version: {}", False),
        ("Version: [v1]", False),
        ("VERSION: 3", True),
        ("Version: v1", True),
        ("flags: {}\nFlags: 3", False),
        ("flags: {}\nFlags: {FailOnInitError: 3}", False),
        ("flags: {}\nFlags: {failOnInitError: true}", True),
    ],
)
def test_d06_of_a_field_in_two_cases_both_must_have_its_type(second: str, loads: bool, tmp_path: Path) -> None:  # noqa: FBT001
    checked = check_text(tmp_path, plugin(second))
    assert "overridden" in {finding.severity for finding in checked.findings}
    assert ("crash" not in {finding.severity for finding in checked.findings}) is loads


def test_d07_custom_resources_are_ignored(tmp_path: Path) -> None:
    checked = check_text(tmp_path, plugin("resources: {gpus: [{pattern: A100, name: big}]}"))
    assert "Customizing the 'resources' field" in found(checked, "ignored", "resources").really


@pytest.mark.parametrize("replicas", ["1", "0", "-3", "null"])
def test_d08_fewer_than_two_replicas_are_a_crash(replicas: str, tmp_path: Path) -> None:
    checked = check_text(tmp_path, sliced(f"{GPU}, replicas: {replicas}"))
    assert "number of replicas must be >= 2" in found(checked, "crash", f"{ENTRY}.replicas").really


@pytest.mark.parametrize(("replicas", "severity"), [(49, "crash"), (48, "unknown"), (17, "unknown")])
def test_d08_mps_replicas_have_an_upper_bound_that_depends_on_the_card(replicas: int, severity: str, tmp_path: Path) -> None:
    checked = check_text(tmp_path, sliced(f"{GPU}, replicas: {replicas}", kind="mps"))
    assert found(checked, severity, f"{MPS_ENTRY}.replicas").allowed == "at most 48; 16 below compute capability 7.5"


def test_d08_sixteen_mps_replicas_and_a_hundred_slices_are_fine(tmp_path: Path) -> None:
    assert check_text(tmp_path, sliced(f"{GPU}, replicas: 16", kind="mps")).findings == ()
    assert check_text(tmp_path, sliced(f"{GPU}, replicas: 100")).findings == ()


def test_d09_mps_beats_time_slicing(tmp_path: Path) -> None:
    block = "{resources: [{name: nvidia.com/gpu, replicas: 4}]}"
    checked = check_text(tmp_path, plugin(f"sharing: {{timeSlicing: {block}, mps: {block}}}"))
    assert "MPS wins" in found(checked, "overridden", "sharing.timeSlicing").really


def test_d10_mps_under_the_mixed_strategy_is_a_crash(tmp_path: Path) -> None:
    text = sliced(f"{GPU}, replicas: 4", kind="mps", before="flags: {migStrategy: mixed}\n")
    assert "not supported with MPS" in found(check_text(tmp_path, text), "crash", "sharing.mps").really


def test_d10_the_strategy_of_the_chart_decides_where_it_is_known(tmp_path: Path) -> None:
    config = "version: v1, sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
    text = values(f"create: true, name: x, default: a, data: {{a: '{{{config}}}'}}", more="mig: {strategy: mixed}\n")
    assert found(check_text(tmp_path, text), "crash", "devicePlugin.config.data.a.sharing.mps")


def test_d10_mps_under_single_depends_on_the_nodes(tmp_path: Path) -> None:
    text = sliced(f"{GPU}, replicas: 4", kind="mps", before="flags: {migStrategy: single}\n")
    assert "MIG devices" in found(check_text(tmp_path, text), "unknown", "sharing.mps").really


def test_d11_an_explicit_false_under_mps_means_something_else_by_version(tmp_path: Path) -> None:
    body = "sharing: {mps: {failRequestsGreaterThanOne: false, resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
    path = "sharing.mps.failRequestsGreaterThanOne"
    finding = found(check_text(tmp_path, plugin(body)), "changed", path)
    assert finding.versions == ("0.15", "0.16", "0.17", "0.18", "0.19")
    assert found(check_text(tmp_path, plugin(body), "0.19"), "overridden", path).versions == ("0.19",)
    assert check_text(tmp_path, plugin(body), "0.20").findings == ()


UNEVEN = "'{version: v1, mig-configs: {%s, two: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 1, 2g.20gb: 2}}]}}'"


@pytest.mark.parametrize(("strategy", "severities"), [("single", ["crash"]), ("mixed", []), ("none", ["ignored"])])
def test_d12_single_on_an_uneven_layout_is_a_crash(strategy: str, severities: list[str], tmp_path: Path) -> None:
    inline = f"create: true, name: x, data: {{config.yaml: {UNEVEN % DISABLED}}}"
    checked = check_text(tmp_path, values(mig_config=inline, more=f"mig: {{strategy: {strategy}}}\n"))
    assert [finding.severity for finding in checked.findings] == severities
    assert all(finding.path.endswith("mig-configs.two") for finding in checked.findings)


@pytest.mark.parametrize(
    ("entry", "path", "error"),
    [
        ("{devices: all, mig-enabled: true}", MINE, "missing required field 'mig-devices' when 'mig-enabled' is true"),
        ("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 7}}", f"{MINE}.mig-devices", "MIG devices included"),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}",
            f"{MINE}.mig-devices",
            "all counts for all MigProfiles are 0",
        ),
        ("{devices: all, mig-enabled: false, typo: 1}", f"{MINE}.typo", "unexpected field: typo"),
        ("{mig-enabled: false}", MINE, "missing required field: devices"),
        ("{devices: some, mig-enabled: false}", f"{MINE}.devices", "invalid string input"),
        ('{devices: ["0"], mig-enabled: false}', f"{MINE}.devices", "cannot unmarshal"),
        ("{devices: all, mig-enabled: true, mig-devices: {１g.5gb: 7}}", f'{MINE}.mig-devices["１g.5gb"]', "invalid format"),  # noqa: RUF001
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.9999999999999999999gb: 7}}",
            f'{MINE}.mig-devices["1g.9999999999999999999gb"]',
            "invalid format",
        ),
    ],
)
def test_d13_a_malformed_mig_parted_file_is_a_crash(entry: str, path: str, error: str, tmp_path: Path) -> None:
    assert error in found(check_text(tmp_path, mig(entry)), "crash", path).really


def test_d13_a_missing_version_is_a_crash(tmp_path: Path) -> None:
    text = mig("{devices: all, mig-enabled: false}").replace("version: v1\n", "")
    assert "missing 'version' field" in found(check_text(tmp_path, text), "crash", "(the whole file)").really


def test_d13_gpus_that_no_entry_names_are_pointed_out(tmp_path: Path) -> None:
    checked = check_text(tmp_path, mig("{devices: [0, 1], mig-enabled: true, mig-devices: {1g.10gb: 7}}"))
    assert "only GPUs 0, 1 are named" in found(checked, "unknown", "mig-configs.mine").message


def test_d13_overlapping_entries_override_each_other(tmp_path: Path) -> None:
    entries = f"{{devices: all, {HALVES}}}, {{devices: [1], {SLICES}}}"
    assert found(check_text(tmp_path, mig(entries)), "overridden", "mig-configs.mine[1].devices")


@pytest.mark.parametrize("device_filter", FILTERS)
@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        (f"devices: all, {OFF}", f"devices: [0], {SLICES}", "MIG mode is currently enabled, but the configuration specifies"),
        (f"devices: all, {SLICES}", f"devices: [1], {OFF}", "unable to apply MIG config with MIG mode disabled"),
        (f"devices: [0, 1], {SLICES}", f"devices: [1], {OFF}", "unable to apply MIG config with MIG mode disabled"),
    ],
)
def test_d20_entries_of_one_gpu_that_differ_in_mode_end_mig_parted_in_either_order(
    first: str, second: str, error: str, device_filter: str, tmp_path: Path
) -> None:
    checked = check_text(tmp_path, mig(f"{{{device_filter}{first}}}, {{{device_filter}{second}}}"))
    assert error in found(checked, "crash", "mig-configs.mine[1].mig-enabled").really
    assert [finding for finding in checked.findings if finding.severity == "overridden"] == []


def test_d20_entries_of_different_gpus_may_differ_in_mode(tmp_path: Path) -> None:
    entries = f"{{devices: [0], {OFF}}}, {{devices: [1], {SLICES}}}, {{device-filter: '0x232110DE', devices: [2], {OFF}}}"
    assert not [finding for finding in check_text(tmp_path, mig(entries)).findings if finding.severity == "crash"]


def test_d13_gpus_that_no_filter_names_are_pointed_out(tmp_path: Path) -> None:
    both = f'{{device-filter: "0x20B210DE", devices: all, {SLICES}}}, {{device-filter: ["0x232110DE"], devices: all, {OFF}}}'
    finding = found(check_text(tmp_path, mig(both)), "unknown", "mig-configs.mine")
    assert "assert then fails" in finding.really
    rest = f"{both}, {{devices: [0], {OFF}}}"
    messages = [one.message for one in check_text(tmp_path, mig(rest)).findings if one.path == "mig-configs.mine"]
    assert messages == ["only GPUs 0 are named"]
    assert not check_text(tmp_path, mig(f"{{devices: all, {SLICES}}}")).findings


def test_d13_indexes_of_a_filter_are_as_incomplete_as_those_of_all_gpus(tmp_path: Path) -> None:
    text = mig(f'{{device-filter: "0x20B210DE", devices: [0, 1], {SLICES}}}')
    messages = {finding.message for finding in check_text(tmp_path, text).findings}
    assert messages == {"only GPUs 0, 1 of 0x20B210DE are named", "every entry has a device-filter"}


@pytest.mark.parametrize("device_filter", FILTERS)
@pytest.mark.parametrize(
    ("entries", "uneven"),
    [
        ((("devices: [0]", SLICES), ("devices: [1]", HALVES)), True),
        ((("devices: [0]", SLICES), ("devices: [1]", OFF)), True),
        ((("devices: [0]", SLICES), ("devices: [1]", SLICES)), False),
        # The later entry names all GPUs of the earlier one again.
        ((("devices: [0]", HALVES), ("devices: all", SLICES)), False),
    ],
)
def test_d12_single_on_gpus_of_one_node_that_differ_is_a_crash_with_a_filter_too(
    entries: tuple[tuple[str, str], ...],
    uneven: bool,  # noqa: FBT001
    device_filter: str,
    tmp_path: Path,
) -> None:
    text = ", ".join(f"{{{device_filter}{which}, {layout}}}" for which, layout in entries)
    inline = f"create: true, name: x, data: {{config.yaml: '{{version: v1, mig-configs: {{{DISABLED}, two: [{text}]}}}}'}}"
    checked = check_text(tmp_path, values(mig_config=inline, more="mig: {strategy: single}\n"))
    crashes = [finding.message for finding in checked.findings if finding.severity == "crash"]
    assert crashes == (["not the same single profile on every GPU, and mig.strategy is single"] if uneven else [])


@pytest.mark.parametrize("device_filter", FILTERS)
def test_d12_none_ignores_layouts_with_a_filter_too(device_filter: str, tmp_path: Path) -> None:
    text = f"{{version: v1, mig-configs: {{{DISABLED}, two: [{{{device_filter}devices: all, {SLICES}}}]}}}}"
    inline = f"create: true, name: x, data: {{config.yaml: '{text}'}}"
    checked = check_text(tmp_path, values(mig_config=inline, more="mig: {strategy: none}\n"))
    assert "mig.strategy is none" in next(f.message for f in checked.findings if f.severity == "ignored")


@pytest.mark.parametrize("name", ["two halves", "all-1g.24gb+gfx", "-x", "x.", "x" * 64])
def test_d21_a_name_that_is_no_label_value_cannot_be_chosen(name: str, tmp_path: Path) -> None:
    text = f'version: v1\nmig-configs: {{"{name}": [{{devices: all, {OFF}}}]}}\n'
    (finding,) = check_text(tmp_path, text).findings
    assert (finding.severity, "Kubernetes refuses the label nvidia.com/mig.config" in finding.really) == ("ignored", True)
    assert not check_text(tmp_path, f"version: v1\nmig-configs: {{{'x' * 63}: [{{devices: all, {OFF}}}]}}\n").findings


@pytest.mark.parametrize(
    ("name", "severity"), [("two halves", "crash"), ("a+b", "crash"), ("..", "crash"), ("-x", "ignored"), ("x" * 64, "ignored")]
)
@pytest.mark.parametrize("shape", ["map", "operator", "chart"])
def test_d21_nor_can_such_a_key_of_device_plugin_configs(shape: str, name: str, severity: str, tmp_path: Path) -> None:
    configs = f'{{"{name}": "version: v1", fine: "version: v1"}}'
    text = {
        "map": f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x, namespace: gpu-operator}}\ndata: {configs}\n",
        "operator": values(f"create: true, name: x, default: fine, data: {configs}"),
        "chart": f"config: {{default: fine, map: {configs}}}\n",
    }[shape]
    assert [finding.severity for finding in check_text(tmp_path, text).findings] == [severity]


def test_d21_the_default_needs_no_label(tmp_path: Path) -> None:
    text = values('create: true, name: x, default: "-x", data: {"-x": "version: v1"}')
    assert not check_text(tmp_path, text).findings


def test_d13_entries_for_different_cards_do_not_overlap() -> None:
    checked = check_file(str(DATA / "mig-parted-a100-h100.yaml"))
    assert [finding for finding in checked.findings if finding.severity == "overridden"] == []


def test_d14_and_d16_a_config_map_without_the_config_that_new_nodes_are_labelled_with_is_a_crash(tmp_path: Path) -> None:
    text = config_map("mine", config__yaml=mig("{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}"))
    finding = found(check_text(tmp_path, text), "crash", 'data["config.yaml"].mig-configs')
    assert "selected mig-config not present" in finding.really
    policy = 'apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nspec: {migManager: {config: {name: mine, default: ""}}}\n'
    assert check_text(tmp_path, text + "---\n" + policy).findings == ()


def test_d15_a_profile_that_no_model_has_makes_no_mig_device_and_says_success(tmp_path: Path) -> None:
    checked = check_text(tmp_path, mig("{devices: all, mig-enabled: true, mig-devices: {1g.11gb: 7}}"))
    finding = found(checked, "ignored", f'{MINE}.mig-devices["1g.11gb"]')
    assert "applied successfully" in finding.really
    assert "1g.10gb (a100-40gb, a100-80gb" in finding.remedy


def test_d15_profiles_of_different_models_are_told_with_their_models(tmp_path: Path) -> None:
    checked = check_text(tmp_path, mig("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 1, 3g.40gb: 1}}"))
    message = found(checked, "ignored", f"{MINE}.mig-devices").message
    assert "1g.5gb on a100-40gb" in message
    assert "3g.40gb on a100-80gb" in message


def test_d15_a_filter_decides_for_which_model_a_profile_is_looked_up(tmp_path: Path) -> None:
    entry = '{device-filter: "0x20B210DE", devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}'
    finding = found(check_text(tmp_path, mig(entry)), "ignored", f"{MINE}.mig-devices")
    assert "a100-80gb, which the filter names, has no profile 1g.5gb" in finding.message


def test_d16_the_operators_own_config_map_is_written_back(tmp_path: Path) -> None:
    text = config_map("default-mig-parted-config", config__yaml=f"version: v1\nmig-configs: {{{DISABLED}}}\n")
    assert found(check_text(tmp_path, text), "overridden", "metadata.name")


def test_d16_mig_manager_reads_only_the_key_config_yaml(tmp_path: Path) -> None:
    text = config_map("mine", mig__yaml=f"version: v1\nmig-configs: {{{DISABLED}}}\n")
    assert found(check_text(tmp_path, text), "crash", "data")


def test_d16_the_default_of_the_mig_manager_has_two_values_only(tmp_path: Path) -> None:
    checked = check_text(tmp_path, values(mig_config="name: mine, default: all-1g.10gb"))
    assert found(checked, "crash", "migManager.config.default").allowed == 'all-disabled, or ""'


# --- layouts ----------------------------------------------------------------------------------------------------------------


def test_a_layout_that_fits_no_model_is_a_crash_that_leaves_a_gpu_empty(tmp_path: Path) -> None:
    finding = found(
        check_text(tmp_path, mig("{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 3}}")), "crash", f"{MINE}.mig-devices"
    )
    assert "exits 1" in finding.really
    assert "a100-80gb" in finding.message


def test_a_filter_that_matches_no_card_is_ignored(tmp_path: Path) -> None:
    entry = '{device-filter: "0x20B21002", devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}'
    assert found(check_text(tmp_path, mig(entry)), "ignored", f"{MINE}.device-filter")


def test_a_filter_for_an_unknown_card_cannot_be_checked(tmp_path: Path) -> None:
    entry = '{device-filter: "0xFFFF10DE", devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}'
    assert "0xFFFF" in found(check_text(tmp_path, mig(entry)), "unknown", f"{MINE}.device-filter").message


@pytest.mark.parametrize("device", ["0x20B1", "0x20F3", "0x2322", "0x2348", "0x233A", "0x233D"])
def test_a_filter_for_a_card_without_a_known_product_name_is_checked_all_the_same(device: str, tmp_path: Path) -> None:
    entry = f'{{device-filter: "{device}10DE", devices: all, mig-enabled: true, mig-devices: {{1g.6gb: 4}}}}'
    assert "has no profile 1g.6gb" in found(check_text(tmp_path, mig(entry)), "ignored", f"{MINE}.mig-devices").message


@pytest.mark.parametrize(("name", "other"), [("3g.95gb", "3g.93gb"), ("4g.95gb", "4g.93gb"), ("7g.186gb", "7g.189gb")])
def test_a_profile_that_goes_by_two_names_cannot_be_checked(name: str, other: str, tmp_path: Path) -> None:
    finding = found(
        check_text(tmp_path, mig(f"{{devices: all, mig-enabled: true, mig-devices: {{{name}: 1}}}}")),
        "unknown",
        f'{MINE}.mig-devices["{name}"]',
    )
    assert f"{name} is called {other} by other drivers or on other GPUs of gb200-186gb" in finding.message


def test_a_name_that_another_model_surely_has_is_not_doubted(tmp_path: Path) -> None:
    assert not check_text(tmp_path, mig("{devices: all, mig-enabled: true, mig-devices: {1g.23gb: 7}}")).findings


def test_two_names_of_one_profile_fit_on_no_card(tmp_path: Path) -> None:
    checked = check_text(tmp_path, mig("{devices: all, mig-enabled: true, mig-devices: {3g.95gb: 1, 3g.93gb: 1}}"))
    assert found(checked, "crash", f"{MINE}.mig-devices")


@pytest.mark.parametrize("device_filter", ["", 'device-filter: "0x2C3110DE", '])
def test_a_layout_for_a_model_of_unknown_geometry_cannot_be_checked(device_filter: str, tmp_path: Path) -> None:
    checked = check_text(tmp_path, mig(f"{{{device_filter}devices: all, mig-enabled: true, mig-devices: {{2g.32gb: 1}}}}"))
    finding = found(checked, "unknown", f"{MINE}.mig-devices")
    assert "geometry of rtx-pro-4500-blackwell" in finding.message


def test_every_profile_that_a_model_has_is_known(tmp_path: Path) -> None:
    """As in mig-parted's own default file: a config for each profile of each GPU, and all names in use."""
    names = dict.fromkeys(name for key in model_keys() for name in (*(model(key).profiles or ()), *model(key).other_names))
    configs = "".join(
        f"  all-{name.replace('+', '.')}: [{{devices: all, mig-enabled: true, mig-devices: {{{name}: 1}}}}]\n" for name in names
    )
    checked = check_text(tmp_path, f"version: v1\nmig-configs:\n{configs}", mig_parted=(0, 15, 0))
    assert {finding.severity for finding in checked.findings} == {"unknown"}
    assert sorted(finding.path.split('"')[1].removeprefix("all-") for finding in checked.findings) == [
        "3g.93gb",
        "3g.95gb",
        "4g.93gb",
        "4g.95gb",
        "7g.186gb",
        "7g.189gb",
    ]


def test_mig_on_without_a_device_depends_on_the_strategy(tmp_path: Path) -> None:
    assert found(check_text(tmp_path, mig("{devices: all, mig-enabled: true, mig-devices: {}}")), "unknown", MINE)


VARIANTS = [("1g.24gb+me.all", "crash"), ("1g.24gb-me", "crash"), ("1g.24gb+gfx", "ignored")]


@pytest.mark.parametrize(("profile", "severity"), VARIANTS)
def test_variants_mean_something_else_to_an_old_mig_parted(profile: str, severity: str, tmp_path: Path) -> None:
    text = mig(f"{{devices: all, mig-enabled: true, mig-devices: {{{profile}: 1}}}}")
    path = f'{MINE}.mig-devices["{profile}"]'
    assert "came with mig-parted 0.12.3" in found(check_text(tmp_path, text), "changed", path).message
    for old in ((0, 10, 0), (0, 12, 2)):
        finding = found(check_text(tmp_path, text, mig_parted=old), severity, path)
        assert ("invalid format" if severity == "crash" else "applied successfully") in finding.really
        assert "gpu-operator v25.3.4 brings v0.12.3, gpu-operator v24.9.2 brings v0.10.0" in finding.remedy
    for new in ((0, 12, 3), (0, 15, 0)):
        assert not check_text(tmp_path, text, mig_parted=new).findings


def test_a_subsystem_in_a_filter_is_new(tmp_path: Path) -> None:
    entry = '{device-filter: "0x20B210DE:0x146310DE", devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}'
    assert found(check_text(tmp_path, mig(entry)), "changed", f"{MINE}.device-filter")
    assert found(check_text(tmp_path, mig(entry), mig_parted=(0, 14, 5)), "ignored", f"{MINE}.device-filter")
    (other,) = check_text(tmp_path, mig(entry), mig_parted=(0, 15, 0)).findings
    assert other.message == "every entry has a device-filter"


def test_versions_that_the_file_itself_names_are_the_ones_that_are_asked_about(tmp_path: Path) -> None:
    text = mig("{devices: all, mig-enabled: true, mig-devices: {1g.24gb-me: 4}}")
    more = "---\nmigManager: {version: v0.10.0-ubuntu20.04}\ndevicePlugin: {version: v0.17.4-ubi8}\n"
    checked = check_text(tmp_path, text + more)
    assert (checked.versions, checked.mig_parted) == (("0.17",), "0.10.0")
    assert found(checked, "crash", f'[0].{MINE}.mig-devices["1g.24gb-me"]')
    asked = check_text(tmp_path, text + more, "0.20", (0, 15, 0))
    assert (asked.versions, asked.mig_parted, asked.findings) == (("0.20",), "0.15.0", ())


@pytest.mark.parametrize("version", ["v0.14.5", "latest"])
def test_a_version_that_is_not_known_here_is_said(version: str, tmp_path: Path) -> None:
    text = f"devicePlugin: {{version: {version}}}\n"
    checked = check_text(tmp_path, text)
    assert version in found(checked, "unknown", "devicePlugin.version").message
    assert len(checked.versions) > 1
    policy = f"apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nspec: {{{text.strip()}}}\n"
    assert found(check_text(tmp_path, policy), "unknown", "spec.devicePlugin.version")
    assert not check_text(tmp_path, text, "0.20").findings


@pytest.mark.parametrize("profile", ["1g.10gb.me", "1g.24gb-me", "1g.24gb.gfx", "2g.48gb.me.all"])
def test_before_0_20_no_resource_is_called_after_a_variant(profile: str, tmp_path: Path) -> None:
    text = sliced(f"name: nvidia.com/mig-{profile}, replicas: 2", before="flags: {gfd: {sleepInterval: 60s}}\n")
    finding = found(check_text(tmp_path, text), "ignored", f"{ENTRY}.name")
    assert finding.versions == ("0.15", "0.16", "0.17", "0.18", "0.19")
    assert f"as nvidia.com/mig-{profile[:7]}, with the plain ones" in finding.really
    assert not check_text(tmp_path, text, "0.20").findings


def test_compute_instances_are_advertised_as_whole_ones_or_not_at_all(tmp_path: Path) -> None:
    checked = check_text(tmp_path, mig("{devices: all, mig-enabled: true, mig-devices: {1c.3g.40gb: 2}}"))
    assert found(checked, "changed", f'{MINE}.mig-devices["1c.3g.40gb"]').remedy == "Use 3g.40gb."


# --- the device plugin's config, further ------------------------------------------------------------------------------------


def test_the_environment_of_the_operator_wins_over_the_file(tmp_path: Path) -> None:
    text = plugin("flags: {migStrategy: none, failOnInitError: true, plugin: {passDeviceSpecs: false}}")
    checked = check_text(tmp_path, text)
    assert "MIG_STRATEGY" in found(checked, "overridden", "flags.migStrategy").really
    assert "PASS_DEVICE_SPECS" in found(checked, "overridden", "flags.plugin.passDeviceSpecs").really
    assert len(checked.findings) == 2


@pytest.mark.parametrize(("strategy", "findings"), [('""', 0), ("single", 1), ("none", 0)])
def test_a_strategy_in_the_file_holds_where_the_policy_leaves_it_open(strategy: str, findings: int, tmp_path: Path) -> None:
    policy = f"apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nspec: {{mig: {{strategy: {strategy}}}}}\n"
    text = config_map("x", a="version: v1\nflags: {migStrategy: none}\n") + "---\n" + policy
    assert len(check_text(tmp_path, text).findings) == findings


@pytest.mark.parametrize(("file", "severity"), [("single", "unknown"), ("none", "overridden")])
def test_whether_single_is_overridden_by_mixed_is_seen_on_nodes_with_mig_only(file: str, severity: str, tmp_path: Path) -> None:
    policy = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nspec: {mig: {strategy: mixed}}\n"
    text = config_map("x", a=f"version: v1\nflags: {{migStrategy: {file}}}\n") + "---\n" + policy
    assert [finding.severity for finding in check_text(tmp_path, text).findings] == [severity]


@pytest.mark.parametrize(("chart", "severities"), [("", []), ("migStrategy: single\n", ["overridden"])])
def test_the_plugins_own_chart_decides_the_strategy_where_it_gives_one(chart: str, severities: list[str], tmp_path: Path) -> None:
    text = chart + 'config: {map: {a: "flags: {migStrategy: none}"}}\n'
    assert [finding.severity for finding in check_text(tmp_path, text).findings] == severities


@pytest.mark.parametrize(
    ("body", "path", "since"),
    [
        ("imex: {channelIDs: [0]}", "imex", "0.17"),
        ("flags: {gdrcopyEnabled: false, gdsEnabled: false, mofedEnabled: false}", "flags.gdrcopyEnabled", "0.18"),
        ("flags: {plugin: {sharedDevicesAllocationPolicy: packed}}", "flags.plugin.sharedDevicesAllocationPolicy", "0.20"),
        ("flags: {deviceDiscoveryStrategy: nvml}", "flags.deviceDiscoveryStrategy", "0.16"),
    ],
)
def test_a_field_is_ignored_by_versions_before_it(body: str, path: str, since: str, tmp_path: Path) -> None:
    finding = found(check_text(tmp_path, plugin(body)), "ignored", path)
    assert since not in finding.versions
    assert check_text(tmp_path, plugin(body), since).findings == ()


def test_infinite_is_a_crash_before_it_was_known(tmp_path: Path) -> None:
    text = plugin("flags: {gfd: {sleepInterval: infinite}}")
    assert found(check_text(tmp_path, text, "0.18"), "crash", "flags.gfd.sleepInterval")
    assert check_text(tmp_path, text, "0.19").findings == ()


def test_defaults_that_one_version_changed_are_pointed_out(tmp_path: Path) -> None:
    finding = found(check_text(tmp_path, plugin("flags: {gdsEnabled: false}")), "changed", "flags")
    assert finding.versions == ("0.19",)
    assert "gdrcopyEnabled and mofedEnabled" in finding.message


@pytest.mark.parametrize(
    ("name", "before", "why"),
    [
        ("nvidia.com/gpu.shared", "", "no GPU is advertised"),
        ("nvidia.com/mig-1g.11gb", "", "no GPU model"),
        ("nvidia.com/mig-1g.10gb", "flags: {migStrategy: single}\n", "under MIG strategy single"),
    ],
)
def test_a_resource_that_no_node_has_is_skipped(name: str, before: str, why: str, tmp_path: Path) -> None:
    checked = check_text(tmp_path, sliced(f"name: {name}, replicas: 2", before=before))
    assert why in found(checked, "ignored", f"{ENTRY}.name").really


def test_a_resource_given_twice_has_the_larger_number(tmp_path: Path) -> None:
    text = plugin("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}, {name: nvidia.com/gpu, replicas: 3}]}}")
    assert "larger" in found(check_text(tmp_path, text), "overridden", "sharing.timeSlicing.resources[1]").really


def test_a_key_given_twice_is_overridden_and_found_on_its_line(tmp_path: Path) -> None:
    text = config_map("x", a="version: v1\nflags:\n  failOnInitError: false\n  failOnInitError: true\n")
    finding = found(check_text(tmp_path, text), "overridden", "data.a.flags.failOnInitError")
    assert text.splitlines()[finding.line - 1 if finding.line else 0] == "      failOnInitError: true"


@pytest.mark.parametrize(("body", "loads"), DECODED)
def test_what_the_real_decoder_refuses_is_a_crash_and_nothing_else(body: str, loads: bool, tmp_path: Path) -> None:  # noqa: FBT001
    checked = check_text(tmp_path, plugin(body), "0.19")
    assert loads == all(finding.severity != "crash" for finding in checked.findings)


def test_a_flag_in_the_wrong_place_is_emptied(tmp_path: Path) -> None:
    checked = check_text(tmp_path, plugin("flags: {plugin: {migStrategy: single}, gfd: {failOnInitError: true}}"))
    assert "strategy: " in found(checked, "crash", "flags.plugin.migStrategy").really
    assert "failOnInitError is then false" in found(checked, "overridden", "flags.gfd.failOnInitError").really
    assert len(checked.findings) == 2


@pytest.mark.parametrize(
    ("strategy", "found_as"), [("single", ["ignored"]), ('""', ["crash"])], ids=["set by the policy", "left to the file"]
)
def test_an_emptied_strategy_does_no_harm_where_the_environment_gives_one(
    strategy: str, found_as: list[str], tmp_path: Path
) -> None:
    policy = f"apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nspec: {{mig: {{strategy: {strategy}}}}}\n"
    text = config_map("x", a="version: v1\nflags: {plugin: {migStrategy: none}}\n") + "---\n" + policy
    assert [finding.severity for finding in check_text(tmp_path, text).findings] == found_as


def test_a_required_channel_is_a_matter_of_the_nodes(tmp_path: Path) -> None:
    checked = check_text(tmp_path, plugin("imex: {channelIDs: [0], required: true}"), "0.19")
    assert "does not exist" in found(checked, "unknown", "imex.required").really


def test_what_only_feature_discovery_survives_is_said(tmp_path: Path) -> None:
    checked = check_text(tmp_path, plugin("flags: {plugin: {deviceIDStrategy: name}}"))
    assert "goes on labelling" in found(checked, "crash", "flags.plugin.deviceIDStrategy").really


def test_what_a_version_does_not_read_cannot_be_wrong_for_it(tmp_path: Path) -> None:
    text = plugin("imex: {channelIDs: [1]}")
    assert found(check_text(tmp_path, text), "crash", "imex.channelIDs").versions == ("0.17", "0.18", "0.19", "0.20")
    assert {finding.severity for finding in check_text(tmp_path, text, "0.16").findings} == {"ignored"}


# --- the operator's values ---------------------------------------------------------------------------------------------------


def test_a_value_that_the_chart_lacks_is_ignored(tmp_path: Path) -> None:
    assert found(check_text(tmp_path, "devicePlugin: {enabledd: true}\n"), "ignored", "devicePlugin.enabledd")


def test_an_inline_config_map_as_the_other_chart_takes_it_is_ignored(tmp_path: Path) -> None:
    checked = check_text(tmp_path, values("name: x, default: a, map: {a: b}"))
    assert found(checked, "ignored", "devicePlugin.config.map").allowed == "create, name, default, data"


def test_a_scalar_in_place_of_a_mapping_is_a_crash(tmp_path: Path) -> None:
    assert found(check_text(tmp_path, "devicePlugin: true\n"), "crash", "devicePlugin")


def test_a_strategy_that_does_not_exist_is_a_crash(tmp_path: Path) -> None:
    assert found(check_text(tmp_path, "mig: {strategy: both}\n"), "crash", "mig.strategy")


@pytest.mark.parametrize(
    "dotted",
    ["daemonsets.updateStrategy", "driver.kernelModuleType", "sandboxWorkloads.defaultWorkload", "sandboxWorkloads.mode"],
)
def test_a_value_that_kubernetes_refuses_is_a_crash(dotted: str, tmp_path: Path) -> None:
    section, key = dotted.split(".")
    assert found(check_text(tmp_path, f"{section}: {{{key}: other}}\ncdi: {{}}\n"), "crash", dotted)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("devicePlugin: {env: [{name: X, value: y}, {name: MIG_STRATEGY, value: none}]}", "devicePlugin.env[1]"),
        ("gfd: {env: [{name: MIG_STRATEGY, value: none}]}", "gfd.env[0]"),
        ("devicePlugin: {args: [--mig-strategy=none]}", "devicePlugin.args[0]"),
        ("devicePlugin: {args: [--mig-strategy, none]}", "devicePlugin.args[0]"),
    ],
)
def test_a_strategy_in_an_operands_own_list_wins_over_everything(text: str, path: str, tmp_path: Path) -> None:
    assert found(check_text(tmp_path, f"{text}\n"), "overridden", path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cdi: {nriPluginEnabled: true, enabled: false}", "cdi.nriPluginEnabled needs cdi.enabled (W42)"),
        ("cdi: {nriPluginEnabled: true}\ntoolkit: {enabled: false}", "cdi.nriPluginEnabled needs toolkit.enabled (W42)"),
        (
            "gpuCluster: {deployCR: true}\ndriver: {nvidiaDriverCRD: {enabled: true}}",
            "gpuCluster.deployCR excludes clusterPolicy.deployCR, which is true by default",
        ),
        (
            "gpuCluster: {deployCR: true}\nclusterPolicy: {deployCR: false}\ndriver: {}",
            "gpuCluster.deployCR needs driver.nvidiaDriverCRD.enabled, which is false by default",
        ),
    ],
)
def test_what_the_chart_itself_refuses_is_a_crash(text: str, message: str, tmp_path: Path) -> None:
    assert [each.message for each in check_text(tmp_path, f"{text}\n").findings if each.severity == "crash"] == [message]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("daemonsets: {rollingUpdate: {maxUnavailable: abc}}", "daemonsets.rollingUpdate.maxUnavailable"),
        ("daemonsets: {tolerations: [{key: nvidia.com/gpu, operator: Exist}]}", "daemonsets.tolerations[0]"),
        ("devicePlugin: {config: {name: my.map, default: x}}", "devicePlugin.config.name"),
        (
            "node-feature-discovery: {worker: {config: {core: {labelSources: [pci, local]}}}}",
            "node-feature-discovery.worker.config.core.labelSources",
        ),
    ],
)
def test_what_ends_the_operator_afterwards_is_a_crash(text: str, path: str, tmp_path: Path) -> None:
    assert "(W4" in found(check_text(tmp_path, f"mig: {{}}\n{text}\n"), "crash", path).really


def test_tolerations_replace_the_default_and_nfd_needs_them_too(tmp_path: Path) -> None:
    checked = check_text(tmp_path, "daemonsets: {tolerations: [{key: sku, operator: Exists}]}\n")
    assert "nvidia.com/gpu" in found(checked, "overridden", "daemonsets.tolerations").message
    assert "sku" in found(checked, "ignored", "daemonsets.tolerations").message


# --- files and the command line ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("dgx-plugin-config.yaml", ["device-plugin config"]),
        ("aks-time-slicing-map.yaml", ["ConfigMap of device-plugin configs", "ClusterPolicy of the GPU operator"]),
        ("research-cloud.yaml", ["ConfigMap of device-plugin configs", "ConfigMap of an nvidia-mig-parted config"]),
        ("mig-parted-a100-h100.yaml", ["nvidia-mig-parted config"]),
        ("operator-values.yaml", ["gpu-operator Helm values"]),
        ("standalone-chart-values.yaml", ["nvidia-device-plugin Helm values (only `config` is read)"]),
    ],
)
def test_it_says_what_a_file_is(name: str, kinds: list[str]) -> None:
    assert [kind for _, kind in check_file(str(DATA / name)).documents] == kinds


@pytest.mark.parametrize("name", FIXTURES)
def test_a_file_from_the_field_has_no_crash_beyond_the_expected(name: str) -> None:
    crashes = {finding.path for finding in check_file(str(DATA / name)).findings if finding.severity == "crash"}
    expected = {"research-cloud.yaml": {'items[1].data["config.yaml"].mig-configs'}}
    assert crashes == expected.get(name, set())


def test_every_finding_is_complete() -> None:
    for name in FIXTURES:
        for finding in check_file(str(DATA / name)).findings:
            assert finding.severity in SEVERITIES
            assert all((finding.path, finding.line, finding.message, finding.really, finding.allowed, finding.remedy))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("apiVersion: v1\nkind: List\nitems: []\n", "known here: nothing"),
        ("config:\n  gpu-pools:pools: []\n", "is a stack file"),
        ("conf:\n  gpu-pools:pools: []\n", "nothing that is known"),
        ("config:\n  of-gpu-pools: []\n", "nothing that is known"),
        ("a: [", "not YAML"),
        ("- 1\n", "nothing that is known"),
        ("apiVersion: apps/v1\nkind: Deployment\n", "Deployment"),
        ("apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n", "ConfigMap"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata:\nname: x\ndata:\nany: |-\nversion: v1\n", "whose `data` is empty"),
        ("&a [*a]\n", "nested too deep"),
        ("[" * 20_000, "not YAML"),
        ("x: !!python/name:os.system\n", "not YAML"),
        ("? {a: b}\n: c\n", "not YAML"),
    ],
)
def test_a_file_that_cannot_be_read_or_recognised_is_exit_2(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    assert main(["check", str(path)]) == 2
    assert message in capsys.readouterr().err
    assert main(["check", "--json", str(path)]) == 2
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert message in error["message"]


def test_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(UnreadableFileError, match="too large"):
        check_text(tmp_path, "\n".join(lines))


def test_a_missing_file_and_a_binary_one_are_exit_2(tmp_path: Path) -> None:
    binary = tmp_path / "x"
    binary.write_bytes(b"\xff\xfe\x00")
    assert [main(["check", str(path)]) for path in (tmp_path / "none", binary, tmp_path)] == [2, 2, 2]


def test_nothing_found_is_exit_0_and_findings_are_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(DATA / "dgx-plugin-config.yaml")]) == 0
    assert capsys.readouterr().out.endswith("(device plugin 0.15 to 0.20); no findings\n")
    assert main(["check", str(DATA / "research-cloud.yaml")]) == 1
    assert "3 findings\nunknown " in capsys.readouterr().out


@pytest.mark.parametrize("version", ["0.19", "v0.19", "0.19.3"])
def test_one_version_can_be_asked_about(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", "--device-plugin", version, str(DATA / "dgx-plugin-config.yaml")]) == 0
    assert json.loads(capsys.readouterr().out)["devicePluginVersions"] == ["0.19"]


def test_a_version_of_mig_parted_can_be_asked_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(mig("{devices: all, mig-enabled: true, mig-devices: {1g.24gb-me: 4}}"), encoding="utf-8")
    assert main(["check", "--mig-parted", "v0.10.0", "--json", str(path)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["migPartedVersion"] == "0.10.0"
    assert {finding["severity"] for finding in told["findings"]} == {"crash"}
    assert main(["check", "--mig-parted", "0.12.3", str(path)]) == 0
    assert "; mig-parted 0.12.3); no findings" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["check", "--mig-parted", "new", str(path)])
    assert caught.value.code == 2


def test_an_unknown_version_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check", "--device-plugin", "0.14", "x"])
    assert ended.value.code == 2
    assert "known are 0.15" in capsys.readouterr().err


def test_the_operators_list_of_gpu_clients_is_no_config(tmp_path: Path) -> None:
    """As ``kubectl get configmap -n gpu-operator -o yaml`` shows it beside the others."""
    clients = config_map("default-gpu-clients", clients__yaml="version: v1\nsystemd-services: []\n")
    checked = check_text(tmp_path, clients + "---\n" + config_map("mine", a=sliced("name: gpu, replicas: 2")))
    assert [kind for _, kind in checked.documents] == ["ConfigMap default-gpu-clients", "ConfigMap of device-plugin configs"]
    assert [finding.severity for finding in checked.findings] == ["unknown"]


def test_other_documents_of_a_file_are_said_to_be_unchecked(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Namespace\n---\n" + config_map("x", a="version: v1\n")
    assert "Namespace is not checked" in found(check_text(tmp_path, text), "unknown", "[0]").message


def test_a_text_that_is_not_yaml_is_a_crash_in_its_config_map(tmp_path: Path) -> None:
    text = config_map("x", a="version: v1\n", b="sharing: [\n")
    assert found(check_text(tmp_path, text), "crash", "data.b")


def test_a_mapping_in_place_of_a_text_is_refused_by_kubernetes(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: {version: v1}\n"
    assert "must be texts" in found(check_text(tmp_path, text), "crash", "data.a").really
