"""``gpu-pools adopt``: from a cluster that is there to a stack file and the file for ``pulumi import``.

It reads files, or asks az, openstack and the cluster. It writes two files, both or neither, and overwrites none unless told to.
Exit codes: 0 all that was found is in the stack file; 1 something is not, which is said, or there was nothing to adopt; 2 the
command line or a document is wrong, or a program or the cluster cannot be asked: nothing is written.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.adopting.known import ADOPTERS
from gpu_pools.text.errors import Problem, together

if TYPE_CHECKING:
    import argparse

    from gpu_pools.adopting.adopted import Adopted
    from gpu_pools.adopting.adopter import Adopter
    from gpu_pools.adopting.inside import Inside

_SOME_IS_NOT: Final = 1
_WRONG: Final = 2
_GET: Final = "kubectl get … --output json"
#: What a stack that only holds its pools is (gpu_pools/stack/imported.py).
_HELD: Final = (
    "As it is, until you take `gpu-pools:adoption: imported` out of the stack file. The preview after the import shows",
    "no change; nothing is made in the cluster, and a change of a pool is refused.",
)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``adopt`` with a subcommand for each kind of cluster."""
    adopt = commands.add_parser("adopt", help="write the stack file and the import file for GPU pools that people made by hand")
    kinds = adopt.add_subparsers(dest="kind", required=True, metavar="KIND")
    for adopter in ADOPTERS.values():
        parser = kinds.add_parser(adopter.name, help=adopter.says)
        adopter.add_options(parser)
        _add_common_options(parser, adopter)


def _add_common_options(parser: argparse.ArgumentParser, adopter: Adopter) -> None:
    parser.add_argument("--stack", required=True, metavar="NAME", help="of the stack that takes them over")
    parser.add_argument("--project", default="gpu-pools", metavar="NAME", help="its project (default: %(default)s)")
    parser.add_argument("--kubernetes", metavar="FILE", nargs="+", default=[], help=f"what of the cluster `{_GET}` printed")
    parser.add_argument("--context", metavar="NAME", help="ask the cluster instead, with this context of the kubeconfig")
    parser.add_argument("--kubeconfig", metavar="FILE", help="ask the cluster instead, with this kubeconfig")
    parser.add_argument("--stack-file", type=Path, metavar="FILE", help="default: stacks/Pulumi.NAME.yaml")
    parser.add_argument("--import-file", type=Path, metavar="FILE", help="default: import-NAME.json")
    parser.add_argument(
        "--add",
        action="store_true",
        help="the stack is deployed already: the import file adds to it, and you merge the stack file",
    )
    parser.add_argument("--force", action="store_true", help="write files that are there already")
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=partial(_run, adopter))


# What the commands do is imported where they run: every command loads this module, and needs none of it.


def _run(adopter: Adopter, options: argparse.Namespace) -> int:
    from gpu_pools.adopting.adopted import NotAdoptableError  # noqa: PLC0415 - see above
    from gpu_pools.stack.imported import IMPORTED  # noqa: PLC0415 - see above

    stack_file = options.stack_file or Path("stacks") / f"Pulumi.{_short(options)}.yaml"
    import_file = options.import_file or Path(f"import-{_short(options)}.json")
    try:
        _check_free([stack_file, import_file], forced=options.force)
        adopted, source = adopter.adopt(options, partial(_inside, options), _owner(options))
        if adopted.imports and not options.add:
            adopted.sections["adoption"] = IMPORTED
        if adopted.sections.get("pools"):
            added_to = _owner(options) if options.add else ""
            _write(adopted, source, stack_file, (import_file, added_to))
    except NotAdoptableError as error:
        if options.json:
            print(json.dumps({"config": {}, "errors": [asdict(one) for one in error.problems]}, indent=2))
        else:
            print(error, file=sys.stderr)
        return _WRONG
    if options.json:
        print(json.dumps({**adopted.as_json(), "errors": []}, indent=2))
    else:
        print(_told(adopted, options, stack_file, import_file))
    return _SOME_IS_NOT if adopted.unsaid or not adopted.sections.get("pools") else 0


def _check_free(files: list[Path], *, forced: bool) -> None:
    from gpu_pools.adopting.adopted import NotAdoptableError  # noqa: PLC0415 - see above

    problems = [
        Problem(
            str(file),
            "is there already",
            "a name that is free",
            "Name another one (--stack-file, --import-file), or say --force.",
        )
        for file in files
        if not forced and (file.exists() or file.is_symlink())
    ] + [
        Problem(
            str(file), f"there is no folder {file.parent}", "a file in a folder that is there", "Make it, or name another one."
        )
        for file in files
        if not file.parent.is_dir()
    ]
    if problems:
        raise NotAdoptableError(problems)


