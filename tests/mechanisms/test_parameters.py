"""Parameters: each is checked when a mechanism is made, before anything is paid; old names are still taken."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

import pgmest as pg
from pgmest import mechanisms
from pgmest.errors import ArgumentError, BudgetTypeError, PgmestError, UnknownAttributeError
from pgmest.estimation.estimate import SOLVERS
from pgmest.mechanisms import AIM, MST, Independent, Mechanism, PrivMRF
from pgmest.mechanisms.mechanism import relevant_workload
from pgmest.mechanisms.parameters import BACKENDS, COUNT, METADATA, METHODS, NEEDING_MORE, SHARE, parameter
from pgmest.privacy import AddRemove
from pgmest.privacy.noise import make_backend
from tests.mechanisms.auditing import DATA, DOMAIN
from tests.mechanisms.every import EVERY, made

NEVER = [
    "nope",
    b"auto",
    "3",
    Ellipsis,
    1j,
    [Ellipsis],
    {"x": Ellipsis},
    float("nan"),
    -1,
    -0.5,
    10**400,
    np.array([1.0, 2.0]),
    np.array("nope"),
    Independent,
    type,
]
"""Values that no parameter can have, whatever it is."""

SELDOM = [None, True, False, 0, 1, 2, 0.5, 2.5, float("inf"), -float("inf"), "", (), [], {}, "pgm", "opendp", "auto"]
"""Values that some parameters can have."""

MEETING = ("structural_zeros", "invariants")
"""Parameters that are about a domain, and checked when they meet it."""

FIELDS = [(name, field.name) for name in EVERY for field in dataclasses.fields(getattr(mechanisms, name))]


def refused(name: str, **parameters: Any) -> bool:
    """Return whether the mechanism refuses them at once, with an error that names one of them or says what to state.

    Structural zeros, invariants and spines are refused when they meet the domain, but before anything is paid, too.
    """
    charged = []
    try:
        mechanism = made(name, **parameters)
        if any(parameters.get(one) is not None for one in MEETING) or "spine" in parameters:
            mechanism.fit(DATA, seed=0, progress=charged.append)
    except (ArgumentError, BudgetTypeError, UnknownAttributeError) as refusal:
        text = str(refusal)
    else:
        return False
    assert not charged
    assert any(word in text for word in (*parameters, "budget", "attribute"))
    return True


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_values_that_cannot_be_are_refused_at_once(name, field):
    for value in NEVER:
        if field == "threshold" and isinstance(value, int | float) and -1 <= value < 0:
            continue  # a number like any other
        assert refused(name, **{field: value}), f"{name}({field}={value!r})"


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_values_are_refused_at_once_or_serve_for_a_whole_run(name, field):
    tried = 0
    for value in SELDOM:
        if refused(name, **{field: value}):
            continue
        result = made(name, **{field: value}).fit(DATA, seed=0, progress=False)
        assert result.ledger.total <= result.ledger.budget
        tried += 1
        if tried == 3:
            break


@pytest.mark.parametrize("name", EVERY)
def test_every_parameter_declares_what_it_may_be(name):
    for field in dataclasses.fields(getattr(mechanisms, name)):
        assert METADATA in field.metadata or field.name in MEETING, field.name


@pytest.mark.parametrize("name", EVERY)
def test_numbers_of_numpy_are_numbers(name):
    mechanism = made(name)
    for field in dataclasses.fields(mechanism):
        value = getattr(mechanism, field.name)
        kinds = {
            int: (np.int64, np.uint32),
            float: (np.float64, np.float32, Fraction),
            bool: (np.bool_,),
            str: (np.str_,),
        }
        for kind in kinds.get(type(value), ()):
            given = made(name, **{field.name: kind(value)})
            kept = getattr(given, field.name)
            assert type(kept) is type(value)
            assert kept == (pytest.approx(value) if kind is np.float32 else value)


def test_a_boolean_is_no_number_and_text_no_limit():
    for rounds in (True, 3.0, "3"):
        with pytest.raises(ArgumentError, match=r"rounds=.* it must be a positive integer, or None"):
            AIM(rho=1.0, rounds=rounds)  # pyright: ignore[reportArgumentType]
    assert AIM(rho=1.0, rounds=np.int64(3)).rounds == 3  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="max_megabytes='x' is not valid: it must be a positive number"):
        AIM(rho=1.0, max_megabytes="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bogus"):
        AIM(bogus=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [AIM, MST, PrivMRF])
@pytest.mark.parametrize("method", ["nope", *NEEDING_MORE, *(SOLVERS[name]() for name in NEEDING_MORE)], ids=str)
def test_solvers_that_cannot_fit_noisy_counts_are_refused_at_once(kind, method):
    with pytest.raises(ArgumentError, match="it must be a solver, or one of 'auto'"):
        kind(rho=1.0, method=method)


@pytest.mark.parametrize("method", [*METHODS, SOLVERS["lbfgs"]()], ids=str)
@pytest.mark.parametrize("kind", [AIM, MST, PrivMRF])
def test_all_other_solvers_serve(kind, method):
    assert set(METHODS) | set(NEEDING_MORE) == {"auto", *SOLVERS}
    result = kind(rho=0.5, backend="simulation", method=method).fit(DATA, [("a", "b")], seed=0, progress=False)
    assert result.ledger.remaining / result.ledger.budget < 1e-9


def test_backends_are_those_that_there_are():
    assert [make_backend(name, 0).insecure for name in BACKENDS] == [False, True]
    with pytest.raises(ArgumentError, match="'opendp', 'simulation'"):
        make_backend("nope", 0)


def test_a_mechanism_of_ones_own_declares_its_checks():
    @dataclass(frozen=True, kw_only=True)
    class Mine(Independent):
        """One more parameter."""

        turns: int = parameter(2, COUNT)

    assert Mine(rho=1.0).turns == 2
    with pytest.raises(ArgumentError, match="turns=0 is not valid: it must be a positive integer"):
        Mine(rho=1.0, turns=0)
    with pytest.raises(ArgumentError, match="backend='nope'"):
        Mine(rho=1.0, backend="nope")


# -- what `fit` takes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    "workload",
    [
        "a",
        b"ab",
        3,
        True,
        Ellipsis,
        [],
        [3],
        [None],
        [()],
        [("z",)],
        [("a", "a")],
        [("a", 3)],
        pg.workloads.marginals([]),
        0.0 * pg.workloads.all_kway(DOMAIN, 2),
        pg.workloads.marginals([("a", "b"), ("b",)], [0.0, 0.0]),
    ],
    ids=str,
)
def test_workloads_that_are_none_are_refused_before_anything_is_paid(name, workload):
    charged = []
    with pytest.raises(PgmestError) as error:
        made(name).fit(DATA, workload, seed=0, progress=charged.append)
    assert not charged
    assert "workload" in str(error.value) or "'z'" in str(error.value) or "clique" in str(error.value)


@pytest.mark.parametrize("name", EVERY)
def test_every_kind_of_workload_serves(name):
    marginals = pg.workloads.marginals([("b", "a"), ("c",), ("a", "c")], [1.0, 2.0, 0.0])
    for workload in (None, ["a"], [["a", "b"]], (clique for clique in [("a", "b"), "c"]), marginals):
        result = made(name).fit(DATA, workload, seed=0, progress=False)
        assert result.project(("a", "b")).values.shape == (2, 3)


def test_items_of_no_weight_do_not_matter():
    workload = pg.workloads.marginals([("a", "b"), ("c",)], [0.0, 1.0])
    assert relevant_workload(DOMAIN, workload).cliques == (("c",),)
    measured = Independent(rho=1.0, backend="simulation").fit(DATA, workload).measurements
    assert {m.clique for m in measured} == {(name,) for name in DOMAIN}  # a and b are named by nothing that counts
    zero = pg.workloads.Workload((pg.workloads.Item(("a",), pg.Kron({"a": [[0.0, 0.0]]})),))
    with pytest.raises(ArgumentError, match="no query that is not zero"):
        made("MWEM").fit(DATA, zero)


@pytest.mark.parametrize(
    "given",
    [{"seed": "x"}, {"seed": -1}, {"seed": 1.5}, {"progress": "x"}, {"progress": 3}, {"data": "x"}, {"data": None}],
    ids=str,
)
def test_other_arguments_of_fit_are_checked_before_anything_is_paid(given, monkeypatch):
    monkeypatch.setattr(pg.privacy.Curator, "measure", None)  # would be an error of another kind
    with pytest.raises(ArgumentError, match=next(iter(given))):
        made("Independent").fit(**{"data": DATA, **given})


def test_mechanisms_can_be_pickled_without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in EVERY:
            mechanism = made(name)
            if name not in ("PMWPub", "Transformed"):
                assert pickle.loads(pickle.dumps(mechanism)) == mechanism
            assert not hasattr(mechanism, "bogus")


def test_one_thing_has_one_name_and_one_default():
    defaults: dict[str, set[Any]] = {}
    for name in EVERY:
        for field in dataclasses.fields(getattr(mechanisms, name)):
            defaults.setdefault(field.name, set()).add(repr(field.default))
    for one in ("measuring_share", "method", "theta", "threshold", "tolerance", "replays", "penalty"):
        assert len(defaults[one]) == 1, one
    assert defaults["max_megabytes"] == {
        "8.0",
        "80.0",
        "8000.0",
    }  # LAMP's tree, trees that grow, models that are refused


class Unchecked(Mechanism):
    """Not a dataclass of its own: it has the parameters of its base class, and their checks."""

    definition: ClassVar[str] = "either"

    def run(self, curator, workload, rng):
        return None


def test_checks_come_with_the_base_class():
    with pytest.raises(ArgumentError, match="neighbors="):
        Unchecked(rho=1.0, neighbors="add")  # type: ignore[arg-type]
    assert Unchecked(rho=1.0).neighbors == AddRemove()
    with pytest.raises(ArgumentError, match=r"share=1\.5"):
        SHARE("share", 1.5)
