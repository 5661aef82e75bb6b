"""Tries the log-in to Entra ID before anything is made: kubelogin there, and whoever deploys logged in.

The Kubernetes provider says so too, but after the cluster was made, and of each object anew. A preview makes nothing and only
warns. What kubelogin hands out is not looked at; it goes nowhere.
"""

import os
import shutil
import subprocess
from typing import Final

import pulumi

from gpu_pools.components.engine import log
from gpu_pools.platforms.aks.entra import KUBELOGIN, EntraSettings, login_command
from gpu_pools.text.errors import InvalidStackError, Problem

_SECONDS: Final = 60
_INSTALL: Final = "Install kubelogin (https://azure.github.io/kubelogin) and put it on PATH."
_LOG_IN: Final = {
    "azurecli": "az login.",
    "azd": "azd auth login.",
    "workloadidentity": "Set AZURE_CLIENT_ID, AZURE_TENANT_ID; and AZURE_FEDERATED_TOKEN_FILE, on GitHub id-token: write.",
}


def try_login(where: str, entra: EntraSettings, parent: pulumi.Resource, key: str = "entra") -> None:
    """Have kubelogin log in as the providers will.

    Args:
        where: the component, for messages.
        entra: what the stack says.
        parent: the component; a preview's warning is shown there.
        key: where the stack says it.

    Raises:
        InvalidStackError: if it cannot; in a preview that is a warning.
    """
    problem = _trouble(f"{where}.{key}", entra)
    if problem is None:
        return
    if not pulumi.runtime.is_dry_run():
        raise InvalidStackError([problem])
    log.warn(f"a deploy would stop here: {problem.message}. {problem.remedy}", parent)


def _trouble(path: str, entra: EntraSettings) -> Problem | None:
    method = os.environ.get("AAD_LOGIN_METHOD") or entra.login
    if shutil.which(KUBELOGIN) is None:
        return Problem(path, f"there is no {KUBELOGIN} on PATH, without which nobody gets into the cluster", KUBELOGIN, _INSTALL)
    try:
        done = subprocess.run(
            login_command(entra), capture_output=True, check=False, timeout=_SECONDS, stdin=subprocess.DEVNULL, text=True
        )
        why = _said(done.stderr) or f"it ended with {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        why = f"it was not done after {_SECONDS} s"
    except OSError as error:
        why = str(error)
    if not why:
        return None
    remedy = _LOG_IN.get(method, "Log in as that way wants it (https://azure.github.io/kubelogin/concepts/login-modes.html).")
    return Problem(
        path,
        f"{KUBELOGIN} does not log in by {method}: {why}",
        "a log-in that asks nobody",
        f"{remedy} AAD_LOGIN_METHOD names another.",
    )


def _said(errors: str) -> str:
    """Its first error; after it come a stack of causes and where to read on."""
    lines = errors.strip().splitlines()
    return next((line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")), lines[-1] if lines else "")
