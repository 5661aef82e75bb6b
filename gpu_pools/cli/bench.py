"""``gpu-pools bench``: measures what sharing costs on a GPU of this machine, and shows measurements.

Exit codes: 0 measured, or shown; 1 nothing could be measured, or a setting of the GPU is another one afterwards (nothing here
changes any, so somebody else did); 2 a file is not a measurement. What could be measured is written even where a part failed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import signal
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import yaml

from gpu_pools.bench import clients, job, measuring, mps, pods, tables
from gpu_pools.bench.conductor import ClientFailed, Start
from gpu_pools.bench.document import Document, NoDocument, as_text, read
from gpu_pools.bench.machine import Machine, NoGpu, Smi
from gpu_pools.bench.plot import drawn
from gpu_pools.bench.workloads import CLIENTS, FAULTS, KINDS, QUICK, USUAL
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.interrupts import answered
from gpu_pools.text.table import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_T = TypeVar("_T")
_FAILED: Final = 1
_INVALID: Final = 2
#: Clients of the largest case of neighbours and faults.
_NEIGHBOURS: Final = 4
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
    add("--job", metavar="NAME", help="clients are the pods of this Job, which `gpu-pools bench-job` prints")
    add("--namespace", default="default", help="of the Job")
    add("--quick", action="store_true", help="shorter windows")
    add("--json", metavar="FILE", help="write the measurement there")
    add("--svg", metavar="FILE", help="draw it there")
    add("--against", metavar="FILE", help="compare with an earlier measurement")
    add("--show", metavar="FILE", nargs="+", help="measure nothing: show measurements")
    add("--markdown", action="store_true", help="tables for a page")
    bench.set_defaults(run=_bench)
    printed = commands.add_parser("bench-job", help="print the Job whose pods `bench --job` measures")
    printed.add_argument("stackfile", help="a stack file, e.g. stacks/Pulumi.aks-dev.yaml; - for the standard input")
    printed.add_argument("pool", help="of it")
    printed.add_argument("--image", required=True, help="with Python and PyTorch, e.g. docker.io/pytorch/pytorch@sha256:…")
    printed.add_argument("--backend", choices=clients.BACKENDS, default="torch", help="cuda: the image has nvcc instead (torch)")
    printed.add_argument("--pods", type=_replicas, help="how many (as many as a node of the pool has shares, at most 8)")
    printed.add_argument("--resource", help="which, where the pool advertises several")
    printed.set_defaults(run=_job)


def _job(options: argparse.Namespace) -> int:
    try:
        plan = plan_config(read_stack_file(options.stackfile))
        pool_plan = next((pool for pool in plan.pools if pool.name == options.pool), None)
        if pool_plan is None:
            names = ", ".join(pool.name for pool in plan.pools)
            print(f"error: pool {options.pool!r} is not in the stack file; there are {names}.", file=sys.stderr)
            return _INVALID
        resource = job.resource_of(pool_plan, options.resource)
    except (InvalidStackError, ValueError) as error:
        print(error if isinstance(error, InvalidStackError) else f"error: {error}.", file=sys.stderr)
        return _INVALID
    pods = options.pods or min(pool_plan.advertises[resource], max(CLIENTS))
    print(
        yaml.safe_dump_all(job.rendered(plan, pool_plan, resource, options.image, pods, options.backend), sort_keys=False), end=""
    )
    return 0


def _bench(options: argparse.Namespace) -> int:
    try:
        earlier = _read(options.against) if options.against else None
        shown = [_read(name) for name in options.show or ()]
    except (OSError, NoDocument) as error:
        print(f"error: {error}", file=sys.stderr)
        return _INVALID
    if options.json and not Path(options.json).absolute().parent.is_dir():
        print(f"error: --json {options.json}: there is no folder {Path(options.json).parent}.", file=sys.stderr)
        return _INVALID
    if options.mps and options.job:
        print("error: --mps starts a daemon on this machine; a pool's pods share as the pool says.", file=sys.stderr)
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
    except NoGpu as error:
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
    with tempfile.TemporaryDirectory(prefix="gpu-pools-bench-") as scratch, _place(options, Path(scratch)) as place:
        before = place.smi.settings() if place.smi else {}
        effort = QUICK if options.quick else USUAL
        document = Document(
            date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            backend=place.backend,
            strategy=place.strategy,
            limits=place.limits,
            machine=asdict(place.identity),
            settings=before,
            changed={},
            effort=asdict(effort),
        )
        setting = measuring.Setting(
            starts=place.starts,
            effort=effort,
            used_mib=place.smi.used_mib if place.smi else lambda: None,
            state=place.smi.state if place.smi else dict,
            tell=_tell,
        )
        document = _filled(document, setting, options)
        after = place.smi.settings() if place.smi else {}
    return replace(document, changed={key: value for key, value in after.items() if before[key] != value})


def _filled(document: Document, setting: measuring.Setting, options: argparse.Namespace) -> Document:
    """The document with each part that was asked for."""
    # Pods are as many as they are; a client that is killed would be kubectl's, not the one in the pod.
    most = len(setting.starts) if options.job else max(options.clients)
    counts = [count for count in options.clients if count <= most] or [most]
    harms = [what for what in FAULTS if not (options.job and what == "kill")]
    parts = _parts_for(options, len(setting.starts))
    if "throughput" in parts:
        for row in _as_far_as_it_comes(measuring.throughput(setting, options.kinds, counts)):
            document = _kept(options, replace(document, rows=(*document.rows, row)))
    if "neighbours" in parts:
        for neighbour in _as_far_as_it_comes(measuring.neighbours(setting)):
            document = _kept(options, replace(document, neighbours=(*document.neighbours, neighbour)))
    if "faults" in parts:
        for fault in _as_far_as_it_comes(measuring.faults(setting, harms)):
            document = _kept(options, replace(document, faults=(*document.faults, fault)))
    return document


def _parts_for(options: argparse.Namespace, pods: int) -> tuple[str, ...]:
    """Neighbours and faults need four clients, each in a pod of its own."""
    if not options.job or pods >= _NEIGHBOURS:
        return tuple(options.parts)
    _tell(f"the Job has {pods} pods: what clients do to each other needs {_NEIGHBOURS}")
    return tuple(part for part in options.parts if part == "throughput")


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


@dataclass(frozen=True)
class _Place:
    """Where clients run; without nvidia-smi they sleep."""

    backend: str
    strategy: str
    limits: int | None
    identity: Machine
    smi: Smi | None
    starts: tuple[Start, ...]


@contextlib.contextmanager
def _place(options: argparse.Namespace, folder: Path) -> Iterator[_Place]:
    """Pods of a Job, or processes here: each with a MIG device of its own where there are some, or where the daemon is."""
    if options.job:
        found = pods.found(options.job, options.namespace)
        starts = tuple(Start(command, os.environ) for command in found.commands())
        yield _Place(f"{found.backend} of the image", found.strategy, found.replicas, found.smi().machine(), found.smi(), starts)
        return
    backend, command = clients.command(options.backend, folder)
    smi = None if options.backend == "sleeper" and not options.mps else Smi(options.gpu)
    here = smi.machine() if smi else _NO_MACHINE
    uuid = here.gpu["uuid"]
    if options.mps:
        (folder / "mps").mkdir()
        with mps.daemon(folder / "mps", uuid, int(here.gpu["memory.total"]), options.replicas) as where:
            yield _Place(backend, "mps", options.replicas, here, smi, (Start(tuple(command), {**os.environ, **where}),))
            _tell(mps.log(folder / "mps"))
    else:
        if (pipes := mps.in_force()) is not None:
            message = f"a daemon of MPS is in force ({pipes}): end it, or measure by one of the bench's own with --mps."
            raise NoGpu(message)
        devices = here.mig or (uuid,)
        starts = tuple(Start(tuple(command), {**os.environ, "CUDA_VISIBLE_DEVICES": device}) for device in devices)
        yield _Place(backend, "mig" if here.mig else "timeSlicing", None, here, smi, starts)


_NO_MACHINE: Final = Machine(
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
