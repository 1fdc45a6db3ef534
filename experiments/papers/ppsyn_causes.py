"""Why PPSyn's numbers differ from the paper's words: what comes out where one thing is changed.

`experiments/ppsyn/causes.py` has the runs. Each function makes a sentence of their numbers; it begins with `NOT_FOUND`
where no change brings back what the paper says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from experiments.papers.entry import MOST, NOT_FOUND
from experiments.papers.reading import rows
from experiments.ppsyn import causes, cells, problems

COMMAND = "python -m experiments.papers ppsyn --step tested_causes"
TWO = ["AIM, plain", "MST, plain"]
"""What the paper compares with, as published."""
CHANGES = {
    causes.CANDIDATES: "with AIM's candidates, the parts of the workload's marginals, too,",
    "to the letter, 1 over sigma squared": "with weights of 1 / sigma^2",
    cells.PUBLISHED: "with AIM's candidates and weights of 1 / sigma^2",
    "to the letter, 16 MB": "with models of 16 MB",
}
NAMES = {"adult14": "Adult", "BR2000": "BR2000", "loans": "Loans"}
ROOM = 0.01
"""A misclassification so much above that of real records leaves something to gain."""


def _told(found: Sequence[str], refuted: Sequence[str]) -> str:
    """The causes that were found and what was refuted beside them, or that all were refuted."""
    start = "; ".join(found) if found else NOT_FOUND
    return f"{start}; tested and refuted: {'; '.join(refuted)}" if refuted else start


def _list(values: pd.Series, digits: str = ".2g") -> str:
    return ", ".join(f"{value:{digits}} at {place:g}" for place, value in values.items())


def _count(holds: pd.Series) -> str:
    return f"{int(holds.sum())} of {len(holds)}"


def _medians(file: str, values: str | list[str], by: str = "epsilon", **where: object) -> pd.DataFrame:
    return rows(f"ppsyn/{file}.csv", **where).groupby(["mechanism", by])[values].median()


def _changed(table: str, values: str | list[str]) -> pd.DataFrame:
    """Medians of the runs on the workload of the other steps."""
    return _medians("causes", values, table=table, d=3, max_cells=problems.MAX_CELLS)


def _published(table: str, value: str) -> pd.Series:
    """The medians of the form with AIM's candidates and 1 / sigma^2, for the tables that have it."""
    found = rows("ppsyn/sweep.csv", mechanism=cells.PUBLISHED)
    return found[found["table"] == table].groupby(["mechanism", "epsilon"])[value].median()


def letter(table: str, value: str) -> Callable[[], str]:
    """The letter with other candidates, weights and limits against AIM and MST as published.

    A change is the cause where it takes away at least `MOST` of what the letter is behind, by the median of the budgets
    at which it is.
    """

    def said() -> str:
        medians = _medians("letter", value, table=table).unstack("mechanism")
        mine, best = medians[cells.LETTER], medians[TWO].min(axis=1)
        behind = mine[mine > best]
        changed = pd.concat([_published(table, value), _changed(table, value)])
        changed = changed[~changed.index.duplicated()]
        found: list[str] = []
        refuted: list[str] = []
        for name, what in CHANGES.items():
            errors = changed[changed.index.get_level_values("mechanism") == name].droplevel("mechanism")
            errors = errors.reindex(behind.index).dropna()
            if errors.empty:
                continue
            share = ((behind - errors) / (behind - best)).dropna()
            told = f"{what} it is {_list(errors)}, which takes away {_list(share.clip(upper=1), '.0%')} of that"
            (found if share.median() >= MOST else refuted).append(told)
        lag = f"behind by {_list(behind / best[behind.index] - 1, '.0%')}"
        return f"{lag}; {_told(found, refuted)}" if found else f"{_told(found, refuted)} (it is {lag})"

    return said


