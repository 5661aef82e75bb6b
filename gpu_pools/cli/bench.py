"""``gpu-pools bench``: measures what sharing costs on a GPU of this machine, and shows measurements.

Exit codes: 0 measured, or shown; 1 nothing could be measured, or a setting of the GPU is another one afterwards (nothing here
changes any, so somebody else did); 2 a file is no measurement. What could be measured is written even where a part failed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import signal
import sys
import tempfile
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from gpu_pools.bench import clients, machine, measuring, mps, tables
from gpu_pools.bench.conductor import ClientFailed
from gpu_pools.bench.document import Document, NoDocument, as_text, read
from gpu_pools.bench.plot import drawn
from gpu_pools.bench.workloads import CLIENTS, KINDS, QUICK, USUAL
from gpu_pools.text.interrupts import answered
from gpu_pools.text.table import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_T = TypeVar("_T")
_FAILED: Final = 1
_INVALID: Final = 2
_PARTS: Final = ("throughput", "neighbours", "faults")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command; it sets ``run`` to what carries it out and returns the exit code."""
    bench = commands.add_parser("bench", help="measure what sharing costs on a GPU of this machine")
    add = bench.add_argument
    add("--gpu", default="0", help="index or UUID, as nvidia-smi has it (0)")
    add("--backend", choices=(*clients.BACKENDS, "sleeper"), help="torch, else cuda; sleeper has no GPU and tells nothing")
    add("--mps", action="store_true", help="by a daemon of MPS, started and ended here; the compute mode stays")
    add("--replicas", type=_replicas, help="with --mps: limit clients as the device plugin does with so many")
    add("--kinds", type=_kinds, default=tuple(KINDS), help=f"of {','.join(KINDS)} (all)")
    add("--clients", type=_clients, default=CLIENTS, help="how many at a time (1,2,4,7,8)")
    add("--parts", type=_parts, default=_PARTS, help=f"of {','.join(_PARTS)} (all)")
    add("--quick", action="store_true", help="shorter windows")
    add("--json", metavar="FILE", help="write the measurement there")
    add("--svg", metavar="FILE", help="draw it there")
    add("--against", metavar="FILE", help="compare with an earlier measurement")
    add("--show", metavar="FILE", nargs="+", help="measure nothing: show measurements")
    add("--markdown", action="store_true", help="tables for a page")
    bench.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> int:
    try:
        earlier = _read(options.against) if options.against else None
        shown = [_read(name) for name in options.show or ()]
    except (OSError, NoDocument) as error:
        print(f"error: {error}", file=sys.stderr)
        return _INVALID
    if options.replicas and not options.mps:
        print("error: --replicas limits clients of MPS: it needs --mps.", file=sys.stderr)
        return _INVALID
    # As at Ctrl-C: clients and the daemon are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    return answered(partial(_run, options, shown, earlier))


def _run(options: argparse.Namespace, shown: Sequence[Document], earlier: Document | None) -> int:
    try:
        documents = shown or [_measured(options)]
    except machine.NoGpu as error:
        print(f"error: {error}", file=sys.stderr)
        return _FAILED
    _write(options, documents, earlier)
    changed = {key: value for document in documents for key, value in document.changed.items()} if not shown else {}
    for key, value in changed.items():
        print(f"error: {key} of the GPU was {documents[0].settings[key]}, and is {value} now.", file=sys.stderr)
    return _FAILED if changed or not (shown or _has_figures(documents[0])) else 0


def _has_figures(document: Document) -> bool:
    return bool(document.neighbours or document.faults) or any(row.rate for row in document.rows)


def _write(options: argparse.Namespace, documents: Sequence[Document], earlier: Document | None) -> None:
    if not options.show:
        _kept(options, documents[0])
    if options.svg:
        Path(options.svg).write_text(drawn(documents), encoding="utf-8")
    for document, title in zip(documents, tables.titles(documents), strict=True):
        print(f"## {title}\n" if options.markdown else f"{title}\n")
        for one in (*tables.of(document), *([tables.compared(document, earlier)] if earlier else [])):
            _print(one, markdown=options.markdown)
    if len(documents) > 1:
        _print(tables.side_by_side(documents), markdown=options.markdown)


def _print(one: tables.Table, *, markdown: bool) -> None:
    print(tables.markdown(one) if markdown else f"{one.title}\n\n{table(one.header, one.rows)}", end="\n\n")


