"""Official releases of the programs: which archive, and the sum of what it must be.

A sum stands here only if it could be read somewhere else than at the archive's own host (docs/decisions/README.md, 125), and only
for the version that the program's go.mod pins: another version is built until its sums stand here. Where none could be had, for
Kubernetes and NVIDIA's programs, there is no release.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.toolchain.programs import pinned_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.toolchain.programs import Program


@dataclass(frozen=True)
class Release:
    """An archive with a program, for one platform.

    Attributes:
        url: where it is.
        sha256: of the archive.
        members: which of its files to take: path in the archive -> file name.
    """

    url: str
    sha256: str
    members: Mapping[str, str]


def _pulumi(platform_name: str, sha256: str) -> Release:
    url = f"https://github.com/pulumi/pulumi/releases/download/v3.259.0/pulumi-v3.259.0-{platform_name}.tar.gz"
    names = ("pulumi", "pulumi-language-python", "pulumi-language-python-exec")
    return Release(url, sha256, {f"pulumi/{name}": name for name in names})


def _etcd(platform_name: str, sha256: str) -> Release:
    name = f"etcd-v3.6.8-{platform_name}"
    return Release(f"https://github.com/etcd-io/etcd/releases/download/v3.6.8/{name}.tar.gz", sha256, {f"{name}/etcd": "etcd"})


def _helm(platform_name: str, sha256: str) -> Release:
    return Release(f"https://get.helm.sh/helm-v3.22.0-{platform_name}.tar.gz", sha256, {f"{platform_name}/helm": "helm"})


_X64: Final = "linux-x64"
_ARM64: Final = "linux-arm64"
#: (program, version, platform) -> its archive.
RELEASES: Final[Mapping[tuple[str, str, str], Release]] = {
    # Sums: Pulumi's formulas for Homebrew, github.com/pulumi/homebrew-tap, Formula/pulumi.rb.
    ("pulumi", "v3.259.0", _X64): _pulumi(_X64, "94ba357acac23d01474084c4b00098dc0f7bc70ce13f34c777459254a5f718e5"),
    ("pulumi", "v3.259.0", _ARM64): _pulumi(_ARM64, "edc8327463a72160bb36cf82cf5062da9c8a244290a706d9980988e7bf486853"),
    # Sums: github.com/kubernetes-sigs/kubespray, roles/kubespray_defaults/vars/main/checksums.yml.
    ("etcd", "v3.6.8", _X64): _etcd("linux-amd64", "cf9cfe91a4856cb90eed9c99e6aee4b708db2c7888b88a6f116281f04b0ea693"),
    ("etcd", "v3.6.8", _ARM64): _etcd("linux-arm64", "438f56a700d17ce761510a3e63e6fa5c1d587b2dd4d7a22c179c09a649366760"),
    # Sums: Helm's release notes, and the same in the build files of seven public repositories.
    ("helm", "v3.22.0", _X64): _helm("linux-amd64", "1e4ab49e429626cf6c6958d914248b78c9730803c2751b87627e171dc800e7bb"),
    ("helm", "v3.22.0", _ARM64): _helm("linux-arm64", "f14e804dfee240f55525b667488fe9adca349e63e00c9af634c0beb1421ac310"),
}


def release(program: Program) -> Release | None:
    """The release of a program for this machine; None where it has to be built."""
    return RELEASES.get((program.name, pinned_version(program), platform_name()))


def platform_name() -> str:
    """The platform, such as "linux-x64"."""
    machines = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}
    machine = platform.machine().lower()
    return f"{sys.platform}-{machines.get(machine, machine)}"
