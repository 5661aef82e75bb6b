"""What this machine has of the programs: on PATH, in KUBEBUILDER_ASSETS, among Pulumi's plugins.

Taken only in a version that fits, and only where nobody else could have put it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.system import trust
from sandbox.toolchain import plugin_releases, plugins
from sandbox.toolchain.programs import pinned_version, program
from sandbox.toolchain.version import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.system.progress import Progress
    from sandbox.toolchain.tools import Search
    from sandbox.toolchain.version import Version

_VERSION_SECONDS: Final = 30.0


def on_this_machine(search: Search, progress: Progress) -> tuple[Path, str] | None:
    """Where this machine has a program that fits, and where that is from; passes over others, and says so."""
    if search.made_only:
        return None
    for path, origin in _candidates(search):
        if why := trust.trouble(path):
            progress.note(f"{path} ({origin}) is not used: {why}")
            continue
        version = _version_of(path, search.version_arguments)
        pinned = parsed(pinned_version(program(search.made_by)))
        if version is not None and pinned is not None and search.accepts(pinned, version):
            return path, origin
        seen = "unknown" if version is None else ".".join(map(str, version))
        progress.note(f"{path} ({origin}) is not used: version {seen}, wanted: {search.wanted}")
    return None


def plugin(provider: str, *, major: int) -> Path | None:
    """A real provider, of the major version that the program's SDK has; None where a stand-in is to play, or there is none.

    On PATH, else the newest that Pulumi has installed, else that of the release that was downloaded.

    Raises:
        SandboxError: when the variable that chooses says something unknown.
    """
    if plugin_releases.wanted() == plugin_releases.NO:
        return None
    name = f"pulumi-resource-{provider}"
    on_path = shutil.which(name)
    if on_path is not None:
        return Path(on_path)
    homes = (Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi"), plugins.home())
    places = f"plugins/resource-{provider}-v{major}.*/{name}"
    installed = [path for home in homes for path in home.glob(places) if path.is_file()]
    newest = max(installed, key=lambda p: parsed(p.parent.name) or (0, 0, 0), default=None)
    return newest or plugin_releases.downloaded(provider)


def _candidates(search: Search) -> Iterator[tuple[Path, str]]:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if search.assets and assets:
        path = Path(assets) / search.program
        if path.is_file():
            yield path, "KUBEBUILDER_ASSETS"
    on_path = shutil.which(search.program)
    if on_path is not None:
        yield Path(on_path), "PATH"


def _version_of(path: Path, arguments: tuple[str, ...]) -> Version | None:
    """Ask a program for its version; None when it does not tell."""
    environment = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        done = subprocess.run(
            [path, *arguments],
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parsed(done.stdout)
