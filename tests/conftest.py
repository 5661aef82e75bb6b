"""For all tests.

An example of a property may take as long as it needs, since machines are busy at times. At night there are more examples, other
ones each night. Interrupts are what they are on a terminal: a script that starts the tests in the background has them ignored in
everything that the tests start, and a test that waits for a program to end by one would wait for ever.
"""

import gc
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.reals import keep_aside
from tests.examples import TIMES, examples
from tests.nights import leave_to_the_nights
from tests.spread import Spread, put_slowest_first
from tests.tiers import ALL

if TYPE_CHECKING:
    from xdist.remote import Producer

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> Spread | None:
    """Where whole files go to processes, a few files may be divided (tests/spread.py)."""
    return Spread(config, log) if config.getvalue("dist") == "loadfile" else None


# Before pytest itself chooses by marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is for the nights is left out by day, and says why. The slowest files begin."""
    leave_to_the_nights(items)
    put_slowest_first(items)
    for item in items:
        night = item.get_closest_marker("night")
        if night and not ALL:
            item.add_marker(pytest.mark.skip(reason=f"at night: {night.args[0]}"))


def pytest_collection_finish() -> None:
    """The modules and 19,000 tests of a process are not searched for garbage again and again: that took a tenth of its time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
