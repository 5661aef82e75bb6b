from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandbox.machines.backoff import Backoff
from sandbox.machines.config_volumes import SYNC_SECONDS, ConfigVolumes, write_volume

if TYPE_CHECKING:
    from pathlib import Path

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u"},
    "spec": {
        "volumes": [
            {"name": "a", "configMap": {"name": "direct"}},
            {"name": "b", "projected": {"sources": [{"configMap": {"name": "projected"}}, {"serviceAccountToken": {}}]}},
            {"name": "c", "emptyDir": {}},
        ]
    },
}


def maps(**texts: str) -> dict[str, dict[str, Any]]:
    return {f"n/{name}": {"data": {"key": text}} for name, text in texts.items()}


def seen(volumes: ConfigVolumes) -> dict[str, str]:
    return {name: config_map["data"]["key"] for name, config_map in volumes.mounted.items()}


def test_a_pod_that_starts_sees_what_there_is() -> None:
    volumes = ConfigVolumes()
    assert volumes.follow(POD, maps(direct="1", projected="2", other="3"), 0) is None
    assert seen(volumes) == {"direct": "1", "projected": "2"}


def test_what_a_pod_waits_for_to_start_is_seen_as_soon_as_it_is_there() -> None:
    volumes = ConfigVolumes()
    volumes.follow(POD, maps(direct="1"), 0)
    assert volumes.follow(POD, maps(direct="1", projected="2"), 1) is None
    assert seen(volumes) == {"direct": "1", "projected": "2"}


def test_a_change_comes_with_the_next_sync() -> None:
    volumes = ConfigVolumes()
    volumes.follow(POD, maps(direct="1"), 0)
    due = volumes.follow(POD, maps(direct="2"), 100)
    assert due is not None
    assert SYNC_SECONDS <= due <= 1.5 * SYNC_SECONDS
    assert volumes.follow(POD, maps(direct="3"), 100 + due - 0.1) is not None
    assert seen(volumes) == {"direct": "1"}
    assert volumes.follow(POD, maps(direct="3"), 100 + due) is None
    assert seen(volumes) == {"direct": "3"}


def test_it_comes_at_once_when_the_pod_itself_changes_or_something_happens_to_it() -> None:
    volumes = ConfigVolumes()
    volumes.follow(POD, maps(direct="1"), 0)
    labelled = {**POD, "metadata": {**POD["metadata"], "labels": {"a": "b"}}}
    assert volumes.follow(labelled, maps(direct="2"), 1) is None
    assert seen(volumes) == {"direct": "2"}
    volumes.sync(labelled, maps(direct="3"))
    assert seen(volumes) == {"direct": "3"}


def test_another_status_of_the_pod_brings_nothing() -> None:
    volumes = ConfigVolumes()
    volumes.follow(POD, maps(direct="1"), 0)
    assert volumes.follow({**POD, "status": {"phase": "Running"}}, maps(direct="2"), 1) is not None
    assert seen(volumes) == {"direct": "1"}


def test_a_config_map_that_is_deleted_stays_mounted() -> None:
    volumes = ConfigVolumes()
    volumes.follow(POD, maps(direct="1"), 0)
    assert volumes.follow(POD, {}, 100) is None
    assert seen(volumes) == {"direct": "1"}


def test_a_volume_changes_as_a_whole_by_exchanging_a_link(tmp_path: Path) -> None:
    write_volume(tmp_path, {"a": "1", "b": "2"})
    held = (tmp_path / "a").resolve()
    write_volume(tmp_path, {"b": "3", "c": "4"})
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if not path.name.startswith("..")} == {"b": "3", "c": "4"}
    assert str((tmp_path / "b").readlink()) == "..data/b"
    assert not held.exists(), "what leads to a key that is gone leads nowhere"


def test_a_container_starts_again_at_once_and_then_after_waits_that_double() -> None:
    backoff, now, waits = Backoff(), 1000.0, []
    for _ in range(7):
        until = backoff.ended(now)
        waits.append(until - now)
        now = until
    assert waits == [0, 1, 2, 4, 8, 10, 10]
    assert backoff.ended(now + 60) == now + 60, "one that has run for long begins anew"
