"""One line of the page: an item of a paper, what the paper says, and what each form that was run comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

LETTER = "to the letter"
"""The form that follows the paper's words; every other form of a line is a change with a name."""
REPRODUCED, CHANGED, DIFFERS = "reproduced", "with a change", "differs"
VERDICTS = (REPRODUCED, CHANGED, DIFFERS)
NOT_TESTED = "cause not tested"
FACTOR = 1.25
"""Two numbers are the same when their ratio is at most this, either way."""


class Result(NamedTuple):
    """What a form comes to, as it is printed, and whether that is what the paper says."""

    text: str
    holds: bool


@dataclass(frozen=True)
class Line:
    """An item of a paper.

    Attributes:
        item: "Table 1", "Figure 2a", "section 5.1".
        claim: what the paper says, in its words or numbers.
        forms: what each form that was run comes to, by its name: `LETTER`, or the change.
        remark: tested changes that do not bring the claim back, or `NOT_TESTED`; printed after the changes.
        letter: what stands for the letter where it was not run: why not.
        apart: a verdict of its own for a line that is no claim of a result, such as a fit; it is not counted.
        report: the report among the results that has the numbers, without its ending.
    """

    item: str
    claim: str
    forms: Mapping[str, Callable[[], Result]]
    remark: str | Callable[[], str] = ""
    letter: str = "not run"
    apart: str = ""
    report: str = ""
    _results: dict[str, Result] = field(default_factory=dict, compare=False, repr=False)

    def results(self) -> dict[str, Result]:
        """The result of each form; read once."""
        if not self._results:
            self._results.update({form: run() for form, run in self.forms.items()})
        return self._results

    def verdict(self) -> str:
        """One of `VERDICTS`, or the one of its own."""
        holding = [form for form, result in self.results().items() if result.holds]
        if self.apart:
            return self.apart
        return REPRODUCED if LETTER in holding else CHANGED if holding else DIFFERS

    def cells(self) -> tuple[str, str, str, str, str]:
        """The cells of the page: item, claim, to the letter, with a change, verdict."""
        results = self.results()
        changes = [f"*{form}*: {result.text}" for form, result in results.items() if form != LETTER]
        remark = self.remark if isinstance(self.remark, str) else self.remark()
        said = "; ".join(part for part in (*changes, remark) if part)
        item = f"[{self.item}](results/{self.report}.md)" if self.report else self.item
        letter = results[LETTER].text if LETTER in results else self.letter
        return item, self.claim, letter, said, f"**{self.verdict()}**"


def same(ours: float, paper: float) -> bool:
    """Return whether two positive numbers are the same by the page's rule."""
    return 1 / FACTOR <= ours / paper <= FACTOR


def compared(ours: Mapping[str, float], paper: Mapping[str, float], unit: str = "") -> Result:
    """Return our numbers beside the paper's; they agree if each that the paper prints is the same."""
    text = ", ".join(f"{name} {short(value)}{unit}" for name, value in ours.items())
    return Result(text, all(name in ours and same(ours[name], value) for name, value in paper.items()))


def short(value: float) -> str:
    """Three digits, or all of those before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
