"""Makes what is not in the cache: downloads the releases that can be had from here, builds the rest, and says what remains.

The cache holds each program as soon as it is made: what was interrupted goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from sandbox.system.errors import SandboxError
from sandbox.toolchain import build
from sandbox.toolchain.cache import cache_folder, fill_once
from sandbox.toolchain.download import SWITCH, Unreachable, download
from sandbox.toolchain.lanes import Builds
from sandbox.toolchain.programs import pinned_version, program, sources
from sandbox.toolchain.releases import platform_name, release

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from sandbox.system.progress import Progress
    from sandbox.toolchain.meter import Meter
    from sandbox.toolchain.programs import Program
    from sandbox.toolchain.releases import Release

DOWNLOADED: Final = "downloaded"
BUILT: Final = "built"
#: Set to "made", nothing is downloaded or built. So are tests run: one that builds would hold up all others, and be late itself.
ONLY_MADE: Final = "GPU_POOLS_PROGRAMS"


def made(one: Program) -> Path | None:
    """The folder of a program that the cache has; None where it has to be made."""
    found = release(one)
    places = [*([_place_of_release(one, found)] if found else []), place_of_build(one)]
    return next((place for place in places if place.is_dir()), None)


def obtain(programs: Iterable[Program], progress: Progress) -> dict[str, str]:
    """Have programs in the cache.

    Args:
        programs: which.
        progress: told about each download and build.

    Returns:
        program -> DOWNLOADED or BUILT, of those that were made by this call and not by another at the same time.

    Raises:
        SandboxError: when one can neither be downloaded nor built, or may not be made, or a download is not what it should be.
    """
    wanted = list(programs)
    if os.environ.get(ONLY_MADE) == "made" and (missing := [one for one in wanted if made(one) is None]):
        message = f"{', '.join(_title(one) for one in missing)}: not made yet, and {ONLY_MADE}=made."
        raise SandboxError(
            message, f"Make them first, for example with `make tools` or `python -m tests.programs rest`; or unset {ONLY_MADE}."
        )
    downloaded = _download([one for one in wanted if made(one) is None], progress)
    companions = [program(one.companion) for one in wanted if one.companion and made(one) in (None, place_of_build(one))]
    all_of_them = {one.name: one for one in (*wanted, *companions)}.values()
    built = _build([one for one in all_of_them if made(one) is None], progress)
    return dict.fromkeys(downloaded, DOWNLOADED) | dict.fromkeys(built, BUILT)


def place_of_build(one: Program) -> Path:
    """The cache folder of a program that is built, named after everything that decides what is built."""
    digest = hashlib.sha256()
    for path in sources(one):
        digest.update(path.read_bytes())
    left_out = [[part.module, part.package, *part.keep] for part in one.left_out]
    what = [build.build_flags(one), list(one.packages.values()), platform_name(), *([left_out] if left_out else [])]
    digest.update(json.dumps(what).encode())
    return cache_folder() / f"{one.name}-{pinned_version(one)}-{digest.hexdigest()[:12]}"


def _place_of_release(one: Program, found: Release) -> Path:
    """The cache folder of a program that is downloaded."""
    digest = hashlib.sha256(" ".join(part.sha256 for part in found).encode()).hexdigest()
    return cache_folder() / f"{one.name}-{pinned_version(one)}-release-{digest[:12]}"


def _download(programs: Sequence[Program], progress: Progress) -> list[str]:
    """Download what has a release, all at a time; returns the names of what came."""
    releases = [(one, found) for one in programs if (found := release(one))] if os.environ.get(SWITCH) != "no" else []
    if not releases:
        return []
    came: list[str] = []

    over = threading.Event()

    def fetch(one: Program, found: Release) -> None:
        try:
            fill_once(_place_of_release(one, found), partial(download, found, over))
            came.append(one.name)
        except Unreachable as error:
            progress.note(f"{_title(one)} is built from its sources, since its release cannot be had from here: {error}")

    with progress.step(f"Downloading {', '.join(_title(one) for one, _ in releases)}"), ThreadPoolExecutor(len(releases)) as pool:
        try:
            # Read to the end, so that what one of them raises is raised here.
            list(pool.map(fetch, *zip(*releases, strict=True)))
        finally:
            over.set()
    return came


def _build(programs: Sequence[Program], progress: Progress) -> list[str]:
    """Build programs; returns the names of those that nobody else has built meanwhile."""
    built: list[str] = []

    def build_one(one: Program, meter: Meter) -> None:
        if fill_once(place_of_build(one), lambda folder: build.go_build(one, folder, meter)):
            built.append(one.name)

    if programs:
        builds = Builds(programs, build_one)
        others = f" and {len(programs) - 1} more" if len(programs) > 1 else ""
        # Short, since the line has to hold what remains, too; that names the others.
        with progress.long_step(f"Building {_title(programs[0])}{others} (first time only)", builds.remaining.describe):
            builds.run()
    return built


def _title(one: Program) -> str:
    return f"{' + '.join(one.packages) or one.name} {pinned_version(one)}"
