"""DPSyn's experiments: the noise of Figure 2, and the pipeline on a small table of calls."""

import math

import numpy as np
import pytest

import pgmest as pg
from experiments.dpsyn import baselines, noise
from experiments.dpsyn.design import FIRE, Design
from experiments.dpsyn.nist2018 import density_score
from experiments.dpsyn.pipeline import measure
from experiments.papers.reading import rows
from pgmest.mechanisms.priview.design import cover, random_views, subsets_of


@pytest.mark.parametrize("panel", noise.PANELS)
def test_the_crossings_are_those_of_the_paper(panel):
    epsilon, delta = noise.PANELS[panel]
    k = noise.crossing(epsilon, delta)
    assert round(k) == noise.CROSSINGS[panel]
    below, above = math.floor(k), math.ceil(k)
    assert noise.laplace_basic(below, epsilon, delta) <= noise.gauss_zcdp(below, epsilon, delta)
    assert noise.laplace_basic(above, epsilon, delta) >= noise.gauss_zcdp(above, epsilon, delta)


@pytest.mark.parametrize("panel", noise.PANELS)
def test_the_kept_deviations_are_those_of_the_formulas(panel):
    kept = rows("dpsyn/noise", panel=panel).set_index("k")
    assert tuple(kept.index) == noise.COUNTS
    for name, deviation in noise.APPROACHES.items():
        assert list(kept[name]) == pytest.approx([deviation(k, *noise.PANELS[panel]) for k in kept.index], rel=1e-5)


def test_rho_is_that_of_the_plain_bound():
    rho = noise.rho_of(1.0, 1e-8)
    assert rho + 2 * math.sqrt(rho * math.log(1e8)) == pytest.approx(1.0)


def calls(records=20_000):
    """A clock, a zip code that tells the city, two related types, and a distance."""
    rng = np.random.default_rng(0)
    clock, place, kind = rng.integers(0, 20, records), rng.integers(0, 6, records), rng.integers(0, 4, records)
    columns = [clock, place, place // 2, kind, kind % 2, (place * 7 + kind) % 30]
    return pg.Dataset.from_codes(columns, {"clock": 20, "zip": 6, "city": 3, "type": 4, "group": 2, "distance": 30})


DESIGN = Design(
    combined={"kind": ("group", "type")},
    learned={"city": ("zip",)},
    essential=[("zip", "kind"), ("distance", "zip"), ("distance", "kind")],
    more=[],
    most=[],
)


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_the_pipeline_recodes_measures_and_undoes_it(epsilon):
    data = calls()
    found = measure(data, DESIGN, epsilon, 1e-9, seed=0)
    assert found.total == pytest.approx(20_000, rel=0.05)
    assert found.ledger.remaining / found.ledger.budget < 1e-9
    assert found.transforms[-1].after["kind"] == 4  # of 8 cells, of which 4 cannot be
    records = found.records("gum", seed=0)
    assert records.domain == data.domain
    assert np.array_equal(records.column("city"), records.column("zip") // 2)
    assert np.array_equal(records.column("group"), records.column("type") % 2)
    assert density_score(data, records, count=20, seed=0) > 700_000


@pytest.mark.parametrize("design", [FIRE])
def test_more_marginals_for_more_budget(design):
    counts = [len(design.marginals(epsilon)) for epsilon in (0.3, 1.0, 8.0)]
    assert counts[0] < counts[1] < counts[2]
    assert len({frozenset(clique) for clique in design.marginals(8.0)}) == counts[2]


def test_without_noise_fourier_coefficients_give_the_marginal():
    rng = np.random.default_rng(0)
    data = pg.Dataset.from_codes(rng.integers(0, 2, (300, 5)), {name: 2 for name in "abcde"})
    made = baselines.Fourier()
    for clique in (("a", "c", "e"), ("c", "b"), ("d",), ()):
        np.testing.assert_allclose(made(data, clique, 1e12, rng), data.project(clique).values, atol=1e-6)


def test_the_baselines_have_the_noise_of_all_marginals_together():
    """Each of C(23, 2) marginals gets its share of epsilon; Fourier needs 1 + 23 + 253 coefficients."""
    assert baselines.coefficients(23, 2) == 277
    rng, names = np.random.default_rng(0), [f"a{place}" for place in range(23)]
    data = pg.Dataset.from_codes(np.zeros((1, 23), int), dict.fromkeys(names, 2))
    pair, variances = (names[3], names[7]), {}
    for name, answer in (("direct", baselines.direct), ("fourier", None)):
        made = [(answer or baselines.Fourier())(data, pair, 2.0, rng) for _ in range(4000)]
        variances[name] = np.var([one[1, 0] for one in made])
    assert variances["direct"] == pytest.approx(2 * (253 / 2) ** 2, rel=0.15)
    assert variances["fourier"] == pytest.approx(4 * 2 * (277 / 2) ** 2 / 16, rel=0.15)


def test_random_views_leave_pairs_out():
    """On 23 binary attributes, somewhat more random views of eight than the design has cover fewer pairs."""
    domain = pg.Domain({f"a{place}": 2 for place in range(23)})
    pairs = subsets_of([domain.attributes], domain, 2)
    design = cover(domain, pairs, 2**8)
    for seed in range(3):
        views = random_views(domain, list(domain), 2**8, len(design), np.random.default_rng(seed))
        assert sum(any(pair <= set(view) for view in views) for pair in pairs) < 0.9 * len(pairs)
    assert all(any(pair <= set(view) for view in design) for pair in pairs)


def test_marginals_of_which_each_pair_is_in_a_view():
    views = [{"a", "b", "c"}, {"b", "d"}]
    assert baselines.all_pairs_in(("a", "b", "c"), views)
    assert baselines.all_pairs_in(("b", "d"), views)
    assert not baselines.all_pairs_in(("a", "b", "d"), views)
