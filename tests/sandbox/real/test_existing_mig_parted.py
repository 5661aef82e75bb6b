"""What `gpus check` says of mig-parted files is what the real nvidia-mig-parted does with them, and the device plugin after it.

A `crash` must end it, in the words that the finding quotes, and leave no MIG device; what is `ignored` must be applied with
success and leave none, so that the assertion that mig-manager makes next fails. The rules of the check are those of v0.15.0, here
v0.10.0 runs: files on which these two differ are left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.sandbox.real.device_plugin import Plugin
from tests.sandbox.real.parted import Parted
from tests.unit.existing_files import check_text, mig

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpu_pools.existing.findings import Finding
    from sandbox.cluster.gpu_host import GpuHost

pytestmark = pytest.mark.programs

MINE: Final = "mig-configs.mine[0]"
ON: Final = "devices: all, mig-enabled: true"
#: Text -> where the crash is found.
CRASHES: Final = {
    mig("{devices: all, mig-enabled: true}"): MINE,
    mig("{devices: all, mig-enabled: false, mig-devices: {1g.10gb: 7}}"): f"{MINE}.mig-devices",
    mig(f"{{{ON}, mig-devices: {{1g.10gb: 0}}}}"): f"{MINE}.mig-devices",
    mig(f"{{{ON}, mig-devices: [1g.10gb]}}"): f"{MINE}.mig-devices",
    mig(f"{{{ON}, mig-devices: {{1g.10gb: '7'}}}}"): f'{MINE}.mig-devices["1g.10gb"]',
    mig(f"{{{ON}, mig-devices: {{1g.10gb: -1, 2g.20gb: 1}}}}"): f'{MINE}.mig-devices["1g.10gb"]',
    mig(f"{{{ON}, mig-devices: {{small: 7}}}}"): f"{MINE}.mig-devices.small",
    mig(f"{{{ON}, mig-devices: {{3g.40gb: 3}}}}"): f"{MINE}.mig-devices",
    mig("{devices: all, mig-enabled: false, typo: 1}"): f"{MINE}.typo",
    mig("{mig-enabled: false}"): MINE,
    mig("{devices: all}"): MINE,
    mig("{devices: some, mig-enabled: false}"): f"{MINE}.devices",
    mig('{devices: ["0"], mig-enabled: false}'): f"{MINE}.devices",
    mig("{devices: all, mig-enabled: 'false'}"): f"{MINE}.mig-enabled",
    mig("{devices: all, mig-enabled: false, device-filter: 5}"): f"{MINE}.device-filter",
    mig(""): "mig-configs.mine",
    mig("{devices: all, mig-enabled: false}").replace("v1", "v2"): "version",
    mig("{devices: all, mig-enabled: false}").replace("version: v1\n", ""): "(the whole file)",
    mig("{devices: all, mig-enabled: false}") + "typo: 1\n": "typo",
    "version: v1\nmig-configs: {}\n": "mig-configs",
}
#: Entries of one GPU that differ in its mode, in either order.
OTHER_MODES: Final = (
    mig("{devices: all, mig-enabled: false}, {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 4}}"),
    mig(f"{{{ON}, mig-devices: {{1g.10gb: 7}}}}, {{devices: [1], mig-enabled: false}}"),
)
#: Text -> where something without effect is found.
IGNORED: Final = {
    mig(f"{{{ON}, mig-devices: {{1g.11gb: 7}}}}"): f'{MINE}.mig-devices["1g.11gb"]',
    mig(f"{{{ON}, mig-devices: {{1g.5gb: 1, 4g.40gb: 1, 3g.40gb: 1}}}}"): f"{MINE}.mig-devices",
    mig(f"{{device-filter: '0x20B210DE', {ON}, mig-devices: {{1g.5gb: 7}}}}"): f"{MINE}.mig-devices",
    mig(f"{{device-filter: '0x20B21002', {ON}, mig-devices: {{1g.10gb: 7}}}}"): f"{MINE}.device-filter",
    mig("{devices: [], mig-enabled: true, mig-devices: {1g.10gb: 7}}"): f"{MINE}.devices",
    mig("{devices: [-1], mig-enabled: true, mig-devices: {1g.10gb: 7}}"): f"{MINE}.devices",
}
_SUCCESS: Final = "MIG configuration applied successfully"


@pytest.fixture
def parted(shared_host: GpuHost, mig_parted: Path) -> Parted:
    made = Parted(shared_host, mig_parted)
    made.boot("a100-80gb", 2)
    return made


def findings(folder: Path, text: str, severity: str) -> list[Finding]:
    return [one for one in check_text(folder, text).findings if one.severity == severity]


def empty(parted: Parted) -> bool:
    return not any(parted.layouts())


@pytest.mark.parametrize("text", CRASHES)
def test_what_is_called_a_crash_is_refused(text: str, parted: Parted, tmp_path: Path) -> None:
    (crash,) = findings(tmp_path, text, "crash")
    assert crash.path == CRASHES[text]
    applied = parted("apply", parted.put(text, "mine"))
    assert applied.returncode == 1
    assert empty(parted)
    quoted = re.search(r": `([^`]+)`$", crash.really)
    assert quoted is None or quoted[1] in applied.stderr


@pytest.mark.parametrize("text", OTHER_MODES)
def test_entries_of_one_gpu_that_differ_in_mode_end_it_half_way(text: str, parted: Parted, tmp_path: Path) -> None:
    (crash,) = findings(tmp_path, text, "crash")
    assert crash.path == "mig-configs.mine[1].mig-enabled"
    applied = parted("apply", parted.put(text, "mine"))
    assert applied.returncode == 1
    (error,) = re.findall(r"`([^`]+)`; mig.config", crash.really)
    assert error in applied.stderr
    assert parted("assert", "mine").returncode == 1


@pytest.mark.parametrize("text", IGNORED)
def test_what_is_called_ignored_is_applied_successfully_and_nothing_is_there(text: str, parted: Parted, tmp_path: Path) -> None:
    (ignored,) = findings(tmp_path, text, "ignored")
    assert ignored.path == IGNORED[text]
    assert findings(tmp_path, text, "crash") == []
    applied = parted("apply", parted.put(text, "mine"))
    assert (applied.returncode, applied.stdout.strip()) == (0, _SUCCESS), applied.stderr
    assert empty(parted)
    if "applied successfully" in ignored.really:
        assert parted("assert", "mine").returncode == 1


def test_of_two_entries_for_one_gpu_the_later_wins_also_with_the_assertion(parted: Parted, tmp_path: Path) -> None:
    text = mig(f"{{{ON}, mig-devices: {{1g.10gb: 7}}}}, {{devices: [1], mig-enabled: true, mig-devices: {{3g.40gb: 2}}}}")
    (overridden,) = findings(tmp_path, text, "overridden")
    assert overridden.path == "mig-configs.mine[1].devices"
    assert parted("apply", parted.put(text, "mine")).returncode == 0
    assert parted.layouts() == [{"1g.10gb": 7}, {"3g.40gb": 2}]
    assert parted("assert", "mine").returncode == 0


def test_gpus_that_no_filter_names_keep_their_layout_and_fail_the_assertion(parted: Parted, tmp_path: Path) -> None:
    text = mig(f"{{device-filter: '0x232110DE', {ON}, mig-devices: {{1g.24gb: 4}}}}")
    assert "every entry has a device-filter" in [one.message for one in findings(tmp_path, text, "unknown")]
    assert parted("apply", parted.put(text, "mine")).returncode == 0
    assert empty(parted)
    assert parted("assert", "mine").returncode == 1


def test_divided_instances_are_made_and_advertised_as_if_they_were_whole(
    parted: Parted, shared_host: GpuHost, plugins: Mapping[str, Path], tmp_path: Path
) -> None:
    text = mig(f"{{{ON}, mig-devices: {{1c.3g.40gb: 3}}}}")
    (changed,) = findings(tmp_path, text, "changed")
    assert changed.path == f'{MINE}.mig-devices["1c.3g.40gb"]'
    assert parted("apply", parted.put(text, "mine")).returncode == 0
    assert parted.layouts() == [{"3g.40gb": 1}] * 2
    for folder in plugins.values():
        plugin = Plugin(shared_host, folder / "nvidia-device-plugin")
        plugin.start("version: v1\nflags: {migStrategy: mixed}\n")
        assert plugin.served == {"nvidia.com/mig-3g.40gb"}
        assert len(plugin.devices("nvidia.com/mig-3g.40gb")) == 6
        plugin.stop()


#: Layouts of two GPUs that strategy single does not take, as mig-parted's file has them.
UNFIT_FOR_SINGLE: Final = (
    f"{{{ON}, mig-devices: {{1g.10gb: 2, 3g.40gb: 1}}}}",
    "{devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}, {devices: [1], mig-enabled: false}",
    "{devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}, {devices: [1], mig-enabled: true, mig-devices: {2g.20gb: 3}}",
    f"{{{ON}, mig-devices: {{}}}}",
)


@pytest.mark.parametrize("entries", UNFIT_FOR_SINGLE)
def test_a_layout_that_strategy_single_does_not_take_ends_the_plugin(
    entries: str, parted: Parted, shared_host: GpuHost, plugins: Mapping[str, Path], tmp_path: Path
) -> None:
    disabled = "all-disabled: [{devices: all, mig-enabled: false}]"
    inline = f"{{version: v1, mig-configs: {{{disabled}, mine: [{entries}]}}}}".replace("'", "''")
    values = f"mig: {{strategy: single}}\nmigManager: {{config: {{create: true, name: x, data: {{config.yaml: '{inline}'}}}}}}\n"
    (crash,) = findings(tmp_path, values, "crash")
    assert ".mine" in crash.path
    assert findings(tmp_path, values.replace("single", "mixed"), "crash") == []
    assert parted("apply", parted.put(mig(entries), "mine")).returncode == 0
    for folder in plugins.values():
        plugin = Plugin(shared_host, folder / "nvidia-device-plugin")
        plugin.start("version: v1\n", environment={"MIG_STRATEGY": "single"})
        assert plugin.status == 1, plugin.said
        plugin.start("version: v1\n", environment={"MIG_STRATEGY": "mixed"})
        assert plugin.status is None, plugin.said
        plugin.stop()
