"""Tests once more, as somebody who may not mount: what is simulated is then in user namespaces.

The right is taken from root or from whoever runs the tests; the rights of files stay as they are.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

#: Runs what follows as the same user, but without the right to mount.
WITHOUT_RIGHTS: Final = ("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")
_ASK: Final = "from sandbox.cluster import gpu_host; print(gpu_host.obstacle() or '')"


def hold_in_user_namespaces(tests: str, folder: Path) -> None:
    """Run tests; those whose name says that they do this themselves are left out.

    Args:
        tests: a file, or one of its tests.
        folder: for what they write.
    """
    program = [*WITHOUT_RIGHTS, sys.executable]
    refused = subprocess.run([*program, "-c", _ASK], capture_output=True, text=True, check=True).stdout.strip()
    if refused:
        pytest.skip(f"NOT tried in user namespaces: {refused}")
    options = ["-q", "-p", "no:cacheprovider", "-k", "not user_namespace", "--basetemp", str(folder)]
    done = subprocess.run([*program, "-m", "pytest", *options, tests], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout.splitlines()[-1]
