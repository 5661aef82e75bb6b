"""``python -m pipelines``: what jobs of a forge call; which forge it is, the environment says.

- ``comment [--sarif FOLDER]`` writes the comments on previews that unreviewed code has made.
- ``deployed STACK FOLDER`` writes what the last deploy left: ``commit``, and ``pods.json`` where there is one; nothing before it.
- ``protected ENVIRONMENT [--reviewed]`` ends with 1 where others than the base branch may use an environment's identity.

Exit codes: 0 done; 1 the forge refused, or an environment is not protected; 2 the command line is wrong.
"""

from __future__ import annotations

if __name__ == "__main__":
    from gpu_pools.text.interrupts import end_at_once

    # Before the rest is loaded.
    end_at_once()

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_pools.text.interrupts import answered
from gpu_pools.text.terminal import guarded
from pipelines.comments import Checkout, comment_on
from pipelines.forge import ForgeError
from pipelines.github import GitHub
from pipelines.gitlab import GitLab

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipelines.forge import Forge


@guarded()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _options(arguments)
    try:
        forge: Forge = GitLab.here() if "GITLAB_CI" in os.environ else GitHub.here()
        problems = list(options.run(forge, options))
    except ForgeError as error:
        problems = [str(error)]
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pipelines", description="What jobs of a forge call.")
    commands = parser.add_subparsers(required=True)
    comment = commands.add_parser("comment", help="comment on the changes that were previewed")
    comment.add_argument("--sarif", type=Path, metavar="FOLDER", help="write SARIF for code-scanning there")
    comment.set_defaults(run=_comment)
    deployed = commands.add_parser("deployed", help="write what the last deploy of a stack left")
    deployed.add_argument("stack")
    deployed.add_argument("folder", type=Path)
    deployed.set_defaults(run=_deployed)
    protected = commands.add_parser("protected", help="see that only the base branch may use an environment")
    protected.add_argument("environment")
    protected.add_argument("--reviewed", action="store_true", help="and that somebody reviews each deploy")
    protected.set_defaults(run=_protected)
    return parser.parse_args(arguments)


def _comment(forge: Forge, options: argparse.Namespace) -> list[str]:
    base = Checkout.here()
    problems: list[str] = []
    for request in forge.requests():
        try:
            left_out = comment_on(forge, request, base, options.sarif)
        except ForgeError as error:
            # One request must not keep the others from their comments.
            left_out = [str(error)]
        problems += (f"request {request.number}: {one}" for one in left_out)
        _tell("number", str(request.number))
    return problems


def _deployed(forge: Forge, options: argparse.Namespace) -> list[str]:
    options.folder.mkdir(parents=True, exist_ok=True)
    left = forge.deployed(options.stack, Checkout.here(forge.branch).has)
    if left is None:
        why = "nothing was deployed yet, its artifact has expired, or it is of no commit of the base branch that is here"
        print(f"• {options.stack}: {why}", file=sys.stderr)
        return []
    (options.folder / "commit").write_text(left.commit, encoding="utf-8")
    if left.pods is not None:
        (options.folder / "pods.json").write_bytes(left.pods)
    return []


def _protected(forge: Forge, options: argparse.Namespace) -> list[str]:
    why = forge.unprotected(options.environment, reviewed=options.reviewed)
    return [f"environment {options.environment}: {why}"] if why else []


def _tell(name: str, value: str) -> None:
    """For the steps after this one, where the forge has such."""
    if path := os.environ.get("GITHUB_OUTPUT"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{name}={value}\n")


if __name__ == "__main__":
    sys.exit(answered(main))
