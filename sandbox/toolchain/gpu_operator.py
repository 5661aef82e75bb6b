"""NVIDIA's GPU operator, the real one: found on this machine, or taken out of its container image; there may be none.

It has no Go module that could be built (the last is v1.11.1), so it is never built here. It cannot do without its assets, which
it reads at /opt/gpu-operator; whoever runs it shows them to it there. Only the minor version that the stand-in of its chart has
is taken: another one would make other objects of the same ClusterPolicy.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.system import trust
from sandbox.system.errors import SandboxError
from sandbox.toolchain import reach
from sandbox.toolchain.cache import cache_folder, fill_once
from sandbox.toolchain.download import SWITCH, Unreachable, download_steps
from sandbox.toolchain.releases import OPERATOR_VERSION, operator_image
from sandbox.toolchain.version import parsed

if TYPE_CHECKING:
    from sandbox.system.progress import Progress
    from sandbox.toolchain.releases import ImageSteps

#: Says where it is: a folder that is laid out as its image; or, by NO, that the stand-in is to play.
VARIABLE: Final = "GPU_POOLS_GPU_OPERATOR"
NO: Final = "no"
#: Where it looks for its assets: written into the program.
ASSETS: Final = Path("/opt/gpu-operator")
_PROGRAM: Final = "gpu-operator"
_IN_IMAGE: Final = Path("usr/bin") / _PROGRAM
#: One of them, without which it makes nothing.
_AN_ASSET: Final = Path("state-device-plugin/0500_daemonset.yaml")
_VERSION_SECONDS: Final = 30.0
_VERSION: Final = re.compile(r"version: (v\S+?)[\",\s]")


@dataclass(frozen=True)
class GpuOperator:
    """A GPU operator that can be run.

    Attributes:
        program: its path.
        assets: the folder that it has to find at ASSETS.
        version: as it says itself, such as "v26.7.0".
        origin: where it is from, in a word or two.
    """

    program: Path
    assets: Path
    version: str
    origin: str


def find(progress: Progress) -> GpuOperator | None:
    """The real operator, if there is one: of the variable, of PATH, of the cache, or out of its image.

    Args:
        progress: told what is passed over and why, and of a download.

    Raises:
        SandboxError: the variable names something that cannot be run; or a registry gives other content for the digest that
            stands in releases.py.
    """
    named = os.environ.get(VARIABLE, "")
    if named == NO:
        return None
    if named:
        return _named(Path(named).expanduser())
    return _on_path(progress) or _of_image(progress)


def _named(root: Path) -> GpuOperator:
    found = _at(root / _IN_IMAGE, root / ASSETS.relative_to("/"), VARIABLE)
    if isinstance(found, str):
        remedy = f"Give a folder that is laid out as its image ({_IN_IMAGE}, {ASSETS.relative_to('/')}); or {VARIABLE}={NO}."
        raise SandboxError(f"{VARIABLE}={root}: {found}", remedy)
    return found


def _on_path(progress: Progress) -> GpuOperator | None:
    program = shutil.which(_PROGRAM)
    if program is None:
        return None
    found = _at(Path(program), ASSETS, "PATH")
    if isinstance(found, str):
        progress.note(f"{program} (PATH) is not used: {found}")
        return None
    return found


def _at(program: Path, assets: Path, origin: str) -> GpuOperator | str:
    """The operator of a place, or what is wrong with it."""
    for path, what in ((program, "the program"), (assets / _AN_ASSET, "one of its assets")):
        if not path.is_file():
            return f"{path}, {what}, is not there"
        if why := trust.trouble(path):
            return why
    version = _version(program)
    wanted, found = parsed(OPERATOR_VERSION), parsed(version)
    if wanted is None or found is None or found[:2] != wanted[:2]:
        return f"version {version or 'unknown'}, wanted: {OPERATOR_VERSION.rpartition('.')[0]}"
    return GpuOperator(program.resolve(), assets.resolve(), version, origin)


def _version(program: Path) -> str:
    """What it says first of all, before it ends for want of a namespace; empty where it says nothing of the kind."""
    environment = {name: text for name, text in os.environ.items() if name != "OPERATOR_NAMESPACE"}
    try:
        done = subprocess.run(
            [program], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False, env=environment, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = _VERSION.search(done.stdout + done.stderr)
    return said[1].partition("-")[0] if said else ""


def _of_image(progress: Progress) -> GpuOperator | None:
    """Out of its image, once; None where the registry cannot be reached."""
    image = operator_image()
    if image is None:
        return None
    target = cache_folder() / f"gpu-operator-{OPERATOR_VERSION}-image-{image.sha256[:12]}"
    if not target.is_dir() and (os.environ.get(SWITCH) == NO or not _fetched(image, target, progress)):
        return None
    found = _at(target / _IN_IMAGE, target / ASSETS.relative_to("/"), "its image")
    if isinstance(found, str):
        progress.note(f"{target} is not used: {found}")
        return None
    return found


def _fetched(image: ImageSteps, target: Path, progress: Progress) -> bool:
    if reach.out_of_reach(target):
        return False
    try:
        with progress.step(f"Downloading the GPU operator {OPERATOR_VERSION} out of its image"):
            fill_once(target, lambda folder: download_steps(image, threading.Event(), folder))
    except Unreachable as error:
        progress.note(f"a stand-in plays the GPU operator, whose image cannot be had from here: {error}; asked again in a day")
        reach.remember(target)
        return False
    return True
