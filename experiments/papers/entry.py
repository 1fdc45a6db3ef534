"""One line of the page: an item of a paper, the paper's number, ours, the verdict, and the file that shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPRODUCED, DIFFERS, IMPOSSIBLE, NOT_RUN = "reproduced", "differs", "not possible here", "not run yet"


@dataclass(frozen=True)
class Outcome:
    """Our result, as it is printed, and the verdict."""

    text: str
    agrees: bool


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
        because: why ours differs, or is not possible, or what a reader of "reproduced" must know.
    """

    item: str
    what: str
    paper: str
    ours: Callable[[], Outcome] | None
    file: str
    because: str = ""

    def outcome(self) -> Outcome | None:
        """Ours, or None where there is no result yet or cannot be one."""
        if self.ours is None:
            return None
        try:
            return self.ours()
        except (FileNotFoundError, KeyError):
            return None

    def verdict(self) -> str:
        """Reproduced; differs, because; not possible here, because; or not run yet."""
        outcome = self.outcome()
        if self.ours is None:
            return f"{IMPOSSIBLE}, because {self.because}"
        if outcome is None:
            return NOT_RUN
        if outcome.agrees:
            return REPRODUCED + (f"; {self.because}" if self.because else "")
        return f"{DIFFERS}, because {self.because or 'we do not know why'}"


def number(
    item: str,
    what: str,
    paper: float,
    ours: Callable[[], float],
    file: str,
    *,
    within: float = 1.25,
    unit: str = "",
    because: str = "",
    others: tuple[str, Callable[[], Sequence[float]]] | None = None,
) -> Entry:
    """An entry that compares two positive numbers; they agree when their ratio is at most `within`, either way.

    Where the paper leaves open what the number depends on, `others` names it and gives ours for other choices of it,
    in order. Then they agree also when the paper's number lies between the least and the largest of all of ours.
    """

    def outcome() -> Outcome:
        value = ours()
        near = paper / within <= value <= paper * within
        if others is None:
            return Outcome(_text(value) + unit, bool(near))
        name, drawn = others[0], others[1]()
        between = min(value, *drawn) <= paper <= max(value, *drawn)
        ends = dict.fromkeys(f"{_text(one)}{unit}" for one in (drawn[0], drawn[-1]))
        text = f"{_text(value)}{unit}; {name} {' to '.join(ends)}"
        return Outcome(text, bool(near or between))

    return Entry(item, what, _text(paper) + unit, outcome, file, because)


def _text(value: float) -> str:
    """Three digits, or all of those before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def statement(
    item: str, what: str, paper: str, ours: Callable[[], tuple[str, bool]], file: str, *, because: str = ""
) -> Entry:
    """An entry for what the paper says in words; `ours` returns a text made of our numbers and whether they agree."""
    return Entry(item, what, paper, lambda: Outcome(*ours()), file, because)


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
        because: how it differs, or a remark.
        as_published: whether that code follows the paper to the letter.
        form: how the paper gives it: pseudocode, a formula, in words, a table.
    """

    def outcome() -> Outcome:
        for place in (code, *(test.replace("::", ": ") for test in tests)):
            require(place)
        return Outcome(f"`{code}`, {len(tests)} test{'s' * (len(tests) > 1)}", as_published)

    return Entry(item, what, form, outcome, tests[0].split("::")[0], because)


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
