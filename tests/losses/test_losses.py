"""Losses: values from their definitions on dense matrices, gradients from finite differences."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError

from pgmest import CliqueVector, Domain, Factor, queries
from pgmest.errors import (
    ArgumentError,
    ShapeError,
    UnknownAttributeError,
)
from pgmest.losses import (
    FlatLoss,
    FunctionLoss,
    HuberLoss,
    KLLoss,
    L1Loss,
    L2Loss,
    NegativeLogLikelihood,
    SumLoss,
    jax_loss,
    make_loss,
    torch_loss,
)
from pgmest.measurements.measurement import NOISES, LinearMeasurement
from pgmest.queries import Kron

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})


def random_measurements(rng, noises=NOISES):
    """Every kind of query; duplicates, permuted copies, nested cliques, a cell, the total; equal and unequal noise."""

    def measure(clique, query=None, unequal=False):
        columns = DOMAIN.size(clique)
        rows = columns if query is None else query.rows if isinstance(query, Kron) else np.shape(query)[0]
        stddev = rng.uniform(0.5, 3.0, size=rows) if unequal else rng.uniform(0.5, 3.0)
        return LinearMeasurement(rng.uniform(-5, 30, size=rows), clique, stddev, query, noise=rng.choice(noises))

    return [
        measure(("a", "b")),
        measure(("b", "a"), unequal=True),
        measure(("a", "b"), unequal=True),
        measure(("a",)),
        measure(()),
        measure(("c",), queries.prefix(4).matrix()),
        measure(("c", "b"), Kron({"b": queries.identity(2), "c": queries.haar(4)}), unequal=True),
        measure(("b", "c"), rng.normal(size=(5, 8))),
        measure(("a",), queries.point(3, 1).matrix()),
    ]


def random_joint(rng):
    return Factor(DOMAIN, rng.uniform(0.1, 3.0, size=DOMAIN.shape))


def marginals_of(joint, loss):
    return CliqueVector(DOMAIN, {clique: joint.project(clique) for clique in loss.cliques})


def joint_gradient(gradient):
    """The gradient by joint cell: the sum over cliques of the clique's own gradient."""
    total = Factor.zeros(DOMAIN)
    for factor in gradient.values():
        total = total + factor.expand(DOMAIN)
    return total.values


def every_loss(rng):
    measurements = random_measurements(rng)
    target = marginals_of(random_joint(rng), L2Loss(measurements, DOMAIN))
    gaussian = random_measurements(rng, noises=("gaussian", "discrete_gaussian"))
    l2 = L2Loss(measurements[2:6], DOMAIN)
    return [
        L2Loss(measurements, DOMAIN),
        L2Loss(measurements[:5], DOMAIN),
        L1Loss(measurements, DOMAIN),
        HuberLoss(measurements, DOMAIN),
        NegativeLogLikelihood(measurements, DOMAIN),
        NegativeLogLikelihood(gaussian, DOMAIN),
        KLLoss(target),
        SumLoss([l2, L1Loss(measurements[1:3], DOMAIN), KLLoss(target)], weights=[1.0, 0.5, 2.0]),
        FunctionLoss(l2.value_and_gradient, DOMAIN, l2.cliques, lipschitz=l2.lipschitz),
    ]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_gradients_are_those_of_finite_differences(seed):
    rng = np.random.default_rng(seed)
    for loss in every_loss(rng):
        marginals = marginals_of(random_joint(rng), loss)
        value, gradient = loss.value_and_gradient(marginals)
        assert isinstance(value, float)
        assert gradient.layout == loss.layout
        direction = rng.normal(size=loss.layout.cells)
        step = 1e-6
        up = loss.flat_value_and_gradient(marginals.flat + step * direction)[0]
        down = loss.flat_value_and_gradient(marginals.flat - step * direction)[0]
        np.testing.assert_allclose((up - down) / (2 * step), gradient.flat @ direction, rtol=1e-5, atol=1e-4)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_are_those_of_the_definitions(seed):
    rng = np.random.default_rng(seed)
    measurements = random_measurements(rng)
    joint = random_joint(rng)
    residuals = [(m.answer(joint) - m.values) / m.stddev for m in measurements]
    z = np.concatenate(residuals)
    huber = np.where(np.abs(z) <= 1.345, z**2 / 2, 1.345 * (np.abs(z) - 1.345 / 2))
    for loss, expected in (
        (L2Loss(measurements, DOMAIN), np.sum(z**2) / 2),
        (L1Loss(measurements, DOMAIN), np.sqrt(2) * np.sum(np.abs(z))),
        (HuberLoss(measurements, DOMAIN), np.sum(huber)),
    ):
        np.testing.assert_allclose(loss.value(marginals_of(joint, loss)), expected, rtol=1e-12)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_losses_are_convex_and_lipschitz_constants_hold(seed):
    rng = np.random.default_rng(seed)
    for loss in every_loss(rng):
        p, q = random_joint(rng), random_joint(rng)
        value_p, gradient_p = loss.value_and_gradient(marginals_of(p, loss))
        value_q, gradient_q = loss.value_and_gradient(marginals_of(q, loss))
        linear = gradient_q.dot(marginals_of(p - q, loss))
        assert value_p >= value_q + linear - 1e-9 * abs(value_p)
        if loss.lipschitz is not None:
            change = np.abs(joint_gradient(gradient_p) - joint_gradient(gradient_q)).max()
            assert change <= loss.lipschitz * np.abs(p.values - q.values).sum() * (1 + 1e-12)


