"""The tables of fields (gpu_pools/reading/fields.py): the schema agrees with them, and what they say of clouds is what happens.

The latter is held against what the engine is asked for when a key changes (test_every_key.py has the changes), and against what
the plugins' stand-ins replace, which were read off the plugins.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.components.platform import GpuPlatform
from gpu_pools.platforms.aks.changes import refused_cluster_changes
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.options import AksClusterOptions
from gpu_pools.platforms.aks.placement import AksPlacement
from gpu_pools.platforms.known import rows_of
from gpu_pools.platforms.magnum.cluster import MagnumSettings
from gpu_pools.platforms.magnum.placement import MagnumPlacement
from gpu_pools.reading.fields import on
from gpu_pools.stack.pools import Pool
from gpu_pools.text.errors import InvalidStackError
from sandbox.providers import azure_native, openstack
from tests.tiers import one_of_each
from tools.generate import __main__ as command
from tools.generate import files
from tools.generate.arguments import POOL_CLASSES
from tools.generate.azure_types import azure_text
from tools.generate.schema import schema_text

from .test_every_key import AKS, CHANGES, MAGNUM, _changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpu_pools.reading.fields import Row

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]
    #: (type, name) -> inputs, properties whose change the component has the engine replace it for.
    Asked = dict[tuple[str, str], tuple[dict[str, Any], list[str]]]

TABLES: Final = {
    "aks": ((AksSettings, AksClusterOptions), (Pool, AksPlacement, *POOL_CLASSES)),
    "magnum": ((MagnumSettings,), (Pool, MagnumPlacement)),
}
AGAIN: Final = "write it anew: python -m tools.generate"


def test_the_schema_is_that_of_the_types() -> None:
    assert files.SCHEMA.read_text(encoding="utf-8") == schema_text(), AGAIN


def test_the_types_of_azure_native_are_those_of_the_installed_sdk() -> None:
    """What `properties:` and the stand-in's requests are held against."""
    assert files.AZURE_TYPES.read_text(encoding="utf-8") == azure_text(), AGAIN


def test_the_command_writes_every_file_as_it_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.schema, "schema_text", lambda: files.SCHEMA.read_text(encoding="utf-8"))  # compared above
    texts = dict(command._texts())
    named = {path for path in vars(files).values() if isinstance(path, Path) and path.is_file()}
    assert named <= texts.keys()
    assert {path for path in texts if path.parent == files.COMPONENT_PAGES} == {*files.COMPONENT_PAGES.glob("*.md")}
    assert {path.name for path, text in texts.items() if path.read_text(encoding="utf-8") != text} == set(), AGAIN


def _row(platform: str, place: str) -> Row | None:
    """The row of a place such as `cluster.systemPool.count`."""
    section, *keys = [step for step in place.split(".") if not step.isdecimal()]
    tables: tuple[type, ...] = TABLES[platform][section == "pools"] if section in {"cluster", "pools"} else ()
    found = None
    for key in keys:
        found = next((row for table in tables for row in rows_of(table) if row.key == key), None)
        if found is None:
            return None
        tables = () if isinstance(found.kind.type, str) else (found.kind.type,)
    return found


def _told() -> Iterator[tuple[str, Row, str, Any]]:
    for changes in CHANGES.values():
        for stack, place, value in changes:
            platform = stack["cluster"]["platform"]
            row = _row(platform, place) if platform in TABLES else None
            if row and on(row.sets, platform):
                yield platform, row, place, value


TOLD: Final = list(_told())


def _asked(run: Run, stack: Any) -> Asked:
    recorded = run(lambda: GpuPlatform("gpu", stack))
    inputs = {(resource.type, resource.name): resource.inputs for resource in recorded.resources}
    return {
        (request.type, request.name): (inputs[request.type, request.name], list(request.replaceOnChanges))
        for request in recorded.requests.values()
        if request.type.startswith(("azure-native:", "openstack:"))
    }


def _paths(value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Each value below, by its path without indexes."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, f"{above}.{key}" if above else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, above)
    yield above, value


def _differ(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    old, new = ({(path, repr(value)) for path, value in _paths(inputs)} for inputs in (before, after))
    return {path for path, _ in old ^ new if path}


def _forced(kind: str, changed: set[str], also: list[str]) -> bool:
    if changed and ("*" in also or changed & {*also}):
        return True
    if kind.startswith("azure-native:"):
        return bool(changed & {*azure_native._KINDS[kind].replaces})
    whole = {path: None for path in changed if "." not in path}
    return bool({*openstack._KINDS[kind].replaces(whole)} & changed)


def _without_verifier(stack: Any) -> Any:
    return {**stack, "verification": {"enabled": False}}


_BEFORE: Final[dict[str, Asked]] = {}


@pytest.mark.parametrize(
    ("platform", "row", "place", "value"),
    one_of_each(TOLD, lambda told: (told[0], on(told[1].change, told[0]))),
    ids=[f"{told[0]}-{told[2]}-{told[3]}" for told in TOLD],
)
def test_a_change_sets_what_the_table_says_and_does_what_it_says(
    run: Run, platform: str, row: Row, place: str, value: Any
) -> None:
    stack = _without_verifier({"aks": AKS, "magnum": MAGNUM}[platform])
    before = _BEFORE.get(platform) or _BEFORE.setdefault(platform, _asked(run, stack))
    try:
        after = _asked(run, _changed(stack, place, value))
    except InvalidStackError:
        return
    changed = {one: _differ(before[one][0], after[one][0]) for one in before.keys() & after.keys()}
    gone = before.keys() - after.keys()
    wanted = {*on(row.sets, platform).split(", ")}
    assert gone or any(wanted & paths for paths in changed.values()), changed
    forced = bool(gone) or any(_forced(one[0], paths, after[one][1]) for one, paths in changed.items())
    change = on(row.change, platform)
    if change == "refused":
        old, new = (next(asked[one][0] for one in asked if one[0].endswith("ManagedCluster")) for asked in (before, after))
        assert list(refused_cluster_changes(old, new, None))
    elif change:
        assert forced == (change == "replaces"), changed


def test_every_key_that_a_cloud_is_told_is_changed_here() -> None:
    """So that a new row is not believed unseen."""
    for platform, tables in TABLES.items():
        said = {row.key for table in (*tables[0], *tables[1]) for row in rows_of(table) if on(row.sets, platform)}
        # What a template sets are the keys in it; the bounds of a Magnum group are in test_magnum.py.
        assert said - {row.key for at, row, _, _ in TOLD if at == platform} <= {"template", "nodes"}, platform
