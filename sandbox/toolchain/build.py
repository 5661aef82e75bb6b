"""Builds programs from their Go modules.

All are built with the same options, so that what they share is compiled once. Nothing for a debugger is made: the linker
could leave it out, too, but after the compiler has spent a twentieth of its time on it. A newer Go may be fetched by Go itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.system.errors import SandboxError
from sandbox.system.files import explained
from sandbox.toolchain import libseccomp
from sandbox.toolchain.left_out import without
from sandbox.toolchain.meter import Meter
from sandbox.toolchain.programs import FOLDER, pin, pinned_go, pinned_version
from sandbox.toolchain.version import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sandbox.toolchain.programs import ModuleFile, Program

_OUTPUT_LINES: Final = 15
_SAME_FOR_ALL: Final = ("-trimpath", "-gcflags=all=-dwarf=false")
#: With Go's own resolver and user database also beside C: else most of a program with C were compiled a second time.
_BESIDE_C: Final = ("netgo", "osusergo")
#: What nearly every program has of Go's own library.
_STANDARD: Final = ("net/http", "text/template", "encoding/json", "encoding/xml", "go/format", "compress/gzip", "log/slog")
#: The compiler sweeps its memory less often, up to that limit: an eighth of its time.
_MORE_MEMORY: Final = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
#: Two builds at a time, each of which compiles twice at a time or links a large program.
_MEMORY_BYTES: Final = 6 * 1024**3
_RUNNING: Final[set[subprocess.Popen[str]]] = set()
# What the Go command prints when it cannot get at a module's source.
_NO_NETWORK: Final = re.compile(
    r"dial tcp|no such host|connection refused|i/o timeout|TLS handshake|proxyconnect|module lookup disabled"
    r"|network is unreachable|: EOF$",
    re.MULTILINE,
)


def go_build(program: Program, folder: Path, meter: Meter | None = None) -> None:
    """Build the programs of one Go module.

    Args:
        program: what to build.
        folder: an existing folder for the results.
        meter: measures the processor time of the build.

    Raises:
        SandboxError: when Go is missing or too old, the sources cannot be had, or the build fails.
    """
    go = _go(program)
    if program.packages:
        _build_packages(go, program, folder, meter)
    for copy in program.copies:
        _copy_from_module(go, copy, folder)


def _build_packages(go: str, program: Program, folder: Path, meter: Meter | None) -> None:
    packages = program.packages
    # Go names one after the last part of its package, and etcd's is `server`. Several go in one run: while one is linked, by one
    # core, the next is compiled.
    output = str(folder / next(iter(packages))) if len(packages) == 1 else f"{folder}/"
    flags = build_flags(program)
    with ExitStack() as stack:
        if program.left_out:
            copies = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            flags.append(f"-modfile={without(program.left_out, _modules(go, program), FOLDER / program.graph, copies)}")
        more = stack.enter_context(libseccomp.settings()) if program.libseccomp else {}
        command = [go, "build", *flags, "-o", output, *packages.values()]
        _run_go(command, program.graph, cgo=program.cgo, more=more, meter=meter)


def build_standard_library(program: Program, meter: Meter | None = None) -> None:
    """Compile what nearly all programs share, for Go's own cache: two builds at a time would each do it.

    Args:
        program: any of those that are to be built.
        meter: measures the processor time.
    """
    _run_go([_go(program), "build", *_SAME_FOR_ALL, *_STANDARD], program.graph, meter=meter)


def has_memory() -> bool:
    """Whether this machine bears two builds at a time."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >= _MEMORY_BYTES


def stop_builds() -> None:
    """End what is being built in other threads. Go puts its own things in order at this signal."""
    for process in list(_RUNNING):
        process.send_signal(signal.SIGINT)


def build_flags(program: Program) -> list[str]:
    """How Go is told to build a program; a part of what decides the result."""
    version = {} if program.version_symbol is None else {program.version_symbol: pinned_version(program)}
    link = ["-s", "-w"]
    for variable, value in {**version, **program.linked}.items():
        link += ["-X", f"{variable}={value}"]
    if program.cgo:
        # Symbols are looked for when they are called: the library that has them is loaded by the program itself.
        link.append("-extldflags=-Wl,-z,lazy")
    tags = [*(_BESIDE_C if program.cgo else ()), *program.tags]
    return [*_SAME_FOR_ALL, *([f"-tags={','.join(tags)}"] if tags else []), "-ldflags", " ".join(link)]