def test_the_lipschitz_constant_is_reached_by_moving_one_record():
    measurements = [
        LinearMeasurement(np.zeros(6), ("a", "b"), stddev=2.0),
        LinearMeasurement(np.zeros(4), "c", query=queries.prefix(4)),
    ]
    loss = L2Loss(measurements, DOMAIN)
    assert loss.lipschitz == 0.25 + 4.0 == sum(m.max_column_norm() ** 2 for m in measurements)
    cell = np.zeros(DOMAIN.shape)
    cell[1, 1, 0] = 1.0  # the code 0 of c is counted by all four prefixes
    empty = Factor.zeros(DOMAIN)
    gradients = [loss.value_and_gradient(marginals_of(empty + x, loss))[1] for x in (cell, 0 * cell)]
    assert np.abs(joint_gradient(gradients[0] - gradients[1])).max() == loss.lipschitz


def test_only_smooth_losses_claim_a_lipschitz_constant():
    rng = np.random.default_rng(0)
    l2, identities, l1, huber, mixed, gaussian, kl, total, function = every_loss(rng)
    assert [loss.smooth for loss in (l2, identities, huber, gaussian, kl, function)] == [True] * 6
    assert [loss.smooth for loss in (l1, mixed, total)] == [False] * 3
    assert [loss.lipschitz for loss in (l1, mixed, kl, total)] == [None] * 4
    assert huber.lipschitz == l2.lipschitz == np.add.reduce([table.values.max() for table in l2.curvature.values()])


def test_the_curvature_is_the_diagonal_of_the_hessian():
    loss = L2Loss(random_measurements(np.random.default_rng(1)), DOMAIN)
    diagonal = [2.0 * loss.quadratic(unit) for unit in np.eye(loss.layout.cells)]
    np.testing.assert_allclose(loss.curvature.flat, diagonal, rtol=1e-12)


def test_many_sums_over_groups_are_answered_as_each_one_alone():
    domain, rng = Domain({"a": 4, "b": 3, "c": 5}), np.random.default_rng(0)
    measured = [
        LinearMeasurement(rng.normal(size=2), "c", 2.0, queries.compress(5, [0, 1, 1, 0, 1])),
        LinearMeasurement(rng.normal(size=(4, 3)), ("a", "b"), 3.0),
        LinearMeasurement(rng.normal(size=3), ("b", "a"), 0.5, queries.compress(12, rng.permutation(12) % 3)),
        LinearMeasurement(rng.normal(size=4), "a", 1.5, queries.prefix(4)),
        LinearMeasurement(rng.normal(size=2), "c", 1.0, queries.compress(5, [0, 0, 1, 1, 1])),
    ]
    loss = L2Loss(measured, domain)
    flat = rng.random(loss.layout.cells)
    apart = [L2Loss([measurement], domain) for measurement in measured]
    marginals = CliqueVector.of(loss.layout, flat)
    each = [one.value_and_gradient(CliqueVector(domain, {c: marginals[c] for c in one.cliques})) for one in apart]
    value, gradient = loss.flat_value_and_gradient(flat)
    assert value == pytest.approx(sum(found for found, _ in each))
    for clique in loss.cliques:
        parts = [
            slope[clique].transpose(clique).values
            for one, (_, slope) in zip(apart, each, strict=True)
            if set(clique) in map(set, one.cliques)
        ]
        assert CliqueVector.of(loss.layout, gradient)[clique].values == pytest.approx(np.sum(parts, axis=0))


