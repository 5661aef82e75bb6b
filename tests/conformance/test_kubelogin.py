"""kubelogin's stand-in against the real one: what both refuse before anybody is asked, in the same words.

The real one is built from its Go module; it runs without a log-in, a home or a PATH, so it finds nothing to log in with. Not
here: msi, which would ask the machine's own cloud for its identity; and what Entra ID says, for which a tenant is needed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_pools.platforms.aks.entra import LOGINS, SERVER_ID
from sandbox.clouds.entra import TENANT
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built
from tests.conformance.reals import BOTH, REAL
from tests.patience import scaled
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.programs, pytest.mark.sweep, at_night("the program is built for it alone")]

ROOT = Path(__file__).parents[2]
SERVER = ["--server-id", SERVER_ID]
#: What a cluster's kubeconfig says beside the method.
AZURE = ["--environment", "AzurePublicCloud", "--client-id", "80faf920-1908-4b52-b5ef-a8e7bedfc67a", "--tenant-id", TENANT]
NO_METHOD = (
    "is not a supported login method. Supported method is one of "
    "devicecode, interactive, spn, ropc, msi, azurecli, azd, workloadidentity, azurepipelines"
)
#: Methods that end at once where nothing is there to log in with, and ask nobody.
ALONE = [one for one in LOGINS if one != "msi"]


@pytest.fixture(params=BOTH)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    if request.param == REAL:
        command = [str(find_built("kubelogin", Progress()) / "kubelogin")]
    else:
        command = [sys.executable, "-m", "sandbox.clouds.kubelogin", str(tmp_path)]

    def started(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        bare = {"HOME": str(tmp_path), "PATH": "/nowhere", "PYTHONPATH": str(ROOT), **environment}
        return subprocess.run(
            [*command, "get-token", *arguments], env=bare, capture_output=True, text=True, check=False, timeout=scaled(60)
        )

    return started


@pytest.mark.parametrize(
    ("arguments", "method", "words"),
    [
        ([*SERVER, "--login", "carrier"], "", f"'carrier' {NO_METHOD}"),
        ([*SERVER, "--login", "azurecli"], "pigeon", f"'pigeon' {NO_METHOD}"),
        (["--login", "azurecli"], "", "server-id is required"),
        ([*SERVER, *AZURE, "--colour", "red"], "", "unknown flag: --colour"),
        ([*SERVER, *AZURE, "--colour=red"], "", "unknown flag: --colour"),
    ],
)  # fmt: skip
def test_what_is_refused_before_anybody_is_asked(
    run: Callable[..., subprocess.CompletedProcess[str]], arguments: list[str], method: str, words: str
) -> None:
    done = run(*arguments, **({"AAD_LOGIN_METHOD": method} if method else {}))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == f"Error: {words}"


@pytest.mark.parametrize("method", ALONE)
def test_the_methods_of_a_stack_and_the_flags_of_a_kubeconfig_are_known(
    run: Callable[..., subprocess.CompletedProcess[str]], method: str
) -> None:
    """The real one then lacks a program or a secret: so far it has not refused what it was asked."""
    done = run(*SERVER, *AZURE, "--login", method)
    assert "not a supported login method" not in done.stderr
    assert "unknown flag" not in done.stderr
    if done.returncode:
        assert done.stderr.startswith(("Error: failed to get token: Azure", "Error: failed to create azidentity credential: "))
    else:
        assert '"ExecCredential"' in done.stdout
