"""``gpu-pools images STACKFILE [--offline]``: the images that a stack puts into its cluster, and what their registries say.

The one command here that asks anybody; with --offline it asks nobody. Exit codes: 0 nothing is wrong with what could be checked,
1 a registry says that an image is not there, is another one or is not for the nodes, 2 the stack file is refused.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.images.placed import placed_images
from gpu_pools.images.registry import ask_all
from gpu_pools.images.verdicts import ImageVerdict
from gpu_pools.plan.document import problems_json
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text import harmless
from gpu_pools.text.errors import InvalidStackError, listed
from gpu_pools.text.incidents import explained
from gpu_pools.text.table import table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from gpu_pools.images.placed import PlacedImage

_FOUND: Final = 1
_INVALID: Final = 2


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command; it sets ``run`` to what carries it out and returns the exit code."""
    images = commands.add_parser(
        "images",
        help="list the images that a stack runs, and ask their registries about them",
        description="Lists the images that a stack runs, and asks their registries about them, without a log-in: no credentials "
        "are read, and what a registry shows only to those who log in is not checked.",
    )
    images.add_argument("stackfile", help="a stack file, e.g. stacks/Pulumi.aks-dev.yaml; - for the standard input")
    images.add_argument("--offline", action="store_true", help="ask no registry")
    images.add_argument("--json", action="store_true", help="print JSON for machines")
    images.set_defaults(run=_images)


def _images(options: argparse.Namespace) -> int:
    try:
        settings = plan_config(read_stack_file(options.stackfile), complete=False).settings
    except InvalidStackError as error:
        print(json.dumps(problems_json(error.problems), indent=2)) if options.json else print(error, file=sys.stderr)
        return _INVALID
    verdicts = judged(placed_images(settings), offline=options.offline)
    print(json.dumps(_document(verdicts), indent=2) if options.json else _text(verdicts))
    return _FOUND if any(verdict.problem for verdict in verdicts) else 0


def judged(images: Sequence[PlacedImage], *, offline: bool) -> list[ImageVerdict]:
    """Each image with what its registry says."""
    if offline:
        return [ImageVerdict(image, None) for image in images]
    # All were read by the stack file's parser, so each has a name.
    said = ask_all([image.name for image in images if image.name])
    return [ImageVerdict(image, one) for image, one in zip(images, said, strict=True)]


def _document(verdicts: Sequence[ImageVerdict]) -> dict[str, Any]:
    problems = [verdict.problem for verdict in verdicts if verdict.problem]
    return {
        "images": [verdict.as_json() for verdict in verdicts],
        "warnings": [verdict.warning for verdict in verdicts if verdict.warning],
        "errors": problems_json(problems)["errors"],
    }


def _text(verdicts: Sequence[ImageVerdict]) -> str:
    rows = [
        (image.path.removeprefix("gpu-pools:") + ("" if image.given else " (default)"), image.text, image.pods, verdict.text)
        for verdict in verdicts
        for image in [verdict.image]
    ]
    problems = [verdict.problem for verdict in verdicts if verdict.problem]
    warnings = [f"warning: {verdict.warning}" for verdict in verdicts if verdict.warning]
    lines = [table(("NAMED BY", "IMAGE", "RUN BY", "ITS REGISTRY SAYS"), rows)]
    lines += ["", *map(harmless.line, warnings)] if warnings else []
    lines += ["", listed(problems, "the images", "deployed")] if problems else []
    return "\n".join([*lines, *(["", *explained(warnings)] if warnings else [])])
