"""One line of the page: an item of a paper, the paper's number, ours, their ratio, the verdict, and the file."""

from __future__ import annotations

import importlib.util
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPRODUCED, DIFFERS, NOT_TRIED, CANNOT_BE = "reproduced", "differs", "not tried", "cannot be"
KINDS = (REPRODUCED, DIFFERS, NOT_TRIED, CANNOT_BE)
FACTOR = 1.25
"""Two numbers are the same when their ratio is at most this, either way: for every number of every paper."""

MOST = 0.8
"""A sentence about several settings is true if it holds in at least this share of them: for all of every paper."""
NOT_FOUND = "cause not found"
"""How a reason begins that names causes that were tested and refuted, and none that was not."""

Because = str | Callable[[], str]


@dataclass(frozen=True)
class Outcome:
    """Our result, as it is printed, whether it is the paper's, and, where there is one, the ratio by seed."""

    text: str
    agrees: bool
    ratios: tuple[float, ...] = ()

    @property
    def ratio(self) -> float | None:
        """The median over the seeds; None where nothing is divided."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def far(self) -> float:
        """By what factor ours and the paper's differ, either way; 1 where there is no ratio."""
        ratio = self.ratio
        if ratio is None:
            return 1.0
        return max(ratio, 1 / ratio) if ratio > 0 else math.inf

    @property
    def interval(self) -> str:
        """The ratio, and its least and largest over the seeds."""
        return shown(self.ratios) if self.ratios else "-"


@dataclass(frozen=True)
class Entry:
    """An item of a paper.

    Attributes:
        item: "Algorithm 1", "Table 1", "Figure 2a", "section 5.1".
        what: what is compared, in a phrase.
        paper: what the paper says, as it is printed.
        ours: reads our outcome from the files of results; None where the paper's item cannot be had here. Raises
            FileNotFoundError or KeyError where the results are not there.
        file: the file that shows it, relative to the repository's root.
        because: why ours differs, or cannot be; a function where it names numbers of ours. It is shown only then:
            nothing is added to "reproduced". It begins with `NOT_FOUND` where the causes that were tested are refuted.
        tested: the test, "path::name", or the command, "python -m ...", that shows that this is the cause, or is not.
        lacking: what is known, and what the missing runs would take, where there is no result.
    """

    item: str
    what: str
    paper: str
    ours: Callable[[], Outcome] | None
    file: str
    because: Because = ""
    tested: str = ""
    lacking: Because = ""

    def outcome(self) -> Outcome | None:
        """Ours, or None where there is no result yet or cannot be one."""
        if self.ours is None:
            return None
        try:
            return self.ours()
        except (FileNotFoundError, KeyError):
            return None

    def kind(self) -> str:
        """One of `KINDS`."""
        outcome = self.outcome()
        if self.ours is None:
            return CANNOT_BE
        if outcome is None:
            return NOT_TRIED
        return REPRODUCED if outcome.agrees else DIFFERS

    def verdict(self) -> str:
        """The kind, and for what differs its cause with the test of it, for what cannot be the reason."""
        kind = self.kind()
        if kind == DIFFERS:
            return f"{DIFFERS}: {self._cause()}"
        said = {CANNOT_BE: self.because, NOT_TRIED: self.lacking}.get(kind, "")
        return f"{kind}: {text}" if (text := _said(said)) else kind

    def reason(self) -> str:
        """Why ours differs, or cannot be; empty where the results that would say it are not there."""
        return _said(self.because)

    def has_cause(self) -> bool:
        """Whether there is a cause that was tested and not refuted."""
        reason = self.reason()
        return bool(self.tested and reason) and not reason.startswith(NOT_FOUND)

    def _cause(self) -> str:
        reason = self.reason()
        if self.tested and reason:
            require_test(self.tested)
            return reason.replace(NOT_FOUND, f"**{NOT_FOUND}**", 1) + f" (tested by `{self.tested}`)"
        return f"{reason} (**not tested**)" if reason else "**cause not known**"


def _said(text: Because) -> str:
    """The text, or what the function returns; empty where the results that it reads are not there."""
    try:
        return text if isinstance(text, str) else text()
    except (FileNotFoundError, KeyError):
        return ""


