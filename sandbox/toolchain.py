"""The real programs of the sandbox: found on this machine, else built.

No program is downloaded: what is built comes from Go modules, whose sums are in the go.sum beside each go.mod, so that neither a
registry nor an archive's own host can give another one. Each program that can be built has a Go module of its own in programs/;
its go.mod is the only place that says which version. What is built is kept in a cache that all checkouts of a user share, in a
folder named by program, version and a hash of everything that decides the result; it appears there whole or not at all.

A program found on the machine is taken only in a version that fits the others: a controller-manager, for
example, must be of the API server's minor version. Nothing is ever installed outside the cache.

`python -m sandbox.toolchain` finds or builds all of them and prints where each one is.
"""

from __future__ import annotations

if __name__ == "__main__":
    from gpus.interrupts import end_at_once

    # Before the rest is loaded.
    end_at_once()

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpus.interrupts import answered
from sandbox import trust
from sandbox.errors import SandboxError
from sandbox.files import explained, locked
from sandbox.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    Version = tuple[int, int, int]

_PROGRAMS = Path(__file__).parent / "programs"
_VERSION_SECONDS = 30.0
_OUTPUT_LINES = 15
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
# What the Go command prints when it cannot get at a module's source.
_NO_NETWORK = re.compile(
    r"dial tcp|no such host|connection refused|i/o timeout|TLS handshake|proxyconnect|module lookup disabled"
    r"|network is unreachable|: EOF$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class ModuleFile:
    """A file that is taken as it is from the sources of a Go module.

    Attributes:
        module_folder: the folder below programs/ whose go.mod pins the module.
        module: the module's path.
        path: the file, relative to the module's root.
    """

    module_folder: str
    module: str
    path: str


@dataclass(frozen=True)
class Program:
    """Programs that are built together from one Go module.

    Attributes:
        folder: the folder below programs/ with go.mod and go.sum.
        module: the module whose version in go.mod is the programs' version.
        packages: what to build, as program name -> Go package.
        version_symbol: the Go variable that the version is linked into; None when the program knows it.
        minutes: about how long a first build takes on two cores.
        copies: files to put beside the programs.
        cgo: whether it needs a C compiler: NVIDIA's programs load libnvidia-ml.so.1 by way of C.
    """

    folder: str
    module: str
    packages: Mapping[str, str]
    version_symbol: str | None
    minutes: float
    copies: tuple[ModuleFile, ...] = ()
    cgo: bool = False


@dataclass(frozen=True)
class _Search:
    """How to recognise a program that this machine has.

    Attributes:
        tool: the name in Tools.
        program: the file name.
        built_by: the folder of the Program that builds it.
        version_arguments: makes the program print its version.
        accepts: says whether a version (second) fits the pinned one (first).
        wanted: the accepted versions in words.
        assets: whether KUBEBUILDER_ASSETS may hold it.
    """

    tool: str
    program: str
    built_by: str
    version_arguments: tuple[str, ...]
    accepts: Callable[[Version, Version], bool]
    wanted: str
    assets: bool = False


@dataclass(frozen=True)
class Tools:
    """Where the programs are. A tool that was not asked for keeps its bare name and has no origin.

    Attributes:
        kubernetes_plugin: the real Kubernetes provider when this machine has it.
        openstack_plugin: the real OpenStack provider when this machine has it.
        nvml: the simulated libnvidia-ml.so.1; None where the nodes are not to run the programs of GPU nodes.
        origin: tool -> "PATH", "KUBEBUILDER_ASSETS", "built" or "cache".
    """

    pulumi: Path = Path("pulumi")
    etcd: Path = Path("etcd")
    kube_apiserver: Path = Path("kube-apiserver")
    kube_controller_manager: Path = Path("kube-controller-manager")
    kube_scheduler: Path = Path("kube-scheduler")
    helm: Path = Path("helm")
    nfd_master: Path = Path("nfd-master")
    gpu_feature_discovery: Path = Path("gpu-feature-discovery")
    nvidia_device_plugin: Path = Path("nvidia-device-plugin")
    nvidia_mig_parted: Path = Path("nvidia-mig-parted")
    config_manager: Path = Path("config-manager")
    kubernetes_plugin: Path | None = None
    openstack_plugin: Path | None = None
    nvml: Path | None = None
    origin: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Found:
    """A program and where it came from."""

    path: Path
    origin: str


_LANGUAGE_HOST = "pulumi-language-python"


def _device_plugin(minor: str) -> Program:
    """GPU feature discovery and the device plugin, which come from one module."""
    commands = "github.com/NVIDIA/k8s-device-plugin/cmd"
    return Program(
        folder=f"device-plugin-{minor}",
        module="github.com/NVIDIA/k8s-device-plugin",
        packages={name: f"{commands}/{name}" for name in ("gpu-feature-discovery", "nvidia-device-plugin")},
        version_symbol="github.com/NVIDIA/k8s-device-plugin/internal/info.version",
        minutes=2,
        cgo=True,
    )


PROGRAMS: tuple[Program, ...] = (
    Program(
        folder="pulumi",
        module="github.com/pulumi/pulumi/pkg/v3",
        packages={"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
        version_symbol="github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
        minutes=3.5,
    ),
    Program(
        folder=_LANGUAGE_HOST,
        module="github.com/pulumi/pulumi/sdk/v3",
        packages={_LANGUAGE_HOST: "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"},
        version_symbol="github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
        minutes=0.5,
        # The newest sources of the language host that the module carries are older than the engine; the
        # script that it runs programs with must be the engine's.
        copies=(
            ModuleFile(
                module_folder="pulumi",
                module="github.com/pulumi/pulumi/sdk/v3",
                path="python/cmd/pulumi-language-python-exec",
            ),
        ),
    ),
    Program(
        folder="kubernetes",
        module="k8s.io/kubernetes",
        packages={
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
            "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        },
        version_symbol="k8s.io/component-base/version.gitVersion",
        minutes=4,
    ),
    Program(
        folder="etcd",
        module="go.etcd.io/etcd/server/v3",
        packages={"etcd": "go.etcd.io/etcd/server/v3"},
        version_symbol=None,
        minutes=0.5,
    ),
    Program(
        folder="helm",
        module="helm.sh/helm/v3",
        packages={"helm": "helm.sh/helm/v3/cmd/helm"},
        version_symbol="helm.sh/helm/v3/internal/version.version",
        minutes=1,
    ),
    Program(
        folder="nfd-master",
        module="sigs.k8s.io/node-feature-discovery",
        packages={"nfd-master": "sigs.k8s.io/node-feature-discovery/cmd/nfd-master"},
        version_symbol="sigs.k8s.io/node-feature-discovery/pkg/version.version",
        minutes=1,
    ),
    _device_plugin("v0.19"),
    # A module of its own: it needs neither C nor what the others need of Kubernetes.
    Program(
        folder="config-manager",
        module="github.com/NVIDIA/k8s-device-plugin",
        packages={"config-manager": "github.com/NVIDIA/k8s-device-plugin/cmd/config-manager"},
        version_symbol=None,
        minutes=1.5,
    ),
    # For comparing with an older one only.
    _device_plugin("v0.17"),
    Program(
        folder="mig-parted",
        module="github.com/NVIDIA/mig-parted",
        packages={"nvidia-mig-parted": "github.com/NVIDIA/mig-parted/cmd/nvidia-mig-parted"},
        version_symbol="github.com/NVIDIA/mig-parted/internal/info.version",
        minutes=0.3,
        cgo=True,
    ),
    # For programs that use the components from YAML; found by find_built.
    Program(
        folder="pulumi-language-yaml",
        module="github.com/pulumi/pulumi-yaml",
        packages={"pulumi-language-yaml": "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml"},
        version_symbol="github.com/pulumi/pulumi-yaml/pkg/version.Version",
        minutes=1,
    ),
    # For jobs that deploy (put_engine): the sandbox has a stand-in, since there is no Entra ID here.
    Program(
        folder="kubelogin",
        module="github.com/Azure/kubelogin",
        packages={"kubelogin": "github.com/Azure/kubelogin"},
        version_symbol="main.gitTag",
        minutes=1.5,
    ),
    # Reads the pipelines of this repository.
    Program(
        folder="actionlint",
        module="github.com/rhysd/actionlint",
        packages={"actionlint": "github.com/rhysd/actionlint/cmd/actionlint"},
        version_symbol="github.com/rhysd/actionlint.version",
        minutes=0.3,
    ),
    # Has images for tests. Of the project's own main.go, which leaves the clients of three clouds out: a third of the time.
    Program(
        folder="registry",
        module="github.com/distribution/distribution/v3",
        packages={"registry": "gpu-pools.invalid/sandbox/registry"},
        version_symbol="github.com/distribution/distribution/v3/version.version",
        minutes=0.7,
    ),
)


def _same_minor(pinned: Version, found: Version) -> bool:
    return found[:2] == pinned[:2]


def _same_major_from(minor: int) -> Callable[[Version, Version], bool]:
    return lambda pinned, found: found[0] == pinned[0] and found[1] >= minor


_VERSION_FLAG = ("--version",)
_SAME_MINOR = "the minor version in programs/kubernetes/go.mod"
_SAME_PLUGIN = "the minor version in programs/device-plugin-v0.19/go.mod"
_SEARCHES: tuple[_Search, ...] = (
    _Search("pulumi", "pulumi", "pulumi", ("version",), _same_major_from(200), "3.200 or newer, below 4"),
    _Search("etcd", "etcd", "etcd", _VERSION_FLAG, _same_major_from(5), "3.5 or newer, below 4", assets=True),
    _Search("kube_apiserver", "kube-apiserver", "kubernetes", _VERSION_FLAG, _same_minor, _SAME_MINOR, assets=True),
    _Search(
        "kube_controller_manager",
        "kube-controller-manager",
        "kubernetes",
        _VERSION_FLAG,
        _same_minor,
        _SAME_MINOR,
    ),
    _Search("kube_scheduler", "kube-scheduler", "kubernetes", _VERSION_FLAG, _same_minor, _SAME_MINOR),
    _Search("helm", "helm", "helm", ("version", "--short"), _same_major_from(8), "3.8 or newer, below 4"),
    _Search("nfd_master", "nfd-master", "nfd-master", ("-version",), _same_major_from(17), "0.17 or newer"),
    _Search("gpu_feature_discovery", "gpu-feature-discovery", "device-plugin-v0.19", _VERSION_FLAG, _same_minor, _SAME_PLUGIN),
    _Search("nvidia_device_plugin", "nvidia-device-plugin", "device-plugin-v0.19", _VERSION_FLAG, _same_minor, _SAME_PLUGIN),
    _Search("nvidia_mig_parted", "nvidia-mig-parted", "mig-parted", _VERSION_FLAG, _same_major_from(10), "0.10 or newer"),
    _Search("config_manager", "config-manager", "config-manager", _VERSION_FLAG, _same_minor, _SAME_PLUGIN),
)
TOOLS: tuple[str, ...] = tuple(search.tool for search in _SEARCHES)
GPU_TOOLS: frozenset[str] = frozenset({"gpu_feature_discovery", "nvidia_device_plugin", "nvidia_mig_parted", "config_manager"})
"""What runs on a GPU node; sandbox.node_tools says where they can."""
PLATFORM_TOOLS: frozenset[str] = frozenset(TOOLS) - GPU_TOOLS
"""What bringing a stack up needs in any case."""


def find_tools(progress: Progress, *, only: Collection[str] | None = None) -> Tools:
    """Find every program that the sandbox runs; build what is missing.

    Args:
        progress: told about each build.
        only: names out of TOOLS; None for all.

    Raises:
        SandboxError: when a program is neither there nor can be built.
        ValueError: when `only` names something else.
    """
    wanted = set(TOOLS if only is None else only)
    if not wanted <= set(TOOLS):
        message = f"unknown tools: {sorted(wanted - set(TOOLS))}; known are {list(TOOLS)}"
        raise ValueError(message)
    found = {search.tool: _find(search, progress) for search in _SEARCHES if search.tool in wanted}
    if "pulumi" in found and _is_built("pulumi", found["pulumi"].path):
        found["pulumi"] = replace(found["pulumi"], path=_beside_its_language_host(found["pulumi"].path, progress))
    return Tools(
        **{tool: one.path for tool, one in found.items()},
        kubernetes_plugin=_plugin("kubernetes", major=4),
        openstack_plugin=_plugin("openstack", major=5),
        origin={tool: one.origin for tool, one in found.items()},
    )


def find_built(folder: str, progress: Progress) -> Path:
    """Find the programs of one Go module in exactly the version that it pins, whatever is on this machine; build them if need be.

    Args:
        folder: the module's folder below programs/.
        progress: told about the build.

    Returns:
        The folder with the programs.

    Raises:
        SandboxError: when they cannot be built.
    """
    return _built(_program(folder), progress)[0]


def go_build(program: Program, folder: Path) -> None:
    """Build the programs of one Go module.

    Args:
        program: what to build.
        folder: an existing folder for the results.

    Raises:
        SandboxError: when Go is missing or too old, the sources cannot be had, or the build fails.
    """
    module = _PROGRAMS / program.folder
    go = _go(program)
    # One at a time, so that each gets its own name: Go would name etcd after its module's folder.
    for name, package in program.packages.items():
        _run_go([go, "build", *_build_flags(program), "-o", str(folder / name), package], module, cgo=program.cgo)
    for copy in program.copies:
        _copy_module_file(go, copy, folder)


def pinned_version(program: Program) -> str:
    """Return the version that the program's go.mod requires, such as "v1.36.3"."""
    return _pin(program.folder, program.module)


def cache_folder() -> Path:
    """Return the folder of built programs.

    Raises:
        SandboxError: when others could put programs into it.
    """
    own = os.environ.get("GPU_POOLS_CACHE")
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-pools"
    return trust.require(Path(own) if own else usual, "the cache of programs")


# --- one tool ---------------------------------------------------------------------------------------------


def _find(search: _Search, progress: Progress) -> _Found:
    """Find one tool: on the machine, in the cache, by building it."""
    program = _program(search.built_by)
    here = _on_this_machine(search, program, progress)
    if here is not None:
        return here
    folder, origin = _built(program, progress)
    return _Found(folder / search.program, origin)


def _on_this_machine(search: _Search, program: Program, progress: Progress) -> _Found | None:
    """Look where this machine keeps programs; pass over a version that does not fit."""
    for path, origin in _candidates(search):
        if why := trust.trouble(path):
            progress.note(f"{path} ({origin}) is not used: {why}")
            continue
        version = _version_of(path, search.version_arguments)
        pinned = _parse(pinned_version(program))
        if version is not None and pinned is not None and search.accepts(pinned, version):
            return _Found(path, origin)
        seen = "unknown" if version is None else ".".join(map(str, version))
        progress.note(f"{path} ({origin}) is not used: version {seen}, wanted: {search.wanted}")
    return None


def _candidates(search: _Search) -> Iterator[tuple[Path, str]]:
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
    return _parse(done.stdout)


def _parse(text: str) -> Version | None:
    """Return the first version in a text."""
    match = _VERSION.search(text)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3] or 0))


