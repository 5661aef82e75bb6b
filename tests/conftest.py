"""For all tests: of a property an example may take as long as it wants, since machines are busy at times; at night there are more
examples, other ones each night.
"""

from hypothesis import HealthCheck, settings

from tests.examples import TIMES, examples

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
