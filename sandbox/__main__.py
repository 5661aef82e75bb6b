"""``python -m sandbox COMMAND [STACK]``: the embedded platform's command line; ``--help`` lists the commands.

Exit codes: 0 everything is as declared (or nothing was to be done); 1 a program, a stand-in or the engine failed; 2 the stack
file is wrong, or there is none of that name, and nothing was started; 3 the stack is up, but a node does not show what was
declared, something that was deployed is not rolled out, or evidence is missing; 130 interrupted.
`gpu-node` ends with 3 where a step did not show what it should.
`verify` has those of `python -m gpu_pools evidence`: 0 proven, 1 a node differs, 2 it cannot be told, 3 a pool lacks nodes.
"""

from __future__ import annotations

if __name__ == "__main__":
    from gpu_pools.text import interrupts

    # Before the rest is loaded.
    interrupts.end_at_once()

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.showing import add_outputs, show
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.interrupts import end_at_once, raise_again
from gpu_pools.text.terminal import guarded
from sandbox.openstack.disturbances import Disturbances
from sandbox.stack.names import UnknownStackError
from sandbox.system import trust
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_pools.plan.planned import PoolPlan
    from sandbox.cli.look import Look

_FAILED, _INVALID, _DIFFERS, _INTERRUPTED = 1, 2, 3, 130
#: Of `verify`, where 1 says that a node differs.
_CANNOT_TELL = 2
_RULES = "Rules stand in for NVIDIA's programs on the nodes, and no verifier runs there: {}"


@guarded()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options, Progress())
    except InvalidStackError as error:
        print(error, file=sys.stderr)
        return _INVALID
    except UnknownStackError as error:
        print(f"\n{error.message}\n{error.remedy}", file=sys.stderr)
        return _INVALID
    except (SandboxError, EvidenceError) as error:
        print(f"\n{error.message}\n{error.remedy}", file=sys.stderr)
        return _CANNOT_TELL if options.command == "verify" else _FAILED
    except KeyboardInterrupt:
        end_at_once()
        print("\nInterrupted. Run the same command again to go on, or `make down` to take everything back.", file=sys.stderr)
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description="Run a stack on the embedded platform.")
    subparsers = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("up", "bring a stack up and show what its nodes advertise"),
        ("preview", "show what `up` would do"),
        ("status", "declared, expected and observed, node by node"),
        ("verify", "collect what the verifiers on the nodes have reported"),
        ("down", "destroy a stack and stop everything it started"),
    ):
        one = subparsers.add_parser(name, help=text)
        one.add_argument("stack", help="the name of a file stacks/Pulumi.<stack>.yaml")
        if name in {"up", "status"}:
            one.add_argument("--json", action="store_true", help="print the comparison as JSON")
        if name == "up":
            one.add_argument(
                "--nodes",
                choices=("real", "own", "simulated"),
                help="whether one node is a real one, and with this machine's own GPUs",
            )
            one.add_argument("--observe", action="store_true", help="with a Prometheus and live dashboards beside it")
        if name == "preview":
            one.add_argument("--save", type=Path, metavar="FILE", help="write the engine's events there, with what policies find")
            one.add_argument("--policies", type=Path, metavar="FILE", help="how the policy pack is configured; with --save")
        if name == "verify":
            add_outputs(one)
    scale = subparsers.add_parser("scale", help="play the autoscaler: change a pool's node count from outside")
    scale.add_argument("stack")
    scale.add_argument("pool", metavar="POOL")
    scale.add_argument("count", metavar="COUNT", type=int)
    disturb = subparsers.add_parser("disturb", help="have Magnum's operations be slow, fail or be lost; without options: none")
    disturb.add_argument("stack")
    disturb.add_argument("--seconds", type=float, default=Disturbances.seconds, help="how long one on a node group takes")
    disturb.add_argument("--fail", nargs="+", default=(), metavar="NAME", help="pools and clusters whose creation shall fail")
    disturb.add_argument("--lose", nargs="+", default=(), metavar="NAME", help="pools that are accepted and never made")
    client = subparsers.add_parser("openstack", help="run the real openstack client as the stack's user")
    client.add_argument("stack")
    client.add_argument("arguments", nargs=argparse.REMAINDER, help="as in: coe nodegroup list <cluster>")
    look_around = subparsers.add_parser("shell", help="a shell, or one command, with kubectl, pulumi and the stand-ins")
    look_around.add_argument("stack")
    look_around.add_argument("arguments", nargs=argparse.REMAINDER, help="as in: kubectl get nodes; left out: a shell")
    own = subparsers.add_parser("gpu-node", help="a stack on a real node with this machine's own GPUs: declared, changed, broken")
    own.add_argument("--out", type=Path, default=Path("gpu-node"), metavar="FOLDER", help="for what was seen (%(default)s)")
    instead = own.add_mutually_exclusive_group()
    for name, what in (
        ("claims", "pods get GPUs by resource claims (DRA), then by the device plugin"),
        ("costs", "what sharing costs, measured by pods and by processes"),
        ("rollout", "a pool changes node by node"),
    ):
        instead.add_argument(f"--{name}", action="store_const", dest="play", const=name, default="", help=f"instead: {what}")
    own.add_argument("--no-recording", action="store_true", help="without a recording of the terminal")
    subparsers.add_parser("clean", help="stop every sandbox and remove its state")
    return parser