def _modules(go: str, program: Program) -> dict[str, Path]:
    """Where Go has the sources of the modules of which packages are left out."""
    modules = sorted({part.module for part in program.left_out})
    # Modules are asked for, not packages: one that lacks files may be what is left out.
    _run_go([go, "mod", "download", *modules], program.graph)
    listed = _run_go([go, "list", "-m", "-f", "{{.Path}} {{.Dir}}", *modules], program.graph)
    return {module: Path(folder) for module, folder in (line.split(" ", 1) for line in listed.splitlines())}


def _go(program: Program) -> str:
    """Find a Go command that can build the program."""
    names = ", ".join(program.packages) or program.name
    go = shutil.which("go")
    needed = pinned_go(program.graph)
    variable = " (or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver)"
    hint = variable if program.name in {"etcd", "kubernetes"} else ""
    # What is linked into it is ours: another one would not do.
    instead = "" if program.linked else f", or put {names} on PATH{hint}"
    remedy = f"Install Go {needed} or newer (https://go.dev/dl/){instead}."
    if go is None:
        message = f"{names}: not on this machine, and there is no Go to build it with."
        raise SandboxError(message, remedy)
    # Asked in the module's folder: Go may fetch the newer toolchain that the module wants by itself.
    done = subprocess.run([go, "env", "GOVERSION"], cwd=FOLDER / program.graph, capture_output=True, text=True, check=False)
    version = parsed(done.stdout)
    required = parsed(needed)
    if version is None or required is None or version < required:
        seen = done.stdout.strip() or done.stderr.strip()
        message = f"{names}: {go} is too old to build it: {seen}, needed is go{needed} or newer."
        raise SandboxError(message, remedy)
    return go


def _run_go(
    command: Sequence[str],
    graph: str,
    *,
    cgo: bool = False,
    more: Mapping[str, str] | None = None,
    meter: Meter | None = None,
) -> str:
    """Run a Go command in a module's folder and return its output."""
    ours = {"CGO_ENABLED": "1" if cgo else "0", "GOWORK": "off"}
    environment = {**(_MORE_MEMORY if has_memory() else {}), **os.environ, **ours, **(more or {})}
    module = FOLDER / graph
    # The output goes into files, so that nothing but the end of the process is waited for.
    with (
        tempfile.TemporaryFile("w+") as output,
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(command, cwd=module, stdout=output, stderr=complaints, text=True, env=environment) as process,
    ):
        _RUNNING.add(process)
        try:
            _wait_for(process, meter or Meter())
        finally:
            _RUNNING.discard(process)
        printed, complained = ((file.seek(0), file.read())[1] for file in (output, complaints))
    if process.returncode == 0:
        return printed
    tail = "\n".join((printed + complained).strip().splitlines()[-_OUTPUT_LINES:])
    message = f"{module}: go {command[1]} failed (exit status {process.returncode}):\n{tail}"
    if _NO_NETWORK.search(tail):
        remedy = "Check the network, or set GOPROXY (and HTTPS_PROXY) to a proxy that can be reached from here."
        raise SandboxError(message, f"The sources come from Go's module proxy. {remedy}")
    raise SandboxError(message, "Read the output above; `go env` shows the settings in effect, as GOFLAGS.")


def _wait_for(process: subprocess.Popen[str], meter: Meter) -> None:
    """Wait until a process has ended, and measure it before its numbers are gone."""
    meter.follow(process.pid)
    try:
        # Another thread that ends the builds may be the first to wait for it.
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    finally:
        meter.stop()
    process.wait()


def _copy_from_module(go: str, copy: ModuleFile, folder: Path) -> None:
    """Copy a file out of a module's sources, made executable, or a folder, made writable for its owner."""
    version = pin(copy.graph, copy.module)
    output = _run_go([go, "mod", "download", "-json", f"{copy.module}@{version}"], copy.graph)
    source = Path(json.loads(output)["Dir"]) / copy.path
    target = folder / source.name
    with explained(target, "write"):
        if source.is_dir():
            shutil.copytree(source, target, copy_function=shutil.copyfile)
            # Go's own copies are read-only, and nobody could remove such a folder.
            for path in (target, *target.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)
        else:
            shutil.copyfile(source, target)
            target.chmod(0o755)
