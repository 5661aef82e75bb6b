"""``python -m tests.conformance [NAME …]``: runs the suites of the real ones that are here, and writes down what came of it.

Where there is no real one a suite is passed over, and said so. The table of docs/stand-ins/README.md is written at the end;
``--table`` writes it and runs nothing.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.conformance import reals
from tests.conformance.suites import PAGE, page, record, run, suites

if TYPE_CHECKING:
    from collections.abc import Sequence


def main() -> int:
    """Run them; the exit status is 1 where a test failed."""
    known = suites()
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; left out: all")
    parser.add_argument("--table", action="store_true", help="run nothing, and write the table of the docs from the last runs")
    options = parser.parse_args()
    failed = False if options.table else _run(options.names or list(known))
    PAGE.write_text(page(), encoding="utf-8")
    return int(failed)


def _run(names: Sequence[str]) -> bool:
    """Run suites by their names; returns whether a test failed."""
    known = suites()
    versions = reals.versions()
    failed = False
    for name in names:
        suite = known[name]
        real = versions.get(name, "")
        if not suite.tests or not real:
            print(f"{name}: not run: {suite.without or f'the real one is not here ({suite.needs})'}", flush=True)
            continue
        print(f"{name}: against {real}", flush=True)
        done = run(suite, real)
        failed = failed or bool(done.failed)
        record(name, done)
    return failed


if __name__ == "__main__":
    sys.exit(main())
