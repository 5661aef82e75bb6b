"""Progress on standard error: one line a step, with its time; a sign of life every ten seconds.

A step that takes minutes has one line on a terminal, redrawn each second, and one line a minute elsewhere. Colour only on a
terminal, and not where NO_COLOR is set. Standard output stays free for results.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

from gpu_pools.text.terminal import ERASE_LINE, LINE_START, coloured, harmless_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_HEARTBEAT_SECONDS = 10.0
_MINUTE = 60
_REDRAWS = 10
"""How often the line of a long step is redrawn between two signs of life."""
_SIGNS_A_LINE = 6
"""After so many signs of life of other steps a long step has another line where nobody watches."""
_DIM, _RED, _GREEN, _BLUE = 2, 31, 32, 34


class Progress:
    """Prints the steps of a command as they run; steps may nest and may run in threads."""

    def __init__(
        self, stream: TextIO | None = None, *, heartbeat: float = _HEARTBEAT_SECONDS, shared_terminal: bool = False
    ) -> None:
        """Print to a stream.

        Args:
            stream: where to print; standard error when None.
            heartbeat: seconds between two signs of life of a running step.
            shared_terminal: whether another command redraws a line of the same terminal: then this one redraws none.
        """
        self._stream = harmless_to(sys.stderr if stream is None else stream)
        self._heartbeat = heartbeat
        self._colour = self._stream.isatty() and "NO_COLOR" not in os.environ
        self._terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._redraws = self._terminal and not shared_terminal
        self._lock = threading.Lock()
        self._open_line: object | None = None

    @contextlib.contextmanager
    def step(self, text: str, waits_for: Callable[[], Iterable[str]] = tuple) -> Iterator[None]:
        """Print the text, then how long the block took, and whether it failed.

        Args:
            text: what is done.
            waits_for: what it waits for right now, in lines; asked with each sign of life.
        """
        token = object()
        self._begin(text, token)
        with self._pulse(
            lambda start, over: self._beat(text, token, start, over, waits_for),
            lambda outcome, seconds: self._continue(text, token, f"{outcome} {seconds:.1f} s\n"),
        ):
            yield

    @contextlib.contextmanager
    def long_step(self, text: str, describe: Callable[[], str] = str) -> Iterator[None]:
        """Print how far a step of minutes is: how long it has run, and what it says of itself.

        Args:
            text: what is done.
            describe: what is being done right now and what remains, in one line; empty where there is nothing to say.
        """
        if not self._redraws:
            self._print_line(f"{text} …")
        with self._pulse(
            lambda start, over: self._show_state(text, describe, start, over),
            lambda outcome, seconds: self._print_line(f"{text} … {outcome} {elapsed(seconds)}"),
        ):
            yield

    @contextlib.contextmanager
    def _pulse(self, beat: Callable[[float, threading.Event], None], end: Callable[[str, float], None]) -> Iterator[None]:
        """Give signs of life beside what is done, and print how it ended.

        Args:
            beat: gives them from a time on, by the monotonic clock, until the event is set; runs in a thread.
            end: prints the end: how it ended, and the seconds that it took.
        """
        start, over = time.monotonic(), threading.Event()
        pulse = threading.Thread(target=beat, args=(start, over), daemon=True)
        pulse.start()
        outcome, colour = "failed after", _RED
        try:
            yield
            outcome, colour = "done in", _GREEN
        finally:
            over.set()
            pulse.join()
            end(self._paint(outcome, colour), time.monotonic() - start)

    def note(self, text: str) -> None:
        """Print one line that is not a step of its own."""
        self._print_line(text)

    def _show_state(self, text: str, describe: Callable[[], str], start: float, over: threading.Event) -> None:
        """Show how far a long step is, until it is over."""
        pause = self._heartbeat / _REDRAWS if self._redraws else self._heartbeat * _SIGNS_A_LINE
        while not over.wait(pause):
            state = ", ".join(filter(None, (elapsed(time.monotonic() - start), describe())))
            if self._redraws:
                self._redraw(f"• {text}: {state}")
            else:
                self._print_line(f"{text}: {state}")

    def _redraw(self, line: str) -> None:
        """Draw the line that the next drawing or the next line takes the place of."""
        width = shutil.get_terminal_size().columns - 1
        cut = line if len(line) <= width else f"{line[: width - 1]}…"
        with self._lock:
            self._close_line()
            self._write(f"{LINE_START}{ERASE_LINE}{cut}{LINE_START}")

    def _print_line(self, text: str) -> None:
        with self._lock:
            self._close_line()
            self._write(f"{self._erase()}{self._paint('•', _BLUE)} {text}\n")

    def _erase(self) -> str:
        """What takes a drawn line away; it may be another command's."""
        return ERASE_LINE if self._terminal else ""

    def _beat(
        self, text: str, token: object, start: float, over: threading.Event, waits_for: Callable[[], Iterable[str]]
    ) -> None:
        """Show the seconds gone by until the step is over, and what it waits for."""
        while not over.wait(self._heartbeat):
            seconds = f"{time.monotonic() - start:.0f} s …"
            self._continue(text, token, f"{self._paint(seconds, _DIM)} ")
            if lines := list(waits_for()):
                with self._lock:
                    self._close_line()
                    self._write("".join(f"    {line}\n" for line in lines))

    def _begin(self, text: str, token: object) -> None:
        """Open the line of a step."""
        with self._lock:
            self._close_line()
            self._open(text, token)

    def _continue(self, text: str, token: object, more: str) -> None:
        """Add to the line of a step; repeats the step's text when another line was printed since."""
        with self._lock:
            if self._open_line is not token:
                self._close_line()
                self._open(text, token)
            self._write(more)
            if more.endswith("\n"):
                self._open_line = None

    def _open(self, text: str, token: object) -> None:
        self._write(f"{self._erase()}{self._paint('•', _BLUE)} {text} … ")
        self._open_line = token

    def _close_line(self) -> None:
        if self._open_line is not None:
            self._write("\n")
            self._open_line = None

    def _paint(self, text: str, colour: int) -> str:
        return coloured(text, colour) if self._colour else text

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def elapsed(seconds: float) -> str:
    """A time that has passed, such as "42.0 s" or "3 min 12 s"."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), _MINUTE)
    return f"{minutes} min {rest} s"