def _run(options: argparse.Namespace, progress: Progress) -> int:
    # Imported here: it takes half a second, which a wrong command line need not wait for.
    from sandbox.cli import commands  # noqa: PLC0415

    raise_again()
    _clean_path(progress)
    if options.command == "gpu-node":
        return _gpu_node(options, progress)
    if options.command in {"up", "status"}:
        return _look(options, progress)
    if options.command == "verify":
        return _verify(options, progress)
    if options.command == "openstack":
        return commands.openstack(options.stack, options.arguments, progress)
    if options.command == "shell":
        commands.shell(options.stack, options.arguments, progress)
    if options.command == "preview":
        commands.preview(options.stack, progress, options.save, options.policies)
    elif options.command == "scale":
        commands.scale(options.stack, options.pool, options.count, progress)
    elif options.command == "disturb":
        commands.disturb(options.stack, Disturbances(options.seconds, tuple(options.fail), tuple(options.lose)), progress)
    elif options.command == "down":
        commands.down(options.stack, progress)
    else:
        commands.clean(progress)
    return 0


def _clean_path(progress: Progress) -> None:
    """Leave out of PATH what others could put programs into, for all that is started from here on."""
    os.environ["PATH"], left_out = trust.without_strange_folders(os.environ.get("PATH", os.defpath))
    for reason in left_out:
        progress.note(f"left out of PATH: {reason}")


def _look(options: argparse.Namespace, progress: Progress) -> int:
    from sandbox.cli import commands  # noqa: PLC0415 as above

    if options.command == "up":
        seen = commands.up(options.stack, progress, options.nodes, observe=options.observe)
    else:
        seen = commands.status(options.stack, progress)
    real = "" if options.json else commands.reality_of(options.stack)
    ended = _report(seen, commands.rules_because(options.stack), real, as_json=options.json)
    if not options.json and (links := commands.links(options.stack)):
        print(f"\n{links}")
    return ended


def _verify(options: argparse.Namespace, progress: Progress) -> int:
    from sandbox.cli import commands  # noqa: PLC0415 as above

    evidence = commands.verify(options.stack, progress)
    show(evidence, options.json, options.html)
    if reason := commands.rules_because(options.stack):
        print(_RULES.format(reason), file=sys.stderr)
    return evidence.verdict.exit_code


def _gpu_node(options: argparse.Namespace, progress: Progress) -> int:
    from sandbox.gpu_node import command  # noqa: PLC0415 as above

    folder = options.out.resolve()
    if options.no_recording:
        return command.play(folder, options.play, progress)
    return command.recorded(folder, options.play)


def _tell_incidents(pools: Iterable[PoolPlan]) -> None:
    from gpu_pools.text.incidents import explained  # noqa: PLC0415 as above

    if explanations := explained(warning for pool in pools for warning in pool.warnings):
        print("\n- ".join(["\nIncidents that the warnings name:", *explanations]))


def _report(seen: Look, rules_because: str, real: str, *, as_json: bool) -> int:
    from sandbox.cli.observe import notes, report_json, report_table  # noqa: PLC0415 as above

    if as_json:
        print(json.dumps({"pools": report_json(seen.pools), "troubles": list(seen.troubles)}, indent=2))
    else:
        print(f"\n{report_table(seen.pools)}\n")
        if seen.troubles:
            print("\n- ".join(["Not as it should be:", *seen.troubles]) + "\n")
        for note in notes(seen.pools):
            print(f"{note}\n")
        print(real)
        _tell_incidents([pool.pool_plan for pool in seen.pools])
    if rules_because:
        print(_RULES.format(rules_because), file=sys.stderr if as_json else sys.stdout)
    return 0 if seen.holds else _DIFFERS


if __name__ == "__main__":
    ended = main()
    end_at_once()
    sys.exit(ended)
