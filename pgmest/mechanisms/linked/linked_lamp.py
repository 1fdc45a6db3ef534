"""LinkedLAMP: the mechanism for linked tables, its parameters and its fit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.fingerprints import linked_fingerprint
from pgmest.data.linked import LinkedDataset
from pgmest.data.smallest_family import FamilyLimits, contradiction
from pgmest.errors import ArgumentError, DataError
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.family_dataset import FamilyDataset
from pgmest.mechanisms.linked.family_lamp import FamilyLAMP
from pgmest.mechanisms.linked.one_code import with_constants, without_constants
from pgmest.mechanisms.linked.result import LinkedResult
from pgmest.mechanisms.linked.rules import FamilyRules
from pgmest.mechanisms.linked.trees import family_table, put_together
from pgmest.mechanisms.linked.workload import check_size
from pgmest.mechanisms.linked.zeros import family_zeros
from pgmest.mechanisms.notices import warn_of_ended_run
from pgmest.mechanisms.result import OwnerOnly
from pgmest.mechanisms.run_arguments import check_run, generators
from pgmest.privacy.account import Account
from pgmest.privacy.budgets import DEFAULT_DELTA, ApproxDP
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.ledger import Ledger
from pgmest.privacy.linked_unit import LinkedUnit
from pgmest.privacy.relations import Relation


@dataclass(frozen=True, kw_only=True)
class LinkedLAMP:
    r"""LAMP on linked tables: persons in households, visits of patients.

    What is protected is a unit: a row of the root table with everything that hangs on it. Neighbors differ in one unit
    more or less, with at most `at_most` rows of each child table. If the unit of the linked tables is a table on which
    nothing hangs, such as persons, neighbors differ in one row of it, added, removed or changed, but not moved to
    another parent row; the noise is sqrt(2) times as large. `LinkedUnit` is the statement from which noise follows.

    1. **Tables.** Measured are the tables of pairs of attributes of a parent and its number of children; of a parent
       and a child; of a child; and of two children of one parent, in any order, or of a child and the next one if the
       children are in order. A unit adds a vector of at most Euclidean length 1 to each of the tables with children's
       attributes, whatever its number of children: its counts divided by their length, or by a larger number where
       noise is small (`Families`). Further tables say in how many families 1, 2, or 3 and more children have each code
       (`MeasuredNumbers`). Before that, where more than 16 rows are allowed, limits are found above which numbers of
       rows are too rare to tell from noise, and larger families are cut to them (`SizeLimits`).
    2. **Rounds.** Those of `LAMP` decide which tables are measured, how finely, and with how much noise. Between
       rounds, families are made that fit all answers; they say what the measured lengths mean for averages over
       children.
    3. **Families.** A graphical model gives parents with a number of children and one child each; further children are
       those of families of the same size. Then children change places and codes change until the families meet all
       tables. What the rules of the linked tables state holds in every family.

    A tree of several child tables is made edge by edge. The budget is divided equally, and a table further down counts
    as many rows of a unit as the limits allow. The costs of the edges are added up in rho: (epsilon, delta) becomes the
    largest rho that implies it (`Rho.of`), of a single edge the largest mu.

    >>> import numpy as np
    >>> from pgmest.data.dataset import Dataset
    >>> from pgmest.data.linked import LinkedDataset, LinkedTable
    >>> households = LinkedTable(Dataset.from_codes(np.arange(900)[:, None] % 3, {"region": 3}))
    >>> persons = Dataset.from_codes(np.arange(1800)[:, None] % 5, {"age": 5})
    >>> linked = LinkedDataset(
    ...     {"households": households, "persons": LinkedTable(persons, "households", np.arange(1800) // 2, 8)}
    ... )
    >>> result = LinkedLAMP(epsilon=1.0, backend="simulation").fit(linked, seed=0, progress=False)
    >>> sorted(result.sample(seed=0).tables)
    ['households', 'persons']

    Args:
        epsilon, delta, rho, backend: the budget and the source of noise, as for `LAMP`.
        max_megabytes: the largest size of the junction tree's tables.

    Raises:
        ArgumentError: no budget is stated, or one that is not valid.
    """

    epsilon: float | None = None
    delta: float | None = DEFAULT_DELTA
    rho: float | None = None
    backend: str = "opendp"
    max_megabytes: float = 8.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", self._budgeted().delta)

    def fit(
        self,
        linked: LinkedDataset,
        seed: int | np.random.Generator | None = None,
        *,
        progress: bool | Callable[..., object] | None = None,
        checkpoint: str | Path | None = None,
        time_limit: float | None = None,
        ledger: str | Path | DatasetLedger | None = None,
    ) -> LinkedResult:
        """Spend the budget on linked tables, and return synthetic ones.

        Args:
            linked: the private linked tables.
            seed, progress, checkpoint, time_limit, ledger: as for `LAMP.fit`. Of several child tables each has its part
                of the time; the ledger of the dataset reserves the budget of all of them at once.

        Raises:
            ArgumentError: there is no child table, something hangs on the unit, which is not the root, or the tables of
                pairs of attributes have too many cells.
            DataError: no family can keep the rules; or as for `LAMP.fit`.
            JournalError, BudgetExceeded, LedgerError: as for `LAMP.fit`.
        """
        if not isinstance(linked, LinkedDataset):
            raise ArgumentError.of("linked", type(linked).__name__, "a LinkedDataset")
        unit = _unit_of(linked)
        children = linked.order[1:]
        if not children:
            raise ArgumentError.of("linked", linked, "tables with a parent: LAMP is for a single table")
        whole, linked = linked, without_constants(linked)
        _check(linked)
        check_run(Dataset.from_codes([], {}), seed, progress, checkpoint, time_limit)
        started, results = time.perf_counter(), {}
        _, choices = generators(seed)
        account = self._opened(linked, checkpoint, ledger)
        journal = account.journal
        try:
            warn_of_ended_run(checkpoint, account.ended)
            for child in children:
                data = linked
                for above in linked.path(child)[1:-1] if unit.is_root else ():
                    data = data.at_most(above, results[above].model.layout.at_most)  # the limit that its run found
                mechanism, families_of_child = self._run_on(data, child, len(children))
                results[child] = mechanism.fit(
                    families_of_child,
                    seed=seed,
                    progress=progress,
                    checkpoint=None if journal is None else journal.about(child),
                    time_limit=None if time_limit is None else time_limit / len(children),
                    ledger=account.run,
                )
            if journal is not None and not any(
                one.interrupted or "time_limit" in one.details for one in results.values()
            ):
                account.end()
        finally:
            account.close()
        families: dict[str, Families] = {child: result.model.families for child, result in results.items()}
        details = {child: result.details for child, result in results.items()}
        model = with_constants(put_together(families, linked, choices), whole)
        runs = {child: result.model for child, result in results.items()}
        return LinkedResult(model, runs, results, self, details, OwnerOnly(time.perf_counter() - started))

    @property
    def promise(self) -> ApproxDP | None:
        """The stated budget as (epsilon, delta)-DP; None if it was stated as rho."""
        return None if self.epsilon is None else ApproxDP(self.epsilon, self.delta or 0.0)

    def _opened(
        self, linked: LinkedDataset, checkpoint: str | Path | None, ledger: str | Path | DatasetLedger | None
    ) -> Account:
        """Return the account of the run, all of whose budget is reserved on the ledger of the dataset."""
        mechanism = self._budgeted()
        budget = (mechanism if len(linked.order) == 2 else mechanism.with_share(1)).budget()
        relation = Relation(_unit_of(linked).neighbors(1), linked.unit)
        tables = [
            [name, table.parent, table.at_most and int(table.at_most), list(table.domain.items())]
            for name, table in linked.tables.items()
        ]
        header, fingerprint = {"domain": tables}, partial(linked_fingerprint, linked)
        run = relation, self.backend, header, fingerprint, type(self).__name__
        return Account(Ledger(budget), checkpoint, ledger, *run)

    def _budgeted(self, **more: Any) -> Any:
        from pgmest.mechanisms.lamp.lamp import LAMP

        budget = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        options = {"backend": self.backend, "max_megabytes": self.max_megabytes}
        return (FamilyLAMP if more else LAMP)(**budget, **options, **more)

    def _run_on(self, linked: LinkedDataset, child: str, runs: int) -> tuple[FamilyLAMP, FamilyDataset]:
        """Return the run on a child table with its share of the budget, and its data.

        A row of the parent table is a family. A unit has at most `linked.most(parent)` of them, and moves each answer
        by the sum of what they add.
        """
        families = family_table(linked, child)
        layout = families.layout
        _, smallest = FamilyLimits.of(linked, child).smallest
        rules = FamilyRules.of(linked.rules, layout, family_zeros(linked, layout), smallest)
        mechanism = self._budgeted(layout=layout, rules=rules)
        most = max(1, linked.most(layout.names[0]))
        mechanism = mechanism.with_neighbors(_unit_of(linked).neighbors(most))
        mechanism = mechanism if runs == 1 else mechanism.with_share(1 / runs)
        return mechanism, FamilyDataset(families, most, linked.unit)


def _unit_of(linked: LinkedDataset) -> LinkedUnit:
    return LinkedUnit(linked.unit or linked.root, {name: table.parent for name, table in linked.tables.items()})


def _check(linked: LinkedDataset) -> None:
    """Raise the errors of all runs that do not depend on records, before any run spends its part of the budget."""
    empty = linked.take([])
    for child in linked.order[1:]:
        layout = family_table(empty, child).layout
        check_size(layout)
        FamilyRules.of(linked.rules, layout)
        if wrong := contradiction(FamilyLimits.of(empty, child), *layout.names):
            raise DataError(wrong)
