"""Images for the node, assembled from programs that are on this machine or were made for it: there is no registry.

An image is a list of layers; a layer holds programs with the libraries that the loader finds for them, in the places where it
does. All images go into one archive in the OCI layout, under the names that pods ask for. Not here: anybody's published image;
what a pod runs in one of these is what this machine has.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: What scripts in pods call; those that this machine has.
_TOOLS: Final = (
    "sh", "bash", "cat", "cp", "date", "echo", "env", "false", "grep", "head", "hostname", "id", "ln", "ls", "mkdir", "mv",
    "nproc", "nsenter", "ps", "printf", "readlink", "rm", "sed", "seq", "sleep", "sort", "stat", "tail", "test", "touch", "tr",
    "true", "uname", "wc",
)  # fmt: skip
_FOLDERS: Final = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr/bin", "usr/lib", "var")
#: Parts of Python's library that need more than an image has, or that nothing runs.
_PYTHON_WITHOUT: Final = (
    "site-packages",
    "test",
    "tests",
    "idlelib",
    "lib2to3",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "__pycache__",
)
#: What every system has beside the C library, and nobody here is linked with. Newer ones have all of C in one file, and these for
#: whoever asks for them: NVIDIA's driver does. Without the last a thread that ends takes its program with it.
_OF_C: Final = (
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "libm.so.6",
    "libresolv.so.2",
    "libutil.so.1",
    "libgcc_s.so.1",
)
_LIBRARY: Final = re.compile(r"(?:=> )?(/\S+) \(0x")
_MEDIA: Final = "application/vnd.oci.image"
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_EXECUTABLE: Final = 0o755


@dataclass(frozen=True)
class Layer:
    """Files of an image.

    Attributes:
        programs: path in the image -> program of this machine; its libraries come with it.
        trees: folders that are in the image where they are on this machine, with the libraries of what can be loaded there.
        links: path in the image -> what it points to.
    """

    programs: Mapping[str, Path] = field(default_factory=dict)
    trees: tuple[Path, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Image:
    """One image.

    Attributes:
        names: under which pods ask for it, with registry and tag or digest.
        layers: from the bottom.
        command: what it runs when the pod says nothing.
        user: as whom, by number; empty: root.
        environment: variables besides PATH.
    """

    names: tuple[str, ...]
    layers: tuple[Layer, ...]
    command: tuple[str, ...] = ("sh",)
    user: str = ""
    environment: tuple[tuple[str, str], ...] = ()


def tools() -> Layer:
    """A shell and what scripts call."""
    found = {f"/usr/bin/{name}": Path(path) for name in _TOOLS if (path := shutil.which(name))}
    # Where the loader looks besides the usual folders: a Python below /usr/local has its library there.
    loader = [Path("/etc/ld.so.cache"), Path("/etc/ld.so.conf"), *Path("/etc/ld.so.conf.d").glob("*.conf")]
    found |= {str(path): path for path in loader if path.is_file()}
    of_c = [folder / name for folder in _folders_of_c(Path(found["/usr/bin/sh"])) for name in _OF_C]
    found |= {str(library): library for library in of_c if library.exists()}
    merged = {f"/{name}": f"usr/{name}" for name in ("bin", "sbin", "lib", "lib64") if Path(f"/{name}").is_symlink()}
    return Layer(found, links=merged)


def python() -> Layer:
    """The Python that runs here, without packages."""
    program = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    library = Path(os.__file__).parent
    links = {f"/usr/local/bin/{name}": str(program) for name in ("python3", "python")}
    return Layer({str(program): program}, (library,), links)


def _folders_of_c(program: Path) -> set[Path]:
    """Where the C library lies that a program is linked with, by the name that does not go through a link."""
    return {library.parent.resolve() for library in libraries(program) if library.name.startswith("libc.so.")}


def by_digest(name: str) -> str:
    """What a container runtime calls an image of Docker's own that a pod pins by digest: its tag does not count."""
    image, _, digest = name.partition("@")
    return f"docker.io/library/{image.partition(':')[0]}@{digest}"


class Packed:
    """Layers that were packed, each once."""

    def __init__(self) -> None:
        """None yet."""
        self._blobs: dict[int, tuple[Layer, Blob]] = {}

    def layer(self, layer: Layer) -> Blob:
        """What a layer is as a file."""
        if id(layer) not in self._blobs:
            self._blobs[id(layer)] = (layer, Blob.of(_pack(layer), f"{_MEDIA}.layer.v1.tar"))
        return self._blobs[id(layer)][1]


