"""The real ones that suites may be run against beside the stand-ins: where they are, and their versions.

Tests hold the stand-in of the GPU operator to what they say, whatever the machine has: so whoever starts tests has no real one,
and what the environment named is kept aside, for the suites that ask for it here. A real provider plugin is used by every engine
test that finds one, as by `make up`.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from sandbox.system.progress import Progress
from sandbox.toolchain import gpu_operator
from sandbox.toolchain.download import SWITCH
from sandbox.toolchain.find import find_tools

if TYPE_CHECKING:
    from collections.abc import Iterator

STAND_IN, REAL = "stand-in", "real"
_KEPT: Final = "GPU_POOLS_CONFORMANCE_OPERATOR"
#: Implementations as parameters; real ones cost more.
BOTH: Final = (STAND_IN, pytest.param(REAL, marks=pytest.mark.sweep))


def keep_aside() -> None:
    """Let nothing that tests start find a real operator by itself."""
    asked = os.environ.get(gpu_operator.VARIABLE, "")
    if asked != gpu_operator.NO:
        os.environ[_KEPT] = asked
        os.environ[gpu_operator.VARIABLE] = gpu_operator.NO


def operator(monkeypatch: pytest.MonkeyPatch) -> gpu_operator.GpuOperator | None:
    """The real GPU operator of this machine, from here on that of all that is started; nothing is downloaded for a test."""
    monkeypatch.setenv(gpu_operator.VARIABLE, os.environ.get(_KEPT, gpu_operator.NO))
    downloads = os.environ.get(SWITCH)
    monkeypatch.setenv(SWITCH, "no")
    found = gpu_operator.find(Progress())
    if downloads is None:
        monkeypatch.delenv(SWITCH)
    else:
        monkeypatch.setenv(SWITCH, downloads)
    return found


def operator_or_skip(which: str) -> Iterator[str]:
    """For a fixture: the version of the implementation that is asked for; skipped where it is not there."""
    if which == STAND_IN:
        yield STAND_IN
        return
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = operator(monkeypatch)
        if found is None:
            pytest.skip(f"no real GPU operator on this machine: {gpu_operator.VARIABLE}=<folder laid out as its image>")
        yield found.version


def versions() -> dict[str, str]:
    """Real one -> its version here; of those that are not here nothing."""
    found: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        real = operator(monkeypatch)
        if real is not None:
            found["gpu-operator"] = real.version
    tools = find_tools(Progress(), only=())
    for name, plugin in (("kubernetes-plugin", tools.kubernetes_plugin), ("openstack-plugin", tools.openstack_plugin)):
        if plugin is not None:
            said = subprocess.run([plugin, "-version"], capture_output=True, text=True, check=False)
            found[name] = (said.stdout or said.stderr).strip().splitlines()[0]
    return found
