"""For all tests: of a property an example may take as long as it wants, since machines are busy at times; at night there are more
examples, other ones each night. And interrupts are what they are on a terminal: a script that starts the tests in the background
has them ignored in all that these start, and who waits for a program to end by one would wait for ever.
"""

import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.reals import keep_aside
from tests.examples import TIMES, examples
from tests.tiers import ALL

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is for the nights is left out by day, and says why."""
    for item in items:
        night = item.get_closest_marker("night")
        if night and not ALL:
            item.add_marker(pytest.mark.skip(reason=f"at night: {night.args[0]}"))
