"""Writes `experiments/papers.md` from the entries of all the papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from experiments.papers import tries
from experiments.papers.entry import ROOT, Entry
from experiments.papers.paper import Paper

PAGE = ROOT / "experiments" / "papers.md"
HEAD = """# The papers, item by item

Made by `python -m experiments.papers` from the files in `experiments/results`; do not edit. Each algorithm, table and
figure of the papers that pgmest builds on: what the paper says, what comes out here, and whether that is the same. Two
numbers are called the same when they differ by less than the factor that the entry allows, 1.25 where it says nothing.
`python -m experiments.papers NAME` runs what is missing of a paper, with `--fresh` everything, with `--quick` a try.
"""


def page(papers: Sequence[Paper]) -> str:
    """The whole page, as Markdown."""
    parts = [HEAD, overview(papers)]
    for paper in papers:
        parts.append(f"## {paper.short}\n\n{paper.title}. `python -m experiments.papers {paper.key}`\n")
        parts.append(_table(paper.entries))
        parts += [f"{remark}\n" for remark in paper.remarks]
    return "\n".join(parts)


def overview(papers: Sequence[Paper]) -> str:
    """Return the number of entries of each paper by verdict."""
    kinds = ("reproduced", "differs", "not possible here", "not run yet")
    lines = [f"| paper | {' | '.join(kinds)} | `--quick` takes, of one processor |", "|---" * (len(kinds) + 2) + "|"]
    seconds = tries.seconds_of()
    for paper in papers:
        found = Counter(next(kind for kind in kinds if entry.verdict().startswith(kind)) for entry in paper.entries)
        counts = " | ".join(str(found[kind]) for kind in kinds)
        lines.append(f"| {paper.short} | {counts} | {_took(seconds.get(paper.key))} |")
    return "\n".join(lines) + "\n"


def _took(seconds: int | None) -> str:
    return "-" if seconds is None else f"{seconds} s"


def _table(entries: Sequence[Entry]) -> str:
    lines = ["| item | what | paper | ours | verdict | file |", "|---|---|---|---|---|---|"]
    for entry in entries:
        outcome = entry.outcome()
        link = f"[{entry.file.rsplit('/', 1)[-1]}]({_relative(entry.file)})" if entry.file else "-"
        cells = [entry.item, entry.what, entry.paper, outcome.text if outcome else "-", entry.verdict(), link]
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _relative(file: str) -> str:
    """From `experiments/`, where the page lies."""
    return file.removeprefix("experiments/") if file.startswith("experiments/") else f"../{file}"
