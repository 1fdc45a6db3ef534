"""Private records: what a curator holds, and what is public of it.

`Curator` makes requests. This module has the account that pays for them, looks at the records and keeps the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self
from weakref import WeakKeyDictionary

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DataError
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.selection import CellMerging, PaidSelection, latest
from pgmest.privacy.account import Account
from pgmest.privacy.budgets import ApproxDP, Budget
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.journal import Journal, digest
from pgmest.privacy.ledger import Entry, Ledger
from pgmest.privacy.ledger_runs import LedgerRun
from pgmest.privacy.neighbors import Neighbors, Replace, neighbors_of
from pgmest.privacy.noise import make_backend
from pgmest.privacy.one_process import OneProcess
from pgmest.privacy.relations import relation_of
from pgmest.privacy.requests import Measurement, Question, Request
from pgmest.privacy.tracebacks import without_frames
from pgmest.privacy.unprotected import Invariant, Invariants, check_names, named_tables, public_json
from pgmest.queries.levels import without_levels
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


class RecordTransform(Protocol):
    """The interface of a transform to a curator (`pgmest.transforms`). A transform recodes each record separately."""

    def encode(self, data: Dataset) -> Dataset: ...

    def zeros(self, rules: Iterable[Rule]) -> tuple[Rule, ...]: ...

    def pull_back(self, measurement: LinearMeasurement) -> LinearMeasurement | None: ...

    def merging(self) -> CellMerging | None: ...

    def exactly(self, answers: LinearMeasurement, /) -> LinearMeasurement | None: ...


class Records(OneProcess):
    """Private records and the account that is charged before they are looked at. `Curator` documents the arguments."""

    def __init__(
        self,
        data: Dataset,
        budget: Budget,
        *,
        neighbors: Neighbors | None = None,
        backend: str = "opendp",
        seed: int | np.random.Generator | None = None,
        journal: str | Path | Journal | None = None,
        ledger: str | Path | DatasetLedger | LedgerRun | None = None,
        label: str = "a run",
        on_charge: Callable[[Self], object] | None = None,
        structural_zeros: Iterable[Rule] = (),
        invariants: Iterable[Invariant] = (),
        threshold_delta: float = 0.0,
        promise: ApproxDP | None = None,
    ):
        if not isinstance(data, Dataset):
            raise ArgumentError.of("data", type(data).__name__, "a pgmest.Dataset; see Dataset.from_frame and .load")
        if data.weights is not None:
            raise DataError(
                "the records have weights, so one individual may count for any number of records and no sensitivity "
                "holds. Let each record carry its weight as an attribute with a public bound (`weight:` of a schema), "
                "or drop the weights."
            )
        self._grain_of = getattr(data, "grain_of", None)
        self._data = data.remembering()  # mechanisms ask for the same marginals in every round
        self._backend = make_backend(backend, seed)
        self._on_charge = on_charge
        self._measurements: list[LinearMeasurement] = []
        self._selections: list[PaidSelection] = []
        self._memo: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # exact scores, for this curator only
        self._outer: tuple[Self, RecordTransform] | None = None
        self.structural_zeros: tuple[Rule, ...] = tuple(structural_zeros)
        """The combinations that cannot occur, which are public."""
        self.stopped = False
        """A flag that makes the next request raise KeyboardInterrupt, unpaid; a signal handler may set it."""
        if not (neighbors is None or isinstance(neighbors, Neighbors)):
            raise ArgumentError.of("neighbors", neighbors, "AddRemove(...) or Replace(...)")
        self.neighbors: Neighbors = neighbors_of(data, neighbors)
        listed = tuple(invariants)
        if self.public_total == 0:
            why = ", which goes with invariants that are read from the records," if named_tables(listed) else ""
            raise ArgumentError(
                f"under Replace{why} the number of records is public, and 0: there is nothing to measure."
            )
        if named_tables(listed) and not isinstance(self.neighbors, Replace):
            raise ArgumentError.of(
                "neighbors", self.neighbors, "Replace(...): neighbors agree on the tables that are read exactly"
            )
        check_names(listed, data.domain)
        self.ledger: Ledger = Ledger(budget, threshold_delta, promise)
        self._spent_before: Budget = self.ledger.total
        coding = getattr(data, "coding", None)
        header = {"coding": None if coding is None else digest(dict(coding)), "domain": list(data.domain.items())}
        if listed:
            header["invariants"] = list(map(public_json, listed))
        relation = relation_of(self.neighbors, data, named_tables(listed))
        run = relation, backend, header, self._fingerprint, label
        self._account = Account(self.ledger, journal, ledger, *run)
        try:
            with without_frames():
                self._invariants = Invariants(listed, self._data)
        except BaseException:
            self.close()
            raise
        self.ledger.unprotected = self._invariants.unprotected

    @property
    def domain(self) -> Domain:
        """The attributes, which are public."""
        return self._data.domain

    def _question(self, clique: Iterable[str] | str, query: Any) -> Question:
        """Return a checked question, on attributes in place of levels; counts of families are multiples of less
        than 1."""
        asked, attributes = without_levels(self.domain, query, clique if isinstance(clique, str) else tuple(clique))
        names = self.domain.clique(() if attributes is None else attributes)
        grain = 1.0 if self._grain_of is None else self._grain_of(names)
        return Question.of(self.domain, names, asked, grain)

    @property
    def budget(self) -> Budget:
        """The whole budget; for a recoded view (`through`) what was left when it was made."""
        return self.ledger.budget - self._spent_before

    @property
    def spent(self) -> Budget:
        """The part of the budget that was spent."""
        return self.ledger.total - self._spent_before

    @property
    def remaining(self) -> Budget:
        """The part of the budget that is left."""
        return self.ledger.remaining

    @property
    def measurements(self) -> tuple[LinearMeasurement, ...]:
        """All measurements so far, in order."""
        return tuple(self._measurements)

    @property
    def selections(self) -> tuple[PaidSelection, ...]:
        """The latest selections among marginals, with the chosen and the other candidates: all public."""
        return tuple(self._selections)

    @property
    def public_total(self) -> int | None:
        """The number of records if the neighboring relation makes it public (`Replace`), else None."""
        return self._data.records if isinstance(self.neighbors, Replace) else None

    @property
    def invariants(self) -> tuple[LinearMeasurement, ...]:
        """The answers that are exact and not protected: given as public, or read from the records."""
        return self._invariants.measurements

    def exactly(self, asked: LinearMeasurement) -> LinearMeasurement | None:
        """Return the exact answers to a question that invariants answer; None if they do not."""
        answers = self._invariants.answers(asked, self.domain)
        return None if answers is None else LinearMeasurement.exact(answers, asked.clique, asked.query)

    @property
    def fixed_attributes(self) -> frozenset[str]:
        """The attributes of the invariants, whose values no recoding may merge."""
        return self._invariants.attributes

    @property
    def constrained_cliques(self) -> list[Clique]:
        """The attributes of each structural zero and of each invariant, for which a model needs a table."""
        rules = [self.domain.clique(rule.attributes) for rule in self.structural_zeros]
        return [*rules, *(one.clique for one in self.invariants)]

    @property
    def fixed_total(self) -> int | None:
        """The number of records if it is public or an invariant, else None; sensitivities follow from `neighbors`."""
        return self._invariants.total if self.public_total is None else self.public_total

    def known(self, clique: Iterable[str] | str) -> Factor | None:
        """Return the true marginal of a clique, in counts, if an invariant determines it; None otherwise."""
        return self._invariants.table(self.domain.clique(clique), self.domain)

    def unknown(self, cliques: Iterable[Clique]) -> list[Clique]:
        """Return the cliques whose marginals no invariant determines."""
        return [clique for clique in cliques if self.known(clique) is None]

    @property
    def _outermost(self) -> Self:
        return self if self._outer is None else self._outer[0]._outermost

    def through(self, transform: RecordTransform) -> Self:
        """Return a curator of the recoded records with the same ledger, whose budget is what is left of this one's.

        A transform recodes each record separately, so neighbors stay neighbors. The measurements of the new curator
        also appear among this curator's measurements, in terms of the attributes before the transform, unless the query
        in these terms is too large to be materialized (`Transform.pull_back`).

        Raises:
            DomainError: if the transform is of another domain.
        """
        self._check_process()
        recoded = object.__new__(type(self))  # a view that shares the ledger, its lock and the process check
        recoded.__dict__.update(self.__dict__)
        with without_frames():
            encoded = transform.encode(self._data)
            recoded._data, recoded._grain_of = encoded.remembering(), getattr(encoded, "grain_of", None)
        exact = [transform.exactly(one) for one in self.invariants]
        if None in exact:
            raise ArgumentError.of("transform", transform, "one that recodes no attribute of invariants")
        recoded._invariants = Invariants(filter(None, exact), recoded._data)
        recoded.structural_zeros = transform.zeros(self.structural_zeros)
        recoded._spent_before = self.ledger.total
        recoded._measurements = []
        recoded._selections = []
        recoded._memo = WeakKeyDictionary()
        recoded._outer = self, transform
        return recoded

    def close(self) -> None:
        """Close the journal and give back what was not spent (`Account.close`)."""
        self._account.close()

    @property
    def ended(self) -> str | None:
        """The time at which the run in the journal had ended (`Account.ended`)."""
        return self._account.ended

    def end(self) -> None:
        """Write to the journal that the run has ended (`Account.end`)."""
        self._account.end()

    # -- payment and answers ----------------------------------------------------------------------------------------

    def _fingerprint(self, key: bytes) -> str:
        """Return the keyed digest by which the journal recognizes the records; it is not released."""
        with without_frames():
            return self._data.fingerprint(key)

    def _affordable(self, spend: Any, label: str) -> Budget:
        self._check_process()
        if self._outermost.stopped:
            raise KeyboardInterrupt
        return self.ledger.affordable(spend, label)

    def _measured(self, request: Measurement, entry: Entry | None = None) -> LinearMeasurement:
        values, asked = self._pay(request, entry), request.asked
        measurement = LinearMeasurement(values, asked.clique, asked.stddev, asked.query, asked.noise)
        self._keep(measurement)
        return measurement

    def _keep(self, measurement: LinearMeasurement) -> None:
        self._measurements.append(measurement)
        if self._outer is not None:
            outer, transform = self._outer
            before = transform.pull_back(measurement)
            if before is not None:
                outer._keep(before)

    def _keep_selection(self, selection: PaidSelection | None) -> None:
        if selection is None:
            return
        self._selections = latest([*self._selections, selection])
        if self._outer is not None:
            outer, transform = self._outer
            merging = transform.merging()
            recodings = (*selection.recodings, merging)
            outer._keep_selection(None if merging is None else replace(selection, recodings=recodings))

    def _pay(self, request: Request, entry: Entry | None = None) -> Any:
        """Charge for a request and answer it.

        Args:
            request: the request.
            entry: its entry for the ledger, if it was checked already.
        """
        charge = request.entry(self._backend) if entry is None else entry
        return self._account.pay(charge, request.details, partial(self._look, request, charge), self._charged)

    def _look(self, request: Request, entry: Entry) -> Any:
        """Look at the records; no other place does.

        The frames of an exception that leaves here are dropped: their variables hold exact counts and scores, which
        whatever records the variables of a traceback would write down.
        """
        with without_frames():
            return request.answer(self._data, self._backend, len(self.ledger))

    def _charged(self) -> None:
        if self._on_charge is not None:
            self._on_charge(self._outermost)
