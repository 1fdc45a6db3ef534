"""The number of random examples on which a property is tried, by the profile that HYPOTHESIS_PROFILE names."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import is_hypothesis_test, settings

SHARES = {"same": 0.25, "search": 4.0, "versions": 0.2}
"""The examples of each profile, relative to the number that a test states (100 by default).

`make test` takes "same": a quarter of them, and the same ones on every machine. `make search` takes many, and new ones.
"""

FEWEST = 10
"""A test keeps this many examples, or the fewer that it states because each of them takes long."""

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "same")

# No test has a deadline, because machines that run tests are busy.
for name in SHARES:
    settings.register_profile(name, deadline=None, derandomize=name != "search")


def examples(stated: int, profile: str = PROFILE) -> int:
    """Return the number of examples of a test that states a number.

    >>> examples(200, "same"), examples(30, "same"), examples(6, "same"), examples(200, "search")
    (50, 10, 6, 800)
    """
    return max(min(stated, FEWEST), round(SHARES[profile] * stated))


def scale_examples(test: Any) -> None:
    """Give a test of random examples as many as the profile has, unless that was done before."""
    if is_hypothesis_test(test) and not hasattr(test, "stated"):
        test.stated = test._hypothesis_internal_use_settings
        test._hypothesis_internal_use_settings = settings(test.stated, max_examples=examples(test.stated.max_examples))
