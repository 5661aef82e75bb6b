"""Which files `make test-rest` leaves to the nights, since a pipeline must not take longer than 40 minutes.

Each of these repeats, on another cloud, with another tool or in more steps, what a file that runs by day shows already. What a
file keeps by day are tests that begin so, with the parameter where it has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.tiers import at_night

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Night:
    """A file for the nights.

    Attributes:
        by_day: the file that shows the same kind of thing by day.
        keeps: parts of the names of tests that stay in `make test-rest`.
    """

    by_day: str
    keeps: tuple[str, ...] = ()


_ENGINE: Final = "tests/engine"
NIGHTS: Final = {
    f"{_ENGINE}/test_adopt_clusters.py": Night(f"{_ENGINE}/test_adopt_clusters.py", ("TestAks",)),
    f"{_ENGINE}/test_aks_options.py": Night(f"{_ENGINE}/test_aks_changes.py"),
    f"{_ENGINE}/test_aks_system_pool.py": Night("tests/sandbox/test_system_pool.py"),
    f"{_ENGINE}/test_bad_input.py": Night(f"{_ENGINE}/test_bad_input.py"),
    f"{_ENGINE}/test_dra.py": Night(
        f"{_ENGINE}/test_dra.py", ("announces", "as_many", "gives_its_devices_back", "back_to_the_device")
    ),
    f"{_ENGINE}/test_dra_rollout.py": Night(f"{_ENGINE}/test_dra_rollout.py", ("says_that", "to_claims", "moves_back")),
    f"{_ENGINE}/test_drift.py": Night(f"{_ENGINE}/test_drift.py", ("TestAks",)),
    f"{_ENGINE}/test_entra.py": Night("tests/sandbox/test_attacks_entra.py"),
    f"{_ENGINE}/test_environment.py": Night(f"{_ENGINE}/test_interruption.py"),
    f"{_ENGINE}/test_interruption.py": Night(f"{_ENGINE}/test_interruption.py"),
    f"{_ENGINE}/test_keys.py": Night(f"{_ENGINE}/test_keys.py", ("test_a_changed_declaration", "test_a_destroy_leaves_nothing")),
    f"{_ENGINE}/test_lifecycle.py": Night(f"{_ENGINE}/test_lifecycle.py", ("[aks-dev]",)),
    f"{_ENGINE}/test_magnum_addons.py": Night(f"{_ENGINE}/test_platforms.py"),
    f"{_ENGINE}/test_magnum_existing.py": Night(f"{_ENGINE}/test_aks_existing.py"),
    f"{_ENGINE}/test_magnum_options.py": Night(f"{_ENGINE}/test_platforms.py"),
    f"{_ENGINE}/test_magnum_scaling.py": Night(f"{_ENGINE}/test_platforms.py"),
    f"{_ENGINE}/test_observed.py": Night("tests/observing/test_rules.py"),
    f"{_ENGINE}/test_packages.py": Night(f"{_ENGINE}/test_packages.py"),
    f"{_ENGINE}/test_platforms.py": Night(f"{_ENGINE}/test_platforms.py", ("[magnum]",)),
    f"{_ENGINE}/test_real_node_mps.py": Night(f"{_ENGINE}/test_mps.py"),
    f"{_ENGINE}/test_reverts.py": Night(f"{_ENGINE}/test_interruption.py"),
    f"{_ENGINE}/test_rollout_aks.py": Night(f"{_ENGINE}/test_rollout.py"),
    f"{_ENGINE}/test_rollout_magnum.py": Night(f"{_ENGINE}/test_rollout.py"),
    f"{_ENGINE}/test_replacement_magnum.py": Night(f"{_ENGINE}/test_replacement_aks.py"),
    f"{_ENGINE}/test_replacement_magnum_existing.py": Night(f"{_ENGINE}/test_replacement_aks.py"),
    f"{_ENGINE}/test_upgrades.py": Night(f"{_ENGINE}/test_upgrades.py", ("test_one_release_after_the_other",)),
    "tests/sandbox/machines/test_mig_manager.py": Night(
        "tests/sandbox/machines/test_mig_manager.py",
        ("[v0.10.0", "pauses", "waits_for_the_pods", "uses_a_gpu", "a_layout_that_the_file_lacks"),
    ),
    "tests/sandbox/machines/test_dra_nodes.py": Night(f"{_ENGINE}/test_dra.py"),
    "tests/sandbox/real_node/test_dra_driver.py": Night(f"{_ENGINE}/test_dra.py"),
    "tests/sandbox/real_node/test_dra_kubelets.py": Night(f"{_ENGINE}/test_dra.py"),
    "tests/sandbox/test_private_registry.py": Night("tests/sandbox/test_registry.py"),
}


def leave_to_the_nights(items: list[pytest.Item]) -> None:
    """Mark the tests of these files that `make test` leaves out."""
    for item in items:
        night = NIGHTS.get(item.nodeid.split("::", 1)[0])
        if night and item.get_closest_marker("sweep") and not any(part in item.nodeid for part in night.keeps):
            item.add_marker(at_night(f"{night.by_day} shows it by day"))
