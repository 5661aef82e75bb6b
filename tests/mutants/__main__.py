"""Would the tests notice a mistake? ``python -m tests.mutants [FILE …]``; see README.md beside this file.

Exit code 1: too few mutants are noticed in a package of the core or in the verifier, or one is missed in a file whose misses are
all accounted for.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import shutil
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.mutants import suite
from tests.mutants.accounts import Accounts, identity, listed
from tests.mutants.covering import measure, read
from tests.mutants.loaded import Loaded
from tests.mutants.mutations import Mutant, mutants
from tests.mutants.trial import Ended, Trials

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.mutants.covering import Covering

#: What `suite.FAST` tests; the tests of evidence are not among them.
_CORE = (
    *("adopting", "allocation", "changes", "cli", "existing", "hardware", "images", "mig"),
    *("plan", "platforms", "proof", "reading", "rendering", "sharing", "stack", "text", "usage", "verifier"),
)
PACKAGES = (*(f"gpu_pools/{package}" for package in _CORE), "policies")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Would the tests notice a mistake?")
    parser.add_argument("files", nargs="*", help="files or folders; without any: " + ", ".join(PACKAGES))
    parser.add_argument("--tests", nargs="+", default=suite.FAST, metavar="PATH", help="the tests that are asked")
    parser.add_argument("--seed", default="0", help="which mutants come first (default: 0)")
    parser.add_argument("--shard", default="1/1", metavar="K/N", help="the K-th of N parts")
    parser.add_argument("--minutes", type=float, default=120, help="start no mutant after that long (default: 120)")
    parser.add_argument("--patience", type=float, default=20, help="seconds of tests per mutant (default: 20)")
    parser.add_argument("--measured", type=Path, metavar="FILE", help="what an earlier run measured; written if it is not there")
    parser.add_argument("--missed", type=Path, metavar="FILE", help="write those that are missed, as survivors/ has them")
    parser.add_argument("--only", type=Path, metavar="FILE", help="try those alone that such a file names")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="mutants at once")
    return parser.parse_args()


def chosen_files(named: Sequence[str]) -> list[str]:
    """Source files below what was named."""
    paths = [suite.ROOT / name for name in named or PACKAGES]
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return [str(file.relative_to(suite.ROOT)) for file in files]


def ordered(files: Sequence[str], seed: str, shard: str) -> list[Mutant]:
    """One part of all mutants, in an order that the seed decides."""
    part, parts = (int(number) for number in shard.split("/"))
    every = [one for file in files for one in mutants(file, (suite.ROOT / file).read_text(encoding="utf-8"))]
    every.sort(key=lambda one: hashlib.sha256(repr((seed, one.identity)).encode()).digest())
    return every[part - 1 :: parts]


_trials: Trials


def _begin(folder: Path, trees: multiprocessing.Queue[int], covering: Covering, tests: Sequence[str], patience: float) -> None:
    global _trials  # noqa: PLW0603 -- a process of the pool has one copy of the project
    tree = suite.copied(folder / str(trees.get()))
    _trials = Trials(tree, covering, Loaded(tree, tests), patience)


def _tried(mutant: Mutant) -> Ended:
    return _trials.ended(mutant)


def _all_tried(
    every: list[Mutant], covering: Covering, folder: Path, arguments: argparse.Namespace
) -> Iterator[tuple[Mutant, Ended]]:
    context = multiprocessing.get_context("fork")
    trees = context.Queue()
    for number in range(arguments.jobs):
        trees.put(number)
    ends = time.monotonic() + arguments.minutes * 60
    waiting = iter(every)
    running: dict[Future[Ended], Mutant] = {}
    beginning = (folder, trees, covering, arguments.tests, arguments.patience)
    with ProcessPoolExecutor(arguments.jobs, context, _begin, beginning) as pool:
        while True:
            while len(running) < 2 * arguments.jobs and time.monotonic() < ends and (mutant := next(waiting, None)):
                running[pool.submit(_tried, mutant)] = mutant
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()


def _covering(folder: Path, files: list[str], arguments: argparse.Namespace) -> Covering:
    kept: Path | None = arguments.measured
    if not (kept and kept.exists()):
        print("The tests run once, measured: some minutes.", file=sys.stderr, flush=True)
        measured = measure(suite.copied(folder / "whole"), files, arguments.tests, 60 * arguments.minutes)
        kept = Path(shutil.copy2(measured, kept)) if kept else measured
    covering = read(kept)
    if missing := set(files) - set(covering.lines):
        sys.exit(f"{kept} was measured without {', '.join(sorted(missing))}: name another file, or remove it")
    return covering


class _Progress:
    """Tells on standard error how far it is, every half minute."""

    def __init__(self, planned: int) -> None:
        self._planned, self._tried, self._began = planned, 0, time.monotonic()
        self._next = self._began + 30

    def one(self) -> None:
        self._tried += 1
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 30
            left = (now - self._began) / self._tried * (self._planned - self._tried) / 60
            print(f"… {self._tried} of {self._planned} tried, about {left:.0f} min left", file=sys.stderr, flush=True)


def main() -> int:
    """Try the mutants, tell each that is missed, and a table by file."""
    arguments = _arguments()
    files = chosen_files(arguments.files)
    every = ordered(files, arguments.seed, arguments.shard)
    if arguments.only:
        named = {identity(file, one) for file, entries in listed(arguments.only).items() for one in entries}
        every = [one for one in every if one.identity in named]
    accounts = Accounts.read(files)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        folder = Path(scratch)
        covering = _covering(folder, files, arguments)
        suite.preloaded(covering.modules)
        progress = _Progress(len(every))
        for mutant, how in _all_tried(every, covering, folder, arguments):
            if told := accounts.add(mutant, how):
                print(told, flush=True)
            progress.one()
    if arguments.missed:
        arguments.missed.write_text(
            yaml.safe_dump({"survivors": accounts.missed}, sort_keys=False, width=10_000), encoding="utf-8"
        )
    print(accounts.table(len(every)))
    for problem in accounts.problems():
        print(problem)
    return 1 if accounts.problems() else 0


if __name__ == "__main__":
    sys.exit(main())
