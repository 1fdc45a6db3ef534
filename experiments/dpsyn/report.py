"""The report on DPSyn."""

from __future__ import annotations

import math

import pandas as pd

from experiments.dpsyn import baselines, cells
from experiments.papers.paper import Run

HEAD = """# DPSyn: the contest's pipeline, GUM against flows, noise, views and itemsets

Made by `python -m experiments.papers dpsyn`; not edited. Noise is simulated. Medians over the seeds; figures show their
range.
"""

FIGURE_2 = """## Figure 2: the noise on k marginals

With the bound rho + 2 sqrt(rho log(1 / delta)) of section 2.4. The paper prints four crossings of "lap basic" and
"gauss zcdp" and not the budgets that they are for; epsilon and delta here were chosen to give them. Our own accounting
has a better bound, with which Gaussian noise wins earlier: `noise_choice.md`.
"""

VIEWS = """## Covering designs (section 3.2)

Views of eight binary attributes that hold all pairs; 64 attributes are an affine plane of order 8.
"""

PRIVIEW = f"""## PriView, Direct and Fourier (section 3.2)

Mean total-variation error of {baselines.MARGINALS} random marginals of {baselines.WAYS} of the 23 binary attributes of
`{baselines.TABLE}`, under pure epsilon-DP, negative cells set to 0; median over three seeds. PriView measures views of
eight attributes that cover all pairs. Direct adds noise to all C(23, {baselines.WAYS}) =
{math.comb(23, baselines.WAYS):,} marginals, Fourier to the {baselines.coefficients(23, baselines.WAYS):,} coefficients
that these need (`experiments/dpsyn/baselines.py`).
"""

SCORES = f"""## The scores against epsilon

The pipeline of section 5.3 (`experiments/dpsyn/design.py` says what is recoded and measured): mappings that are learned
from noisy marginals, numeric attributes in buckets that are refined again, groups of attributes combined into one,
values below max(4.5 sigma, 800) put together or, where all of them stay below that, assigned 0; the noise that is the
least for so many marginals; tables made consistent; and records. delta is at most 1 / records^2. *GUM as published* has
alpha 0.2, step decay (0.84 every 5 iterations; the paper does not print its rate) and {2 * cells.GUM_ITERATIONS}
iterations (nor their number). *GUM, alpha 1, square_root* has the published step and copies, but an alpha of 1 and the
square-root schedule, which are not the paper's; *half copies* is the same, but that half of what a cell gains in the
last iteration are rewritten records and not all are copies. Ours has {cells.GUM_ITERATIONS} iterations, flows
{cells.FLOW_ITERATIONS}. What a table does not have was not run.

At epsilon 0.3 the marginals have hardly a cycle: records are appended from them, and the ways are nearly one.

Scores are out of 1,000,000: density over 300 draws of marginals of three attributes; 300 range queries with a condition
on each attribute with probability 0.33; Gini index and pay gap by city, which the paper says is normalized but not how
(`PayGapDeviation.score`). *NIST* are the constants of its report: 100 marginals, conditions around a record with
probability 0.1. The contest's records are not public: `fire` is the excerpt with 15 attributes, `fire30` that with 30
and the times and places, of 2016's 32; the third score is on the Ohio and Illinois excerpts of the American Community
Survey, with 181 PUMAs as cities, instead of the census of 1940.
"""

CONVERGENCE = f"""## GUM against flows

Mean total variation between the records' tables and those they are to have, on `fire` at epsilon 1, in each iteration
before its updates. GUM as published: a cell gains min(n_t - n_s, alpha n_s) with alpha 0.2, which decays by
steps. *alpha 1* at the start is not the paper's. The rates of the schedules are not published: for alpha 1, k is
{", ".join(f"{k:g} ({name.replace('_', ' ')})" for name, k in cells.SCHEDULES.items())};
where a row names another k, it is that.
"""

ITEMSETS = """## PrivBasis (section 3.1)

Frequent itemsets of the 23 binary attributes of `acs-ipums23`, against exact ones; delta 1e-9.
"""


def write(how: Run) -> None:
    """Write `dpsyn.md` from the tables that are there."""
    folder, parts = how.results / "dpsyn", [HEAD]
    if (folder / "figure2.csv").is_file():
        table = pd.read_csv(folder / "figure2.csv").round({"crossing": 1})
        parts += [FIGURE_2, markdown(table), "\n![Noise on k marginals](dpsyn/figure2.png)\n"]
    if (folder / "views.csv").is_file():
        parts += [VIEWS, markdown(pd.read_csv(folder / "views.csv")) + "\n"]
    if (folder / "priview.csv").is_file():
        table = pd.read_csv(folder / "priview.csv").groupby(["epsilon", "method"])["error"].median().unstack("epsilon")
        parts += [PRIVIEW, markdown(table.round(4).rename(columns="epsilon {:g}".format).reset_index()) + "\n"]
    if (folder / "scores.csv").is_file():
        parts += [SCORES, _scores(pd.read_csv(folder / "scores.csv")), "\n![Scores](dpsyn/scores.png)\n"]
    if (folder / "convergence.csv").is_file():
        table = pd.read_csv(folder / "convergence.csv")
        parts += [CONVERGENCE, _convergence(table), "\n![Convergence](dpsyn/convergence.png)\n"]
    if (folder / "itemsets.csv").is_file():
        groups = pd.read_csv(folder / "itemsets.csv").drop(columns=["run", "table"]).groupby(["theta", "epsilon"])
        medians = groups.median().round(4).drop(columns="seed").join(groups["seed"].nunique().rename("seeds"))
        parts += [ITEMSETS, markdown(medians.reset_index()), "\n![PrivBasis](dpsyn/itemsets.png)\n"]
    how.write_report("dpsyn", "\n".join(parts))


def markdown(table: pd.DataFrame) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(map(str, table.columns)) + " |", "|---" * len(table.columns) + "|"]
    for row in table.itertuples(index=False):
        lines.append("| " + " | ".join("" if pd.isna(cell) else _text(cell) for cell in row) + " |")
    return "\n".join(lines)


def _text(cell: object) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _scores(table: pd.DataFrame) -> str:
    shown = ["density", "ranges", "pay_gap", "density_nist", "ranges_nist"]
    groups = table.groupby(["table", "epsilon", "method"])
    found = groups[[name for name in shown if name in table]].agg(_spread)
    return markdown(found.join(groups["seed"].nunique().rename("seeds")).join(groups[["noise", "marginals"]].first())
                    .reset_index())  # fmt: skip


def _spread(scores: pd.Series) -> str:
    """The median, and the range where there are several seeds."""
    known = scores.dropna()
    if known.empty:
        return ""
    median = f"{known.median():,.0f}"
    return median if len(known) == 1 else f"{median} ({known.min():,.0f} to {known.max():,.0f})"


def _convergence(table: pd.DataFrame) -> str:
    places = [1, 5, 10, 20, 40]
    rows = table[table["iteration"].isin(places)]
    wide = rows.groupby(["method", "iteration"])["error"].median().unstack("iteration").reset_index()
    ends = table[table["iteration"] == table.groupby(["method", "seed"])["iteration"].transform("max")]
    last = ends.groupby("method")["error"].median().rename("last")
    last = pd.concat([last, table.groupby("method")["seed"].nunique().rename("seeds")], axis=1)
    wide = wide.join(last, on="method").round(4)
    return markdown(wide.rename(columns={place: f"iteration {place}" for place in places}))
