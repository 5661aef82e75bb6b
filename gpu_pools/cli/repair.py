"""``gpu-pools repair NODE --stack STACK``: cures one node that is not as declared, and proves it.

It first tells what it would do; then it asks, or goes on with ``--yes``. Exit codes: 0 told, or proven and given back, or the
node is as declared; 1 it could not be brought to its end, and the node is as the message says; 2 nothing was done: not a node
of the stack, nothing that a repair of a node cures, a right is missing, the cluster or the engine cannot be asked; 130
interrupted: the same command goes on where it was.
"""

from __future__ import annotations

import contextlib
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.drift.asked import EngineError, export_of
from gpu_pools.evidence.declared import declared
from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.stack import kubeconfig_of, outputs_of
from gpu_pools.evidence.verdicts import Verdict
from gpu_pools.kubernetes_api.cluster_api import ClusterApi, Limits
from gpu_pools.kubernetes_api.errors import ClusterError
from gpu_pools.kubernetes_api.login import Kubeconfig
from gpu_pools.repairing import telling
from gpu_pools.repairing.looking import ANNOTATION, Look, Looker, NoNodeError, being_changed, looker_at
from gpu_pools.repairing.machine_replacement import commands
from gpu_pools.repairing.repair import DELETE, STOP, WAIT, Manner, Repair, RepairError
from gpu_pools.repairing.rights import missing, needed
from gpu_pools.repairing.steps import blocking, failed
from gpu_pools.repairing.ways import Way, chosen
from gpu_pools.text.files import write_whole
from gpu_pools.text.interrupts import answered, terminate_in_order
from gpu_pools.verifier.api import ApiError
from gpu_pools.verifier.names import moment

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

_UNDONE, _WRONG = 1, 2
#: Who wrote it, as the node tells afterwards.
MANAGER: Final = "gpu-pools-repair"
#: A request that fails is sent again by the repair.
_LIMITS: Final = Limits(connect=20, read=20, whole=120)


