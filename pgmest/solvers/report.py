"""The report of a run: how the estimate was found and how close it is to the optimum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeAlias

from pgmest._base.html import html_text
from pgmest.solvers.status import Status

MaybeNone: TypeAlias = Any
"""None in rare cases: the type of a report that only a model without an estimation lacks, so that no caller must check
for None what `estimate` returns (named as in typeshed)."""


@dataclass(frozen=True)
class EstimationReport:
    """The result of a run of a solver: its loss, its certified gap and its cost.

    Attributes:
        method: the name of the solver.
        loss: the loss at the model's marginals, with a prior_weight including the penalty.
        gap: the duality gap, a proven upper bound on `loss` minus the optimum, in the units of the loss.
        relative_gap: the gap as a share of the larger of two numbers: the optimum (a proven lower bound on its absolute
            value) and the noise floor, which is the expected loss at the true marginals. `tolerance` limits this share.
        iterations: the number of steps of the solver; with total="fit", of all its rounds together.
        oracle_calls: the number of calls of the marginal oracle, including those for certificates.
        seconds: the wall-clock time; None in a file or a page, which may be published.
        status: the reason for which the run ended.
        message: if the run did not converge, why it stopped and what to change; for "mirror_flow", the time at which it
            stopped and the gap.
    """

    method: str
    loss: float
    gap: float
    relative_gap: float
    iterations: int
    oracle_calls: int
    seconds: float | None
    status: Status
    message: str = ""

    @property
    def converged(self) -> bool:
        """True if the solver reached its goal: an optimum within the tolerance, or, for "mirror_flow", its stopping
        time. `relative_gap` is small only in the first case."""
        return self.status.converged

    def published(self) -> Self:
        """Return the report without the time, which depends on the machine and on whatever else it was doing."""
        return replace(self, seconds=None)

    def to_json(self) -> dict[str, Any]:
        """Return all fields and `converged` as JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "status": self.status.value, "converged": self.converged}

    @classmethod
    def from_json(cls, values: Any) -> EstimationReport:
        """Return the report that `to_json` has written.

        Raises:
            ValueError: a field is missing, unknown, or has a value that no report has.
        """
        names = {field.name: str(field.type) for field in fields(cls) if field.name != "status"}
        known = {*names, "status", "converged"}
        if not isinstance(values, Mapping) or values.keys() != known:
            raise ValueError("its report has other fields than a report")
        kinds = {"str": str, "float": int | float, "int": int, "float | None": int | float}
        for name, kind in names.items():
            if name == "seconds" and values[name] is None:
                continue
            if not isinstance(values[name], kinds[kind]) or isinstance(values[name], bool):
                raise ValueError(f"its report has {name}={values[name]!r}")
        return cls(status=_status(values), **{name: values[name] for name in names})

    def _repr_html_(self) -> str:
        return html_text(self)

    def __str__(self) -> str:
        state = "converged" if self.converged else "not converged"
        seconds = "" if self.seconds is None else f", {self.seconds:.3g} s"
        return (
            f"{state}: {self.method}, {self.iterations:,} iterations, {self.oracle_calls:,} oracle calls{seconds}\n"
            f"loss {self.loss:,.6g}, proven within {self.gap:,.4g} of the optimum "
            f"(relative gap {self.relative_gap:.2g})" + (f"\n{self.message}" if self.message else "")
        )


def _status(values: Mapping[str, Any]) -> Status:
    """Return the status; raise ValueError if it is unknown or contradicts `converged`."""
    converged, name = values["converged"], values["status"]
    if not isinstance(converged, bool):
        raise ValueError(f"its report has converged={converged!r}")
    if name not in [status.value for status in Status] or Status(name).converged != converged:
        raise ValueError(f"its report has status={name!r} and converged={converged!r}")
    return Status(name)


@dataclass(frozen=True)
class ApproximateReport(EstimationReport):
    """The report of an approximate estimate.

    The loss is that of pseudo-marginals: tables of the local polytope, which need not be marginals of any distribution.
    `gap` bounds the distance of the loss from its minimum over the local polytope, which is at most the exact optimum.

    Attributes:
        oracle: the name of the oracle, "convex".
        inconsistency: the largest L1 distance between the marginals of two tables on shared attributes, summing to 1.
    """

    oracle: str = "convex"
    inconsistency: float = 0.0

    @classmethod
    def of(cls, report: EstimationReport, inconsistency: float) -> ApproximateReport:
        """Return a solver's report with the inconsistency of the last result."""
        values = {field.name: getattr(report, field.name) for field in fields(report)}
        return cls(**values, inconsistency=inconsistency)

    def __str__(self) -> str:
        lines = super().__str__().replace("of the optimum (", "of the relaxed optimum (")
        return (
            f"{lines}\napproximate ({self.oracle} region graph): overlapping tables disagree by at most "
            f"{self.inconsistency:.2g} (L1)"
        )
