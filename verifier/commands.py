"""What the commands do, once the command line is read. Prints; decides no finding.

What only some need is imported where they need it: loading takes most of the time of an assertion.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from verifier import report
from verifier.documents import DocumentError
from verifier.expectation import Expectation, read_expectation
from verifier.findings import Verdict
from verifier.observation import Observer
from verifier.reading import Reading

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from verifier.child import Reader
    from verifier.node import NodeReader
    from verifier.observation import Assertion


class _UsageError(Exception):
    """Something that the caller has to change; its text says what."""


def run_command(options: argparse.Namespace, reader: Reader) -> int:
    """Run `export`, `assert` or `watch`; returns the exit code."""
    try:
        return {"export": _export, "assert": _assert, "watch": _watch}[options.command](options, reader)
    except _UsageError as error:
        print(f"cannot tell: {error}", file=sys.stderr)
        _terminate(getattr(options, "termination_log", None), f"cannot tell: {error}")
        return Verdict.CANNOT_TELL.value


def _observer(options: argparse.Namespace, reader: Reader) -> Observer:
    return Observer(reader, _node_reader(options), options.pause)


def _node_reader(options: argparse.Namespace) -> NodeReader | None:
    if options.only:
        return None
    from verifier.api import in_cluster  # noqa: PLC0415 - HTTP and TLS take longest of all
    from verifier.node import NodeReader  # noqa: PLC0415

    api = in_cluster(os.environ, options.account)
    if api is None or not options.node:
        missing = "NODE_NAME is not set" if api else "this is no pod: KUBERNETES_SERVICE_HOST is not set"
        message = f"{missing}, so the node object cannot be read; --only nvml leaves Kubernetes out."
        raise _UsageError(message)
    return NodeReader(api, options.node)


def _expectation(options: argparse.Namespace) -> Expectation:
    try:
        expected = read_expectation(options.expect)
    except DocumentError as error:
        message = f"the expectation cannot be used: {error}"
        raise _UsageError(message) from None
    if expected.node is None and not options.only:
        message = "the expectation says nothing of the node object; --only nvml leaves Kubernetes out."
        raise _UsageError(message)
    return expected


def _export(options: argparse.Namespace, reader: Reader) -> int:
    observation = _observer(options, reader).look(None)
    document = {"apiVersion": report.API_VERSION, "kind": "NodeObservation", "time": _now(), **observation.as_json()}
    print(json.dumps(document, indent=2))
    if isinstance(observation.nvml, Reading) and observation.nvml.failure is None:
        return 0
    print("cannot tell: NVML could not be read", file=sys.stderr)
    return Verdict.CANNOT_TELL.value


def _assert(options: argparse.Namespace, reader: Reader) -> int:
    expected = _expectation(options)
    assertion = _hold(options, reader, expected)
    print(
        json.dumps(report.report(expected, assertion, at=_now()), indent=2) if options.json else report.text(expected, assertion)
    )
    return _finish(options, expected, assertion)


def _hold(options: argparse.Namespace, reader: Reader, expected: Expectation) -> Assertion:
    """Assert once, or again and again until it holds or --wait is over; each new reason to go on is told meanwhile."""
    node = _node_reader(options)
    observer = Observer(reader, node, options.pause)
    deadline = time.monotonic() + options.wait
    told = ""
    while True:
        assertion = observer.hold(expected)
        reason = report.termination_message(expected, assertion)
        # The same verdict again is no news to everybody who watches nodes.
        if options.mark and node and reason != told and (trouble := _mark(node, expected, assertion)):
            print(trouble, file=sys.stderr, flush=True)
        left = deadline - time.monotonic()
        if assertion.findings.verdict is Verdict.HOLDS or left <= 0:
            return assertion
        if reason != told:
            print(f"{_now()} waiting: {reason}", file=sys.stderr, flush=True)
        told = reason
        time.sleep(min(options.every, left))


def _mark(node: NodeReader, expected: Expectation, assertion: Assertion) -> str | None:
    from verifier.mark import mark  # noqa: PLC0415

    return mark(node, expected, assertion)


def _watch(options: argparse.Namespace, reader: Reader) -> int:
    import logging  # noqa: PLC0415
    import threading  # noqa: PLC0415
    from functools import partial  # noqa: PLC0415

    from verifier.watch import LOG, Watcher, follow, server  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    expected, node = _expectation(options), _node_reader(options)
    watcher = Watcher(expected, Observer(reader, node, options.pause), options.interval, options.nvml_seconds)
    if options.mark and node is not None:
        watcher.tell = partial(_mark, node)
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


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