def _measured(options: argparse.Namespace) -> Document:
    sleeper = options.backend == "sleeper" and not options.mps
    with tempfile.TemporaryDirectory(prefix="gpu-pools-bench-") as scratch:
        folder = Path(scratch)
        backend, command = clients.command(options.backend, folder)
        found = _NO_MACHINE if sleeper else machine.machine(options.gpu)
        before = {} if sleeper else machine.settings(options.gpu)
        effort = QUICK if options.quick else USUAL
        document = Document(
            date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            backend=backend,
            strategy="mps" if options.mps else "mig" if found.mig else "timeSlicing",
            limits=options.replicas,
            machine=asdict(found),
            settings=before,
            changed={},
            effort=asdict(effort),
        )
        with _sharing(options, found, folder) as environments:
            setting = measuring.Setting(
                command=command,
                environments=environments,
                effort=effort,
                used_mib=(lambda: 0) if sleeper else lambda: machine.used_mib(options.gpu),
                state=dict if sleeper else lambda: machine.state(options.gpu),
                tell=_tell,
            )
            document = _filled(document, setting, options)
        after = {} if sleeper else machine.settings(options.gpu)
    return replace(document, changed={key: value for key, value in after.items() if before[key] != value})


def _filled(document: Document, setting: measuring.Setting, options: argparse.Namespace) -> Document:
    """The document with each part that was asked for."""
    if "throughput" in options.parts:
        for row in _as_far_as_it_comes(measuring.throughput(setting, options.kinds, options.clients)):
            document = _kept(options, replace(document, rows=(*document.rows, row)))
    if "neighbours" in options.parts:
        for neighbour in _as_far_as_it_comes(measuring.neighbours(setting)):
            document = _kept(options, replace(document, neighbours=(*document.neighbours, neighbour)))
    if "faults" in options.parts:
        for fault in _as_far_as_it_comes(measuring.faults(setting)):
            document = _kept(options, replace(document, faults=(*document.faults, fault)))
    return document


def _as_far_as_it_comes(part: Iterator[_T]) -> Iterator[_T]:
    try:
        yield from part
    except ClientFailed as error:
        _tell(f"a client {error}; the rest of this part is left out")


def _kept(options: argparse.Namespace, document: Document) -> Document:
    """What is measured so far is in the file: some of it takes minutes, and a GPU that hangs may end all of it."""
    if options.json:
        target = Path(options.json)
        new = target.with_name(f".{target.name}.new")
        new.write_text(as_text(document), encoding="utf-8")
        new.replace(target)
    return document


@contextlib.contextmanager
def _sharing(options: argparse.Namespace, found: machine.Machine, folder: Path) -> Iterator[list[Mapping[str, str]]]:
    """The environments of clients: where the daemon is, or the MIG device of each."""
    uuid = found.gpu["uuid"]
    if options.mps:
        (folder / "mps").mkdir()
        with mps.daemon(folder / "mps", uuid, int(found.gpu["memory.total"]), options.replicas) as where:
            yield [{**os.environ, **where}]
            _tell(mps.log(folder / "mps"))
    else:
        yield [{**os.environ, "CUDA_VISIBLE_DEVICES": device} for device in found.mig or (uuid,)]


_NO_MACHINE: Final = machine.Machine(
    {"uuid": "none", "name": "no GPU: clients that sleep", "memory.total": "0"}, {"kernel": "", "processors": ""}, ()
)


def _tell(text: str) -> None:
    if text:
        print(f"• {text}", file=sys.stderr, flush=True)


def _read(name: str) -> Document:
    return read(Path(name).read_text(encoding="utf-8"), name)


def _kinds(text: str) -> tuple[str, ...]:
    return _some(text, KINDS, "kinds")


def _parts(text: str) -> tuple[str, ...]:
    return _some(text, _PARTS, "parts")


def _some(text: str, known: Sequence[str] | Mapping[str, str], what: str) -> tuple[str, ...]:
    chosen = tuple(part.strip() for part in text.split(","))
    unknown = [part for part in chosen if part not in known]
    if unknown:
        message = f"{', '.join(map(repr, unknown))}: no such {what}; there are {', '.join(known)}"
        raise argparse.ArgumentTypeError(message)
    return chosen


def _clients(text: str) -> tuple[int, ...]:
    counts = sorted({_number(part, 48) for part in text.split(",")})
    return tuple(counts)


def _replicas(text: str) -> int:
    return _number(text, 48)


def _number(text: str, most: int) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= most:
        message = f"{text!r}: a number from 1 to {most} is needed"
        raise argparse.ArgumentTypeError(message)
    return int(text)
