"""``python -m tests.conformance [NAME …]``: runs the suites of the real ones that are here, and writes down what came of it.

Where there is no real one a suite is passed over, and said so. The table of the docs follows: `python -m tests.generated`.
"""

from __future__ import annotations

import argparse
import sys

from tests.conformance import reals
from tests.conformance.suites import record, run, suites


def main() -> int:
    """Run them; the exit status is 1 where a test failed."""
    known = suites()
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; left out: all")
    asked = parser.parse_args().names or list(known)
    versions = reals.versions()
    failed = False
    for name in asked:
        suite = known[name]
        real = versions.get(name, "")
        if not suite.tests or not real:
            print(f"{name}: not run: {suite.without or f'the real one is not here ({suite.needs})'}", flush=True)
            continue
        print(f"{name}: against {real}", flush=True)
        done = run(suite, real)
        failed = failed or bool(done.failed)
        record(name, done)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
