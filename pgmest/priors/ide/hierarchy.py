"""Hierarchical synthesis with a public prior (IDE Algorithm 2): by state, then by PUMA and year, or any other groups.

Each level of the hierarchy divides the records into disjoint groups, so one charge to the curator measures all groups:
an individual changes the level's table of one clique by at most Delta records in all. From the top down, each group's
distribution is its parent's, updated by the group's noisy answers (PRIOR_UPDATE).

Only `measure_hierarchy` accesses private data. `synthesize_hierarchy` uses its result and can be run again at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Protocol, get_args

import numpy as np

from pgmest._base.threads import get_threads
from pgmest.data.codes import read_only
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DomainError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.priors.ide.groups import AnswersByGroup, GroupUpdate, Prior, TotalsFrom
from pgmest.priors.ide.sweeps import Order
from pgmest.priors.ide.update import check_form, prior_fractions
from pgmest.priors.ide.workload import normalized_information
from pgmest.sampling.systematic import systematic_sample
from pgmest.tables.domain import Clique, Domain

Sampling = Literal["stratified", "independent"]
"""The ways to draw a group's records."""


class MeasuringCurator(Protocol):
    """The part of a privacy curator that is used here: noisy marginals of the private records, charged to a ledger."""

    @property
    def domain(self) -> Domain: ...

    @property
    def remaining(self) -> Any:
        """The remaining budget; its product with a share in [0, 1] is a budget, too."""

    def measure(self, clique: Clique, spend: Any, /, *, label: str = "") -> LinearMeasurement: ...


@dataclass(frozen=True)
class Level:
    """One level of groups, and the marginals to measure in each of them.

    Attributes:
        by: the attributes whose values define a group.
        cliques: the marginals to measure in each group, of other attributes; empty for a level that only pools records.
        share: the share of the budget for the level; with 0, which needs empty `cliques`, the level is not measured.
        count_share: the share of the level's budget for the groups' numbers of records; the cliques share the rest
            equally.
        parents: for each group, row-major over `by`, the position of its group at the level above, or -1 for a group
            that does not exist. May be None if `by` contains the attributes of the level above.
    """

    by: Clique
    cliques: tuple[Clique, ...] = ()
    share: float = 0.0
    count_share: float = 0.2
    parents: np.ndarray | None = None


@dataclass(frozen=True)
class LevelAnswers:
    """The noisy answers of a level: its groups' numbers of records, and its tables over (group attributes, clique)."""

    level: Level
    counts: LinearMeasurement | None
    marginals: tuple[LinearMeasurement, ...]


@dataclass(frozen=True)
class Synthesis:
    """Synthetic records with their groups' attributes, and the noisy number of records of each last-level group."""

    data: Dataset
    totals: np.ndarray


def measure_hierarchy(curator: MeasuringCurator, levels: Sequence[Level]) -> list[LevelAnswers]:
    """Measure all answers that a hierarchical synthesis needs, with the curator's remaining budget.

    Raises:
        ArgumentError: the levels' shares are not as `Level` requires, or sum to more than 1.
        UnknownAttributeError, DuplicateAttributeError: a level names an attribute that the domain lacks, or one twice.
    """
    check_levels(curator.domain, levels)
    available = curator.remaining
    found = []
    for level in levels:
        if level.share == 0:
            found.append(LevelAnswers(level, None, ()))
            continue
        name = f"groups by {', '.join(level.by)}"
        share = level.share * (level.count_share if level.cliques else 1.0)
        counts = curator.measure(level.by, available * share, label=name)
        each = (level.share - share) / max(len(level.cliques), 1)
        marginals = [curator.measure((*level.by, *clique), available * each, label=name) for clique in level.cliques]
        found.append(LevelAnswers(level, counts, tuple(marginals)))
    return found


