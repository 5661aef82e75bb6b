"""``gpu-pools drift STACK``: what is not as the state has it, in the cloud, in the cluster and on the GPUs, and who it was.

Exit codes: 0 no drift; 1 drift; 2 it cannot be told, as where the refresh failed or was cut off, or the command line is wrong.
Drift outweighs what cannot be told.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpu_pools.cli.given import text_in
from gpu_pools.drift.asked import EngineError, events_of, export_of, preview_of
from gpu_pools.drift.beside import with_cluster
from gpu_pools.drift.judged import Verdict, judge
from gpu_pools.drift.nodes import Nodes
from gpu_pools.drift.programmed import read_export
from gpu_pools.drift.refreshed import read_refresh
from gpu_pools.drift.showing import drift_json, drift_text
from gpu_pools.drift.undeployed import read_preview
from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.stack import outputs_of
from gpu_pools.text.errors import InvalidStackError, listed, together
from gpu_pools.text.files import write_whole
from gpu_pools.text.interrupts import answered, terminate_in_order

if TYPE_CHECKING:
    import argparse

    from gpu_pools.drift.judged import Drift

_STANDARD: Final = "-"


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``drift``."""
    parser = commands.add_parser("drift", help="what others have changed of a stack that is up, and what clouds do by themselves")
    parser.add_argument("stack", nargs="?", help="the stack, of which `pulumi refresh --preview-only` is asked")
    parser.add_argument("--config-file", type=Path, metavar="FILE", help="its stack file, where it is not beside Pulumi.yaml")
    parser.add_argument("--events", metavar="FILE", help="the events of such a refresh instead, one a line")
    export = "what `pulumi stack export` prints, for --events; left out: what programs ignore is taken for drift"
    parser.add_argument("--state", metavar="FILE", help=export)
    parser.add_argument("--json", metavar="FILE", help="write everything as JSON there; - for the standard output")
    whole = "also hold the stack file against the state, which takes a preview of the engine"
    parser.add_argument("--declared", action="store_true", help=whole)
    parser.set_defaults(run=partial(_run, parser))


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Judge, and end in good order when told to: what lies in files for the moment is taken away."""
    terminate_in_order()
    return answered(partial(_judged, parser, options))


def _judged(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if bool(options.stack) + bool(options.events) != 1:
        parser.error("name a stack, or give events with --events FILE")
    if options.state and not options.events:
        parser.error("--state goes with --events; of a stack the engine is asked")
    if options.declared and options.events:
        parser.error("--declared needs the stack: events do not say what is declared")
    try:
        drift = _of_events(options) if options.events else _of_stack(options)
        _show(options, drift)
        sys.stdout.flush()
    except InvalidStackError as error:
        print(listed(error.problems, "what was given", "judged"), file=sys.stderr)
    except EngineError as error:
        print(f"cannot tell: {error}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except Exception:  # noqa: BLE001 - Python would end with 1, which says that there is drift
        traceback.print_exc()
    else:
        return int(drift.verdict.value)
    return int(Verdict.CANNOT_TELL.value)


def _of_stack(options: argparse.Namespace) -> Drift:
    print(f"• Asking the engine what a refresh of {options.stack} would find", file=sys.stderr, flush=True)
    events, failed = events_of(options.stack, options.config_file)
    if not events.strip():
        raise EngineError(failed or "the engine has told nothing")
    refresh = read_refresh("what pulumi printed", events)
    if failed:
        refresh = replace(refresh, failures=(*refresh.failures, f"pulumi: {failed}"))
    drift = judge(options.stack, refresh, read_export("the state", export_of(options.stack)))
    if options.declared:
        print("• Asking the engine what a deploy would do", file=sys.stderr, flush=True)
        found = read_preview("what pulumi printed", preview_of(options.stack, options.config_file))
        drift = replace(drift, undeployed=found)
    print("• Asking the cluster who it was, and what the verifiers say", file=sys.stderr, flush=True)
    try:
        return with_cluster(drift, outputs_of(options.stack, with_secrets=True))
    except EvidenceError as error:
        return replace(drift, nodes=Nodes(failures=(f"the nodes cannot be read: {error.message}",)))


def _of_events(options: argparse.Namespace) -> Drift:
    refresh, programs = together(
        InvalidStackError,
        lambda: read_refresh(options.events, text_in(options.events)),
        lambda: read_export(options.state, text_in(options.state)) if options.state else None,
    )
    return judge(options.events, refresh, programs)


def _show(options: argparse.Namespace, drift: Drift) -> None:
    """The table goes to standard error where the JSON goes to the standard output."""
    if options.json and options.json != _STANDARD:
        write_whole(Path(options.json), drift_json(drift))
    elif options.json:
        sys.stdout.write(drift_json(drift))
    print(drift_text(drift), end="", file=sys.stderr if options.json == _STANDARD else sys.stdout)
