"""Hierarchical synthesis with a public prior (IDE Algorithm 2): by state, then by PUMA and year, or any other groups.

Each level of the hierarchy divides the records into groups that do not overlap, so one charge to the curator measures
all of them: an individual changes the level's table of one clique by Delta records in all, however they are spread.
From the top down each group's distribution is its parent's, updated by the group's own noisy answers (PRIOR_UPDATE).

`measure_hierarchy` is all that touches private data; `synthesize_hierarchy` works on what it returned and can be run
again at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from pgmest._base.deprecation import Lookup, renamed_names
from pgmest._base.errors import ArgumentError, DomainError
from pgmest._base.threads import get_threads
from pgmest.data.codes import read_only
from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.priors.ide.groups import AnswersByGroup, GroupUpdate, Prior
from pgmest.priors.ide.sweeps import Order
from pgmest.priors.ide.update import check_form, prior_fractions
from pgmest.priors.ide.workload import normalized_information
from pgmest.sampling.systematic import systematic_sample
from pgmest.tables.domain import Clique, Domain


class MeasuringCurator(Protocol):
    """What is asked of a privacy curator: noisy marginals of the private records, each paid for."""

    domain: Domain
    remaining: Any
    """The budget left; a product with a share in [0, 1] is a budget, too."""

    def measure(self, clique: Clique, spend: Any, /, *, label: str = "") -> LinearMeasurement: ...


@dataclass(frozen=True)
class Level:
    """One level of groups, and what is measured about each of them.

    Attributes:
        by: the attributes whose values name a group.
        cliques: the marginals measured in each group, of other attributes; none for a level that only pools.
        share: the part of the budget spent on the level; a level without cliques may have 0, and then is not measured.
        count_share: the part of this that goes to the groups' numbers of records; the cliques share the rest equally.
        parents: for each group, row-major over `by`, the position of its group at the level above, or -1 for a group
            that does not exist. None where `by` contains the attributes of the level above.
    """

    by: Clique
    cliques: tuple[Clique, ...] = ()
    share: float = 0.0
    count_share: float = 0.2
    parents: np.ndarray | None = None


@dataclass(frozen=True)
class LevelAnswers:
    """The noisy answers of a level: its groups' numbers of records, and tables of (group attributes, clique)."""

    level: Level
    counts: LinearMeasurement | None
    marginals: tuple[LinearMeasurement, ...]


@dataclass(frozen=True)
class Synthesis:
    """Synthetic records with their groups' attributes, and the noisy number of records of each last-level group."""

    data: Dataset
    totals: np.ndarray


