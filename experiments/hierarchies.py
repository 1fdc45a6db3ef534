"""Measure the errors of tables by level of a tree of codes or areas, for LAMP with and without the tree, and others.

`python -m experiments.hierarchies [--only PATTERN] [--workers N]` runs each mechanism on each table at each budget.
Errors are total variation distances from the data: of the attribute with the tree alone (1), with one other attribute
(2) and with two others (3), at each of its levels; and of the pairs of others.

- "LAMP" knows the tree; "LAMP without the tree" has the same codes in the same order, as has every mechanism below.
- "LAMP asked for triples" has all pairs and the triples with a coarser level of the tree as its workload.
- "LAMP asked for totals" has all pairs, and the coarsest level alone with the weight of a hundred pairs; on the tables
  of TopDown.
- "areas": each area, at the finest level, is released by itself with the whole budget.
- "TopDown": the 2020 census's algorithm, on tables with few columns: it needs the table of all of them.

The table "codes" is made by a rule (`made_codes`): 600 codes in 60 blocks in 12 chapters, with a long tail. Codes are
listed in the order of the code book, or, in the tables named "listed", in the order of their first record. In those
named "random", the branches of the tree are dealt out to the codes at random, so that the tree says nothing.

The report opens with the means of all tables, and with the number of cells in which LAMP is worse with the tree
than without it, beside the number that the noise of three seeds alone would give.

Each run is kept in build/hierarchies as a JSON file at once, so that a command that was stopped goes on where it was.
The tables are written to experiments/results/hierarchies.{csv,md}. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

import pgmest as pg
from experiments.data import data_folder, load
from experiments.kept_runs import KeptRuns, MechanismRun, run_and_report
from pgmest.workloads import Item, Workload

EPSILONS, SEEDS, DELTA = (0.1, 1.0, 10.0), 3, 1e-9
BAR = "LAMP without the tree"
TOTALS = 100.0
"""The weight of the coarsest level in the workload of "LAMP asked for totals"."""
TRIPLES = 12
"""The number of triples with the tree's attribute, evenly chosen."""


KEPT = KeptRuns("hierarchies", MechanismRun)


# -- tables -----------------------------------------------------------------------------------------------------------


def _coded(frame: Any, attribute: str, levels: tuple[str, ...]) -> pg.Dataset:
    """Return a table of labels, with the hierarchy of an attribute whose levels are columns, from the coarsest."""
    codes = {name: pd.factorize(frame[name], sort=True) for name in frame if name not in levels}
    first = frame.groupby(attribute)[list(levels)].first()
    tree = {level: first[level].astype(str).loc[list(codes[attribute][1])].tolist() for level in levels}
    domain = pg.Domain({name: len(values) for name, (_, values) in codes.items()})
    columns = [column for column, _ in codes.values()]
    return pg.Dataset.from_codes(columns, domain.with_hierarchies(pg.Hierarchy(attribute, tree)))


def _austria() -> pg.Dataset:
    given: Any = pd.read_csv(data_folder() / "geography" / "austria" / "households.csv.gz")
    amounts = ("cash", "self_empl", "unempl_ben", "age_ben", "rent", "fam_allow", "cap_inv")
    frame = given[["district", "state", "gender"]].assign(
        size=given["eqsize"].clip(upper=3).round(1),
        income=pd.cut(given["eqIncome"], [-np.inf, *range(5000, 45_001, 5000), np.inf], labels=False),
        **{name: (given[name] > 0).astype(int) for name in amounts},
    )
    return _coded(frame, "district", ("state",))


def _travel() -> pg.Dataset:
    folder = data_folder() / "households" / "travel_survey"
    areas = ["SUBREGCluster", "SUBREG_GRP", "SUBREG"]
    tables: dict[str, Any] = {name: pd.read_csv(folder / f"{name}.csv.gz") for name in ("households", "persons")}
    households = tables["households"][["hhID", *areas, "HHSize", "HHIncome", "HHDwelling"]]
    frame = tables["persons"].merge(households, on="hhID").drop(columns=["hhID", "per_num", "Pweight"])
    frame = frame.fillna({"POcc": 0, "PComm": "none", "PEmp": 0}).dropna()
    frame["SUBREG_GRP"] = frame["SUBREGCluster"].astype(str) + "/" + frame["SUBREG_GRP"].astype(str)
    frame["SUBREG"] = frame["SUBREG_GRP"] + "/" + frame["SUBREG"].astype(str)
    return _coded(frame, "SUBREG", ("SUBREGCluster", "SUBREG_GRP"))