def test_permuted_copies_of_a_clique_share_one_table():
    table = np.arange(6.0).reshape(3, 2)
    measurements = [LinearMeasurement(table, ("a", "b")), LinearMeasurement(table.T, ("b", "a"))]
    for kind in (L2Loss, L1Loss):
        loss = kind(measurements, DOMAIN)
        assert loss.cliques == (("a", "b"),)
        assert loss.value(CliqueVector(DOMAIN, {("a", "b"): table})) == 0.0
        assert loss.value(CliqueVector(DOMAIN, {("c",): np.ones(4), ("b", "a"): table.T})) == 0.0


def test_a_repeated_marginal_adds_only_a_constant():
    measurements = [LinearMeasurement([10.0, 20.0], "b", stddev=1.0), LinearMeasurement([14.0, 20.0], "b", stddev=2.0)]
    loss = L2Loss(measurements, DOMAIN)
    value, gradient = loss.value_and_gradient(CliqueVector(DOMAIN, {("b",): [10.8, 20.0]}))
    assert value == pytest.approx((0.8**2 + (3.2 / 2) ** 2) / 2)
    np.testing.assert_allclose(gradient.flat, 0.0, atol=1e-12)


def test_no_digits_cancel_for_large_counts():
    measurements = [LinearMeasurement([1e9 + 3.0, 1e9], "b"), LinearMeasurement([1e9 + 5.0, 1e9], "b")]
    loss = L2Loss(measurements, DOMAIN)
    assert loss.value(CliqueVector(DOMAIN, {("b",): [1e9 + 4.0, 1e9]})) == 1.0
    assert loss.value(CliqueVector(DOMAIN, {("b",): [1e9 + 4.5, 1e9]})) == 1.25


def test_the_gradient_is_written_where_asked_and_marginals_stay():
    rng = np.random.default_rng(2)
    for loss in every_loss(rng):
        flat = marginals_of(random_joint(rng), loss).flat
        before, out = flat.copy(), np.full(loss.layout.cells, np.nan)
        value, gradient = loss.flat_value_and_gradient(flat, out)
        again, fresh = loss.flat_value_and_gradient(flat)
        assert gradient is out
        assert fresh is not out
        assert value == again
        np.testing.assert_array_equal(out, fresh)
        np.testing.assert_array_equal(flat, before)


def test_no_measurements_is_no_loss():
    for kind in (L2Loss, L1Loss, HuberLoss, NegativeLogLikelihood):
        loss = kind([], DOMAIN)
        value, gradient = loss.value_and_gradient(CliqueVector(DOMAIN, {}))
        assert (value, gradient.flat.size, loss.cliques) == (0.0, 0, ())
    assert L2Loss([], DOMAIN).lipschitz == 0.0


def test_a_missing_marginal_is_named():
    loss = L2Loss([LinearMeasurement([1.0, 2.0], "b")], DOMAIN)
    with pytest.raises(UnknownAttributeError, match=r"\('b',\) is not one of the 1 clique here"):
        loss.value(CliqueVector(DOMAIN, {("a",): np.ones(3)}))


# -- likelihoods ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["discrete_gaussian", "discrete_laplace"])
@pytest.mark.parametrize("stddev", [0.4, 1.0, 1.9, 2.1, 7.0])
def test_likelihoods_of_discrete_noise_sum_to_one(noise, stddev):
    def probability(noisy):
        measurement = LinearMeasurement(noisy, (), stddev=stddev, noise=noise)
        return math.exp(-NegativeLogLikelihood([measurement], DOMAIN).value(CliqueVector(DOMAIN, {(): 5.0})))

    assert sum(probability(noisy) for noisy in range(-145, 156)) == pytest.approx(1.0, rel=1e-10)


def test_continuous_likelihoods_are_the_densities():
    from scipy import stats

    answers, counts = np.array([3.0, -1.0]), np.array([1.5, 2.0])
    laws: dict[str, Any] = {"gaussian": stats.norm(scale=2.0), "laplace": stats.laplace(scale=2.0 / np.sqrt(2))}
    for noise, law in laws.items():
        loss = NegativeLogLikelihood([LinearMeasurement(answers, "b", stddev=2.0, noise=noise)], DOMAIN)
        assert loss.flat_value_and_gradient(counts)[0] == pytest.approx(-law.logpdf(answers - counts).sum())


def test_l1_is_the_laplace_likelihood_up_to_a_constant():
    measurements = random_measurements(np.random.default_rng(3), noises=("laplace",))
    l1, likelihood = L1Loss(measurements, DOMAIN), NegativeLogLikelihood(measurements, DOMAIN)
    rng = np.random.default_rng(4)
    first, second = (marginals_of(random_joint(rng), l1) for _ in range(2))
    difference = likelihood.value(first) - likelihood.value(second)
    assert difference == pytest.approx(l1.value(first) - l1.value(second))
    assert likelihood.value_and_gradient(first)[1] == l1.value_and_gradient(first)[1]