def drawn_again(table: str, kind: str) -> Callable[[], str]:
    """Of ranges of five seeds those with some records, and all of them with AIM's candidates."""

    def said() -> str:
        every = rows("ppsyn/letter.csv", table=table)
        tried = {CHANGES[causes.CANDIDATES]: _with_candidates(table, kind)}
        if kind == "ranges" and set(_columns("filled")) <= set(every):
            medians = every.groupby(["mechanism", "epsilon"])[_columns("filled")].median()
            tried[f"on those of them with {problems.FEW} records or more"] = (
                (medians.loc[cells.LETTER] / _best(medians)).stack().dropna()
            )
        told = {
            what: f"{what} it is ahead in {_count(ratios <= 1)} draws and budgets (median ratio {ratios.median():.2f})"
            for what, ratios in tried.items()
            if len(ratios)
        }
        found = [what for what in told if (tried[what] <= 1).mean() >= MOST]
        return _told([told[what] for what in found], [told[what] for what in told if what not in found])

    return said


def one_draw(table: str) -> Callable[[], str]:
    """The first draw of ranges, of which nearly all are empty, beside the four others."""

    def said() -> str:
        empty = rows("ppsyn/ranges.csv", table=table, attributes=5, seed=0, prefixes=False)["below"].iloc[0]
        ratios = _with_candidates(table, "ranges")
        first = ratios.index.get_level_values(1) == _columns("ranges")[0]
        told = (
            f"{empty:.1%} of this draw's ranges hold fewer than {problems.FEW} records: {CHANGES[causes.CANDIDATES]} "
            f"it is ahead in {_count(ratios[first] <= 1)} budgets on them, and on the others in "
            f"{_count(ratios[~first] <= 1)} draws and budgets"
        )
        held = (ratios[~first] <= 1).mean() >= MOST > (ratios[first] <= 1).mean()
        return told if held else f"{NOT_FOUND}; tested and refuted: {told}"

    return said


def _columns(kind: str) -> list[str]:
    return [f"{kind}_5_of_{seed}" for seed in cells.RANGE_SEEDS]


def _with_candidates(table: str, kind: str) -> pd.Series:
    """By budget and draw the error of the letter with AIM's candidates over the best of the others."""
    medians = rows("ppsyn/letter.csv", table=table).groupby(["mechanism", "epsilon"])[_columns(kind)].median()
    ours = _changed(table, _columns(kind)).loc[causes.CANDIDATES]
    return (ours / _best(medians).loc[ours.index]).stack()


def _best(medians: pd.DataFrame) -> pd.DataFrame:
    """By budget and column the lesser error of AIM and MST as published."""
    return medians.loc[TWO].groupby("epsilon").min()


def room(other: str) -> Callable[[], str]:
    """Figure 6: whether it is ahead where the other has something to gain, at more budgets and with another seed."""

    def said() -> str:
        found = pd.concat([rows(f"ppsyn/{name}.csv") for name in ("svm", "causes_svm")]).fillna({"seed": 0})
        folds = [name for name in found if name.startswith("fold_")]
        rates = found.set_index(["table", "epsilon", "seed", "mechanism"])[folds].mean(axis=1).unstack("mechanism")
        real = rates["real records"].dropna().groupby("table").first()
        rates = rates[[cells.PUBLISHED, other]].dropna()
        above = rates[other] - real.reindex(rates.index.get_level_values("table")).to_numpy()
        ahead = rates[cells.PUBLISHED] < rates[other]
        much, little = ahead[above > ROOM], ahead[above <= ROOM]
        share = (
            f"where {other} is more than {ROOM:g} above real records, it is ahead in {_count(much)} settings; where "
            f"{other} is nearer, in {_count(little)} (with BR2000 at two smaller budgets, and with another seed at 0.5)"
        )
        if much.mean() >= MOST > little.mean():
            return f"little is left to gain: {share}"
        return f"{NOT_FOUND}; tested and refuted: that little is left to gain: {share}"

    return said


# -- Figure 9 ----------------------------------------------------------------------------------------------------------


def _by_d(value: str, max_cells: int) -> pd.DataFrame:
    """Medians by d (rows) and mechanism, comparators as published."""
    return _medians(
        "causes",
        value,
        by="d",
        table="BR2000",
        epsilon=cells.DIMENSION_EPSILON,
        max_cells=max_cells,
    ).unstack("mechanism")


