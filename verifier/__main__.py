"""``verifier export | assert --expect FILE | watch --expect FILE``: what a GPU node is, and whether that is what was declared.

Exit codes: 0 the node is as declared, 1 it differs, 2 that cannot be told (or the command line is wrong), 130
interrupted, 143 terminated.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from verifier import report
from verifier.api import ACCOUNT_FOLDER, in_cluster
from verifier.child import DEFAULT_SECONDS
from verifier.documents import DocumentError
from verifier.expectation import Expectation, read_expectation
from verifier.findings import Verdict
from verifier.node import NodeReader
from verifier.observation import DEFAULT_PAUSE_SECONDS, Observer
from verifier.reading import Reading
from verifier.watch import DEFAULT_INTERVAL_SECONDS, DEFAULT_PORT, LOG, Watcher, follow, server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verifier.observation import Assertion

_INTERRUPTED: Final = 130
_SIGNALLED: Final = 128
_CANNOT_TELL: Final = Verdict.CANNOT_TELL.value


class _UsageError(Exception):
    """Something that the caller has to change; its text says what."""


def run() -> int:
    """`main` as a program of its own: it ends when it is told to; returns the exit code."""
    # The first process of a container gets no signal that it does not handle.
    signal.signal(signal.SIGTERM, _end)
    try:
        return main()
    except Exception:  # noqa: BLE001 - Python would end with 1, which says that the node differs
        traceback.print_exc()
        return _CANNOT_TELL


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except _UsageError as error:
        print(f"cannot tell: {error}", file=sys.stderr)
        _terminate(getattr(options, "termination_log", None), f"cannot tell: {error}")
        return _CANNOT_TELL
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def _end(number: int, frame: object) -> None:
    del frame
    sys.exit(_SIGNALLED + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="verifier", description="Compare a GPU node with what was declared for it.")
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", help="print what this node is")
    export.set_defaults(run=_export)
    holds = commands.add_parser("assert", help="compare this node with an expectation")
    _add_expectation(holds)
    holds.add_argument("--json", action="store_true", help="print the report for machines")
    holds.add_argument(
        "--wait", type=_seconds, default=0.0, metavar="SECONDS", help="assert again until it holds, so long at most"
    )
    holds.add_argument(
        "--every", type=_seconds, default=10.0, metavar="SECONDS", help="pause between two assertions of --wait (10)"
    )
    holds.add_argument("--termination-log", type=Path, metavar="FILE", help="write a line about what does not hold there")
    holds.set_defaults(run=_assert)
    watches = commands.add_parser("watch", help="assert again and again, and serve the result over HTTP")
    _add_expectation(watches)
    watches.add_argument(
        "--interval", type=_seconds, default=DEFAULT_INTERVAL_SECONDS, metavar="SECONDS", help="between two assertions (300)"
    )
    watches.add_argument(
        "--listen", type=_address, default=("", DEFAULT_PORT), metavar="[ADDRESS:]PORT", help=f"where to serve ({DEFAULT_PORT})"
    )
    watches.set_defaults(run=_watch)
    for command in (export, holds, watches):
        _add_surroundings(command)
    return parser


def _add_expectation(command: argparse.ArgumentParser) -> None:
    command.add_argument("--expect", type=Path, required=True, metavar="FILE", help="the expectation: python -m gpus expect")


def _add_surroundings(command: argparse.ArgumentParser) -> None:
    command.add_argument("--only", choices=("nvml",), help="nvml: leave Kubernetes out")
    command.add_argument("--node", default=os.environ.get("NODE_NAME"), help="this node's name (the variable NODE_NAME)")
    command.add_argument(
        "--account", type=Path, default=ACCOUNT_FOLDER, metavar="FOLDER", help="token and ca.crt of a service account"
    )
    command.add_argument(
        "--nvml-seconds",
        type=_seconds,
        default=DEFAULT_SECONDS,
        metavar="SECONDS",
        help="how long one call of NVML may take (30)",
    )
    command.add_argument(
        "--pause", type=_seconds, default=DEFAULT_PAUSE_SECONDS, metavar="SECONDS", help="between two readings (1)"
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _observer(options: argparse.Namespace) -> Observer:
    return Observer(_node_reader(options), options.nvml_seconds, options.pause)


def _node_reader(options: argparse.Namespace) -> NodeReader | None:
    if options.only:
        return None
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


def _export(options: argparse.Namespace) -> int:
    observation = _observer(options).look(None)
    document = {"apiVersion": report.API_VERSION, "kind": "NodeObservation", "time": _now(), **observation.as_json()}
    print(json.dumps(document, indent=2))
    if isinstance(observation.nvml, Reading) and observation.nvml.failure is None:
        return 0
    print("cannot tell: NVML could not be read", file=sys.stderr)
    return _CANNOT_TELL


def _assert(options: argparse.Namespace) -> int:
    expected = _expectation(options)
    assertion = _hold(options, expected)
    print(
        json.dumps(report.report(expected, assertion, at=_now()), indent=2) if options.json else report.text(expected, assertion)
    )
    return _finish(options, expected, assertion)


def _hold(options: argparse.Namespace, expected: Expectation) -> Assertion:
    """Assert once, or again and again until it holds or --wait is over; each new reason to go on is told meanwhile."""
    observer = _observer(options)
    deadline = time.monotonic() + options.wait
    told = ""
    while True:
        assertion = observer.hold(expected)
        left = deadline - time.monotonic()
        if assertion.findings.verdict is Verdict.HOLDS or left <= 0:
            return assertion
        reason = report.termination_message(expected, assertion)
        if reason != told:
            print(f"{_now()} waiting: {reason}", file=sys.stderr, flush=True)
        told = reason
        time.sleep(min(options.every, left))


def _watch(options: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    expected, node = _expectation(options), _node_reader(options)
    watcher = Watcher(expected, Observer(node, options.nvml_seconds, options.pause), options.interval, options.nvml_seconds)
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
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


if __name__ == "__main__":
    sys.exit(run())