def _plugin(provider: str, *, major: int) -> Path | None:
    """Find a real provider, of the major version that the program's SDK has."""
    name = f"pulumi-resource-{provider}"
    on_path = shutil.which(name)
    if on_path is not None:
        return Path(on_path)
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    installed = [p for p in home.glob(f"plugins/resource-{provider}-v{major}.*/{name}") if p.is_file()]
    return max(installed, key=lambda p: _parse(p.parent.name) or (0, 0, 0), default=None)


# --- built programs ---------------------------------------------------------------------------------------


def _program(folder: str) -> Program:
    return next(program for program in PROGRAMS if program.folder == folder)


def _built(program: Program, progress: Progress) -> tuple[Path, str]:
    """Return the cache folder of a program and "built" or "cache"; builds it when it is not there."""
    target = cache_folder() / _cache_name(program)
    names = " + ".join(program.packages)
    text = f"Building {names} {pinned_version(program)} (first time only, about {_duration(program.minutes)})"
    origin = make_once(target, text, lambda folder: go_build(program, folder), progress, "built")
    return target, origin


def make_once(target: Path, text: str, make: Callable[[Path], None], progress: Progress, origin: str) -> str:
    """Fill a cache folder once, whoever asks first; return the origin, or "cache" when it was there."""
    if target.is_dir():
        return "cache"
    with locked(target):
        if target.is_dir():
            return "cache"
        prefix = f".{target.name}.making-"
        with explained(target.parent, "write to"):
            # Whoever left these was killed: it no longer holds the lock.
            for stale in target.parent.glob(f"{prefix}*"):
                shutil.rmtree(stale)
            making = Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix))
        try:
            with progress.step(text):
                make(making)
            with explained(target, "create"):
                making.chmod(0o755)
                making.rename(target)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return origin


