"""The components as a package for other languages: what the provider says of itself, and what it makes of what comes to it."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi import InputPropertiesError
from pulumi.provider.server import ComponentInitError
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from gpu_pools import __version__
from gpu_pools.components.provider import COMPONENTS, GpuPoolsProvider, whole_numbers
from tests.components.test_packaging import classes

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[2] / "components"
SCHEMA = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
LONGEST = 120
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**52), 2**52) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_the_provider_has_every_component() -> None:
    # By name: another test loads modules anew.
    assert sorted(map(str, COMPONENTS)) == sorted(map(str, classes()))


def test_the_schema_has_every_component() -> None:
    assert set(SCHEMA["resources"]) == {f"gpu-pools:index:{component.__name__}" for component in COMPONENTS}
    assert SCHEMA["version"] == __version__


def _descriptions(part: Any) -> Iterator[str]:
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _descriptions(inner)
    if isinstance(part, dict) and isinstance(part.get("description"), str):
        yield part["description"]


def test_the_schema_is_the_same_by_every_python() -> None:
    """Before 3.13 docstrings keep the margin of the code around them."""
    texts = list(_descriptions(SCHEMA))
    assert any("\n" in text for text in texts)
    assert [text for text in texts if text != inspect.cleandoc(text)] == []


def test_the_folder_starts_as_a_provider(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER), "127.0.0.1:1"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                asked = provider_pb2_grpc.ResourceProviderStub(channel)
                told = asked.GetSchema(provider_pb2.GetSchemaRequest(), timeout=LONGEST)
        finally:
            process.kill()
    assert json.loads(told.schema) == SCHEMA


def _as_sent(value: Any) -> Any:
    """What a number becomes on the way: a float."""
    if isinstance(value, dict):
        return {key: _as_sent(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_sent(inner) for inner in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@given(DOCUMENTS)
def test_numbers_arrive_as_they_were_written(written: Any) -> None:
    arrived = whole_numbers(_as_sent(written))
    assert arrived == written
    assert repr(arrived) == repr(whole_numbers(written))


def test_all_that_is_wrong_is_told_by_its_place() -> None:
    inputs = {"cluster": {"platform": "aks"}, "sharing": {"s": {"timeSlicing": {"replicas": 1.0}}}, "pools": []}
    with pytest.raises(InputPropertiesError) as raised:
        GpuPoolsProvider().construct("gpu", "gpu-pools:index:GpuPlatform", inputs)
    places = [one["property_path"] for one in raised.value.errors or []]
    assert "sharing.s.timeSlicing.replicas" in places
    assert "cluster.name" in places


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ComponentInitError):
        GpuPoolsProvider().construct("gpu", "gpu-pools:index:TimeSlicing", {"replicas": 4.0}, "no options")  # type: ignore[arg-type]