CHANGES_OF_9 = {
    "with the others as published": ("workload_error", problems.MAX_CELLS),
    "in the errors of the models, without drawing records": ("model_error", problems.MAX_CELLS),
    "with workloads of marginals of any size": ("workload_error", causes.UNLIMITED),
}


def gaps(errors: pd.DataFrame, names: Sequence[str]) -> tuple[str, float]:
    """By d the error of each of the others minus that of the published form, and for what share of them it grows.

    Args:
        errors: d (rows) and mechanism (columns).
        names: the others.
    """
    found = {name: (errors[name] - errors[cells.PUBLISHED]).dropna() for name in names}
    text = "; ".join(
        f"{name.removesuffix(', plain')} " + ", ".join(f"{gap:.3f}" for gap in values) for name, values in found.items()
    )
    return text, sum(values.is_monotonic_increasing for values in found.values()) / len(found)


def gap() -> str:
    """Figure 9: the gaps by d in other ways of measuring them."""
    found: list[str] = []
    refuted: list[str] = []
    for name, (value, max_cells) in CHANGES_OF_9.items():
        text, share = gaps(_by_d(value, max_cells), list(cells.PLAIN))
        told = f"{name} it grows against {share * len(cells.PLAIN):.0f} of {len(cells.PLAIN)} ({text})"
        (found if share >= MOST else refuted).append(told)
    return _told(found, refuted)


def privmrf() -> str:
    """Figure 9: by d the error of PrivMRF over AIM's, also with larger models of PrivMRF."""

    def ratio(errors: pd.DataFrame, of: str = "PrivMRF, plain") -> pd.Series:
        return errors[of] / errors["AIM, plain"]

    def holds(ratios: pd.Series) -> bool:
        return bool(ratios.loc[3] < 1 < ratios.loc[4])

    tried = {"with models of 16 MB": ratio(_by_d("workload_error", problems.MAX_CELLS), causes.LARGER_PRIVMRF)}
    tried |= {name: ratio(_by_d(value, max_cells)) for name, (value, max_cells) in CHANGES_OF_9.items()}
    told = {name: f"{name} it is {_by(ratios.dropna())}" for name, ratios in tried.items()}
    found = [name for name, ratios in tried.items() if holds(ratios)]
    return _told([told[name] for name in found], [told[name] for name in told if name not in found])


def _by(values: pd.Series) -> str:
    return ", ".join(f"{value:.3g} at d = {d}" for d, value in values.items())


# -- the private form --------------------------------------------------------------------------------------------------


def private() -> str:
    """Our private PPSyn on BR2000: against AIM as published, and with every cell measured instead of sums over boxes.

    That it is behind is explained at a budget where it is not behind AIM as published, or where partitions gain it
    nothing.
    """
    parts, explained = [], pd.Series(dtype=bool)
    for table in ("BR2000", "adult14"):
        usual = _medians("sweep", "workload_error", table=table).unstack("mechanism")
        changed = _changed(table, "workload_error").unstack("mechanism")
        gained = (usual["PPSyn"] / changed[causes.EVERY_CELL]).dropna()
        plain = (usual["PPSyn"] / changed["AIM, plain"]).dropna()
        parts.append(
            f"{NAMES[table]}: its error over that without partitions {_list(gained, '.2f')}, and over that of AIM as "
            f"published {_list(plain, '.2f')}"
        )
        if table == "BR2000":
            explained = ((gained >= 1) | (plain <= 1))[usual["PPSyn"] > usual["AIM"]]
    cause = (
        "that partitions gain nothing on BR2000, or that our AIM, unlike AIM as published and PPSyn, ends in "
        f"`mirror_flow`: so in {_count(explained)} budgets at which it is behind our AIM"
    )
    if explained.mean() < MOST:
        return f"{NOT_FOUND}; tested and refuted: {cause}. {'; '.join(parts)}"
    return f"{cause.removeprefix('that ').replace(', or that', ', or')}. {'; '.join(parts)}"
