"""``gpu-pools release STACK``: the stack lets go of everything, and all of it runs on.

Without ``--yes`` it only tells what would be let go, and what nobody renews from then on. With it the state is saved first, so
that `pulumi stack import` takes everything back; then the engine forgets it all. Exit codes: 0 told, or let go; 2 the engine
cannot be asked, or there is nothing to release, or the file is there already: nothing was let go.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_pools.text import programs
from gpu_pools.text.errors import Problem

if TYPE_CHECKING:
    import argparse

    from gpu_pools.adopting.release import Released

_WRONG = 2
_SECONDS = 600
#: How the engine says that there is no such stack (pulumi/pulumi 3.259, pkg/cmd/pulumi/stack).
_UNKNOWN = "no stack named"


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``release``."""
    parser = commands.add_parser("release", help="let go of all that a stack manages, and leave it running")
    parser.add_argument("stack", help="its name, as `pulumi --stack` takes it")
    parser.add_argument("--yes", action="store_true", help="do it; without, it is only told")
    parser.add_argument("--saved", type=Path, metavar="FILE", help="where the state is kept (default: released-STACK.json)")
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from gpu_pools.adopting.adopted import NotAdoptableError  # noqa: PLC0415 - loaded only where it is used
    from gpu_pools.adopting.release import released  # noqa: PLC0415 - loaded only where it is used

    saved = options.saved or Path(f"released-{options.stack.replace('/', '-')}.json")
    try:
        _check_name(options.stack)
        text = _pulumi(options.stack, "stack", "export")
        found = released(_parsed(text))
        if options.yes:
            _save(saved, text)
            _forget(options.stack, saved)
    except NotAdoptableError as error:
        if options.json:
            print(json.dumps({"errors": [asdict(one) for one in error.problems]}, indent=2))
        else:
            print(str(error).replace("nothing was written", "nothing was let go"), file=sys.stderr)
        return _WRONG
    print(
        json.dumps({**found.as_json(), "released": options.yes, "errors": []}, indent=2)
        if options.json
        else _told(found, options, saved)
    )
    return 0


def _told(found: Released, options: argparse.Namespace, saved: Path) -> str:
    count = sum(map(len, found.resources.values()))
    verb = "runs on, and the stack manages nothing of it any more" if options.yes else "would run on, managed by nobody"
    lines = [f"{count} resource{'' if count == 1 else 's'} of {options.stack}: all of it {verb}"]
    lines += [f"- {type_}: {', '.join(names)}" for type_, names in found.resources.items()]
    lines += ["", "From then on:", *(f"- {one}" for one in found.no_longer)]
    if found.protected and not options.yes:
        lines += [f"- {found.protected} of them are protected: that is the engine's word, and goes with the state"]
    back = f"pulumi stack import --stack {options.stack} --file {saved}"
    end = (
        [f"The state is in {saved}. To take everything back: {back}"]
        if options.yes
        else ["Nothing was let go. To do it: add --yes"]
    )
    return "\n".join([*lines, "", *end])


def _check_name(stack: str) -> None:
    """Refuse a file: what is released is what the engine has, not what somebody once exported."""
    from gpu_pools.adopting.adopted import NotAdoptableError  # noqa: PLC0415 - loaded only where it is used

    if Path(stack).is_file():
        remedy = f"Name the stack. To take back what a file has: pulumi stack import --stack STACK --file {stack}"
        raise NotAdoptableError([Problem(stack, "is a file", "the name of a stack, as `pulumi --stack` takes it", remedy)])


def _forget(stack: str, saved: Path) -> None:
    from gpu_pools.adopting.adopted import NotAdoptableError  # noqa: PLC0415 - loaded only where it is used

    try:
        _pulumi(stack, "state", "delete", "--all", "--force", "--yes")
    except NotAdoptableError as error:
        # It is kept: the engine may have forgotten all of it, and only its answer was lost.
        remedy = f"The state is saved in {saved}. See what the engine still has (pulumi stack export --stack {stack}), "
        again = "move that file away, and release it again."
        raise NotAdoptableError([replace(one, remedy=remedy + again) for one in error.problems]) from None


def _save(path: Path, text: str) -> None:
    """A state has secrets, if encrypted ones: for its owner alone, and never in the place of another file."""
    from gpu_pools.adopting.adopted import NotAdoptableError  # noqa: PLC0415 - loaded only where it is used

    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
    except FileExistsError:
        problem = Problem(str(path), "is there already", "a name that is free", "Name another one with --saved, or move it away.")
        raise NotAdoptableError([problem]) from None
    except OSError as error:
        problem = Problem(
            str(path), f"cannot be written: {error.strerror}", "a file that can be written", "Name another one with --saved."
        )
        raise NotAdoptableError([problem]) from None


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _pulumi(stack: str, *arguments: str) -> str:
    from gpu_pools.adopting.adopted import NotAdoptableError  # noqa: PLC0415 - loaded only where it is used

    command = ["pulumi", *arguments, "--stack", stack, "--non-interactive"]
    said, remedy = " ".join(command), f"Try it by hand: pulumi stack export --stack {stack}"
    try:
        done = programs.run(command, _SECONDS)
    except programs.AbsentError:
        problem = Problem(
            said, "there is no pulumi on PATH", "the engine that has deployed the stack", "Install it, or put it on PATH."
        )
        raise NotAdoptableError([problem]) from None
    except programs.SilentError as error:
        raise NotAdoptableError([Problem(said, f"pulumi does not answer: {error}", "an answer", remedy)]) from None
    if done.code:
        if _UNKNOWN in done.errors:
            remedy = "Name another one: `pulumi stack ls --all` shows those of the backend that `pulumi whoami --verbose` names."
            raise NotAdoptableError([Problem(stack, "is not a stack that the engine knows", "the name of a stack", remedy)])
        raise NotAdoptableError([Problem(said, f"pulumi ended with {done.code}: {done.errors}", "an answer", remedy)])
    return done.text