def test_kl_is_zero_at_its_target_and_finite_on_its_border():
    target = CliqueVector(DOMAIN, {("b",): [0.0, 10.0]})
    loss = KLLoss(target)
    assert loss.value(target) == 0.0
    assert loss.value(CliqueVector(DOMAIN, {("b",): [5.0, 5.0]})) == pytest.approx(10 * np.log(2))
    value, gradient = loss.value_and_gradient(CliqueVector(DOMAIN, {("b",): [10.0, 0.0]}))
    assert value > 1000
    assert np.isfinite(gradient.flat).all()
    with pytest.raises(ArgumentError, match="target marginals of a KL loss must be finite counts, none negative"):
        KLLoss(CliqueVector(DOMAIN, {("b",): [-1.0, 10.0]}))


# -- sums and functions -----------------------------------------------------------------------------------------


def test_a_sum_of_losses_over_parts_is_the_loss_over_all():
    measurements = random_measurements(np.random.default_rng(5))
    whole = L2Loss(measurements, DOMAIN)
    parts = SumLoss([L2Loss([measurement], DOMAIN) for measurement in measurements])
    marginals = marginals_of(random_joint(np.random.default_rng(6)), whole)
    assert parts.cliques == whole.cliques
    assert parts.value(marginals) == pytest.approx(whole.value(marginals))
    np.testing.assert_allclose(
        parts.value_and_gradient(marginals)[1].flat, whole.value_and_gradient(marginals)[1].flat, atol=1e-10
    )
    assert parts.lipschitz >= whole.lipschitz


def test_a_sum_of_losses_is_checked():
    loss = L2Loss([], DOMAIN)
    for make, text in (
        (lambda: SumLoss([]), "a sum of losses needs at least one loss; for a loss of 0 use L2Loss([], domain)."),
        (
            lambda: SumLoss([loss, L2Loss([], Domain({"x": 2}))]),
            "the losses of a sum must all be over the same domain.",
        ),
        (
            lambda: SumLoss([loss], weights=[1, 2]),
            "weights=(1.0, 2.0) is not valid: it must be 1 nonnegative numbers, one for each loss.",
        ),
        (
            lambda: SumLoss([loss], weights=[-1]),
            "weights=(-1.0,) is not valid: it must be 1 nonnegative numbers, one for each loss.",
        ),
    ):
        with pytest.raises(ArgumentError) as error:
            make()
        assert str(error.value) == text


def test_a_function_that_misbehaves_is_named():
    marginals = CliqueVector(DOMAIN, {("b",): [1.0, 2.0]})
    with pytest.raises(ArgumentError, match="the loss function returned NaN"):
        FunctionLoss(lambda m: (math.nan, m), DOMAIN, [("b",)]).value(marginals)
    for wrong in ({("a",): np.ones(3)}, {}, {("b",): np.ones(2), ("a",): np.ones(3)}):
        loss = FunctionLoss(lambda m, gradient=wrong: (0.0, gradient), DOMAIN, [("b",)])
        with pytest.raises(ArgumentError, match=r"the loss function reads \(\('b',\),\) but its gradient is on"):
            loss.value(marginals)
    with pytest.raises(ShapeError, match=r"the table of clique \('b',\): expected shape \(2,\), got \(3,\)"):
        FunctionLoss(lambda m: (0.0, {("b",): np.ones(3)}), DOMAIN, [("b",)]).value(marginals)
    with pytest.raises(UnknownAttributeError):
        FunctionLoss(lambda m: (0.0, m), DOMAIN, [("z",)])


@pytest.mark.parametrize(("package", "make"), [("jax", jax_loss), ("torch", torch_loss)])
def test_functions_of_automatic_differentiation(package, make):
    pytest.importorskip(package)

    def squares(tables):
        return (tables[("a", "b")] ** 2).sum() + 3.0 * tables[("c",)][1]

    loss = make(squares, DOMAIN, [("a", "b"), ("c",)])
    marginals = marginals_of(random_joint(np.random.default_rng(7)), loss)
    value, gradient = loss.value_and_gradient(marginals)
    table = marginals[("a", "b")].values
    assert value == pytest.approx((table**2).sum() + 3.0 * marginals[("c",)].values[1], rel=1e-14)
    np.testing.assert_allclose(gradient[("a", "b")].values, 2 * table, rtol=1e-14)
    assert gradient[("c",)].values.tolist() == [0.0, 3.0, 0.0, 0.0]


# -- choosing ---------------------------------------------------------------------------------------------------


