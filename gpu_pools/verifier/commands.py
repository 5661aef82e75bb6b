"""What the commands do, once the command line is read. Prints; decides no finding.

What only some need is imported where they need it: loading takes most of the time of an assertion.
"""

from __future__ import annotations

import sys
import time

from . import report
from .findings import Verdict
from .observation import Observer
from .options import INTERVAL
from .reading import Reading
from .sources import UsageError, expectation_of, node_reader, terminate

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, Final

    from .expectation import Expectation
    from .node import NodeReader
    from .observation import Assertion
    from .options import Options
    from .sources import Reader

#: Seconds between two assertions of `--wait`, at most, unless `--every` says more.
_LONGEST_PAUSE: Final = 30.0
#: A verdict that stays is written again so often by `assert --wait`: whoever reads it sees that it is not of the past.
_HEARTBEAT_SECONDS: Final = 300.0


def run_command(options: Options, reader: Reader) -> int:
    """Run a command; returns the exit code."""
    commands = {"export": _export, "assert": _assert, "watch": _watch}
    try:
        if options.command in commands:
            return commands[options.command](options, reader)
        run: Callable[[Options, Reader], int] = _changer().run_command
        return run(options, reader)
    except UsageError as error:
        print(f"cannot tell: {error}", file=sys.stderr)
        terminate(options.termination_log, f"cannot tell: {error}")
        return Verdict.CANNOT_TELL.value


def _observer(options: Options, reader: Reader) -> Observer:
    return Observer(reader, node_reader(options), options.pause, options.processes)


def _marker(options: Options, node: NodeReader | None, document: bytes) -> Callable[[Expectation, Assertion], str | None] | None:
    """Writes each verdict to the node; None where it is not to be written."""
    if not options.mark or node is None:
        return None
    import hashlib  # noqa: PLC0415

    from .evidence import Origin, mark, own_digest  # noqa: PLC0415

    try:
        origin = Origin(hashlib.sha256(document).hexdigest(), own_digest(), options.interval)
    except OSError as error:
        message = f"the program cannot be read: {error}"
        raise UsageError(message) from None
    return lambda expected, assertion: mark(node, origin, expected, assertion)


def _untainter(options: Options, node: NodeReader | None) -> Callable[[Assertion], str | None] | None:
    """Takes the startup taint away after a pass; None where that is not asked for."""
    if not options.untaint or node is None:
        return None
    from .untaint import untaint  # noqa: PLC0415

    key = options.untaint
    return lambda assertion: untaint(node, key, assertion)


def _changer() -> ModuleType:
    """What changes living nodes; where the program is one file, it is in another one (archive.py).

    Raises:
        UsageError: where nobody has given that file.
    """
    from .changer_file import find_changer  # noqa: PLC0415 - only pools with a rollout need it

    find_changer()
    try:
        from .changer import commands  # noqa: PLC0415
    except ModuleNotFoundError as error:
        message = f"what changes nodes is in another file ({error}): put changer.pyz on Python's path as well."
        raise UsageError(message) from None
    return commands


def _export(options: Options, reader: Reader) -> int:
    observation = _observer(options, reader).look(None)
    document = {"apiVersion": report.API_VERSION, "kind": "NodeObservation", "time": _now(), **observation.as_json()}
    _print_json(document)
    if isinstance(observation.nvml, Reading) and observation.nvml.failure is None:
        return 0
    print("cannot tell: NVML could not be read", file=sys.stderr)
    return Verdict.CANNOT_TELL.value


def _assert(options: Options, reader: Reader) -> int:
    expected, document = expectation_of(options)
    assertion = _hold(options, reader, expected, document)
    if options.json:
        _print_json(report.report(expected, assertion, at=_now()))
    else:
        print(report.text(expected, assertion))
    return _finish(options, expected, assertion)


def _hold(options: Options, reader: Reader, expected: Expectation, document: bytes) -> Assertion:
    """Assert once, or again and again until it holds or --wait is over; each new reason to go on is told meanwhile."""
    node = node_reader(options)
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
            print(f"{_now()} waiting: {reason}", file=sys.stderr, flush=True)
            told, since = reason, time.monotonic()
        time.sleep(min(_pause(options.every, time.monotonic() - since), left))


def _pause(every: float, waited: float) -> float:
    """Seconds until the next assertion: the longer nothing has changed, the longer, but never a large part of what was waited.

    A hundred nodes that get a driver for ten minutes are no reason to ask the API a hundred times every few seconds.
    """
    return max(every, min(_LONGEST_PAUSE, waited / 4))


def _watch(options: Options, reader: Reader) -> int:
    import logging  # noqa: PLC0415
    import threading  # noqa: PLC0415

    from .watch import LOG, Watcher, follow, server  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    (expected, document), node = expectation_of(options), node_reader(options)
    watcher = Watcher(
        expected, Observer(reader, node, options.pause, options.processes), options.interval or INTERVAL, options.nvml_seconds
    )
    if write := _marker(options, node, document):
        watcher.tell = write
    if untaint := _untainter(options, node):
        watcher.untaint = untaint
    if options.keep and node is not None and (keep := _changer().keeper(options, node, expected, reader)):
        watcher.keep = keep
    try:
        http = server(watcher, options.listen)
    except OSError as error:
        message = f"cannot listen on {options.listen[0] or '*'}:{options.listen[1]}: {error.strerror}"
        raise UsageError(message) from None
    LOG.info("listening on port %s", http.server_address[1])
    threading.Thread(target=http.serve_forever, daemon=True).start()
    if node is not None:
        threading.Thread(target=follow, args=(node, watcher.wake), daemon=True).start()
    watcher.run()
    return 0


def _now() -> str:
    from .names import moment  # noqa: PLC0415 - not every assertion needs it

    return moment()


def _print_json(document: dict[str, Any]) -> None:
    import json  # noqa: PLC0415 - it takes long to load

    print(json.dumps(document, indent=2))


def _finish(options: Options, expected: Expectation, assertion: Assertion) -> int:
    verdict = assertion.findings.verdict
    if verdict is not Verdict.HOLDS:
        terminate(options.termination_log, report.termination_message(expected, assertion))
    return int(verdict.value)
