"""The real provider plugins out of their official releases, by default: in the versions of the SDKs, by sums of another host.

The archive comes from Pulumi's own host, the list of sums from the release on GitHub: so neither host alone can change a plugin.
Whoever makes Pulumi's releases can (docs/decisions/README.md, 196). Where one of the hosts is out of reach the stand-in plays,
and nothing is asked again for a day. Not here: azure-native, which has no Azure to talk to; and what somebody asks Pulumi itself
to install (plugins.py).
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.system.errors import SandboxError
from sandbox.toolchain import reach
from sandbox.toolchain.cache import cache_folder, fill_once
from sandbox.toolchain.download import SWITCH, Unreachable, download_listed, listed_sum
from sandbox.toolchain.plugins import PROVIDERS, pinned
from sandbox.toolchain.releases import ListedArchive, platform_name

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from sandbox.system.progress import Progress

#: Says which plugins play.
VARIABLE: Final = "GPU_POOLS_PLUGINS"
#: Its values: the stand-ins, whatever there is; or the real ones that are here, and nothing is asked for.
NO: Final = "no"
FOUND: Final = "found"
#: The host of the archives, and that of the lists.
ARCHIVES: Final = "https://get.pulumi.com/releases/plugins"
LISTS: Final = "https://github.com/pulumi"
#: As Go calls the machines, for which there are releases.
_PLATFORMS: Final = {"linux-x64": "linux-amd64", "linux-arm64": "linux-arm64"}


@dataclass(frozen=True)
class PluginRelease:
    """A release of a plugin, for this machine.

    Attributes:
        provider: its name.
        version: of the SDK, such as "4.34.2".
        archive: where its archive is.
        sums: where the list of sums is.
    """

    provider: str
    version: str
    archive: str
    sums: str

    @property
    def program(self) -> str:
        """The file that is taken."""
        return f"pulumi-resource-{self.provider}"

    @property
    def title(self) -> str:
        """In words."""
        return f"{self.provider} {self.version}"

    @property
    def place(self) -> Path:
        """How its folders in the cache begin; the sum of what they hold follows."""
        return cache_folder() / f"{self.program}-v{self.version}-release"


def wanted() -> str:
    """What the variable says; empty by default.

    Raises:
        SandboxError: when it says something else.
    """
    said = os.environ.get(VARIABLE, "")
    if said not in ("", NO, FOUND):
        message = f"{VARIABLE}={said}: is not one of {NO}, {FOUND}."
        raise SandboxError(
            message, f"{NO}: stand-ins play; {FOUND}: real plugins that are here; unset: they are downloaded, too."
        )
    return said


def release(provider: str) -> PluginRelease | None:
    """The release of a plugin; None where there is none for this machine."""
    platform = _PLATFORMS.get(platform_name())
    if platform is None:
        return None
    version = pinned(provider)
    archive = f"{ARCHIVES}/pulumi-resource-{provider}-v{version}-{platform}.tar.gz"
    sums = f"{LISTS}/pulumi-{provider}/releases/download/v{version}/pulumi-{provider}_{version}_checksums.txt"
    return PluginRelease(provider, version, archive, sums)


def downloaded(provider: str) -> Path | None:
    """The plugin of a release that the cache has."""
    found = release(provider)
    if found is None:
        return None
    places = found.place.parent.glob(f"{found.place.name}-*/{found.program}")
    return next((path for path in sorted(places) if path.is_file()), None)


def cannot_be_had(provider: str) -> bool:
    """Whether a release could not be had within the last day, so that its stand-in plays."""
    found = release(provider)
    return found is not None and reach.out_of_reach(found.place)


def download(providers: Collection[str], progress: Progress) -> None:
    """Have the plugins of releases in the cache, where they can be had from here.

    Args:
        providers: which.
        progress: told of it, and of what stands in.

    Raises:
        SandboxError: when what comes is not of the sum that its release lists.
    """
    assert set(providers) <= set(PROVIDERS)  # noqa: S101 - of this package
    if wanted() or os.environ.get(SWITCH) == NO:
        return
    found = [one for provider in providers if downloaded(provider) is None and (one := release(provider))]
    missing = [one for one in found if not reach.out_of_reach(one.place)]
    if not missing:
        return
    over = threading.Event()

    def fetch(one: PluginRelease) -> None:
        try:
            _fetch(one, over)
        except Unreachable as error:
            # Not where somebody has interrupted it: it could be had, then.
            if not over.is_set():
                progress.note(
                    f"a stand-in plays the plugin of {one.title}, whose release cannot be had from here: {error}; "
                    "asked again in a day"
                )
                reach.remember(one.place)

    titles = " and ".join(one.title for one in missing)
    with progress.step(f"Downloading Pulumi's plugin of {titles}"), ThreadPoolExecutor(len(missing)) as pool:
        try:
            # Read to the end, so that what one of them raises is raised here.
            list(pool.map(fetch, missing))
        finally:
            over.set()


def _fetch(one: PluginRelease, over: threading.Event) -> None:
    name = one.archive.rpartition("/")[2]
    found = listed_sum(one.sums, name, over)
    archive = ListedArchive(one.archive, one.sums, found, {one.program: one.program}, f"have the stand-ins play: {VARIABLE}={NO}")
    fill_once(one.place.with_name(f"{one.place.name}-{found[:12]}"), lambda folder: download_listed(archive, over, folder))
    reach.forget(one.place)
