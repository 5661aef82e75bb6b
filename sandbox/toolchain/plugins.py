"""The real provider plugins, where somebody asks for them: Pulumi's own command downloads them, as it does for any other stack.

In the versions of the program's SDKs (requirements.txt), into the cache, where every sandbox of the user finds them from then on.
For whom the default is out of reach (plugin_releases.py): Pulumi takes them from a mirror, if it has been told of one, and
compares no sum (docs/decisions/README.md, 190). Azure's plugin is left out: there is no Azure here that it could talk to.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.system.errors import SandboxError
from sandbox.system.files import make_folder
from sandbox.toolchain.cache import cache_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.system.progress import Progress

#: Provider -> the major version of its SDK.
PROVIDERS: Final[Mapping[str, int]] = {"kubernetes": 4, "openstack": 5}
_PINS: Final = Path(__file__).resolve().parents[2] / "requirements.txt"
_SECONDS: Final = 600.0


def home() -> Path:
    """Pulumi's home for them; beside the user's own, of which nothing is changed."""
    return cache_folder() / "pulumi-home"


def pinned(provider: str) -> str:
    """The version of a provider's SDK, such as "4.34.2"."""
    found = re.search(rf"^pulumi-{re.escape(provider)}==(\S+)", _PINS.read_text("utf-8"), re.MULTILINE)
    assert found is not None, f"{_PINS} pins no pulumi-{provider}"  # noqa: S101 - a file of this repository
    return found[1]


def install(pulumi: Path, progress: Progress) -> None:
    """Have Pulumi install them.

    Args:
        pulumi: the program.
        progress: told about each.

    Raises:
        SandboxError: when one cannot be had.
    """
    environment = {**os.environ, "PULUMI_HOME": str(make_folder(home())), "PULUMI_SKIP_UPDATE_CHECK": "true"}
    for provider in PROVIDERS:
        version = pinned(provider)
        command = [str(pulumi), "plugin", "install", "resource", provider, version, "--exact", "--color=never"]
        with progress.step(f"Installing Pulumi's plugin of {provider} {version}"):
            try:
                done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
                said = done.stderr.strip().splitlines()[-1:] if done.returncode else []
            except subprocess.TimeoutExpired:
                said = [f"no end after {_SECONDS:.0f} s"]
        if said:
            message = f"Pulumi's plugin of {provider} {version} cannot be had: {said[0]}"
            raise SandboxError(message, "The stand-ins go on playing. What is on PATH or in ~/.pulumi is used as well.")
