"""Official releases of the programs: which archive or image, and the sum of what it must be.

A sum stands here only if it could be read somewhere else than at its own host (docs/decisions/README.md, 125), and only for the
version that the program's go.mod pins: another version is built until its sums stand here. NFD and NVIDIA's programs have none.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.toolchain.programs import WHOLE_ENGINE, pinned_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.toolchain.programs import Program


@dataclass(frozen=True)
class Archive:
    """A .tar.gz with programs, for one platform.

    Attributes:
        url: where it is.
        sha256: of the archive.
        members: which of its files to take: path in the archive -> file name.
    """

    url: str
    sha256: str
    members: Mapping[str, str]


@dataclass(frozen=True)
class ListedArchive:
    """A .tar.gz whose sum stands in a list that its publisher keeps at another host.

    Attributes:
        url: where it is.
        listed_at: where the list is.
        sum: what the list says of it, in hexadecimal digits.
        members: which of its files to take: path in the archive -> file name.
        instead: what whoever does not get it may do, in words.
    """

    url: str
    listed_at: str
    sum: str
    members: Mapping[str, str]
    instead: str


@dataclass(frozen=True)
class Image:
    """A container image whose last layer has a program.

    Attributes:
        url: of its repository, by the protocol of registries.
        sha256: of the list of the images for all platforms, which has the digests of all the rest.
        architecture: which of them.
        members: which files of the layer to take: path -> file name.
    """

    url: str
    sha256: str
    architecture: str
    members: Mapping[str, str]


@dataclass(frozen=True)
class ImageSteps:
    """A container image from which files of several layers are taken: of those that certain steps of its Dockerfile have made.

    Attributes:
        url: of its repository, by the protocol of registries.
        sha256: of the list of the images for all platforms.
        architecture: which of them.
        steps: what the image's own history says of a step -> which of the files that it has brought to take: path in the image,
            that of a folder with a slash at its end -> path below the target.
    """

    url: str
    sha256: str
    architecture: str
    steps: Mapping[str, Mapping[str, str]]


Release = tuple["Archive | Image", ...]


def _pulumi(platform_name: str, sha256: str) -> Release:
    url = f"https://github.com/pulumi/pulumi/releases/download/v3.259.0/pulumi-v3.259.0-{platform_name}.tar.gz"
    names = ("pulumi", "pulumi-language-python", "pulumi-language-python-exec")
    return (Archive(url, sha256, {f"pulumi/{name}": name for name in names}),)


def _etcd(architecture: str, sha256: str) -> Release:
    name = f"etcd-v3.6.8-linux-{architecture}"
    url = f"https://github.com/etcd-io/etcd/releases/download/v3.6.8/{name}.tar.gz"
    return (Archive(url, sha256, {f"{name}/etcd": "etcd"}),)


def _helm(architecture: str, sha256: str) -> Release:
    url = f"https://get.helm.sh/helm-v3.21.4-linux-{architecture}.tar.gz"
    return (Archive(url, sha256, {f"linux-{architecture}/helm": "helm"}),)


def _kubernetes(architecture: str) -> Release:
    digests = {
        "kube-apiserver": "b4bc06c81fd76f81174e6c19ddacf477acdf1583e7a5846ebbd513493aef6e43",
        "kube-controller-manager": "ed56454bf514916079a227f5765b64524fde52106dfcc52978b28634765b78b8",
        "kube-scheduler": "128fc07d278d64c4f2cce416ed0a9f37b23a30cdde6f97873d18c9c78e259df4",
    }
    return tuple(
        Image(f"https://registry.k8s.io/v2/{name}", sha256, architecture, {f"usr/local/bin/{name}": name})
        for name, sha256 in digests.items()
    )


_X64: Final = "linux-x64"
_ARM64: Final = "linux-arm64"
#: (program, version, platform) -> what it consists of.
RELEASES: Final[Mapping[tuple[str, str, str], Release]] = {
    # Its archive has 400 MB, and no sum of it was to be had. Digests: the deployments of three public repositories, which agree.
    ("kubernetes", "v1.36.3", _X64): _kubernetes("amd64"),
    ("kubernetes", "v1.36.3", _ARM64): _kubernetes("arm64"),
    # Sums: Pulumi's formulas for Homebrew, github.com/pulumi/homebrew-tap, Formula/pulumi.rb.
    ("pulumi", "v3.259.0", _X64): _pulumi(_X64, "94ba357acac23d01474084c4b00098dc0f7bc70ce13f34c777459254a5f718e5"),
    ("pulumi", "v3.259.0", _ARM64): _pulumi(_ARM64, "edc8327463a72160bb36cf82cf5062da9c8a244290a706d9980988e7bf486853"),
    # Sums: github.com/kubernetes-sigs/kubespray, roles/kubespray_defaults/vars/main/checksums.yml.
    ("etcd", "v3.6.8", _X64): _etcd("amd64", "cf9cfe91a4856cb90eed9c99e6aee4b708db2c7888b88a6f116281f04b0ea693"),
    ("etcd", "v3.6.8", _ARM64): _etcd("arm64", "438f56a700d17ce761510a3e63e6fa5c1d587b2dd4d7a22c179c09a649366760"),
    # Sums: Helm's release notes, and the same in the build files of other public repositories.
    ("helm", "v3.21.4", _X64): _helm("amd64", "61f88ab166748cb19604d7884cb100ae9ccb13804ddeb98e08af167eacbb6a14"),
    ("helm", "v3.21.4", _ARM64): _helm("arm64", "b54c04b4e0b2540bbdc08c17a121dab70e9a2ed0de5705528fec68a5fd3b85a7"),
}


#: The version of the GPU operator whose image is in the table below.
OPERATOR_VERSION: Final = "v26.7.0"
#: Digest: the bundle of that version for OpenShift, github.com/redhat-openshift-ecosystem/certified-operators,
#: operators/gpu-operator-certified/26.7.0/manifests (VALIDATOR_IMAGE: one image has both). Steps: docker/Dockerfile of
#: github.com/NVIDIA/gpu-operator at that tag.
_OPERATOR_IMAGE: Final = "ddba086bb593713ad6f3b207fd0f9b16eb8910134bb656cb1a2e2ae1b5092400"
_OPERATOR_STEPS: Final[Mapping[str, Mapping[str, str]]] = {
    "COPY /workspace/gpu-operator /usr/bin/": {"usr/bin/gpu-operator": "usr/bin/gpu-operator"},
    "COPY assets /opt/gpu-operator/": {"opt/gpu-operator/": "opt/gpu-operator/"},
    "COPY manifests /opt/gpu-operator/manifests": {"opt/gpu-operator/manifests/": "opt/gpu-operator/manifests/"},
}


def operator_image() -> ImageSteps | None:
    """The image of NVIDIA's GPU operator, for this machine; None where it has none for it."""
    architecture = {_X64: "amd64", _ARM64: "arm64"}.get(platform_name())
    if architecture is None:
        return None
    return ImageSteps("https://nvcr.io/v2/nvidia/gpu-operator", _OPERATOR_IMAGE, architecture, _OPERATOR_STEPS)


def release(program: Program) -> Release | None:
    """The release of a program for this machine; None where it has to be built."""
    name = "pulumi" if program.name == WHOLE_ENGINE else program.name
    return RELEASES.get((name, pinned_version(program), platform_name()))


def platform_name() -> str:
    """The platform, such as "linux-x64"."""
    machines = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}
    machine = platform.machine().lower()
    return f"{sys.platform}-{machines.get(machine, machine)}"