def write(path: Path, images: Sequence[Image], packed: Packed) -> None:
    """Write an archive that a container runtime imports.

    Args:
        path: of the archive.
        images: what is in it.
        packed: the layers that are packed already; it gets the others.
    """
    blobs: dict[str, Blob] = {}
    manifests = []
    for image in images:
        layers = [packed.layer(layer) for layer in image.layers]
        runs = {"Cmd": list(image.command), "User": image.user}
        config, manifest = described([layer.reference() for layer in layers], runs, dict(image.environment))
        blobs |= {blob.digest: blob for blob in (*layers, config, manifest)}
        manifests += [{**manifest.reference(), "annotations": {"io.containerd.image.name": name}} for name in image.names]
    index = {"schemaVersion": 2, "mediaType": f"{_MEDIA}.index.v1+json", "manifests": manifests}
    with tarfile.open(path, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(archive, "index.json", json.dumps(index).encode())
        for digest, blob in blobs.items():
            _add(archive, f"blobs/sha256/{digest}", blob.content)


@dataclass(frozen=True)
class Blob:
    """A file of an image.

    Attributes:
        digest: SHA-256.
        content: its bytes.
        kind: its media type.
    """

    digest: str
    content: bytes
    kind: str

    @classmethod
    def of(cls, content: bytes, kind: str) -> Self:
        """The file of a content."""
        return cls(hashlib.sha256(content).hexdigest(), content, kind)

    def reference(self) -> dict[str, Any]:
        """How others name it."""
        return {"mediaType": self.kind, "digest": f"sha256:{self.digest}", "size": len(self.content)}


def described(layers: Sequence[Mapping[str, Any]], runs: Mapping[str, Any], more: Mapping[str, str]) -> tuple[Blob, Blob]:
    """An image's configuration and its manifest.

    Args:
        layers: references to its layers.
        runs: its command and user, in the words of the configuration.
        more: variables besides PATH.
    """
    platform = {"architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine], "os": "linux"}
    settings = {"Env": [_PATH, *(f"{name}={value}" for name, value in more.items())], "WorkingDir": "/", **runs}
    root = {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]}
    config = Blob.of(json.dumps({**platform, "config": settings, "rootfs": root}).encode(), f"{_MEDIA}.config.v1+json")
    kind = f"{_MEDIA}.manifest.v1+json"
    references = {"config": config.reference(), "layers": list(layers)}
    return config, Blob.of(json.dumps({"schemaVersion": 2, "mediaType": kind, **references}).encode(), kind)


def _pack(layer: Layer) -> bytes:
    content = io.BytesIO()
    known: set[str] = set()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, target in layer.links.items():
            _add_parents(archive, name, known)
            link = tarfile.TarInfo(name.lstrip("/"))
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for folder in _FOLDERS:
            _add_parents(archive, f"{folder}/file", known)
        files = {**layer.programs, **{str(path): path for tree in layer.trees for path in _tree(tree)}}
        for program in {*layer.programs.values(), *(path for path in files.values() if path.suffix == ".so")}:
            files |= {str(library.parent.resolve() / library.name): library for library in libraries(program)}
        for name, path in sorted(files.items()):
            _add_parents(archive, name, known)
            _add(archive, name.lstrip("/"), path.read_bytes(), path.stat().st_mode & 0o777 | 0o444)
    return content.getvalue()


def _add_parents(archive: tarfile.TarFile, name: str, known: set[str]) -> None:
    """The folders above a file, which everybody may enter."""
    for folder in reversed(Path(name.lstrip("/")).parents[:-1]):
        if str(folder) not in known:
            known.add(str(folder))
            info = tarfile.TarInfo(str(folder))
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if str(folder) == "tmp" else _EXECUTABLE
            archive.addfile(info)


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    archive.addfile(info, io.BytesIO(content))


def _tree(folder: Path) -> Iterable[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _PYTHON_WITHOUT and not name.startswith("config-")]
        yield from (path for name in files if (path := Path(place) / name).is_file())


@lru_cache(maxsize=256)
def libraries(program: Path) -> tuple[Path, ...]:
    """The libraries that the loader finds for a program, and the loader."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    # It says so, and fails, where a program is linked statically.
    return tuple(Path(found) for found in _LIBRARY.findall(listed.stdout)) if listed.returncode == 0 else ()
