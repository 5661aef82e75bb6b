"""For all tests: at night properties are tried with more examples, other ones each night, however long one takes."""

from hypothesis import HealthCheck, settings

from tests.examples import TIMES, examples

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
