"""``gpu-pools evidence STACK``: what the verifiers of a stack have reported, as a table, a JSON file and an HTML page.

Exit codes: 0 every node of every pool is proven; 1 a node differs; 2 it cannot be told (also: a report is stale or missing, the
cluster cannot be reached, a permission is missing, the command line is wrong); 3 nothing differs, but a pool has not all its
nodes yet, so that nothing is proven of it (with --all-nodes 2, where a pool has fewer than it must have); 130 interrupted, 143
terminated, 141 the reader of the output went away.
"""

from __future__ import annotations

import sys
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_pools.evidence.cluster import look
from gpu_pools.evidence.declared import declared
from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.showing import add_outputs, show
from gpu_pools.evidence.stack import kubeconfig_of, outputs_of, read_outputs
from gpu_pools.evidence.verdicts import judge
from gpu_pools.kubernetes_api.cluster_api import ClusterApi
from gpu_pools.kubernetes_api.login import Kubeconfig
from gpu_pools.text.interrupts import INTERRUPTED, end_at_once, raise_again, terminate_in_order

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

    from gpu_pools.evidence.verdicts import Evidence

_CANNOT_TELL, _NOT_YET = 2, 3


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``evidence``."""
    parser = commands.add_parser("evidence", help="collect the reports of a stack's verifiers: is every node proven?")
    parser.add_argument("stack", nargs="?", help="the stack, whose outputs `pulumi stack output` tells")
    parser.add_argument("--outputs", metavar="FILE", help="its outputs as JSON instead; - for the standard input")
    trust = "let the kubeconfig in that file run programs and read files of this machine, as logging in with Entra ID does"
    parser.add_argument("--trust-outputs", action="store_true", help=trust)
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="instead of the one in the outputs")
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig, else of your own, as kubectl has it")
    whole = "do not let it pass (2) that a pool has fewer nodes than it must have: after a deploy they were all there"
    parser.add_argument("--all-nodes", action="store_true", help=whole)
    add_outputs(parser)
    parser.set_defaults(run=partial(_run, parser))


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Show the evidence, and end in good order when told to: what lies in files for the moment is taken away."""
    if bool(options.stack) + bool(options.outputs) != 1:
        parser.error("name a stack, or give its outputs with --outputs FILE")
    terminate_in_order()
    try:
        raise_again()
        code = _shown(options)
        sys.stdout.flush()
        end_at_once()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception:  # noqa: BLE001 - Python would end with 1, which says that a node differs
        traceback.print_exc()
        return _CANNOT_TELL
    return code


def _shown(options: argparse.Namespace) -> int:
    try:
        evidence = _collect(options)
        show(evidence, options.json, options.html)
    except EvidenceError as error:
        print(f"cannot tell: {error.message}\n{error.remedy}", file=sys.stderr)
        return _CANNOT_TELL
    code = evidence.verdict.exit_code
    if code == _NOT_YET and options.all_nodes and evidence.short:
        short = "; ".join(f"{pool.declared.name} has {pool.reason}" for pool in evidence.short)
        print(f"cannot tell: nodes are missing: {short}", file=sys.stderr)
        return _CANNOT_TELL
    return code


def _collect(options: argparse.Namespace) -> Evidence:
    own = options.kubeconfig is not None or options.context is not None
    _note("Reading the stack's outputs")
    outputs: Mapping[str, Any] = (
        read_outputs(options.outputs) if options.outputs else outputs_of(options.stack, with_secrets=not own)
    )
    wanted = declared(outputs)
    _note("Reading the cluster's nodes")
    kubeconfig = Kubeconfig(path=options.kubeconfig, context=options.context)
    if not own:
        text = kubeconfig_of(outputs, trusted=options.trust_outputs or not options.outputs)
        kubeconfig = Kubeconfig(text, context=wanted.context)
    with ClusterApi(kubeconfig) as api:
        seen = look(api, wanted.namespace)
    return judge(options.stack or str(outputs.get("clusterName", "")), wanted, seen)


def _note(text: str) -> None:
    print(f"• {text}", file=sys.stderr, flush=True)
