"""Checks that a run is repeated: by its seed, and from a checkpoint without paying again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import JournalError
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.result import Result
from tests.mechanisms.auditing import DATA
from tests.privacy.interrupted import interrupted_after


class MachineFails(Exception):
    """The end of a run that nobody asked for."""


def check_seeds(mechanism: Mechanism) -> None:
    """Assert that the same seed gives the same run on `DATA`, and another seed another one."""
    one, two, other = (mechanism.fit(DATA, seed=seed).project(("a", "b")).values for seed in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def check_failed_run(mechanism: Mechanism, path: Path, charges: int) -> Result:
    """Assert that a run on `DATA` goes on after a failure, for its budget, and is then repeated; return its result."""

    def fail(curator: Any) -> None:
        if len(curator.ledger) == charges:
            raise MachineFails

    with pytest.raises(MachineFails):
        mechanism.fit(DATA, seed=3, checkpoint=path, progress=fail)
    whole, again = (mechanism.fit(DATA, seed=3, checkpoint=path) for _ in range(2))
    assert whole.ledger.total <= mechanism.budget()
    assert np.array_equal(whole.project(("a", "b")).values, again.project(("a", "b")).values)
    return whole


def check_cut_journal(
    mechanism: Mechanism, data: pg.Dataset, whole: Result, path: Path, lines: int, **others: Any
) -> None:
    """Assert that a run whose journal was cut to its first lines ends like the whole one.

    A run with other parameters is refused.
    """
    mechanism.fit(data, seed=0, progress=False, checkpoint=path)
    *answers, _ = path.read_text().splitlines()  # the last line has the time of the end
    interrupted_after(path, lines)
    resumed = mechanism.fit(data, seed=0, progress=False, checkpoint=path)
    assert resumed.details == whole.details
    assert path.read_text().splitlines()[:-1] == answers
    assert resumed.sample(50, seed=0) == whole.sample(50, seed=0)
    with pytest.raises(JournalError, match=r"goes|run|asks"):
        replace(mechanism, **others).fit(data, seed=0, progress=False, checkpoint=path)
