"""Stand-in for kubelogin (Azure/kubelogin v0.2.19): `get-token` for the sandbox's own tenant, as an exec plugin of kubectl.

    python -m sandbox.clouds.kubelogin <state folder> get-token --server-id … [--login …] [--tenant-id …]

Whose state folder he may read is logged in, by each of kubelogin's methods: there is nobody to ask. What the real one refuses
before it asks anybody is refused in its words (tests/conformance/test_kubelogin.py); a server that is not AKS's and another
tenant in ours. Not refused: a method whose secret or program is missing. AAD_LOGIN_METHOD goes before the flag, as in its
UpdateFromEnv.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from gpu_pools.platforms.aks.entra import SERVER_ID
from gpu_pools.text.terminal import guarded
from sandbox.clouds.entra import TENANT, Tenant

if TYPE_CHECKING:
    from collections.abc import Sequence

#: In the order in which the real one names them.
_METHODS: Final = (
    "devicecode", "interactive", "spn", "ropc", "msi", "azurecli", "azd", "workloadidentity", "azurepipelines",
)  # fmt: skip


class _Flags(argparse.ArgumentParser):
    """Wrong ones end with 1 and a line, as those of the real one."""

    def error(self, message: str) -> NoReturn:
        """Say it and end."""
        raise SystemExit(_refused(message))


def main(arguments: Sequence[str]) -> int:
    """Print what lets in; 1 with a word on stderr where nobody is."""
    parser = _Flags(prog="kubelogin", allow_abbrev=False)
    parser.add_argument("state", type=Path)
    parser.add_argument("command", choices=["get-token"])
    for flag, default in (("--environment", "AzurePublicCloud"), ("--client-id", ""), ("--tenant-id", TENANT)):
        parser.add_argument(flag, default=default)
    parser.add_argument("--server-id", default="")
    parser.add_argument("--login", default="devicecode")
    given, more = parser.parse_known_args(arguments)
    if more:
        return _refused(f"unknown flag: {more[0].partition('=')[0]}")
    method = os.environ.get("AAD_LOGIN_METHOD") or given.login
    if method not in _METHODS:
        return _refused(f"'{method}' is not a supported login method. Supported method is one of {', '.join(_METHODS)}")
    if not given.server_id:
        return _refused("server-id is required")
    if given.server_id != SERVER_ID:
        return _refused(f"failed to get token: the application {given.server_id} was not found in the tenant {given.tenant_id}")
    if given.tenant_id.lower() != TENANT:
        return _refused(f"failed to get token: the tenant {given.tenant_id} was not found; the sandbox has {TENANT}")
    sys.stdout.write(f"{json.dumps(Tenant(given.state).log_in())}\n")
    return 0


def _refused(why: str) -> int:
    sys.stderr.write(f"Error: {why}\n")
    return 1


if __name__ == "__main__":
    with guarded():
        code = main(sys.argv[1:])
    raise SystemExit(code)