def measure_hierarchy(curator: MeasuringCurator, levels: Sequence[Level]) -> list[LevelAnswers]:
    """All answers that a hierarchical synthesis needs, paid for by the curator's remaining budget.

    Raises:
        ArgumentError: the levels' shares are not as `Level` says, or sum to more than 1.
        UnknownAttributeError, DuplicateAttributeError: a level's attributes.
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
    """Raise what is wrong with the levels before any budget is spent; see `measure_hierarchy`."""
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
                "parents", None, f"an array: {level.by} does not contain {above.by}, so groups do not tell their parent"
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
    threads: int | None = None,
    seed: int | np.random.Generator | None = None,
    progress: bool = False,
) -> Synthesis:
    """IDE Algorithm 2 on noisy answers: synthetic records, group by group, from a public table.

    To the letter Algorithm 2 is two levels, state and then PUMA and year, each with `Level(share=0.5, count_share=0.5)`
    (four equal parts of the budget), and here `prior_weight=0, max_support=None, order="random", refill=True,
    max_sweeps=2, tolerance=0`: the contest's T was twice the number of marginals.

    Args:
        public: records over the same attributes; those that name groups say which group a public record is of.
        measured: what `measure_hierarchy` returned.
        prior_weight: as in `update_prior`; 0 for the paper's Algorithm 1.
        pooling: how many public records the parent's distribution counts for where a group has public records of its
            own: its prior is the mixture of both. inf takes the parent's alone, as in the paper.
        max_support: the most public records that the distribution of a last-level group is spread over; more are
            thinned to a systematic sample of equal weights. None keeps all.
        max_sweeps, tolerance, order, refill: as in `update_prior`.
        threads: groups at a time; None for `pgmest.get_threads()`. The result does not depend on it.
        seed: of updates and sampling.
        progress: show a bar on a terminal.

    Raises:
        ArgumentError: an argument out of range.
        DomainError: the public table has other attributes than the measurements were made for.
        DataError: the public table has no records of positive weight.
    """
    if not pooling > 0:
        raise ArgumentError.of("pooling", pooling, "a positive number of records, or inf")
    check_form(prior_weight, order, refill)
    levels = [answers.level for answers in measured]
    check_levels(public.domain, levels)
    for answers in measured:
        for measurement in answers.marginals:
            measurement.check(public.domain)
    grouping = {name for level in levels for name in level.by}
    public = _alike_together(public, grouping)
    generator = np.random.default_rng(seed)
    priors: list[Prior | None] = [Prior(np.arange(public.records, dtype=np.int32), prior_fractions(public))]
    totals, parents = np.zeros(1), np.zeros(1, dtype=int)
    lineage: list[np.ndarray] = []
    for position, answers in enumerate(measured):
        above = levels[position - 1] if position else None
        parents = _parents(public.domain, answers.level, above)
        grouped = AnswersByGroup.of(public, answers.level.by, answers.counts, answers.marginals)
        last = position == len(measured) - 1
        update = GroupUpdate(prior_weight, pooling, max_support if last else None, max_sweeps, tolerance, order, refill)
        priors = _update_groups(grouped, priors, parents, update, generator, threads, progress)
        totals = grouped.totals
        lineage.append(parents)
    return _records(public, levels, lineage, priors, np.where(parents >= 0, totals, 0.0), generator)


def _update_groups(
    grouped: AnswersByGroup,
    priors: Sequence[Prior | None],
    parents: np.ndarray,
    update: GroupUpdate,
    generator: np.random.Generator,
    threads: int | None,
    progress: bool,
) -> list[Prior | None]:
    """The distribution of each group, several at a time; None for groups that do not exist."""
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
        except BaseException:  # Ctrl-C: the groups not begun are dropped
            pool.shutdown(cancel_futures=True)
            raise


def _parents(domain: Domain, level: Level, above: Level | None) -> np.ndarray:
    """For each group the position of the group above it, -1 where it does not exist; shape (groups,)."""
    if level.parents is not None:
        return np.asarray(level.parents, dtype=int)
    groups = domain.size(level.by)
    if above is None or not above.by:
        return np.zeros(groups, dtype=int)
    values = dict(zip(level.by, np.unravel_index(np.arange(groups), domain.project(level.by).shape), strict=True))
    return np.ravel_multi_index([values[name] for name in above.by], domain.project(above.by).shape)


def _alike_together(public: Dataset, grouping: set[str]) -> Dataset:
    """The records sorted by similarity: a systematic sample of them is then a stratified one."""
    names = [name for name in public.domain if name not in grouping]
    if not names:
        raise DomainError("every attribute names groups; the public table needs others, which are to be synthesized.")
    central = np.argsort(normalized_information(public, names).sum(axis=0))
    return public.take(np.lexsort([public.column(names[a]) for a in central]))


def _records(
    public: Dataset,
    levels: Sequence[Level],
    lineage: Sequence[np.ndarray],
    priors: Sequence[Prior | None],
    totals: np.ndarray,
    generator: np.random.Generator,
) -> Synthesis:
    """As many records of each last-level group as its noisy total says, with the attributes of all its levels."""
    rows, groups = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=int)]
    for group, prior in enumerate(priors):
        count = round(max(float(totals[group]), 0.0)) if prior is not None else 0
        if prior is not None and count:
            rows.append(prior.rows[systematic_sample(prior.weights, count, generator)])
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


__getattr__: Lookup = renamed_names(__name__, {"synthesise_hierarchy": "pgmest.priors.synthesize_hierarchy"})
