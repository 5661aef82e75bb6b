"""The programs that tests run beside those of a stack, and a command that makes them: `python -m tests.programs rest|night`.

They are made before the first test, since a test that builds one takes all cores from the others. While tests run, nothing is
made (GPU_POOLS_PROGRAMS=made): a test of a program that is missing here fails and names it. `make test` needs only what `make up`
needs.
"""

from __future__ import annotations

import sys
from typing import Final

from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.obtain import obtain
from sandbox.toolchain.programs import DRA_DRIVER, DRA_DRIVER_CHART, REAL_NODE, program

#: Tier -> programs that it needs besides those of the tiers before it; `make test` needs none. Of a real node all.
OF_TIER: Final = {
    "rest": (
        *(one.name for one in REAL_NODE),
        *("promtool", "mig-manager", "nfd-gc", "registry", "actionlint", "pulumi-language-yaml"),
        *(DRA_DRIVER, DRA_DRIVER_CHART),
    ),
    "night": (
        *("device-plugin-v0.17", "kubelogin"),
        *("prometheus", "alertmanager", "prometheus-operator", "kube-state-metrics"),
    ),
}


def main(arguments: list[str]) -> int:
    """Make the programs of a tier, with progress; returns the exit code."""
    if len(arguments) != 1 or arguments[0] not in OF_TIER:
        sys.stderr.write(f"usage: python -m tests.programs {'|'.join(OF_TIER)}\n")
        return 2
    tiers = list(OF_TIER)
    wanted = [name for tier in tiers[: tiers.index(arguments[0]) + 1] for name in OF_TIER[tier]]
    try:
        obtain([program(name) for name in wanted], Progress())
    except SandboxError as error:
        sys.stderr.write(f"error: {error.message}\n{error.remedy}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
