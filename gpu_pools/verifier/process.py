"""The process that reads NVML, as its parent has it: started, asked, listened to, killed. Understands nothing of what it says.

This module loads next to nothing of Python's library, so that the process can be started before everything else is loaded, and
loads its own part meanwhile. Nothing of NVML is ever in the parent.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False  # typing itself takes as long to load as all that is here
if TYPE_CHECKING:
    from typing import Final

#: What an answer begins with; the lines before it name calls.
ANSWER: Final = b"{"
#: The archive, or the folder of the sources: where Python finds this package again. Symbolic links stay, since those of a
#: ConfigMap's volume move.
_ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib takes time to load
_PROGRAM: Final = "import sys; sys.path.insert(0, sys.argv[1]); from verifier.serve import serve; serve()"
_KILL: Final = 9
_CHUNK: Final = 65536
_SHORTEST_WAIT_SECONDS: Final = 0.0005
_LONGEST_WAIT_SECONDS: Final = 0.05
_SLOWER: Final = 1.2


class Process:
    """Starts it.

    Args:
        fork: that it goes on from here, which saves the start of a Python. Only for a process that has no thread but this one,
            and little in it.

    Attributes:
        code: the exit code, negative for a signal; None as long as it is not known to have ended.

    Raises:
        OSError: when it cannot be started.
    """

    def __init__(self, *, fork: bool = False) -> None:
        _open_standard_streams()
        (its_in, self._in), (self._out, its_out), (self._err, its_err) = os.pipe(), os.pipe(), os.pipe()
        its = (its_in, its_out, its_err)
        self.code: int | None = None
        self._asked = False
        try:
            self._pid = self._fork(its) if fork else _spawn(its)
        except OSError:
            self.close()
            raise
        finally:
            for end in its:
                os.close(end)

    def _fork(self, its: tuple[int, int, int]) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                # With the parent's end of its input open it would never see that nobody asks any more.
                self.close()
                for number, end in enumerate(its):
                    os.dup2(end, number)
                from .serve import serve  # noqa: PLC0415 - in the child only

                serve()
            except BaseException:  # noqa: BLE001 - it must not come back to where its parent is
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(1)
        return pid

    def ask(self) -> None:
        """Have it read, unless it has been asked already and its answer not been listened to."""
        if not self._asked:
            self._asked = True
            # One that has died does not read; what it left says why.
            try:  # noqa: SIM105 - contextlib takes time to load
                os.write(self._in, b"\n")
            except BrokenPipeError:
                pass

    def listen(self, seconds: float) -> tuple[list[str], bool]:
        """(the lines up to an answer or the end, whether each came in time).

        Args:
            seconds: how long it may be silent.
        """
        text = b""
        # Not select(), which takes no file number above 1023.
        answers = select.poll()
        answers.register(self._out, select.POLLIN)
        while answers.poll(seconds * 1000):
            chunk = os.read(self._out, _CHUNK)
            text += chunk
            # An answer is the last line of what is sent; its own line break ends it.
            if not chunk or (chunk.endswith(b"\n") and text.splitlines()[-1].startswith(ANSWER)):
                self._asked = False
                return _lines(text), True
        return _lines(text), False

    def ends(self, seconds: float) -> bool:
        """Whether it ends within that time."""
        deadline, pause = time.monotonic() + seconds, _SHORTEST_WAIT_SECONDS
        while self.code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() >= deadline:
                return False
            else:
                time.sleep(pause)
                pause = min(_SLOWER * pause, _LONGEST_WAIT_SECONDS)
        return True

    def finish(self) -> None:
        """Let it end, once it has answered."""
        os.close(self._in)
        self._in = -1

    def kill(self) -> None:
        """End it by force; it may still not end, where it waits inside the kernel."""
        if self.code is None:
            os.kill(self._pid, _KILL)

    def complaint(self) -> str:
        """What it wrote to its standard error; to be asked once it has ended."""
        said = b""
        while chunk := os.read(self._err, _CHUNK):
            said += chunk
        return said.decode(errors="replace").strip()

    def close(self) -> None:
        """Close the pipes."""
        for end in (self._in, self._out, self._err):
            if end >= 0:
                os.close(end)
        self._in = self._out = self._err = -1


def _spawn(its: tuple[int, int, int]) -> int:
    """A Python of its own: its parent may have threads."""
    # -I: nothing in the container's environment or working directory decides what is imported. -S: the archive has all that it
    # needs in it.
    flags = ["-I", "-S"] if os.path.isfile(_ROOT) else ["-I"]  # noqa: PTH113 - pathlib takes time to load
    # Everything else that is open here, its parent's ends of the pipes too, closes itself.
    streams = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(its)]
    return os.posix_spawn(sys.executable, [sys.executable, *flags, "-c", _PROGRAM, _ROOT], os.environ, file_actions=streams)


def _open_standard_streams() -> None:
    """Where the caller has closed one, a pipe must not take its number."""
    while (lowest := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - standard input, output, error
        pass
    os.close(lowest)


def _lines(text: bytes) -> list[str]:
    return text.decode(errors="replace").splitlines()