def _beside_its_language_host(pulumi: Path, progress: Progress) -> Path:
    """A built pulumi in one folder with its language host, as in a release: of one elsewhere the engine warns in every run."""
    host = _built(_program(_LANGUAGE_HOST), progress)[0]
    target = cache_folder() / f"{pulumi.parent.name}-with-{host.name}"

    def link(folder: Path) -> None:
        with explained(folder, "link into"):
            for path in (pulumi, *host.iterdir()):
                os.link(path, folder / path.name)

    make_once(target, f"Putting {pulumi.name} and its language host side by side", link, progress, "built")
    return target / pulumi.name


def _is_built(folder: str, path: Path) -> bool:
    """Say whether a program was built here, not found."""
    return path.parent == cache_folder() / _cache_name(_program(folder))


def _cache_name(program: Program) -> str:
    """Name the cache folder of a program after everything that decides what is built."""
    digest = hashlib.sha256()
    folders = [program.folder, *(copy.module_folder for copy in program.copies)]
    for path in (path for folder in folders for path in _decisive(_PROGRAMS / folder)):
        digest.update(path.read_bytes())
    digest.update(json.dumps([_build_flags(program), list(program.packages.values()), _platform()]).encode())
    return f"{program.folder}-{pinned_version(program)}-{digest.hexdigest()[:12]}"


