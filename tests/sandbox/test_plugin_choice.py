"""A stack keeps the plugins that it came up with, whatever comes to the machine meanwhile."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sandbox.stack import plugin_choice
from sandbox.stack.state import Sandbox
from sandbox.system.files import make_folder
from sandbox.system.progress import Progress
from sandbox.toolchain.tools import Tools

REAL = Path("/real/pulumi-resource-kubernetes")


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox("byo", make_folder(tmp_path / "byo"), tmp_path / "Pulumi.byo.yaml")


def plan(platform: str) -> Any:
    return cast("Any", SimpleNamespace(platform=platform))


def test_before_it_is_up_a_stack_takes_what_there_is(sandbox: Sandbox) -> None:
    out = io.StringIO()
    tools = Tools(kubernetes_plugin=REAL)
    assert plugin_choice.kept(sandbox, tools, Progress(out)) is tools
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("platform", "providers"), [("aks", ["kubernetes"]), ("existing", ["kubernetes"]), ("magnum", ["kubernetes", "openstack"])]
)
def test_only_what_a_stack_needs_is_downloaded_for_it_and_nothing_once_it_is_up(
    sandbox: Sandbox, platform: str, providers: list[str]
) -> None:
    assert plugin_choice.to_download(sandbox, plan(platform)) == providers
    plugin_choice.remember(sandbox, Tools())
    assert plugin_choice.to_download(sandbox, plan(platform)) == []


def test_a_stand_in_plays_on_and_that_is_said(sandbox: Sandbox) -> None:
    plugin_choice.remember(sandbox, Tools(openstack_plugin=REAL))
    plugin_choice.remember(sandbox, Tools(kubernetes_plugin=REAL))
    out = io.StringIO()
    kept = plugin_choice.kept(sandbox, Tools(kubernetes_plugin=REAL, openstack_plugin=REAL), Progress(out))
    assert (kept.kubernetes_plugin, kept.openstack_plugin) == (None, REAL), "what was first counts"
    assert "the stand-in of the kubernetes plugin goes on playing, since byo came up with it" in out.getvalue()
    assert "make down STACK=byo" in out.getvalue()
    assert "openstack" not in out.getvalue()


def test_a_real_one_that_is_gone_gives_way_to_the_stand_in(sandbox: Sandbox) -> None:
    plugin_choice.remember(sandbox, Tools(kubernetes_plugin=REAL))
    assert plugin_choice.kept(sandbox, Tools(), Progress(io.StringIO())).kubernetes_plugin is None
