"""The reasons for which a run of a solver ends, each with a sentence for the report and a remedy."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """The reason for which a run ended. Members are strings, so JSON can hold them.

    >>> Status("interrupted") is Status.INTERRUPTED
    True
    >>> Status.INTERRUPTED.sentence
    'interrupted'

    Attributes:
        sentence: a description, to be completed by `str.format` with `max_iterations` and the solver's `detail`.
        remedy: the change that leads to an estimate within the tolerance.
    """

    sentence: str
    remedy: str

    def __new__(cls, value: str, sentence: str, remedy: str = "") -> Status:
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        member.remedy = remedy
        return member

    CONVERGED = "converged", "the loss is proven to be within the tolerance of its optimum"
    EARLY = "stopped_early", "stopped on purpose {detail}"
    ITERATIONS = (
        "max_iterations",
        "max_iterations={max_iterations:,} reached",
        "Raise max_iterations or the tolerance for a certified answer.",
    )
    CALLBACK = "callback", "stopped by the callback", "Let it run longer, or raise the tolerance."
    TIME = "time_limit", "stopped by the limit of time", "Let it run longer, or raise the tolerance."
    INTERRUPTED = "interrupted", "interrupted", "Let it run longer, or raise the tolerance."
    PRECISION = (
        "precision",
        "the steps have become too small to change the loss in floating point",
        "Raise the tolerance, or try another method.",
    )
    LINEAR = (
        "linear",
        "the loss has a Lipschitz constant of 0, so that no step size follows from it",
        "Use method='auto'.",
    )
    IMPOSSIBLE = (
        "impossible",
        "the zeros of the marginals, taken together, leave no possible record",
        "Use method='auto', which need not match every marginal.",
    )
    FACTS = (
        "facts",
        "the exact answers are not met to 1e-9 of the total",
        "No distribution may meet them: pgmest.models.bounds.check_facts names contradictions, and with a support as "
        "prior every exact answer needs records that give it.",
    )
    TOTAL = (
        "total",
        "the best number of records still changes from round to round",
        "Give the total, or raise the tolerance.",
    )

    @property
    def converged(self) -> bool:
        """True if the solver reached its goal: a proven optimum, or the point at which it stops on purpose."""
        return self in (Status.CONVERGED, Status.EARLY)

    @property
    def cut_short(self) -> bool:
        """True if the limit of iterations or of time, the callback or Ctrl-C ended the run."""
        return self in (Status.ITERATIONS, Status.CALLBACK, Status.TIME, Status.INTERRUPTED)
