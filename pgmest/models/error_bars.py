"""`interval`: the one front door to the intervals of a model's answers, whatever kind of model it is.

    kind        what it is made of                                                    file
    "errors"    drawn errors of one table: noise, shrinkage, unseen dependence        errors/
    "noise"     models estimated again from answers with fresh noise (a bootstrap)    uncertainty.py
    "bounds"    linear programs over all tables that are compatible with the answers  bounds/

"errors" needs a model of any kind that knows its noisy answers (`KnownErrors`), the others one that can be estimated
again (`Refittable`). The methods of models call this function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.published_answers import BETWEEN
from pgmest.models.intervals import KINDS, Interval, check_level
from pgmest.models.question import Question, as_clique
from pgmest.models.refittable import Refittable, estimated_from
from pgmest.queries import Kron
from pgmest.queries.matrices import Grouping, Identity
from pgmest.tables.evidence import check_given

if TYPE_CHECKING:
    from pgmest.models.base import ModelBase

Kind = Literal["auto", "errors", "noise", "bounds"]
About = Literal["table", "population"]
FEWEST_TABLES = 3
"""From this number of noisy tables on, these show how strong dependence beside published answers may be."""


def interval(
    model: ModelBase | Refittable,
    query: Any,
    clique: Iterable[str] | str | None = None,
    given: Mapping[str, int] | None = None,
    *,
    level: float = 0.95,
    kind: Kind = "auto",
    about: About = "table",
) -> Interval:
    """Return the ends of a model's answer, in counts; the guide on answers says which kind to publish.

    - "errors": the estimate plus and minus its standard error from noise, from shrinkage, and from dependence that was
      not measured, and no error of what exact answers determine; takes milliseconds, or seconds for a table of many
      cells of which a Kron tells few classes apart. Rounded and suppressed counts, and others between two ends, may be
      any whole numbers between these that agree with all sums.
    - "noise": the estimate plus and minus its standard error from the noise (`Model.uncertainty`).
    - "bounds": the least and the largest value in any table that is compatible with the measurements (`Model.bounds`).
    - "auto": "errors"; "bounds" about an attribute that was not measured at all. Beside answers that lie between two
      ends, or without any noise, "bounds" also about attributes that no answer has together. The `kind` and `basis` of
      the result say which.

    >>> import pgmest as pg
    >>> noisy = pg.LinearMeasurement([[20.3, 9.1], [31.2, 18.8], [8.9, 11.7]], ("age", "sex"), stddev=1.0)
    >>> model = pg.estimate([noisy], {"age": 3, "sex": 2})
    >>> low, high = pg.interval(model, "sex", kind="noise")
    >>> bool((low.values < model.project("sex").values).all())
    True

    Args:
        model: a model that `estimate` or a mechanism returned, or the result of a mechanism.
        query: as for `Model.answer`, but one query only; or attributes, for their marginal; or, except for "bounds", a
            function: of a table of counts if `clique=` names its attributes, else of a model, of
            which it reads marginals and answers.
        clique, given: as for `Model.answer` and `Model.project`.
        level: the probability that goes with the ends.
        kind: one of the four above.
        about: the "table" that was measured, or the "population" from which it was drawn ("errors").

    Raises:
        ArgumentError: a model that has lost its measurements, a kind or level that is not valid, or for "errors" and
            "auto" a function of a model that reads more than its marginals, answers and total, or of which neither
            answers nor bounds say enough.
        QueryError, UnknownAttributeError, ...: as for `Model.answer` and `Model.project`.
    """
    own = _model_of(model)
    return replace(_ends(own, query, clique, given, level, kind, about), rows_counted=own.rows_counted)


def _ends(
    model: Any,
    query: Any,
    clique: Iterable[str] | str | None,
    given: Mapping[str, int] | None,
    level: float,
    kind: Kind,
    about: About,
) -> Interval:
    """Return the ends of an answer; arguments and errors as for `interval`."""
    # scipy.optimize and scipy.stats, which these modules load, take a second: `import pgmest` must not wait for them.
    from pgmest.models.bounds.bounds import bounds_of
    from pgmest.models.errors.drawn_intervals import drawn_answers
    from pgmest.models.uncertainty import uncertainty_of

    check_given(given)
    clique = as_clique(clique)  # an iterator would be read twice
    if kind not in KINDS:
        raise ArgumentError.of("kind", kind, KINDS)
    check_level(level)
    if about not in ("table", "population"):
        raise ArgumentError.of("about", about, ("table", "population"))
    if kind in ("noise", "bounds") and about != "table":
        raise ArgumentError.of("about", about, f"'table': intervals of kind {kind!r} are about nothing else")
    by_errors = kind == "auto" and (about == "population" or not _needs_bounds(model, query, clique, given))
    if kind == "errors" or by_errors:
        return drawn_answers(cast("ModelBase", model), query, clique, given, about=about).interval(level, about)
    estimated_from(model, "intervals" if kind == "auto" else f"intervals of kind '{kind}'")
    known = cast(Refittable, model)
    if kind == "noise":
        ends = uncertainty_of(known, query, clique, given).interval(level)
        return Interval(*ends, level, kind, basis="replicates")
    return bounds_of(known, query, clique, given, level=level)


def _model_of(model: Any) -> Any:
    """Return the model, or that of a result.

    Raises:
        ArgumentError: it is neither.
    """
    found = model if hasattr(model, "known_errors") else getattr(model, "model", None)
    if not hasattr(found, "known_errors"):
        expected = "a model that pgmest.estimate or a mechanism returned, or the result of a mechanism"
        raise ArgumentError.of("model", type(model).__name__, expected)
    return found


def _needs_bounds(model: ModelBase | Refittable, query: Any, clique: Any, given: Mapping[str, int] | None) -> bool:
    """Return whether drawn errors would be wrong, where there are bounds: of models that can be estimated again.

    They are wrong about an attribute that was not measured. Beside answers that lie between two ends, or without any
    noise, they are also wrong about attributes that no answer has together, unless several noisy tables show how strong
    dependence may be. Exact answers beside noisy ones have no errors, and those of others leave them as they are;
    answers that are known to be at least some values do not make errors larger.

    Raises:
        ArgumentError: there are no bounds, as the query is a function.
    """
    measurements = getattr(model, "measurements", None)
    if getattr(model, "refit", None) is None or not measurements:
        return False
    if not model.total:
        return True
    question = Question.of(model.domain, query, clique, given).read_by(model)
    read = {*question.names, *question.evidence}
    wanted = {name for name in read if model.domain[name] > 1}  # all records have the code of the others
    told = [set(m.clique) for m in measurements if m.high is None or np.isfinite(m.high).any()]
    noisy = [m for m in measurements if m.noise != BETWEEN]
    together = any(wanted <= names for names in told)
    typical = len({frozenset(m.clique) for m in noisy if _is_table(m)}) >= FEWEST_TABLES
    typical |= bool(noisy) and all(_is_exact_or_open(m) for m in measurements if m.noise == BETWEEN)
    if together or (typical and wanted <= set().union(*told)):
        return False
    if question.is_function:
        names = ", ".join(sorted(wanted))
        unknown = f"how {names} depend on each other" if len(wanted) > 1 else f"how many records have which {names}"
        raise ArgumentError(
            f"the measurements do not tell {unknown}, and there are no bounds of functions: ask for the bounds of a "
            'marginal, or choose kind="errors" and what it assumes.'
        )
    return True


def _is_exact_or_open(measurement: LinearMeasurement) -> bool:
    """Return whether each published answer is exact or has no upper end."""
    assert measurement.high is not None
    return bool((measurement.exact_rows | np.isinf(measurement.high)).all())


def _is_table(measurement: LinearMeasurement) -> bool:
    """Return whether the answers are counts of several attributes together, of values or of groups of values."""
    query = measurement.query
    grouped = isinstance(query, Kron) and all(isinstance(one, Identity | Grouping) for one in query.matrices)
    return (query is None or grouped) and len(measurement.clique) > 1
