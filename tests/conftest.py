"""For all tests: of a property an example may take as long as it wants, since machines are busy at times; at night there are more
examples, other ones each night. And interrupts are what they are on a terminal: a script that starts the tests in the background
has them ignored in all that these start, and who waits for a program to end by one would wait for ever.
"""

import signal

from hypothesis import HealthCheck, settings

from tests.conformance.reals import keep_aside
from tests.examples import TIMES, examples

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("day", deadline=None)
settings.load_profile("day")
if TIMES > 1:
    settings.register_profile(
        "night",
        max_examples=examples(),
        derandomize=False,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("night")

keep_aside()