def _acs(name: str) -> pg.Dataset:
    """Return a table of the ACS whose industries have the hierarchy that the categories of its records show."""
    given = load(name)
    kept = ("PUMA", "SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "INDP")
    codes, found = np.zeros(given.domain["INDP"], dtype=int), np.asarray(given.column("INDP")).astype(int)
    codes[found] = given.column("INDP_CAT")
    seen = np.isin(np.arange(len(codes)), found)
    places = np.maximum.accumulate(np.where(seen, np.arange(len(codes)), 0))  # a code without records: that before it
    tree = pg.Hierarchy("INDP", {"category": [f"{code:02d}" for code in codes[places]]})
    data = given.select(kept)
    return pg.Dataset(data.domain.with_hierarchies(tree), data.columns, data.records)


CODES, BLOCKS, CHAPTERS, TAIL = 600, 60, 12, 1.1
OTHERS = {"age": 8, "sex": 2, "region": 10, "stay": 6, "outcome": 3, "payer": 5}


def made_codes(records: int, listed: bool = False) -> pg.Dataset:
    """Return records whose code has a long tail, and whose other attributes depend on its block and chapter.

    Each code lies in a random block, and each block in a random chapter. The chance of a code is proportional to
    1 / rank^1.1, in random order. Each other attribute has a distribution for each chapter, drawn from a Dirichlet
    distribution of concentration 4, and for each block, of concentration 20 around that of the chapter. Given the
    block, the others are independent.
    """
    generator = np.random.default_rng(0)
    blocks = np.sort(np.r_[np.arange(BLOCKS), generator.integers(BLOCKS, size=CODES - BLOCKS)])
    chapters = np.sort(np.r_[np.arange(CHAPTERS), generator.integers(CHAPTERS, size=BLOCKS - CHAPTERS)])
    chances = generator.permutation(1 / np.arange(1, CODES + 1) ** TAIL)
    code = generator.choice(CODES, size=records, p=chances / chances.sum())
    order = np.arange(CODES)
    if listed:
        seen = pd.unique(code)
        order = np.r_[seen, np.setdiff1d(order, seen)]
    columns = {"code": np.argsort(order)[code]}
    for name, size in OTHERS.items():
        base = generator.dirichlet(np.full(size, 4.0))
        by_chapter = generator.dirichlet(4.0 * base, size=CHAPTERS)
        by_block = np.array([generator.dirichlet(20.0 * by_chapter[c] + 1e-3) for c in chapters])
        cuts = np.cumsum(by_block, axis=1)[blocks[code]]
        columns[name] = np.minimum((generator.random(records)[:, None] > cuts).sum(axis=1), size - 1)
    tree = pg.Hierarchy("code", {"chapter": chapters[blocks][order], "block": blocks[order]})
    return pg.Dataset.from_codes(list(columns.values()), pg.Domain({"code": CODES, **OTHERS}).with_hierarchies(tree))


def _with_random_tree(data: pg.Dataset) -> pg.Dataset:
    """Return the same records with the branches of the tree in random order over the codes."""
    ((attribute, tree),) = data.domain.hierarchies.items()
    order = np.random.default_rng(0).permutation(tree.values)
    dealt = pg.Hierarchy(attribute, {level: groups[order].tolist() for level, groups in tree.levels.items()})
    return pg.Dataset(pg.Domain(dict(data.domain)).with_hierarchies(dealt), data.columns, data.records)


TABLES: dict[str, Callable[[], pg.Dataset]] = {
    "austria": _austria,
    "acs/NATIONAL2019": lambda: _acs("acs/NATIONAL2019"),
    "acs/MA2019": lambda: _acs("acs/MA2019"),
    "travel_survey": _travel,
    "austria 5": lambda: _austria().select(("district", "gender", "income", "rent", "fam_allow")),
    "travel 5": lambda: _travel().select(("SUBREG", "PGender", "PAge", "PEmp", "HHSize")),
    "codes 8,000": lambda: made_codes(8_000),
    "codes 50,000": lambda: made_codes(50_000),
    "listed 8,000": lambda: made_codes(8_000, listed=True),
    "listed 50,000": lambda: made_codes(50_000, listed=True),
    "random 8,000": lambda: _with_random_tree(made_codes(8_000)),
    "random 50,000": lambda: _with_random_tree(made_codes(50_000)),
    "random MA2019": lambda: _with_random_tree(_acs("acs/MA2019")),
    "random travel 5": lambda: _with_random_tree(table("travel 5")),
}
RANDOM = ("random 8,000", "random 50,000", "random MA2019", "random travel 5")
"""The tables with random trees, on which only LAMP is measured, with and without the tree."""
AREAS, FEW = ("austria 5", "travel 5"), ("austria 5", "travel 5")
"""The tables of areas of which each area is released by itself, and those with few enough cells for TopDown."""
WITH_FEW = ("TopDown", "LAMP asked for totals")
"""The mechanisms that are measured on the latter tables only."""


@cache
def table(name: str) -> pg.Dataset:
    """Return a table, read once a process."""
    return TABLES[name]()


# -- mechanisms -------------------------------------------------------------------------------------------------------


def _plain(data: pg.Dataset) -> pg.Dataset:
    return pg.Dataset(pg.Domain(dict(data.domain)), data.columns, data.records)


def _options(run: MechanismRun) -> dict[str, Any]:
    return {"epsilon": run.epsilon, "delta": DELTA, "backend": "simulation"}


def _by_area(data: pg.Dataset, run: MechanismRun) -> pg.Dataset:
    """Return synthetic records of each area, which is released by itself."""
    (attribute,) = data.domain.hierarchies
    plain, parts = _plain(data), []
    others = [name for name in plain.domain if name != attribute]
    for area in range(plain.domain[attribute]):
        inside = plain.take(plain.column(attribute) == area).select(others)
        found = pg.mechanisms.LAMP(**_options(run)).fit(inside, seed=run.seed, progress=False).sample(seed=0)
        codes = np.full(found.records, area)
        columns = [codes if name == attribute else found.column(name) for name in plain.domain]
        parts.append(np.array(columns))
    return pg.Dataset.from_codes(list(np.concatenate(parts, axis=1)), plain.domain)


def _fitted(mechanism: str, **options: Any) -> Callable[[pg.Dataset, MechanismRun], Any]:
    def fit(data: pg.Dataset, run: MechanismRun) -> Any:
        return getattr(pg.mechanisms, mechanism)(**_options(run), **options).fit(data, seed=run.seed, progress=False)

    return fit


def _asked_for_triples(data: pg.Dataset, run: MechanismRun) -> Any:
    """Return LAMP's release for all pairs, and for triples of each coarser level and two others."""
    ((attribute, tree),) = data.domain.hierarchies.items()
    others = [name for name in data.domain if name != attribute]
    levels = [f"{attribute}@{level}" for level in tree.names]
    pairs = list(itertools.combinations(data.domain, 2))
    triples = [(level, *two) for level in levels for two in itertools.combinations(others, 2)]
    return pg.mechanisms.LAMP(**_options(run)).fit(data, [*pairs, *triples], seed=run.seed, progress=False)


def _asked_for_totals(data: pg.Dataset, run: MechanismRun) -> Any:
    """Return LAMP's release for all pairs, and for the coarsest level alone with a large weight."""
    ((attribute, tree),) = data.domain.hierarchies.items()
    pairs = [Item(pair) for pair in itertools.combinations(data.domain, 2)]
    totals = Item(f"{attribute}@{tree.names[0]}", weight=TOTALS)
    return pg.mechanisms.LAMP(**_options(run)).fit(data, Workload([*pairs, totals]), seed=run.seed, progress=False)


MECHANISMS: dict[str, Callable[[pg.Dataset, MechanismRun], Any]] = {
    BAR: lambda data, run: _fitted("LAMP")(_plain(data), run),
    "LAMP": _fitted("LAMP"),
    "LAMP asked for triples": _asked_for_triples,
    "LAMP asked for totals": _asked_for_totals,
    "AIM": lambda data, run: _fitted("AIM")(_plain(data), run),
    "AIM with levels": _fitted("AIM", levels=True),
    "PrivSyn": lambda data, run: _fitted("PrivSyn")(_plain(data), run),
    "areas": _by_area,
    "TopDown": _fitted("TopDown"),
}
RUNS = [
    MechanismRun(name, mechanism, epsilon, seed)
    for seed in range(SEEDS)
    for mechanism in MECHANISMS
    for name in TABLES
    if (mechanism != "areas" or name in AREAS)
    and (mechanism not in ("TopDown", "LAMP asked for totals") or name in FEW)
    and (mechanism in (BAR, "LAMP") or name not in RANDOM)
    for epsilon in EPSILONS
]


# -- errors -----------------------------------------------------------------------------------------------------------


def _questions(domain: pg.Domain) -> dict[str, list[tuple[str, ...]]]:
    """Return the tables of each kind: the attribute with the tree, and 0, 1 or 2 others; and pairs of others."""
    (attribute,) = domain.hierarchies
    others = [name for name in domain if name != attribute]
    triples = [(attribute, *pair) for pair in itertools.combinations(others, 2)]
    chosen = np.linspace(0, len(triples) - 1, min(TRIPLES, len(triples))).round().astype(int)
    return {
        "1": [(attribute,)],
        "2": [(attribute, name) for name in others],
        "3": [triples[place] for place in chosen],
        "others": list(itertools.combinations(others, 2)),
    }


def errors(data: pg.Dataset, found: Any) -> dict[str, float]:
    """Return the mean error of each kind of table, at each level of the tree."""
    ((attribute, tree),) = data.domain.hierarchies.items()
    levels: Mapping[str, np.ndarray] = {**tree.levels, attribute: np.arange(tree.values)}
    result: dict[str, float] = {}
    for kind, cliques in _questions(data.domain).items():
        distances: dict[str, list[float]] = {}
        for clique in cliques:
            off = found.project(clique).values - data.project(clique).values
            for level, groups in levels.items() if kind != "others" else [("", np.empty(0))]:
                grouped = off
                if level not in ("", attribute):
                    grouped = np.zeros((int(groups.max()) + 1, *off.shape[1:]))
                    np.add.at(grouped, groups.astype(np.int64), off)
                distances.setdefault(level, []).append(0.5 * float(np.abs(grouped).sum()) / data.records)
        for level, values in distances.items():
            result[f"{level} {kind}".strip()] = float(np.mean(values))
    return result


def measure(run: MechanismRun) -> dict[str, Any]:
    """Return the errors of one release, and its processor time."""
    data = table(run.table)
    started = time.process_time()
    found = MECHANISMS[run.mechanism](data, run)
    seconds = time.process_time() - started
    return {**errors(data, found), "seconds": seconds}


# -- report -----------------------------------------------------------------------------------------------------------

WORSE = 1.03
"""The largest ratio that a tree is meant to cost anywhere."""
NOTES = """
All rows were made in November 2026 by an earlier version of LAMP, with stages for trees that are gone since: see
[what its stages are worth](ablation.md).

A tree changes no weights of marginals in LAMP: coarser levels decide over which groups a pair is measured, and all
measurements pay alike for counts of branches, which shows in pairs of others. TopDown measures the table of all
attributes in each area, and needs it: tables of more than 10 million cells have no row. LAMP measures triples if the
workload asks for them. Three seeds decide a ratio to about 5 % only.
"""


def ratios(rows: Any, mechanism: str, bar: str) -> Any:
    """Return, for each table, budget and cell, the ratio of two mechanisms' mean errors, and its standard error."""
    found = []
    for (name, epsilon), part in rows.groupby(["table", "epsilon"]):
        ((attribute, tree),) = table(name).domain.hierarchies.items()
        levels = [*tree.names, attribute]
        own, other = (part[part["mechanism"] == which] for which in (mechanism, bar))
        for kind, level in [*itertools.product("123", levels), ("others", "")]:
            cell = f"{level} {kind}".strip()
            one, two = own[cell], other[cell]
            if len(one) > 1 and len(two) > 1 and two.mean() > 0:
                ratio = one.mean() / two.mean()
                error = ratio * np.hypot(one.sem() / one.mean(), two.sem() / two.mean())
                place = "finest" if level == attribute else "coarsest" if level == tree.names[0] else "between"
                found.append((name, epsilon, f"{kind}, {place}" if level else kind, ratio, error))
    return pd.DataFrame(found, columns=["table", "epsilon", "kind", "ratio", "error"])


def _summary(rows: Any) -> list[str]:
    """Return the means of all tables, and the number of cells that are worse, as Markdown."""
    every, rival = ratios(rows, "LAMP", BAR), ratios(rows, "LAMP", "TopDown")
    found, dealt = every[~every["table"].isin(RANDOM)], every[every["table"].isin(RANDOM)]
    names = sorted(set(found["kind"]))
    lines = ["| LAMP over | epsilon | " + " | ".join(names) + " |", "|---|---|" + "---:|" * len(names)]
    asked = ratios(rows, "LAMP asked for totals", "TopDown")
    compared = (
        (BAR, found),
        (f"{BAR}, random trees", dealt),
        ("TopDown", rival),
        ("TopDown, if LAMP is asked for totals", asked),
        ("TopDown, if LAMP is asked for triples", ratios(rows, "LAMP asked for triples", "TopDown")),
    )
    for text, of in compared:
        for epsilon, part in of.groupby("epsilon"):
            means = part.groupby("kind")["ratio"].mean()
            lines.append(f"| {text} | {epsilon:g} | " + " | ".join(f"{means.get(n, np.nan):.2f}" for n in names) + " |")
    return [*lines, "", f"{_worse(found)} {_worse(dealt, 'with random trees ')}", ""]


def _worse(found: Any, which: str = "") -> str:
    """Return how many ratios are above `WORSE`, in words."""
    if found.empty:
        return ""
    chance = float((1 - norm.cdf((WORSE - 1) / found["error"])).sum())
    clear = int((found["ratio"] - 2 * found["error"] > WORSE).sum())
    worse = found["ratio"] > WORSE
    return (
        f"The mean of all {len(found)} ratios {which}to {BAR} is {found['ratio'].mean():.2f}. {int(worse.sum())} are "
        f"above {WORSE}, at most {found['ratio'].max():.2f}; {clear} of them by more than two standard errors. A ratio "
        f"has a standard error of {found['error'].mean():.3f} on average, so that {chance:.0f} would be above {WORSE} "
        "by chance if the tree changed nothing."
    )


def report(rows: Any) -> str:
    """Return the report as Markdown."""
    lines = [
        "# Trees of codes and areas: errors by level",
        "",
        f"Total variation distances in percent, means over up to {SEEDS} seeds; `python -m experiments.hierarchies`.",
        "The number in a heading is that of attributes in a table, the one with the tree included. In brackets: the",
        f"error over that of {BAR}. `s` is processor time.",
        "",
        *_summary(rows),
        *NOTES.strip().splitlines(),
        "",
    ]
    for name in TABLES:
        here = rows[rows["table"] == name]
        if here.empty:
            continue
        data = table(name)
        ((attribute, tree),) = data.domain.hierarchies.items()
        columns = [*(f"{level} {kind}" for kind in "123" for level in (*tree.names, attribute)), "others"]
        lines += [f"## {name}: {data.records:,} records; {tree!r}", ""]
        lines += [f"| epsilon | | {' | '.join(columns)} | s |", f"|---|---|{'---:|' * (len(columns) + 1)}"]
        for epsilon, part in here.groupby("epsilon"):
            means = part.groupby("mechanism")[[*columns, "seconds"]].mean()
            for mechanism in (m for m in MECHANISMS if m in means.index):
                seeds = part[part["mechanism"] == mechanism]["seed"]
                bar = part[(part["mechanism"] == BAR) & part["seed"].isin(seeds)][columns].mean()
                cells = [
                    f"{100 * means.loc[mechanism, c]:.2f}"
                    + (f" ({means.loc[mechanism, c] / bar[c]:.2f})" if mechanism != BAR and bar[c] > 0 else "")
                    for c in columns
                ]
                lines.append(
                    f"| {epsilon:g} | {mechanism} | {' | '.join(cells)} | {means.loc[mechanism, 'seconds']:.0f} |"
                )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Make the runs that are missing and write the report."""
    run_and_report(KEPT, RUNS, measure, report, __doc__, "austria-LAMP-*")


if __name__ == "__main__":
    main()
