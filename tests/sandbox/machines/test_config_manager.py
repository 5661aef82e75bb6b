"""config-manager by rule: which key it links, whom it signals, how it ends. test_mps_daemon holds it to the real ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox.machines.config_manager import ConfigManager
from sandbox.machines.node_programs import ConfigRequest
from sandbox.machines.plugin_release import FIRST, HASTY, NEWEST, PluginRelease

FILES = {"exclusive": "version: v1", "ten": "ten", "four": "four"}
REQUEST = ConfigRequest(
    pod="uid", program="mps-control-daemon", release=NEWEST, host_pid=True,
    environment={"DEFAULT_CONFIG": "exclusive", "PROCESS_TO_SIGNAL": "/usr/bin/mps-control-daemon"},
    files=FILES, account={}, label="ten", init_restarts=0, sidecar_restarts=0, program_runs=True, read=None,
)  # fmt: skip
NAMED = replace(REQUEST, environment={**REQUEST.environment, "PROCESS_TO_SIGNAL": "mps-control-daemon"})


@pytest.mark.parametrize(("release", "text"), [(FIRST, "ten"), (HASTY, "version: v1"), (NEWEST, "version: v1")])
def test_the_first_choice_is_made_after_or_before_the_node_is_read(release: PluginRelease, text: str) -> None:
    assert ConfigManager(REQUEST).follow(replace(REQUEST, release=release)).text == text


@pytest.mark.parametrize(("release", "code"), [(HASTY, 2), (NEWEST, 1)])
def test_the_link_goes_to_and_fro_while_nobody_hears(release: PluginRelease, code: int) -> None:
    manager, seen = ConfigManager(REQUEST), []
    manager.follow(replace(REQUEST, release=release))
    for restarts in range(5):
        done = manager.follow(replace(REQUEST, release=release, sidecar_restarts=restarts))
        assert (done.sidecar_code, bool(done.sidecar_message), done.signals) == (code, True, 0)
        seen.append(done.text)
    assert seen == ["ten", "version: v1", "ten", "version: v1", "ten"]


def test_one_that_waits_for_the_node_ends_once_and_is_at_peace_with_a_program_that_was_not_told() -> None:
    request = replace(REQUEST, release=FIRST)
    manager = ConfigManager(request)
    manager.follow(request)
    assert manager.follow(request).sidecar_message == ""
    changed = replace(request, label="four")
    done = manager.follow(changed)
    assert (done.text, done.sidecar_code, done.signals) == ("four", 2, 0)
    again = manager.follow(replace(changed, sidecar_restarts=1))
    assert (again.text, again.sidecar_message, again.signals) == ("four", "", 0)


@pytest.mark.parametrize(
    ("request_", "signals"),
    [
        (NAMED, 1),
        (replace(NAMED, release=HASTY), 0),
        (replace(NAMED, release=HASTY, host_pid=False), 1),
        (replace(NAMED, program_runs=False), 0),
        (replace(REQUEST, host_pid=False), 0),
    ],
)
def test_a_signal_reaches_who_runs_under_that_name_and_is_found(request_: ConfigRequest, signals: int) -> None:
    manager = ConfigManager(request_)
    manager.follow(request_)
    assert manager.follow(request_).signals == signals


def test_a_start_of_a_sidecar_that_is_heard_signals_twice() -> None:
    """So MPS ends and begins twice, and its clients lose their work."""
    manager = ConfigManager(NAMED)
    manager.follow(NAMED)
    before = manager.follow(NAMED).signals
    assert manager.follow(replace(NAMED, sidecar_restarts=1)).signals == before + 2
