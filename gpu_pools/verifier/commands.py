"""What the commands do, once the command line is read. Prints; decides no finding.

What only some need is imported where they need it: loading takes most of the time of an assertion.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from . import report
from .documents import DocumentError
from .expectation import Expectation, read_expectation
from .findings import Verdict
from .moments import moment
from .observation import Observer
from .reading import Reading

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from .child import Reader
    from .living_node import LivingNode
    from .node import NodeReader
    from .observation import Assertion
    from .turns import Turns


#: Seconds between two assertions of `--wait`, at most, unless `--every` says more.
_LONGEST_PAUSE: Final = 30.0
#: A verdict that stays is written again so often by `assert --wait`: whoever reads it sees that it is not of the past.
_HEARTBEAT_SECONDS: Final = 300.0


class _UsageError(Exception):
    """Something that the caller has to change; its text says what."""


def run_command(options: argparse.Namespace, reader: Reader) -> int:
    """Run a command; returns the exit code."""
    commands = {"export": _export, "assert": _assert, "watch": _watch, "change": _change, "release": _release}
    try:
        return commands[options.command](options, reader)
    except _UsageError as error:
        print(f"cannot tell: {error}", file=sys.stderr)
        _terminate(getattr(options, "termination_log", None), f"cannot tell: {error}")
        return Verdict.CANNOT_TELL.value


def _observer(options: argparse.Namespace, reader: Reader) -> Observer:
    return Observer(reader, _node_reader(options), options.pause, options.processes)


def _node_reader(options: argparse.Namespace) -> NodeReader | None:
    if options.only:
        return None
    from .api import in_cluster  # noqa: PLC0415 - HTTP and TLS take longest of all
    from .node import NodeReader  # noqa: PLC0415

    api = in_cluster(os.environ, options.account)
    if api is None or not options.node:
        missing = "NODE_NAME is not set" if api else "this is not a pod: KUBERNETES_SERVICE_HOST is not set"
        message = f"{missing}, so the node object cannot be read; --only nvml leaves Kubernetes out."
        raise _UsageError(message)
    return NodeReader(api, options.node)


def _expectation(options: argparse.Namespace) -> tuple[Expectation, bytes]:
    """(the expectation, its document as it was read)."""
    try:
        expected, document = read_expectation(options.expect, options.expect_sha256)
    except DocumentError as error:
        message = f"the expectation cannot be used: {error}"
        raise _UsageError(message) from None
    if expected.node is None and not options.only:
        message = "the expectation says nothing of the node object; --only nvml leaves Kubernetes out."
        raise _UsageError(message)
    return expected, document


def _marker(
    options: argparse.Namespace, node: NodeReader | None, document: bytes
) -> Callable[[Expectation, Assertion], str | None] | None:
    """Writes each verdict to the node; None where it is not to be written."""
    if not options.mark or node is None:
        return None
    import hashlib  # noqa: PLC0415

    from .evidence import Origin  # noqa: PLC0415
    from .mark import mark  # noqa: PLC0415
    from .program import own_digest  # noqa: PLC0415

    try:
        origin = Origin(hashlib.sha256(document).hexdigest(), own_digest(), getattr(options, "interval", None))
    except OSError as error:
        message = f"the program cannot be read: {error}"
        raise _UsageError(message) from None
    return partial(mark, node, origin)


def _untainter(options: argparse.Namespace, node: NodeReader | None) -> Callable[[Assertion], str | None] | None:
    """Takes the startup taint away after a pass; None where that is not asked for."""
    if not options.untaint or node is None:
        return None
    from .untaint import untaint  # noqa: PLC0415

    return partial(untaint, node, options.untaint)


def _keeper(
    options: argparse.Namespace, node: NodeReader | None, expected: Expectation, reader: Reader
) -> Callable[[Assertion], str | None] | None:
    """Puts back what a change has set and somebody has taken away; None where that is not asked for."""
    if not options.keep or node is None or expected.node is None:
        return None
    from .change import target_of  # noqa: PLC0415
    from .keep import keep  # noqa: PLC0415
    from .living_node import LivingNode  # noqa: PLC0415

    living = LivingNode(node.api, node.name, expected.node.namespace)
    return partial(keep, living, target_of(expected), _nvml_holds(options, reader, expected))


def _nvml_holds(options: argparse.Namespace, reader: Reader, expected: Expectation) -> Callable[[], bool]:
    """Whether NVML says what is declared, whatever the node object says."""
    observer = Observer(reader, None, options.pause, options.processes)
    return lambda: observer.hold(expected).findings.verdict is Verdict.HOLDS


def _export(options: argparse.Namespace, reader: Reader) -> int:
    observation = _observer(options, reader).look(None)
    document = {"apiVersion": report.API_VERSION, "kind": "NodeObservation", "time": moment(), **observation.as_json()}
    print(json.dumps(document, indent=2))
    if isinstance(observation.nvml, Reading) and observation.nvml.failure is None:
        return 0
    print("cannot tell: NVML could not be read", file=sys.stderr)
    return Verdict.CANNOT_TELL.value


def _assert(options: argparse.Namespace, reader: Reader) -> int:
    expected, document = _expectation(options)
    assertion = _hold(options, reader, expected, document)
    if options.json:
        print(json.dumps(report.report(expected, assertion, at=moment()), indent=2))
    else:
        print(report.text(expected, assertion))
    return _finish(options, expected, assertion)


def _hold(options: argparse.Namespace, reader: Reader, expected: Expectation, document: bytes) -> Assertion:
    """Assert once, or again and again until it holds or --wait is over; each new reason to go on is told meanwhile."""
    node = _node_reader(options)
    observer = Observer(reader, node, options.pause, options.processes)
    write, untaint = _marker(options, node, document), _untainter(options, node)
    deadline = time.monotonic() + options.wait
    told, since, marked = "", time.monotonic(), 0.0
    while True:
        assertion = observer.hold(expected)
        reason = report.termination_message(expected, assertion)
        # The same verdict again is no news to everybody who watches nodes.
        news = reason != told or time.monotonic() - marked >= _HEARTBEAT_SECONDS
        if write and news:
            marked = time.monotonic()
            if trouble := write(expected, assertion):
                print(trouble, file=sys.stderr, flush=True)
        left = deadline - time.monotonic()
        if untaint and (trouble := untaint(assertion)):
            print(trouble, file=sys.stderr, flush=True)
        if assertion.findings.verdict is Verdict.HOLDS or left <= 0:
            return assertion
        if reason != told:
            print(f"{moment()} waiting: {reason}", file=sys.stderr, flush=True)
            told, since = reason, time.monotonic()
        time.sleep(min(_pause(options.every, time.monotonic() - since), left))


def _pause(every: float, waited: float) -> float:
    """Seconds until the next assertion: the longer nothing has changed, the longer, but never a large part of what was waited.

    A hundred nodes that get a driver for ten minutes are no reason to ask the API a hundred times every few seconds.
    """
    return max(every, min(_LONGEST_PAUSE, waited / 4))


def _watch(options: argparse.Namespace, reader: Reader) -> int:
    import logging  # noqa: PLC0415
    import threading  # noqa: PLC0415

    from .watch import LOG, Watcher, follow, server  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    (expected, document), node = _expectation(options), _node_reader(options)
    watcher = Watcher(expected, Observer(reader, node, options.pause, options.processes), options.interval, options.nvml_seconds)
    if write := _marker(options, node, document):
        watcher.tell = write
    if untaint := _untainter(options, node):
        watcher.untaint = untaint
    if keep := _keeper(options, node, expected, reader):
        watcher.keep = keep
    try:
        http = server(watcher, options.listen)
    except OSError as error:
        message = f"cannot listen on {options.listen[0] or '*'}:{options.listen[1]}: {error.strerror}"
        raise _UsageError(message) from None
    LOG.info("listening on port %s", http.server_address[1])
    threading.Thread(target=http.serve_forever, daemon=True).start()
    if node is not None:
        threading.Thread(target=follow, args=(node, watcher.wake), daemon=True).start()
    watcher.run()
    return 0


def _change(options: argparse.Namespace, reader: Reader) -> int:
    from .change import Change, ChangeError, Manner, target_of  # noqa: PLC0415
    from .windows import opens_in  # noqa: PLC0415

    expected, node, turns = _turned(options)
    try:
        target, manner = target_of(expected), Manner(options.drain, options.staying, options.wait, options.restart_mps)

        def opens() -> float:
            return opens_in(options.window, turns.api.clock()) if options.window else 0.0

        Change(target, node, turns, manner, _nvml_holds(options, reader, expected), opens).run()
    except ChangeError as error:
        print(f"not changed: {error}", file=sys.stderr)
        _terminate(options.termination_log, f"not changed: {error}")
        return Verdict.DIFFERS.value
    return 0


def _release(options: argparse.Namespace, reader: Reader) -> int:
    del reader
    from .api import ApiError  # noqa: PLC0415
    from .release import Release  # noqa: PLC0415

    _, node, turns = _turned(options)
    try:
        Release(node, turns).run()
    except ApiError as error:
        message = f"the node cannot be given back: {error}"
        raise _UsageError(message) from None
    return 0


def _turned(options: argparse.Namespace) -> tuple[Expectation, LivingNode, Turns]:
    """What both sides of a change need."""
    from .living_node import LivingNode  # noqa: PLC0415
    from .turns import Turns  # noqa: PLC0415

    (expected, _), reader = _expectation(options), _node_reader(options)
    if reader is None or expected.node is None:
        message = "a change is one of a node object: leave --only out."
        raise _UsageError(message)
    turns = Turns(reader.api, options.turns_in, expected.pool, options.turns, reader.name)
    return expected, LivingNode(reader.api, reader.name, expected.node.namespace), turns


def _finish(options: argparse.Namespace, expected: Expectation, assertion: Assertion) -> int:
    verdict = assertion.findings.verdict
    if verdict is not Verdict.HOLDS:
        _terminate(options.termination_log, report.termination_message(expected, assertion))
    return int(verdict.value)


def _terminate(path: Path | None, message: str) -> None:
    """Where the kubelet looks for the reason of a pod's end."""
    if path is None:
        return
    try:
        path.write_text(message, encoding="utf-8")
    except OSError as error:
        print(f"{path}: cannot be written: {error.strerror}", file=sys.stderr)