def _write(adopted: Adopted, source: str, stack_file: Path, imports: tuple[Path, str]) -> None:
    """Both or neither: what cannot be written takes the other away again.

    Args:
        adopted: what they say.
        source: what it was made of.
        stack_file: the one.
        imports: the other, and the stack that it adds to.
    """
    from gpu_pools.adopting.adopted import NotAdoptableError  # noqa: PLC0415 - see above
    from gpu_pools.adopting.written import import_text, stack_text  # noqa: PLC0415 - see above
    from gpu_pools.text.files import write_whole  # noqa: PLC0415 - see above

    texts = [
        (stack_file, stack_text(adopted, source)),
        *([(imports[0], import_text(adopted, imports[1]))] if adopted.imports else []),
    ]
    written: list[Path] = []
    try:
        for path, text in texts:
            fresh = not path.exists()
            write_whole(path, text)
            written += [path] if fresh else []
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        problem = Problem(
            str(error.filename or texts[0][0]),
            f"cannot be written: {error.strerror}",
            "a file that can be written",
            "Name another one.",
        )
        raise NotAdoptableError([problem]) from None


def _told(adopted: Adopted, options: argparse.Namespace, stack_file: Path, import_file: Path) -> str:
    from gpu_pools.stack.imported import ADOPTION  # noqa: PLC0415 - see above

    pools = adopted.sections.get("pools", [])
    if not pools:
        return "\n".join(
            ["No pool can be adopted; nothing was written.", *(f"- {one.place}: {one.why}" for one in adopted.unsaid)]
        )
    lines = [
        f"{len(pools)} pool{'' if len(pools) == 1 else 's'} in {stack_file}: {', '.join(str(pool['name']) for pool in pools)}"
    ]
    held = "adoption" in adopted.sections
    if held:
        lines += ["", *_HELD]
    lines += ["", "Managed from then on:" if held else "Managed from the first `up` on:"]
    lines += [f"- pool {pool}: what the stack file says of it" for pool in adopted.changes] + [
        f"- {one}" for one in adopted.managed
    ]
    if changed := {pool: changes for pool, changes in adopted.changes.items() if changes}:
        when = "What the first preview shows of them then" if held else "What the first preview shows of them"
        lines += ["", f"{when}, all in place (no node is replaced):"]
        lines += [f"- pool {pool}: {', '.join(changes)}" for pool, changes in changed.items()]
    if adopted.unsaid:
        lines += ["", "Not in the stack file:", *(f"- {one.place}: {one.why}" for one in adopted.unsaid)]
    stack = options.stack
    steps = [f"merge {stack_file} into the stack file of {stack}"] if options.add else [f"pulumi stack init {stack}"]
    steps += [f"pulumi import --stack {stack} --file {import_file} --generate-code=false"] if adopted.imports else []
    look = [f"pulumi preview --stack {stack} --diff", f"pulumi up --stack {stack}"]
    steps += (
        [f"{look[0]} --expect-no-changes", f"take `{ADOPTION}` out of {stack_file}, when they are to be managed"] if held else []
    )
    steps += look
    return "\n".join([*lines, "", "Next:", *(f"  {one}" for one in steps)])


def _inside(options: argparse.Namespace) -> Inside:
    from gpu_pools.adopting import live  # noqa: PLC0415 - see above
    from gpu_pools.adopting.adopted import NotAdoptableError  # noqa: PLC0415 - see above
    from gpu_pools.adopting.inside import look  # noqa: PLC0415 - see above

    objects = together(NotAdoptableError, *(partial(_objects, file) for file in options.kubernetes))
    if options.context or options.kubeconfig:
        objects += live.kubernetes(options.context, options.kubeconfig)
    return look(objects)


def _objects(file: str) -> dict[str, Any]:
    from gpu_pools.adopting.documents import mapping, read_json  # noqa: PLC0415 - see above

    return mapping(read_json(file, _GET), file, _GET)


def _short(options: argparse.Namespace) -> str:
    """The stack's own name: with a backend of Pulumi's it may be written behind organisation and project."""
    return str(options.stack).rpartition("/")[2]


def _owner(options: argparse.Namespace) -> str:
    """As the program says it (components/engine/stack_owner.py)."""
    return f"{options.project}/{_short(options)}"