def _decisive(folder: Path) -> list[Path]:
    """The files that say what is built: most programs have no source of our own."""
    return [folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go"))]


def _build_flags(program: Program) -> list[str]:
    link = ["-s", "-w"]
    if program.version_symbol is not None:
        link += ["-X", f"{program.version_symbol}={pinned_version(program)}"]
    if program.cgo:
        # Symbols are looked for when they are called: the library that has them is loaded by the program itself.
        link.append("-extldflags=-Wl,-z,lazy")
    return ["-trimpath", "-ldflags", " ".join(link)]


def _pin(folder: str, module: str) -> str:
    """Read the version of a module from the go.mod of a folder."""
    path = _PROGRAMS / folder / "go.mod"
    requirement = re.compile(rf"^\s*(?:require\s+)?{re.escape(module)}\s+(v\S+)", re.MULTILINE)
    match = requirement.search(path.read_text("utf-8"))
    if match is None:
        message = f"{path}: does not require {module}."
        raise SandboxError(message, "Restore the file: git checkout -- sandbox/programs")
    return match[1]


def _go(program: Program) -> str:
    """Find a Go command that can build the program."""
    names = ", ".join(program.packages)
    go = shutil.which("go")
    needed = _pin_of_go(program.folder)
    variable = " (or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver)"
    hint = variable if program.folder in {"etcd", "kubernetes"} else ""
    remedy = f"Install Go {needed} or newer (https://go.dev/dl/), or put {names} on PATH{hint}."
    if go is None:
        message = f"{names}: not on this machine, and there is no Go to build it with."
        raise SandboxError(message, remedy)
    # Asked in the module's folder: Go may fetch the newer toolchain that the module wants by itself.
    done = subprocess.run([go, "env", "GOVERSION"], cwd=_PROGRAMS / program.folder, capture_output=True, text=True, check=False)
    version = _parse(done.stdout)
    required = _parse(needed)
    if version is None or required is None or version < required:
        seen = done.stdout.strip() or done.stderr.strip()
        message = f"{names}: {go} is too old to build it: {seen}, needed is go{needed} or newer."
        raise SandboxError(message, remedy)
    return go


def _pin_of_go(folder: str) -> str:
    """Read the Go version that a go.mod asks for."""
    text = (_PROGRAMS / folder / "go.mod").read_text("utf-8")
    match = re.search(r"^go\s+(\S+)", text, re.MULTILINE)
    return match[1] if match else "1.21"


def _run_go(command: list[str], module: Path, *, cgo: bool = False) -> str:
    """Run a Go command in a module's folder and return its output."""
    environment = {**os.environ, "CGO_ENABLED": "1" if cgo else "0", "GOWORK": "off"}
    done = subprocess.run(command, cwd=module, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 0:
        return done.stdout
    tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_OUTPUT_LINES:])
    message = f"{module}: go {command[1]} failed (exit status {done.returncode}):\n{tail}"
    if _NO_NETWORK.search(tail):
        remedy = "Check the network, or set GOPROXY (and HTTPS_PROXY) to a proxy that can be reached from here."
        raise SandboxError(message, f"The sources come from Go's module proxy. {remedy}")
    raise SandboxError(message, "Read the output above; `go env` shows the settings in effect, as GOFLAGS.")