def number(
    item: str,
    what: str,
    paper: float,
    ours: Callable[[], float | Sequence[float]],
    file: str,
    *,
    unit: str = "",
    because: Because = "",
    tested: str = "",
) -> Entry:
    """An entry that compares two positive numbers: the same when the ratio of ours to the paper's is within `FACTOR`.

    Args:
        ours: our number by seed; it is their median that is compared.
    """

    def outcome() -> Outcome:
        value = ours()
        values = [float(one) for one in value] if isinstance(value, Sequence) else [float(value)]
        ratios = tuple(one / paper for one in values)
        near = 1 / FACTOR <= statistics.median(ratios) <= FACTOR
        return Outcome(_text(statistics.median(values)) + unit, near, ratios)

    return Entry(item, what, _text(paper) + unit, outcome, file, because, tested)


def count(
    item: str, what: str, paper: int, ours: Callable[[], float], file: str, *, because: Because = "", tested: str = ""
) -> Entry:
    """An entry for a number that leaves nothing to chance, such as that of queries: it has to be equal."""

    def outcome() -> Outcome:
        value = ours()
        return Outcome(f"{value:,.0f}", value == paper, (value / paper,))

    return Entry(item, what, f"{paper:,}", outcome, file, because, tested)


def _text(value: float) -> str:
    """Three digits, or all of those before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def shown(values: Sequence[float]) -> str:
    """The median of numbers, with the least and the largest where there are several."""
    middle = _text(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({_text(min(values))} to {_text(max(values))})"


Said = tuple[str, bool] | tuple[str, bool, Sequence[float]]
"""A text made of our numbers, whether they agree, and the ratios by seed of what the paper compares."""


def statement(
    item: str,
    what: str,
    paper: str,
    ours: Callable[[], Said],
    file: str,
    *,
    because: Because = "",
    tested: str = "",
    lacking: Because = "",
) -> Entry:
    """An entry for what the paper says in words.

    Args:
        ours: returns a text made of our numbers and whether they agree. Where the paper says that one of two is the
            smaller, a third value has the ratios by seed of that one to the other; so they are above 1 where it is not.
    """

    def outcome() -> Outcome:
        text, agrees, *ratios = ours()
        return Outcome(text, agrees, tuple(map(float, ratios[0])) if ratios else ())

    return Entry(item, what, paper, outcome, file, because, tested, lacking)


def algorithm(
    item: str,
    what: str,
    code: str,
    tests: Sequence[str],
    *,
    because: str = "",
    as_published: bool = True,
    form: str = "pseudocode",
) -> Entry:
    """An entry for an algorithm: where it is written, and the tests that hold it to the paper's words.

    Args:
        item, what: "Algorithm 2", "accelerated proximal estimation".
        code: "path/to/file.py: name"; both must exist.
        tests: "path/to/test_file.py::test_name" of at least one test, each of which must exist.
        because: how it differs, or which arguments make it the paper's.
        as_published: whether that code follows the paper to the letter.
        form: how the paper gives it: pseudocode, a formula, in words, a table.
    """

    def outcome() -> Outcome:
        for place in (code, *(test.replace("::", ": ") for test in tests)):
            require(place)
        text = f"`{code}`, {len(tests)} test{'s' * (len(tests) > 1)}"
        return Outcome(text + (f"; {because}" if because and as_published else ""), as_published)

    return Entry(item, what, form, outcome, tests[0].split("::")[0], because, tested=tests[0])


def impossible(item: str, what: str, paper: str, because: str, file: str = "") -> Entry:
    """An entry for what cannot be had here."""
    return Entry(item, what, paper, None, file, because)


def require(place: str) -> None:
    """Check that "path: name" exists, the name as a function or class of that file.

    Raises:
        AssertionError: one of them does not. The page would be wrong.
    """
    path, _, name = place.partition(": ")
    text = (ROOT / path).read_text(encoding="utf-8")
    last = name.split(".")[-1]
    if not any(f"{kind} {last}" in text for kind in ("def", "class")):
        raise AssertionError(f"{path} has no function or class '{last}', which experiments/papers names.")


def require_test(tested: str) -> None:
    """Check that what tests a cause exists: "path::name", or "python -m module ...".

    Raises:
        AssertionError: it does not.
    """
    if tested.startswith("python -m "):
        if importlib.util.find_spec(tested.split()[2]) is None:
            raise AssertionError(f"there is no module for '{tested}', which experiments/papers names.")
    else:
        require(tested.replace("::", ": "))
