"""Writes `experiments/papers.md` from the entries of all the papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from experiments.papers import tries
from experiments.papers.entry import (
    CANNOT_BE,
    DIFFERS,
    FACTOR,
    KINDS,
    MOST,
    NOT_FOUND,
    NOT_TRIED,
    REPRODUCED,
    ROOT,
    Entry,
)
from experiments.papers.paper import Paper

PAGE = ROOT / "experiments" / "papers.md"
LARGEST = 5
OPEN = NOT_TESTED, UNKNOWN = ("differs, cause not tested", f"differs, {NOT_FOUND}")
HEAD = f"""# The papers, item by item

Made by `python -m experiments.papers` from the files in `experiments/results`; do not edit. Each algorithm, table and
figure of the papers that pgmest builds on: what the paper says, what comes out here, and whether that is the same.
`python -m experiments.papers NAME` runs what is missing of a paper, with `--fresh` everything, with `--quick` a try.

## What a verdict means

- **{REPRODUCED}**: a number of ours is between {1 / FACTOR:g} and {FACTOR:g} times the paper's, by the median of the
  seeds; a count is equal; what a sentence says is true of our numbers; an algorithm follows the paper to the letter,
  and the tests that are named hold it to that.
- **{DIFFERS}**: everything else that was run. The cause is given with the test or the command that shows it to be the
  cause, or is marked as not tested. A change is the cause where with it the paper's number or sentence comes out, or at
  least {MOST:.0%} of the difference is gone. Where all changes that were tried do less, it says **{NOT_FOUND}**, which
  they were, and with which numbers.
- **{NOT_TRIED}**: there is no result; where that was for want of time, what is known and what it would take.
- **{CANNOT_BE}**: what it takes is not public.

A sentence about several settings (budgets, draws, tables, random problems) is true where it holds in at least
{MOST:.0%} of them, by the medians of the seeds; "in most cases" is more than half. A value is "the best" also where the
ranges of the seeds do not tell it from the best one; "near", "slightly" and "similar" are within that factor of
{FACTOR:g}. There is no other rule, and no entry has one of its own. The *ratio* is ours over the paper's, with its
least and largest over the seeds; one without a range is of a single seed, or has nothing random in it. Where the paper
says that one of two is the smaller, it is that one over the other, and above 1 where the paper is not borne out. The
files that the lines name have the number of seeds of each setting. In each table what differs comes first.
"""


def page(papers: Sequence[Paper]) -> str:
    """The whole page, as Markdown."""
    parts = [HEAD, overview(papers), _largest(papers)]
    for paper in papers:
        parts.append(f"## {paper.short}\n\n{paper.title}. `python -m experiments.papers {paper.key}`\n")
        parts.append(_table(paper.entries))
        parts += [f"{remark}\n" for remark in paper.remarks]
    return "\n".join(parts)


def overview(papers: Sequence[Paper]) -> str:
    """Return the number of entries of each paper by verdict, and in all."""
    heads = ["paper", *KINDS, *OPEN, "`--quick` takes, of one processor"]
    lines = ["## How many of each", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    seconds, total = tries.seconds_of(), Counter[str]()
    for paper in papers:
        found = Counter(entry.kind() for entry in paper.entries)
        differing = [entry for entry in paper.entries if entry.kind() == DIFFERS]
        found[NOT_TESTED] = sum(not entry.tested for entry in differing)
        found[UNKNOWN] = sum(bool(entry.tested) and not entry.has_cause() for entry in differing)
        total += found
        lines.append(_counts(paper.short, found, _took(seconds.get(paper.key))))
    lines.append(_counts("all", total, ""))
    return "\n".join(lines) + "\n"


def _counts(name: str, found: Counter[str], took: str) -> str:
    return f"| {' | '.join([name, *(str(found[kind]) for kind in (*KINDS, *OPEN)), took])} |"


def _took(seconds: int | None) -> str:
    return "-" if seconds is None else f"{seconds} s"


def _largest(papers: Sequence[Paper]) -> str:
    """The entries that differ by the largest factors, and how many others have no ratio to compare them by."""
    found = [(paper, entry) for paper in papers for entry in paper.entries if entry.kind() == DIFFERS]
    factors = {id(entry): outcome.far for _, entry in found if (outcome := entry.outcome()) and outcome.ratios}
    ranked = sorted((pair for pair in found if id(pair[1]) in factors), key=lambda pair: -factors[id(pair[1])])
    lines = [f"## The {LARGEST} largest differences", ""]
    for place, (paper, entry) in enumerate(ranked[:LARGEST], 1):
        outcome = entry.outcome()
        assert outcome is not None
        lines.append(
            f"{place}. {paper.short}, {entry.item}, {entry.what}: {entry.paper} in the paper, {outcome.text} here, a "
            f"ratio of {outcome.interval}."
        )
    lines += ["", f"{len(found)} entries differ, {len(found) - len(ranked)} of them in words, without a ratio."]
    return "\n".join(lines) + "\n"


def _table(entries: Sequence[Entry]) -> str:
    lines = ["| item | what | paper | ours | ratio | verdict | file |", "|---|---|---|---|---|---|---|"]
    order = (DIFFERS, NOT_TRIED, CANNOT_BE, REPRODUCED)
    for entry in sorted(entries, key=lambda entry: order.index(entry.kind())):
        outcome = entry.outcome()
        link = f"[{entry.file.rsplit('/', 1)[-1]}]({_relative(entry.file)})" if entry.file else "-"
        ours, ratio = (outcome.text, outcome.interval) if outcome else ("-", "-")
        cells = [entry.item, entry.what, entry.paper, ours, ratio, entry.verdict(), link]
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _relative(file: str) -> str:
    """From `experiments/`, where the page lies."""
    return file.removeprefix("experiments/") if file.startswith("experiments/") else f"../{file}"