def _copy_module_file(go: str, copy: ModuleFile, folder: Path) -> None:
    """Copy a file out of a module's sources, made executable."""
    version = _pin(copy.module_folder, copy.module)
    output = _run_go([go, "mod", "download", "-json", f"{copy.module}@{version}"], _PROGRAMS / copy.module_folder)
    source = Path(json.loads(output)["Dir"]) / copy.path
    target = folder / source.name
    with explained(target, "write"):
        shutil.copyfile(source, target)
        target.chmod(0o755)


def _duration(minutes: float) -> str:
    return f"{minutes:g} min" if minutes >= 1 else f"{minutes * 60:.0f} s"


def _platform() -> str:
    """Return the platform, such as "linux-x64"."""
    machines = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}
    machine = platform.machine().lower()
    return f"{sys.platform}-{machines.get(machine, machine)}"


# --- command ----------------------------------------------------------------------------------------------


def table(tools: Tools, only: Collection[str] = TOOLS) -> str:
    """Return a table of the tools: name, origin, path."""
    rows = [("TOOL", "ORIGIN", "PATH")]
    rows += [(tool, tools.origin[tool], str(getattr(tools, tool))) for tool in only if tool in tools.origin]
    for name, plugin in (("kubernetes", tools.kubernetes_plugin), ("openstack", tools.openstack_plugin)):
        rows.append((f"{name} plugin", "installed" if plugin else "stand-in", str(plugin or "-")))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}" for row in rows)


def put_engine(folder: Path, progress: Progress) -> None:
    """Put what deploys into a folder, in exactly the version that is pinned, whatever is on this machine.

    Pulumi with its language host, and kubelogin, with which it gets into clusters with Entra ID.

    Args:
        folder: where to; made if need be.
        progress: told about a build.

    Raises:
        SandboxError: when they cannot be built.
    """
    built = _beside_its_language_host(find_built("pulumi", progress) / "pulumi", progress)
    login = find_built("kubelogin", progress) / "kubelogin"
    with explained(folder, "copy into"):
        shutil.copytree(built.parent, folder, dirs_exist_ok=True)
        shutil.copy2(login, folder / login.name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Find or build all tools and print where they are; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.toolchain", description="Find or build the programs.")
    parser.add_argument(
        "--engine", type=Path, metavar="FOLDER", help="only build the pinned pulumi and kubelogin, and put them there"
    )
    engine: Path | None = parser.parse_args(arguments).engine
    try:
        if engine is not None:
            put_engine(engine, Progress())
            return 0
        tools = find_tools(Progress())
    except SandboxError as error:
        sys.stderr.write(f"error: {error.message}\n{error.remedy}\n")
        return 1
    sys.stdout.write(table(tools) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(answered(main))
