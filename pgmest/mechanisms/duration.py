"""The expected time of a run, from public facts: shown at its start, and used to keep a time limit.

The number of records is such a fact only where the neighboring relation or an invariant makes it public.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgmest._base.progress import duration_text
from pgmest._base.stages import in_command
from pgmest.errors import plural

if TYPE_CHECKING:
    from pgmest.tables.domain import Domain

WORTH_SAYING = 10.0
"""The seconds from which a run says at its start how long it will take."""
LONG = 120.0
"""The seconds from which it also says how to limit them."""
CLOSING_SHARE = 0.4
"""The share of the time that the model takes after the last measurement, for mechanisms without an estimate."""
SAFETY = 2.0
"""The factor by which an estimate of time may be wrong."""
TYPICAL_RECORDS = 100_000
"""The number of records of an expected time where the true one is private."""
SAMPLE = 0.05
"""The seconds of the processor in which its share for this process is measured."""


def _lamp(domain: Domain, records: int) -> tuple[float, float]:
    pairs, cells = _pairs(domain), sum(domain.shape)
    tables = pairs * (1 + pairs / 4000) ** -0.35 * min(1.1, max(0.4, math.sqrt(records / 20_000)))
    refining = 7e-10 * min(1.5e10, 4.0 * records * cells * len(domain))
    return 0.2 + 5e-3 * tables + 5e-10 * pairs * records, 0.1 + 4e-3 * tables + refining


def _mst(domain: Domain, records: int) -> tuple[float, float]:
    pairs = _pairs(domain)
    return 0.2 + 7e-5 * pairs + 4e-10 * pairs * records, 0.1 + 4e-3 * len(domain)


def _aim(domain: Domain, records: int) -> tuple[float, float]:
    rounds = len(domain) * max(0.5, (records / 50_000) ** 0.6)
    return 0.2 + 4.7e-4 * rounds * _pairs(domain), 0.3 + 3e-5 * rounds * _pairs(domain)


ESTIMATES: dict[str, Callable[[Domain, int], tuple[float, float]]] = {"LAMP": _lamp, "MST": _mst, "AIM": _aim}
"""Functions from the domain and the number of records to the seconds of measuring, and of the model after it.

Measured on two cores at epsilon 1, on tables of 5 to 300 attributes (LAMP), to 500 (MST) and to 45 (AIM): within a
factor of two.
"""


def slowness() -> float:
    """Return the seconds that a second of the processor takes now: more than 1 where other programs compete for it."""
    wall, processor = time.perf_counter(), time.thread_time()
    while (used := time.thread_time() - processor) < SAMPLE:
        pass
    return max(1.0, (time.perf_counter() - wall) / used)


def expected_seconds(mechanism: Any, domain: Domain | None, records: int | None) -> tuple[float, float] | None:
    """Return the expected seconds of measuring, and of the model after the last measurement; None if not known.

    Args:
        mechanism: the mechanism.
        domain: the attributes; None for a table that has no codes yet.
        records: the number of records where it is public; None means `TYPICAL_RECORDS`.
    """
    estimate = ESTIMATES.get(type(mechanism).__name__)
    if estimate is None or domain is None:
        return None
    return estimate(domain.project(domain.varying), TYPICAL_RECORDS if records is None else records)


def measuring_time(expected: tuple[float, float] | None, limit: float) -> float:
    """Return the part of a limit of time, in seconds, after which nothing more is measured.

    The rest is for the model of the answers. It is at most half of the limit.

    Args:
        expected: the `expected_seconds`.
        limit: the limit, in seconds.
    """
    closing = CLOSING_SHARE * limit if expected is None else SAFETY * expected[1]
    return limit - min(closing, limit / 2)


def announce(mechanism: Any, domain: Domain | None, records: int | None, limit: float | None) -> None:
    """Print to standard error how long the run will take, if that is long; the text depends on public facts alone.

    Args:
        mechanism, domain, records: as for `expected_seconds`.
        limit: the limit of time of the run, in seconds, if it has one.
    """
    expected = expected_seconds(mechanism, domain, records)
    if domain is None or expected is None or sum(expected) < WORTH_SAYING:
        return
    seconds = sum(expected) * slowness()
    about = f"{TYPICAL_RECORDS:,} records" if records is None else plural(records, "record")
    text = f"pgmest: {type(mechanism).__name__} on {plural(len(domain), 'attribute')} takes about "
    text += f"{duration_text(seconds)} for {about}."
    if limit is None and seconds >= LONG:
        option = "--most-seconds " if in_command() else "time_limit="
        text += f" {option}{math.ceil(seconds / 120) * 60} would end it earlier, with a less accurate model."
    print(text, file=sys.stderr, flush=True)


def _pairs(domain: Domain) -> int:
    return len(domain) * (len(domain) - 1) // 2
