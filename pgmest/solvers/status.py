"""How a run of a solver ended: one enum, whose members carry the sentence that a person reads and what to change."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How a run ended; a string, so that it can be written to JSON as it is.

    >>> Status("interrupted") is Status.INTERRUPTED
    True
    >>> Status.INTERRUPTED.sentence
    'interrupted'

    Attributes:
        sentence: what happened, to be completed by `str.format` with `max_iterations` and the solver's own `detail`.
        remedy: what to change for an answer that is proven to be within the tolerance.
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
    TOTAL = (
        "total",
        "the best number of records still changes from round to round",
        "Give the total, or raise the tolerance.",
    )
    UNRECORDED = "unrecorded", "the file does not say why"

    @property
    def converged(self) -> bool:
        """Whether the solver got where it goes: to a proven optimum, or to the point at which it stops on purpose."""
        return self in (Status.CONVERGED, Status.EARLY)

    @property
    def cut_short(self) -> bool:
        """Whether the run was ended from outside: by its limit, its callback or Ctrl-C."""
        return self in (Status.ITERATIONS, Status.CALLBACK, Status.INTERRUPTED)

    @classmethod
    def of_message(cls, converged: bool, message: str) -> Status:
        """The status in a report that was written before reports had one."""
        for status in cls:
            if status.converged == converged and message and message.startswith(status.sentence.partition("{")[0]):
                return status
        return cls.CONVERGED if converged else cls.UNRECORDED
