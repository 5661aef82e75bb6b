"""A machine's own thread: what takes long is asked of it, and answered when it is done; whoever asks never waits.

One thing at a time, in the order of asking. Nothing of GPUs is known here.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from sandbox.machines.world import LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")
P = ParamSpec("P")


@dataclass
class _Errand:
    """Something that the machine's thread works on, or has done."""

    question: Hashable
    answer: Future[object]


class Errands:
    """What a machine's thread does.

    Args:
        machine: its name, for the log.
        wake: called, by any thread, when an answer is there.
    """

    def __init__(self, machine: str, wake: Callable[[], None]) -> None:
        self._machine, self._wake = machine, wake
        self._line = ThreadPoolExecutor(1, thread_name_prefix=machine)
        self._errands: dict[str, _Errand] = {}

    def submit(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> Future[T]:
        """Have something done, after all that was asked for before."""
        return self._line.submit(work, *args, **options)

    def ask(self, name: str, question: Hashable, work: Callable[[], T]) -> T | None:
        """The answer to a question, kept until the next one of that name; None while it is worked on."""
        known = self._errands.get(name)
        if known is None or known.question != question:
            if known is not None:
                known.answer.cancel()
            known = self._errands[name] = _Errand(question, cast("Future[object]", self._line.submit(work)))
            known.answer.add_done_callback(lambda answer: self._done(name, answer))
        if not known.answer.done() or known.answer.exception() is not None:
            return None
        return cast("T", known.answer.result())

    def ask_once(self, name: str, question: Hashable, work: Callable[[], T]) -> T | None:
        """The same, but the answer is given once: whoever asks again wants it done again."""
        answer = self.ask(name, question, work)
        if answer is not None:
            del self._errands[name]
        return answer

    def cancel(self) -> None:
        """Drop the questions that nobody works on yet."""
        for errand in self._errands.values():
            errand.answer.cancel()

    def close(self) -> None:
        """Take nothing on any more, and wait for what is being done."""
        self._line.shutdown(cancel_futures=True)

    def _done(self, name: str, answer: Future[object]) -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        if error is not None:
            LOG.warning("%s: %s: %s", self._machine, name, error)
        self._wake()