def check_levels(domain: Domain, levels: Sequence[Level]) -> None:
    """Check the levels before any budget is spent; raise the errors of `measure_hierarchy`."""
    if not levels or levels[-1].share <= 0:
        raise ArgumentError.of("levels", list(levels), "one or more, the last with a share above 0 for its counts")
    if any(level.share < 0 for level in levels) or sum(level.share for level in levels) > 1 + 1e-9:
        raise ArgumentError.of("share", [level.share for level in levels], "non-negative, and at most 1 in all")
    for level in levels:
        for clique in ((), *level.cliques):
            domain.clique((*level.by, *clique))
        if level.cliques and not (level.share > 0 and 0 < level.count_share < 1):
            raise ArgumentError.of("count_share", level.count_share, "between 0 and 1, with a share above 0")
        if level.parents is not None and np.shape(level.parents) != (domain.size(level.by),):
            raise ArgumentError.of("parents", np.shape(level.parents), f"an array of shape ({domain.size(level.by)},)")
    for above, level in pairwise(levels):
        if level.parents is None and not set(above.by) <= set(level.by):
            raise ArgumentError.of(
                "parents", None, f"an array, because groups by {level.by} do not determine their parents by {above.by}"
            )


def synthesize_hierarchy(
    public: Dataset,
    measured: Sequence[LevelAnswers],
    *,
    prior_weight: float = 0.5,
    pooling: float = np.inf,
    max_support: int | None = 20_000,
    max_sweeps: int = 20,
    tolerance: float = 5e-3,
    order: Order = "sweeps",
    refill: bool = False,
    totals_from: TotalsFrom = "all",
    sampling: Sampling = "stratified",
    threads: int | None = None,
    seed: int | np.random.Generator | None = None,
    progress: bool = False,
) -> Synthesis:
    """Return synthetic records, group by group, from a public table and noisy answers (IDE Algorithm 2).

    The published Algorithm 2 has two levels, state and then PUMA and year, each with
    `Level(share=0.5, count_share=0.5)` (four equal parts of the budget), and here `prior_weight=0, max_support=None,
    order="random", refill=True, totals_from="counts", sampling="independent", max_sweeps=2, tolerance=0`: the contest's
    T was twice the number of marginals.

    Args:
        public: public records over the same attributes, those that define the groups included.
        measured: the result of `measure_hierarchy`.
        prior_weight: as in `update_prior`; 0 for the paper's Algorithm 1.
        pooling: the weight of the parent's distribution, in public records, if a group has public records: the group's
            prior is the mixture of both. inf uses the parent's distribution alone, as in the paper.
        max_support: the largest number of public records in the distribution of a last-level group; a larger number is
            thinned to a systematic sample of equal weights. None keeps all.
        max_sweeps, tolerance, order, refill: as in `update_prior`.
        totals_from: "all" for the inverse-variance mean of a group's noisy count and the sums of its tables, which is
            more accurate; "counts" for the noisy count rounded down, as in the paper.
        sampling: "stratified" for a systematic sample of similar records, whose marginals are closer to the group's
            distribution; "independent" for independent draws, as in the paper.
        threads: the number of groups that are updated in parallel; None for `pgmest.get_threads()`. It does not change
            the result.
        seed: the seed of the updates and of the sampling, or a generator.
        progress: whether to show a progress bar on a terminal.

    Raises:
        ArgumentError: an argument is out of range.
        DomainError: the attributes of the public table are not those of the measurements.
        DataError: the public table has no records of positive weight.
    """
    if not pooling > 0:
        raise ArgumentError.of("pooling", pooling, "a positive number of records, or inf")
    check_form(prior_weight, order, refill)
    for name, value, known in (("totals_from", totals_from, TotalsFrom), ("sampling", sampling, Sampling)):
        if value not in get_args(known):
            raise ArgumentError.of(name, value, get_args(known))
    levels = [answers.level for answers in measured]
    check_levels(public.domain, levels)
    for answers in measured:
        for measurement in answers.marginals:
            measurement.check(public.domain)
    grouping = {name for level in levels for name in level.by}
    public = _sorted_by_similarity(public, grouping)
    generator = np.random.default_rng(seed)
    priors: list[Prior | None] = [Prior(np.arange(public.records, dtype=np.int32), prior_fractions(public))]
    totals, parents = np.zeros(1), np.zeros(1, dtype=int)
    lineage: list[np.ndarray] = []
    for position, answers in enumerate(measured):
        above = levels[position - 1] if position else None
        parents = _parents(public.domain, answers.level, above)
        grouped = AnswersByGroup.of(public, answers.level.by, answers.counts, answers.marginals, totals_from)
        last = position == len(measured) - 1
        update = GroupUpdate(prior_weight, pooling, max_support if last else None, max_sweeps, tolerance, order, refill)
        priors = _update_groups(grouped, priors, parents, update, generator, threads, progress)
        totals = grouped.totals
        lineage.append(parents)
    return _records(public, levels, lineage, priors, np.where(parents >= 0, totals, 0.0), generator, sampling)


