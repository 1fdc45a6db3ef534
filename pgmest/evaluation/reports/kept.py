"""The section of a report on the pairs of attributes whose dependence was kept or lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pgmest._base.widths import joined
from pgmest.errors import listed, percent_text
from pgmest.evaluation.reports.page import bullets, paragraph, section, table
from pgmest.mechanisms.kept_pairs import IMPLIED, IN_WORDS, INDEPENDENT, MEASURED, KeptPairs
from pgmest.tables.domain import Clique

SHOWN_PAIRS = 200
"""The most pairs without a measurement that a page lists."""


def kept_dependences(source: Any) -> str:
    """Return the section on measured, implied and lost dependences; "" if the measurements are not known."""
    kept = KeptPairs.of(source)
    if kept is None or len(kept.attributes) + len(kept.unmeasured) < 2:
        return ""
    counts, naming = kept.counts, partial(joined, names=source.domain)
    parts = [
        paragraph(
            "The release has the dependence of two attributes if a table with both was measured. For all other pairs, "
            "it has only what the measured tables imply. If no chain of measured tables joins two attributes, they are "
            "independent in the release, whatever they are in the data."
        ),
        table(
            ("pairs of attributes", "number"),
            [(IN_WORDS[k], f"{counts[k]:,}") for k in (MEASURED, IMPLIED, INDEPENDENT)],
        ),
    ]
    if kept.matters:
        verdicts = [f"{naming(clique)}: {kept.verdict(clique)}" for clique in kept.matters]
        parts += [paragraph("These tables were said to matter most:"), bullets(verdicts)]
    if kept.unmeasured:
        names = listed(naming((name,)) for name in kept.unmeasured)
        parts.append(paragraph(f"Nothing was measured of {names}: all of their values are equally frequent."))
    return section("Which dependences were kept", *parts, *_not_measured(kept, naming))


def _not_measured(kept: KeptPairs, naming: Callable[[Clique], str]) -> list[str]:
    """Return the list of the pairs that were not measured, with their estimated losses if these are known."""
    counts, shown = kept.counts, kept.not_measured(SHOWN_PAIRS)
    if not shown:
        return []
    text = "Pairs that were not measured."
    if kept.estimates:
        text += (
            " The last column is the share of the records that would have to change for the pair to depend as it does "
            "in the data, as estimated from noisy scores before the last measurements, without sampling error."
        )
    rows = [(naming(p), IN_WORDS[state], "-" if e is None else percent_text(e, 1)) for p, state, e in shown]
    columns = ("pair", "in the release", "estimated loss")
    found = [paragraph(text), table(columns, rows, texts=columns[1:2])]
    more = counts[IMPLIED] + counts[INDEPENDENT] - len(shown)
    return [*found, paragraph(f"{more:,} more pairs were not measured.")] if more > 0 else found
