"""The report: each estimator against the exact optimum, and where the errors lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from experiments.accuracy_on_truth.findings import FINDINGS
from experiments.accuracy_on_truth.rules import BEST, CAUTIOUS, DISCREPANCY, EXCESS, FIXED, HELD_OUT
from experiments.accuracy_on_truth.scoring import BINS

KEY = ["case", "stddev"]
SCORES = ["measured", "pairs", "triples"]
FLOW = "mirror flow from independent"
SHOWN = {
    "stopped at floor": ("accelerated from independent", DISCREPANCY, 1.0),
    "at 0.8 floor": ("accelerated from independent", DISCREPANCY, 0.8),
    "at optimum + 0.05 floor": ("accelerated from independent", EXCESS, 0.05),
    "penalty 0.25": ("KL penalty from independent", FIXED, 0.25),
    "flow t=2": (FLOW, FIXED, 2.0),
    "flow t=3": (FLOW, FIXED, 3.0),
    "flow held-out": (FLOW, HELD_OUT, None),
    "flow held-out, 1 s.e.": (FLOW, CAUTIOUS, None),
    "flow best": (FLOW, BEST, None),
}


def write(table: pd.DataFrame, path: Path) -> None:
    """Write the tables, and what they say, to `path`."""
    relative = relative_to_exact(table)
    parts = [
        _INTRODUCTION.format(trials=len(table[table.family == "exact optimum"])),
        FINDINGS,
        "## All estimators\n\n" + _OVERVIEW + _markdown(overview(relative)),
        "## By case and noise\n\n" + _BY_CASE + _markdown(by_case(table, relative)),
        "## Unmeasured pairs\n\n" + _markdown(by_case(table, relative, "pairs")),
        "## Where the error lies\n\n" + _BINS + _markdown(by_bin(table)),
    ]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def relative_to_exact(table: pd.DataFrame) -> pd.DataFrame:
    """Chosen estimates with errors and oracle calls divided by those of the exact optimum of the same trial."""
    exact = table[table.family == "exact optimum"].set_index([*KEY, "seed"])[[*SCORES, "oracle_calls"]]
    rows = table[table.rule != "path"].join(exact, on=[*KEY, "seed"], rsuffix="_exact")
    for column in [*SCORES, "oracle_calls"]:
        rows[column] = rows[column] / rows[f"{column}_exact"]
    return rows


def overview(relative: pd.DataFrame) -> pd.DataFrame:
    """Per estimator: geometric means over cases and noise levels, the worst of them, how many lose more than 1 %."""
    rows = []
    searched = relative.rule.isin([HELD_OUT, CAUTIOUS, BEST])
    relative = relative.assign(parameter=relative.parameter.where(~searched))
    for (family, rule, parameter), group in relative.groupby(["family", "rule", "parameter"], dropna=False):
        cells = np.exp(np.log(group[[*KEY, *SCORES, "oracle_calls"]].set_index(KEY)).groupby(KEY).mean())
        means = np.exp(np.log(cells).mean())
        rows.append(
            {
                "estimator": family,
                "rule": rule,
                "parameter": parameter,
                "measured": means.measured,
                "worst": cells.measured.max(),
                "loses > 1 %": f"{int((cells.measured > 1.01).sum())} of {len(cells)}",
                "pairs": means.pairs,
                "worst pairs": cells.pairs.max(),
                "triples": means.triples,
                "oracle calls": means.oracle_calls,
            }
        )
    return pd.DataFrame(rows).sort_values("measured").reset_index(drop=True)


def by_case(table: pd.DataFrame, relative: pd.DataFrame, score: str = "measured") -> pd.DataFrame:
    """Errors relative to the exact optimum's, mean over seeds, with the standard deviation over seeds."""
    exact = table[table.family == "exact optimum"].groupby(KEY)
    result = pd.DataFrame({"exact, error": exact[score].mean(), "exact, loss / floor": exact.loss_over_floor.mean()})
    for name, (family, rule, parameter) in SHOWN.items():
        chosen = relative[(relative.family == family) & (relative.rule == rule)]
        chosen = chosen if parameter is None else chosen[np.isclose(chosen.parameter, parameter)]
        groups = chosen.groupby(KEY)[score]
        spread = groups.std().fillna(0.0)
        result[name] = [f"{mean:.3f} ± {std:.3f}" for mean, std in zip(groups.mean(), spread, strict=True)]
    held = table[(table.family == FLOW) & (table.rule == CAUTIOUS)].groupby(KEY).parameter
    result["t, 1 s.e."] = [" ".join(f"{time:g}" for time in times) for _, times in held]
    return result.reset_index()


def by_bin(table: pd.DataFrame) -> pd.DataFrame:
    """Return the contributions of cells of each size to the measured error, as shares of the exact optimum's error."""
    columns = [f"measured_{name}" for name in BINS]
    means = {
        "exact": table[table.family == "exact optimum"].groupby(KEY)[[*columns, "measured"]].mean(),
        "flow t=2": table[(table.family == FLOW) & (table.rule == FIXED) & np.isclose(table.parameter, 2.0)]
        .groupby(KEY)[columns]
        .mean(),
    }
    result = pd.DataFrame(index=means["exact"].index)
    for name, column in zip(BINS, columns, strict=True):
        before, after = (means[key][column] / means["exact"].measured for key in ("exact", "flow t=2"))
        result[name] = [f"{x:.3f} → {y:.3f}" for x, y in zip(before, after, strict=True)]
    return result.reset_index()


def _markdown(frame: pd.DataFrame) -> str:
    def text(value: object) -> str:
        if isinstance(value, float):
            return "" if np.isnan(value) else f"{value:.4g}"
        return str(value)

    lines = ["| " + " | ".join(map(str, frame.columns)) + " |", "|---" * len(frame.columns) + "|"]
    lines += ["| " + " | ".join(map(text, row)) + " |" for row in frame.itertuples(index=False)]
    return "\n".join(lines)


_INTRODUCTION = """# Accuracy on the truth

`python -m experiments.accuracy_on_truth` ({trials} trials: a case, a noise level and a seed each).
Errors are mean total-variation errors against the true counts, divided by those of the exact optimum on the same
answers: below 1 is better."""

_OVERVIEW = """Geometric means over settings (case and noise level). A rule that a path did not meet in its steps has no
entry, so rows of fewer than all settings do not compare with the others: plain mirror descent gets there only where the
noise is large. Mirror descent, thresholds, penalties and all that starts from uniform: first seed only.

"""

_BY_CASE = """Mean over seeds ± standard deviation over seeds of the ratio.

"""

_BINS = """True counts of zero, at most one standard deviation of the noise, at most ten, and more. Each entry: the
share of the exact optimum's error that lies there → what the mirror flow at t=2 leaves of it.

"""