def _update_groups(
    grouped: AnswersByGroup,
    priors: Sequence[Prior | None],
    parents: np.ndarray,
    update: GroupUpdate,
    generator: np.random.Generator,
    threads: int | None,
    progress: bool,
) -> list[Prior | None]:
    """Return the distribution of each group, computed in parallel; None for groups that do not exist."""
    from tqdm import tqdm

    streams = generator.spawn(len(parents))

    def one(group: int) -> Prior | None:
        parent = priors[parents[group]] if parents[group] >= 0 else None
        return None if parent is None else update(grouped, group, parent, streams[group])

    with ThreadPoolExecutor(threads or get_threads()) as pool:
        try:
            tasks = pool.map(one, range(len(parents)))
            bar = tqdm(
                tasks, desc=f"by {', '.join(grouped.by)}", total=len(parents), disable=None if progress else True
            )
            return list(bar)
        except BaseException:  # after Ctrl-C, groups that have not begun are dropped
            pool.shutdown(cancel_futures=True)
            raise


def _parents(domain: Domain, level: Level, above: Level | None) -> np.ndarray:
    """Return the position of each group's parent at the level above, -1 for no group; shape (groups,)."""
    if level.parents is not None:
        return np.asarray(level.parents, dtype=int)
    groups = domain.size(level.by)
    if above is None or not above.by:
        return np.zeros(groups, dtype=int)
    values = dict(zip(level.by, np.unravel_index(np.arange(groups), domain.project(level.by).shape), strict=True))
    return np.ravel_multi_index([values[name] for name in above.by], domain.project(above.by).shape)


def _sorted_by_similarity(public: Dataset, grouping: set[str]) -> Dataset:
    """Return the records sorted by similarity, so that a systematic sample of them is a stratified sample.

    The sort key of highest priority is the attribute that shares most information with all others.
    """
    names = [name for name in public.domain if name not in grouping]
    if not names:
        raise DomainError("all attributes define groups; the public table needs other attributes, to be synthesized.")
    central = np.argsort(normalized_information(public, names).sum(axis=0))
    return public.take(np.lexsort([public.column(names[a]) for a in central]))


def _records(
    public: Dataset,
    levels: Sequence[Level],
    lineage: Sequence[np.ndarray],
    priors: Sequence[Prior | None],
    totals: np.ndarray,
    generator: np.random.Generator,
    sampling: Sampling,
) -> Synthesis:
    """Sample the records of each last-level group, in the number of its noisy total, and fill its group attributes."""
    rows, groups = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=int)]
    for group, prior in enumerate(priors):
        count = round(max(float(totals[group]), 0.0)) if prior is not None else 0
        if prior is not None and count:
            if sampling == "independent":
                drawn = generator.choice(len(prior.rows), count, p=prior.weights / prior.weights.sum())
            else:
                drawn = systematic_sample(prior.weights, count, generator)
            rows.append(prior.rows[drawn])
            groups.append(np.full(count, group))
    columns = dict(zip(public.domain, (column[np.concatenate(rows)] for column in public.columns), strict=True))
    place = np.concatenate(groups)
    for level, parents in zip(reversed(levels), reversed(lineage), strict=True):
        shape = public.domain.project(level.by).shape
        if level.by:
            columns |= dict(zip(level.by, np.unravel_index(place, shape), strict=True))
        place = parents[place]
    data = Dataset.from_codes([columns[name] for name in public.domain], public.domain)
    return Synthesis(data, read_only(totals))
