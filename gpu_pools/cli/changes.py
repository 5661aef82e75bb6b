"""``gpu-pools changes PREVIEW --after STACKFILE [--before STACKFILE]``: what a change does, for a pull request.

Exit codes: 0 nothing stands against the change; 1 it must not be deployed as it is; 2 a document is wrong, nothing was
judged; or the report cannot be written.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_pools.changes.blast import Limits, blast_radius
from gpu_pools.changes.markdown import comment
from gpu_pools.changes.report import document
from gpu_pools.changes.report_basis import ReportBasis
from gpu_pools.changes.sarif import sarif
from gpu_pools.changes.steps import read_preview
from gpu_pools.changes.workloads import of_cluster, of_stack
from gpu_pools.cli.given import text_in
from gpu_pools.hardware.prices import read_prices
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import InvalidStackError, Problem, listed, together
from gpu_pools.text.files import write_whole

if TYPE_CHECKING:
    import argparse

    from gpu_pools.changes.blast import BlastRadius
    from gpu_pools.hardware.prices import Prices
    from gpu_pools.plan.planned import Plan

_BLOCKED, _INVALID = 1, 2


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``changes``."""
    parser = commands.add_parser("changes", help="what a change of a stack does to its GPUs, for a pull request")
    parser.add_argument("preview", help="the output of `pulumi preview --json`")
    parser.add_argument("--after", required=True, metavar="STACKFILE", help="the stack file with the change")
    parser.add_argument("--before", metavar="STACKFILE", help="the stack file that is deployed; left out: nothing is")
    parser.add_argument("--stack", help="what to call the stack; left out: as its file is called")
    parser.add_argument("--pods", metavar="FILE", help="running pods: `kubectl get pods --all-namespaces --output json`")
    parser.add_argument(
        "--no-pods", default=ReportBasis.no_pods, metavar="WHY", help="why there is no list of running pods; the comment says so"
    )
    parser.add_argument(
        "--against", default="", metavar="TEXT", help="what the preview was made against, for the comment's readers"
    )
    parser.add_argument("--prices", metavar="FILE", help="the team's prices, as for the policy max-cost")
    parser.add_argument(
        "--max-more-gpus", type=int, metavar="N", help="how many GPUs a change may add, with every pool at its largest"
    )
    parser.add_argument(
        "--max-more-cost", type=float, metavar="X", help="how much a month a change may add, in the prices' currency"
    )
    parser.add_argument("--markdown", metavar="FILE", help="write the comment there; left out: print it")
    parser.add_argument("--json", metavar="FILE", help="write everything as JSON there")
    parser.add_argument("--sarif", metavar="FILE", help="write SARIF for code-scanning there")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        radius = _radius(options)
    except InvalidStackError as error:
        print(listed(error.problems, "what was given", "judged"), file=sys.stderr)
        return _INVALID
    try:
        _write(options, radius)
        sys.stdout.flush()
    except OSError as error:
        # Python would end with 1, which says that the change is blocked.
        print(f"the report cannot be written: {error}", file=sys.stderr)
        return _INVALID
    return _BLOCKED if radius.blocked else 0


def _radius(options: argparse.Namespace) -> BlastRadius:
    preview, after, before, pods, prices = together(
        InvalidStackError,
        lambda: read_preview(options.preview, text_in(options.preview)),
        lambda: _planned(options.after),
        lambda: _planned(options.before) if options.before else None,
        lambda: of_cluster(options.pods, text_in(options.pods)) if options.pods else (),
        lambda: _prices(options.prices) if options.prices else None,
    )
    return blast_radius(
        preview,
        before,
        after,
        asking=(*of_stack(preview.steps), *pods),
        prices=prices,
        limits=Limits(options.max_more_gpus, options.max_more_cost),
    )


def _planned(path: str) -> Plan:
    config = read_stack_file(path)
    try:
        return plan_config(config, complete=False)
    except InvalidStackError as error:
        # There may be two stack files.
        raise InvalidStackError(replace(problem, path=f"{path}: {problem.path}") for problem in error.problems) from None


def _prices(path: str) -> Prices:
    try:
        return read_prices(path)
    except ValueError as error:
        allowed = "`currency`, `perHour` and, if wanted, `spotPerHour`: a price above 0 for each size"
        raise InvalidStackError([Problem(path, str(error), allowed, "Correct the file.")]) from error


def _write(options: argparse.Namespace, radius: BlastRadius) -> None:
    stack = options.stack or Path(options.after).name.removeprefix("Pulumi.").removesuffix(".yaml")
    basis = ReportBasis(options.against, "" if options.pods else options.no_pods)
    text = comment(stack, radius, basis)
    if options.markdown:
        write_whole(Path(options.markdown), text)
    else:
        print(text, end="")
    if options.json:
        write_whole(Path(options.json), json.dumps(document(stack, radius, basis), indent=2) + "\n")
    if options.sarif:
        log = sarif(options.after, text_in(options.after), radius)
        write_whole(Path(options.sarif), json.dumps(log, indent=2) + "\n")
