"""Writes `experiments/papers.md` from the lines of all the papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from experiments.papers.line import CHANGED, DIFFERS, FACTOR, LETTER, REPRODUCED, VERDICTS
from experiments.papers.paper import Paper
from experiments.papers.reading import ROOT


def wrapped(text: str) -> str:
    """One paragraph in one line."""
    return " ".join(text.split())


PAGE = ROOT / "experiments" / "papers.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
HEAD = f"""# The papers, item by item

Made by `python -m experiments.papers` from the files in `experiments/results`; do not edit. Which code follows an
algorithm {LETTER}, and which is changed, is in [the architecture](../docs/architecture.md#where-a-papers-algorithm-is).

"""
RULES = wrapped(f"""**{REPRODUCED}**: it comes out with the form that follows the paper {LETTER}. **{CHANGED}**: it does
not come out {LETTER}, or that was not run; with the change that is named it does. **{DIFFERS}**: neither; the line says
what was tried, or that no cause was tested. Two numbers are the same if their ratio is at most {FACTOR:g}, either way;
"slightly", "similar", "close to" are within that factor, too. A sentence about several settings holds if it holds in
each of them, by the medians of the seeds; "often" and "in most cases" in more than half, "sometimes" in one at least.
Other verdicts are not counted.""")
COLUMNS = ("item", "the paper", LETTER, "with a change, and what was tested", "verdict")


def page(papers: Sequence[Paper]) -> str:
    """The whole page, as Markdown."""
    findings = [f"{place}. {text}" for place, text in enumerate((t for p in papers for t in p.findings()), 1)]
    parts = [HEAD + "\n".join(findings) + "\n", counts(papers), RULES + "\n"]
    for paper in papers:
        parts.append(
            f"## {paper.short}\n\n{paper.title} (`python -m experiments.papers {paper.key}`). {paper.setting}\n"
        )
        parts.append(_table(COLUMNS, [line.cells() for line in paper.lines]))
    parts.append("## Not attempted\n\n" + "\n".join(f"- {p.short}: {'; '.join(p.not_attempted)}." for p in papers))
    return "\n".join(parts) + "\n"


def counts(papers: Sequence[Paper]) -> str:
    """Return three numbers of each paper: algorithms by the letter, claims reproduced, claims that differ."""
    rows = []
    for paper in papers:
        found = Counter(line.verdict() for line in paper.lines)
        letters, algorithms = by_the_letter(paper.short)
        reproduced, changed, differs = (found[verdict] for verdict in VERDICTS)
        rows.append((paper.short, f"{letters} of {algorithms}", f"{reproduced}, and {changed} {CHANGED}", str(differs)))
    return _table(("paper", "algorithms to the letter", "results reproduced", "results that differ"), rows)


def by_the_letter(short: str) -> tuple[int, int]:
    """Return how many of a paper's rows in the architecture's table name a letter's form, and how many there are."""
    text = ARCHITECTURE.read_text(encoding="utf-8").split("## Where a paper's algorithm is")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    forms = [row[-1] for row in rows if len(row) == 3 and f"({short} " in row[0]]
    return sum(form.startswith("letter") for form in forms), len(forms)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"
