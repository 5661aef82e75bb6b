"""What the commands work on: the expectation and the node's objects; and where last words go.

What only some need is imported where they need it: loading takes most of the time of an assertion.
"""

from __future__ import annotations

import os
import sys

from .documents import DocumentError
from .expectation import read_expectation

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from .expectation import Expectation
    from .node import NodeReader
    from .options import Options


class UsageError(Exception):
    """Something that the caller has to change; its text says what."""


def node_reader(options: Options) -> NodeReader | None:
    """Reads the node's objects; None where Kubernetes is left out.

    Raises:
        UsageError: outside a pod, or where the node's name is unknown.
    """
    if options.only:
        return None
    from pathlib import Path  # noqa: PLC0415 - HTTP and TLS take longest of all

    from .api import in_cluster  # noqa: PLC0415
    from .node import NodeReader  # noqa: PLC0415

    api = in_cluster(os.environ, Path(options.account))
    if api is None or not options.node:
        missing = "NODE_NAME is not set" if api else "this is not a pod: KUBERNETES_SERVICE_HOST is not set"
        message = f"{missing}, so the node object cannot be read; --only nvml leaves Kubernetes out."
        raise UsageError(message)
    return NodeReader(api, options.node)


def expectation_of(options: Options) -> tuple[Expectation, bytes]:
    """(the expectation, its document as it was read).

    Raises:
        UsageError: where it cannot be used.
    """
    try:
        expected, document = read_expectation(options.expect, options.expect_sha256)
    except DocumentError as error:
        message = f"the expectation cannot be used: {error}"
        raise UsageError(message) from None
    if expected.node is None and not options.only:
        message = "the expectation says nothing of the node object; --only nvml leaves Kubernetes out."
        raise UsageError(message)
    return expected, document


def terminate(path: str | None, message: str) -> None:
    """Where the kubelet looks for the reason of a pod's end."""
    if path is None:
        return
    try:
        with open(path, "w", encoding="utf-8") as log:  # noqa: PTH123 - pathlib takes time to load
            log.write(message)
    except OSError as error:
        print(f"{path}: cannot be written: {error.strerror}", file=sys.stderr)
