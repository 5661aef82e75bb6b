from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_pools.verifier.observation import Observer
from gpu_pools.verifier.sources import Reader
from sandbox.nvml import simulated, state
from sandbox.nvml.library import find_library, nvml_environment
from sandbox.system.pki import make_pki
from sandbox.system.progress import Progress
from tests.verifier import provoked
from tests.verifier.api_server import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpu_pools.verifier.observation import Assertion
    from gpu_pools.verifier.reading import Hung, Reading, Unreadable
    from sandbox.system.pki import Pki
    from tests.verifier.nodes import Node


class Bench:
    """The simulated NVML on a machine, for processes that this one starts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, machine: simulated.Machine) -> None:
        state.write(self.path, machine)

    def read(self) -> Reading | Hung | Unreadable:
        return Observer(Reader(), None, 0).look(None).nvml

    def hold(self, node: Node, machine: simulated.Machine, seconds: float = 30) -> Assertion:
        """Hold the node's expectation against another machine."""
        self.put(machine)
        return Observer(Reader(seconds), None, 0).hold(node.expected)


#: Test -> causes that it is listed for.
_LISTED = {
    test: {cause for cause, tests in provoked.listed().items() if test in tests}
    for tests in provoked.listed().values()
    for test in tests
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that is listed as one that provokes a cause has to do so: the documentation names it."""
    with provoked.watched() as given:
        result = yield
    missing = _LISTED.get(provoked.name_of(item), set()) - given
    if missing:
        pytest.fail(f"is listed in {provoked.LIST.name} for {', '.join(sorted(missing))}, and nothing came to that")
    return result


@pytest.fixture(scope="session")
def library() -> Path:
    return find_library(Progress())


@pytest.fixture
def bench(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    path = tmp_path / "machine"
    for name, value in nvml_environment(library, path).items():
        monkeypatch.setenv(name, value)
    return Bench(path)


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("pki") / "pki", "10.96.0.1")


@pytest.fixture
def answering(pki: Pki, tmp_path: Path) -> Iterator[ApiServer]:
    """A server that answers as an API server does."""
    server = ApiServer(pki, tmp_path)
    yield server
    server.close()