def add_commands(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``repair``."""
    parser = subcommands.add_parser("repair", help="cure one node that is not as declared: drain, start anew, prove, give back")
    parser.add_argument("node", help="the node, of a pool of the stack")
    parser.add_argument("--stack", required=True, help="the stack, whose outputs `pulumi stack output` tells")
    parser.add_argument("--yes", action="store_true", help="do it without asking; without, it is told, and asked at a terminal")
    help_text = "replace the machine: drain the node, print the commands for its owner, wait for the new node"
    parser.add_argument("--replace", action="store_true", help=help_text)
    staying = "what becomes of pods that do not go, as in a pool's rollout (default: stop)"
    parser.add_argument("--pods-that-stay", choices=(STOP, WAIT, DELETE), default=STOP, help=staying)
    seconds = {
        "--drain-timeout": (600, "how long pods may take to go"),
        "--hand-timeout": (3600, "how long a reboot, a reset or another machine is waited for"),
        "--proof-timeout": (900, "how long the proof is waited for"),
    }
    for name, (default, text) in seconds.items():
        parser.add_argument(name, type=float, default=default, metavar="SECONDS", help=f"{text} (default: {default})")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="of whoever does it, instead of the stack's own")
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig, else of your own, as kubectl has it")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write as JSON there what was found, what is done, and what came of it"
    )
    parser.set_defaults(run=_answered)


def _answered(options: argparse.Namespace) -> int:
    """End in good order when told to: what lies in files for the moment is taken away."""
    terminate_in_order()
    return answered(partial(_run, options))


def _run(options: argparse.Namespace) -> int:
    written: dict[str, Any] = {"apiVersion": "gpu-pools/v1", "kind": "Repair", "stack": options.stack, "node": options.node}
    try:
        with _looker(options) as looker:
            code, outcome = _repaired(options, looker, written)
    except (EvidenceError, EngineError, ApiError, NoNodeError) as error:
        text = f"there is no node {options.node}" if isinstance(error, NoNodeError) else str(error)
        text += f"\n{error.remedy}" if isinstance(error, ClusterError) else ""
        code, outcome = _WRONG, f"nothing was done: {text}"
    print(outcome, file=sys.stderr if code else sys.stdout)
    if options.json:
        write_whole(options.json, json.dumps({**written, "exitCode": code, "outcome": outcome}, indent=1) + "\n")
    return code


@contextlib.contextmanager
def _looker(options: argparse.Namespace) -> Iterator[Looker]:
    own = options.kubeconfig is not None or options.context is not None
    outputs: Mapping[str, Any] = outputs_of(options.stack, with_secrets=not own)
    wanted = declared(outputs)
    kubeconfig = Kubeconfig(path=options.kubeconfig, context=options.context)
    if not own:
        kubeconfig = Kubeconfig(kubeconfig_of(outputs), context=wanted.context)
    with ClusterApi(kubeconfig, _LIMITS, MANAGER) as api:
        yield looker_at(api, options.node, options.stack, wanted)


def _repaired(options: argparse.Namespace, looker: Looker, written: dict[str, Any]) -> tuple[int, str]:
    """The exit code, and what came of it; what was found and is to be done goes into `written`."""
    look = looker.look()
    written |= telling.found_json(look)
    print(telling.found_text(look))
    manner = Manner(options.drain_timeout, options.pods_that_stay, options.hand_timeout, options.proof_timeout)
    going_on = look.seen.mark is not None and not failed(look.seen) and not options.replace
    ways = look.seen.mark.what if look.seen.mark and going_on else chosen(_causes(look), replaced=options.replace)
    if why := _why_not(look, ways):
        return 0 if look.seen.proven and look.seen.mark is None else _WRONG, f"nothing was done: {why}"
    starting = look.starting(ways, looker.declared.namespace)
    if going_on:
        starting = tuple(pod for pod in look.pods if str(pod["metadata"]["uid"]) in look.seen.starting)
    owner_commands = _owner_commands(options, looker, look, ways)
    print(telling.plan_text(look, ways, manner, starting, looker.pool(look.pool), owner_commands))
    written |= telling.plan_json(look, ways, starting, owner_commands)
    if going_on:
        print("It was begun before, and goes on where it was.")
    if lacking := missing(looker.api, needed(look, ways, starting, deletes=options.pods_that_stay == DELETE)):
        return _WRONG, f"nothing was done: you may not {'; '.join(map(str, lacking))}"
    if not options.yes and not _agreed():
        return 0, "Nothing was done. To do it: add --yes"
    return _done(options, Repair(looker, ways, manner, _tell), look, begin=not going_on)


def _done(options: argparse.Namespace, repair: Repair, look: Look, *, begin: bool) -> tuple[int, str]:
    known = {node.uid for node in repair.looker.pool(look.pool).nodes}
    try:
        if begin:
            repair.begin()
        if repair.run():
            return 0, f"{options.node} is proven, and given back."
        return 0, repair.new_node(look.pool, known)
    except RepairError as error:
        return _UNDONE, f"{options.node}: {error}"
    except EvidenceError as error:
        return _UNDONE, f"{options.node}: {error} What was begun stands on the node; the same command goes on."
    except KeyboardInterrupt:
        print("interrupted: what was begun stands on the node; the same command goes on", file=sys.stderr)
        raise


def _causes(look: Look) -> list[str]:
    return [one.cause for one in look.findings]


def _why_not(look: Look, ways: tuple[Way, ...]) -> str:
    """Why there is nothing to be done; empty where there is."""
    if change := being_changed(look.node):
        return f"its pool's rollout is changing it: {change}. Wait for that, or end what stands against it."
    if pods := blocking(ways, look.seen):
        named = "; ".join(map(str, pods))
        return f"these pods would come back by themselves: {named}. Keep them from the node by its labels."
    if ways:
        return ""
    if look.evidence.verdict is Verdict.PROVEN:
        return "it is as declared" + (
            f"; its annotation {ANNOTATION} cannot be read: take it off by hand" if look.seen.mark else ""
        )
    stays = " The node stays cordoned by the repair before." if look.seen.mark else ""
    return f"repairing the node does not cure this; each remedy stands above.{stays}"


def _owner_commands(options: argparse.Namespace, looker: Looker, look: Look, ways: tuple[Way, ...]) -> tuple[str, ...]:
    if Way.REPLACE not in ways:
        return ()
    resources = json.loads(export_of(options.stack))["deployment"].get("resources") or []
    return commands(options.stack, resources, look.pool, look.node, looker.nodes())


def _agreed() -> bool:
    if not sys.stdin.isatty():
        return False
    try:
        return input("Do it? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def _tell(text: str) -> None:
    print(f"{moment()} {text}", flush=True)