def test_make_loss_takes_names_classes_objects_and_functions():
    measurements = random_measurements(np.random.default_rng(8))
    for name, kind in (("l2", L2Loss), ("l1", L1Loss), ("huber", HuberLoss), ("likelihood", NegativeLogLikelihood)):
        assert type(make_loss(name, measurements, DOMAIN)) is kind
    assert isinstance(make_loss(HuberLoss, measurements, DOMAIN), HuberLoss)
    loss = make_loss(lambda m, d: HuberLoss(m, d, threshold=2.0), measurements, DOMAIN)
    assert isinstance(loss, HuberLoss)
    assert loss.threshold == 2.0
    loss = L1Loss(measurements, DOMAIN)
    assert make_loss(loss, [], DOMAIN) is loss


def test_make_loss_takes_any_object_with_the_protocol():
    class Spread:
        cliques = (("b",),)
        lipschitz: float
        smooth: bool

        def value_and_gradient(self, marginals):
            return float((marginals[("b",)].values ** 2).sum()), 2 * marginals

    loss = make_loss(Spread(), [], DOMAIN)
    assert isinstance(loss, FlatLoss)
    assert (loss.lipschitz, loss.smooth) == (None, True)
    assert loss.flat_value_and_gradient(np.array([1.0, 2.0]))[1].tolist() == [2.0, 4.0]
    Spread.lipschitz, Spread.smooth = 2.0, False
    loss = make_loss(Spread(), [], DOMAIN)
    assert (loss.lipschitz, loss.smooth) == (2.0, False)


def test_make_loss_refuses_the_rest():
    options = "'l2', 'l1', 'huber', 'likelihood'"
    for loss, text in (
        ("l3", f"loss='l3' is not valid: it must be one of {options}."),
        (7, f"loss=7 is not valid: it must be one of {options}, or an object with the Loss protocol."),
    ):
        with pytest.raises(ArgumentError) as error:
            make_loss(loss, [], DOMAIN)
        assert str(error.value) == text
    with pytest.raises(ArgumentError, match="the loss is over another domain than the measurements"):
        make_loss(L2Loss([], Domain({"x": 2})), [], DOMAIN)
    with pytest.raises(ArgumentError, match="threshold=0 is not valid: it must be a positive number of standard dev"):
        HuberLoss([], DOMAIN, threshold=0)
    with pytest.raises(ShapeError):
        make_loss("l2", [LinearMeasurement([1.0], "b")], DOMAIN)


@pytest.mark.parametrize("kind", ["float32", "integers", "strided", "read-only"])
def test_marginals_of_any_kind_of_array_are_read(kind):
    """The kernels take one kind; what is given is copied where it has to be, and never changed."""
    domain = Domain({"a": 2, "b": 3})
    loss = L2Loss([LinearMeasurement([1.0, 2, 3, 4, 5, 6], ("a", "b"), 2.0)], domain)
    flat = np.array([3.0, 1, 4, 1, 5, 9])
    wanted, gradient = loss.flat_value_and_gradient(flat)
    given = {"float32": flat.astype(np.float32), "integers": flat.astype(int), "strided": np.repeat(flat, 2)[::2]}
    given["read-only"] = flat.copy()
    given["read-only"].flags.writeable = False
    value, other = loss.flat_value_and_gradient(given[kind])
    assert value == pytest.approx(wanted)
    assert np.allclose(other, gradient)
    assert loss.quadratic(given[kind]) == pytest.approx(loss.quadratic(flat))


@pytest.mark.parametrize("cells", [0, 1, 5, 7, 100_000])
def test_arrays_of_another_size_are_refused_and_nothing_behind_them_is_read(cells):
    loss = L2Loss([LinearMeasurement(np.ones(6), ("a", "b"), 2.0)], Domain({"a": 2, "b": 3}))
    for of_fractions in (loss, loss.of_fractions(10.0)):
        with pytest.raises(ShapeError, match="flat"):
            of_fractions.flat_value_and_gradient(np.ones(cells))
        with pytest.raises(ShapeError, match="out"):
            of_fractions.flat_value_and_gradient(np.ones(6), np.ones(cells))
        with pytest.raises(ShapeError, match="direction"):
            of_fractions.quadratic(np.ones(cells))


def test_a_gradient_is_not_written_to_a_read_only_array():
    domain, out = Domain({"a": 2}), np.zeros(2)
    out.flags.writeable = False
    with pytest.raises(TypingError, match="gradient is a read-only array"):
        L2Loss([LinearMeasurement([1.0, 2], ("a",), 2.0)], domain).flat_value_and_gradient(np.ones(2), out)
    assert not out.any()
