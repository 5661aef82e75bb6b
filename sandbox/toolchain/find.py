"""Finds every program that the sandbox runs: on this machine, in the cache, or by having it made."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from sandbox.system.files import explained
from sandbox.toolchain import plugin_releases
from sandbox.toolchain.cache import cache_folder, make_once
from sandbox.toolchain.machine import on_this_machine, plugin
from sandbox.toolchain.obtain import BUILT, made, obtain
from sandbox.toolchain.plugins import PROVIDERS
from sandbox.toolchain.programs import WHOLE_ENGINE, program
from sandbox.toolchain.tools import SEARCHES, TOOLS, Tools

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from sandbox.system.progress import Progress
    from sandbox.toolchain.programs import Program
    from sandbox.toolchain.tools import Search

_CACHE = "cache"


def find_tools(progress: Progress, *, only: Collection[str] | None = None) -> Tools:
    """Find every program that the sandbox runs; download or build what is missing.

    Args:
        progress: told about each download and build.
        only: names out of TOOLS; None for all.

    Raises:
        SandboxError: when a program is neither there nor can be made.
        ValueError: when `only` names something else.
    """
    wanted = set(TOOLS if only is None else only)
    if not wanted <= set(TOOLS):
        message = f"unknown tools: {sorted(wanted - set(TOOLS))}; known are {list(TOOLS)}"
        raise ValueError(message)
    searches = [search for search in SEARCHES if search.tool in wanted]
    here = {search.tool: found for search in searches if (found := on_this_machine(search, progress))}
    missing = [search for search in searches if search.tool not in here]
    origins = obtain(_programs_of(missing), progress)
    paths: dict[str, Any] = {tool: path for tool, (path, _) in here.items()}
    paths |= {search.tool: _folder(program(search.made_by), progress) / search.program for search in missing}
    return Tools(
        **paths,
        kubernetes_plugin=plugin("kubernetes", major=PROVIDERS["kubernetes"]),
        openstack_plugin=plugin("openstack", major=PROVIDERS["openstack"]),
        origin={
            **{tool: origin for tool, (_, origin) in here.items()},
            **{search.tool: origins.get(search.made_by, _CACHE) for search in missing},
        },
    )


def download_plugins(providers: Collection[str], progress: Progress) -> None:
    """Have the real plugins of providers on this machine, where they are not and can be had; find_tools finds them then.

    Args:
        providers: which, of PROVIDERS.
        progress: told of it, and of what stands in.

    Raises:
        SandboxError: when what comes is not what its release lists.
    """
    plugin_releases.download([one for one in providers if plugin(one, major=PROVIDERS[one]) is None], progress)


def find_built(name: str, progress: Progress) -> Path:
    """Find a program in exactly the version that is pinned, whatever is on this machine; download or build it if need be.

    Args:
        name: of the Program.
        progress: told about the download or build.

    Returns:
        The folder with it.

    Raises:
        SandboxError: when it cannot be made.
    """
    obtain([program(name)], progress)
    return _folder(program(name), progress)


def put_engine(folder: Path, progress: Progress) -> None:
    """Put what deploys into a folder, in exactly the version that is pinned, whatever is on this machine.

    Pulumi with its language host, and kubelogin, with which it gets into clusters with Entra ID.

    Args:
        folder: where to; made if need be.
        progress: told about a build.

    Raises:
        SandboxError: when they cannot be made.
    """
    engine = find_built(WHOLE_ENGINE, progress)
    login = find_built("kubelogin", progress) / "kubelogin"
    with explained(folder, "copy into"):
        shutil.copytree(engine, folder, dirs_exist_ok=True)
        shutil.copy2(login, folder / login.name)


def _programs_of(searches: list[Search]) -> list[Program]:
    return list({search.made_by: program(search.made_by) for search in searches}.values())


def _folder(one: Program, progress: Progress) -> Path:
    """The folder of a program that is made; with what it cannot do without beside it, as in a release."""
    folder = made(one)
    assert folder is not None, f"{one.name} was not made"  # noqa: S101 - obtain has raised, else
    lacking = next((name for name in [one.companion] if name and not (folder / name).exists()), None)
    if lacking is None:
        return folder
    companion = made(program(lacking))
    assert companion is not None, f"{lacking} was not made"  # noqa: S101
    target = cache_folder() / f"{folder.name}-with-{companion.name}"

    def link(making: Path) -> None:
        with explained(making, "link into"):
            for path in (*folder.iterdir(), *companion.iterdir()):
                # No links: the engine follows them before it looks beside itself, and warns in every run of a host elsewhere.
                os.link(path, making / path.name)

    make_once(target, f"Putting {one.name} and its language host side by side", link, progress, BUILT)
    return target
