"""What a run says about its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pgmest._base.html import html_text
from pgmest.solvers.status import Status


@dataclass(frozen=True)
class EstimationReport:
    """How an estimate was found and how good it is.

    Attributes:
        method: the solver that ran.
        loss: the loss at the model's marginals; with a prior_weight, the penalty included.
        gap: the duality gap, a proven upper bound on how far `loss` is above the optimum, in the units of the loss.
        relative_gap: the gap as a share of the larger of the optimum (a proven lower bound on its absolute value) and
            the noise floor, what the loss would be on average at the truth; what `tolerance` is compared with.
        iterations: steps of the solver; with total="fit", of all its solves together.
        oracle_calls: calls of the marginal oracle, those for certificates included.
        seconds: wall-clock time.
        status: how the run ended.
        message: short of convergence, what stopped the solver and what to change; for "mirror_flow" at which time it
            stopped, and how far the loss is above the optimum at most.
    """

    method: str
    loss: float
    gap: float
    relative_gap: float
    iterations: int
    oracle_calls: int
    seconds: float
    status: Status
    message: str = ""

    @property
    def converged(self) -> bool:
        """Whether the solver got where it goes: to an optimum within the tolerance, or, for "mirror_flow", to the time
        at which it stops on purpose. Only the first makes `relative_gap` small."""
        return self.status.converged

    def to_json(self) -> dict[str, Any]:
        """All fields and `converged`, as JSON knows them."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "status": self.status.value, "converged": self.converged}

    @classmethod
    def from_json(cls, values: Any) -> EstimationReport:
        """What `to_json` wrote, also before reports had a status.

        Raises:
            ValueError: these are no such values; says which.
        """
        names = {field.name: str(field.type) for field in fields(cls) if field.name != "status"}
        known = {*names, "converged"}
        if not isinstance(values, Mapping) or values.keys() not in (known, known | {"status"}):
            raise ValueError("its report has other fields than a report")
        kinds = {"str": str, "float": int | float, "int": int}
        for name, kind in names.items():
            if not isinstance(values[name], kinds[kind]) or isinstance(values[name], bool):
                raise ValueError(f"its report has {name}={values[name]!r}")
        return cls(status=_status(values), **{name: values[name] for name in names})

    def _repr_html_(self) -> str:
        return html_text(self)

    def __str__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"{state}: {self.method}, {self.iterations:,} iterations, {self.oracle_calls:,} oracle calls, "
            f"{self.seconds:.3g} s\n"
            f"loss {self.loss:,.6g}, proven within {self.gap:,.4g} of the optimum "
            f"(relative gap {self.relative_gap:.2g})" + (f"\n{self.message}" if self.message else "")
        )


def _status(values: Mapping[str, Any]) -> Status:
    converged, name = values["converged"], values.get("status")
    if not isinstance(converged, bool):
        raise ValueError(f"its report has converged={converged!r}")
    if name is None and "status" not in values:
        return Status.of_message(converged, values["message"])
    if name not in [status.value for status in Status] or Status(name).converged != converged:
        raise ValueError(f"its report has status={name!r} and converged={converged!r}")
    return Status(name)


@dataclass(frozen=True)
class ApproximateReport(EstimationReport):
    """How an approximate estimate was found.

    The loss is that of pseudo-marginals: tables of the local polytope, which need not be marginals of any distribution.
    `gap` bounds how far it is above the least one there; that least loss is at most the exact optimum.

    Attributes:
        oracle: "convex" or "loopy".
        inconsistency: the largest L1 distance, of tables that sum to 1, between what two tables say of attributes that
            they share.
    """

    oracle: str = "convex"
    inconsistency: float = 0.0

    @classmethod
    def of(cls, report: EstimationReport, oracle: str, inconsistency: float) -> ApproximateReport:
        """A solver's report, with how consistent the oracle's last result is."""
        values = {field.name: getattr(report, field.name) for field in fields(report)}
        return cls(**values, oracle=oracle, inconsistency=inconsistency)

    def __str__(self) -> str:
        lines = super().__str__().replace("of the optimum (", "of the relaxed optimum (")
        return (
            f"{lines}\napproximate ({self.oracle} region graph): overlapping tables disagree by at most "
            f"{self.inconsistency:.2g} (L1)"
        )
