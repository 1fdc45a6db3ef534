"""The report: complete, self-contained, escaped, honest about what may be published, written at once or not at all."""

import html.parser
import sys

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, DomainError, FileFormatError, OptionalDependencyError
from pgmest.evaluation import report
from pgmest.evaluation.reports.comparison import sampling_error
from pgmest.evaluation.reports.margins import count_errors
from pgmest.evaluation.reports.page import PAGE_STYLE
from pgmest.plots import draw_marginals
from pgmest.simulation import simulate_measurements

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

DOMAIN = pg.Domain({"<b>age</b>": 6, "$pay$": 4, "sex": 2})


def some_data(seed: int, records: int = 300) -> pg.Dataset:
    rng = np.random.default_rng(seed)
    return pg.Dataset.from_codes(np.stack([rng.integers(0, n, records) for n in DOMAIN.shape], axis=1), DOMAIN)


REAL = some_data(0)
MODEL = pg.estimate(simulate_measurements(REAL, [("<b>age</b>", "sex"), ("$pay$",)], 5.0, seed=0), DOMAIN)


class Reader(html.parser.HTMLParser):
    """The headings, texts and pictures that a browser would show; every tag must be closed."""

    def __init__(self, text: str):
        super().__init__()
        self.headings, self.text, self.images, self.tags, self.open = [], "", [], set(), []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "img":
            self.images.append(dict(attrs))
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)
        if self.open and self.open[-1] != "style":
            self.text += data


def read(path) -> Reader:
    reader = Reader(path.read_text(encoding="utf-8"))
    assert all(image["src"].startswith("data:image/svg+xml;base64,") and image["alt"] for image in reader.images)
    assert reader.tags.isdisjoint({"script", "link", "iframe", "b"})
    assert "<b>age</b>" in reader.text
    return reader


@pytest.mark.usefixtures("blank_pictures")
def test_measured_and_modeled_tables_are_told_apart(tmp_path):
    public = read(report(None, MODEL, out=tmp_path / "p.html"))
    assert "Which dependences were kept" in public.headings
    assert public.text.count("not measured; independent in the release") == 3  # once with their number, and two pairs
    assert "A dot marks the pairs that were measured" in public.text
    private = read(report(REAL, MODEL, out=tmp_path / "r.html"))
    assert private.text.count("modeled") >= 2
    assert "A dot marks" in private.text
    records = read(report(REAL, MODEL.sample(seed=0), out=tmp_path / "s.html"))
    assert "modeled" not in records.text
    assert "A dot marks" not in records.text


def test_facts_fit_the_width_of_a_phone():
    phone = PAGE_STYLE.partition("@media (max-width")[2].partition("@media print")[0]
    assert "table.facts th { border: 0; vertical-align: top; white-space: nowrap; }" in PAGE_STYLE
    assert "table.facts th { white-space: normal; }" in phone


def test_long_names_are_short_and_explained_once(tmp_path):
    name = f"How satisfied are you with {'the very ' * 12}good food?"
    domain = pg.Domain({name: 3, "$<b>age</b>": 2})
    data = pg.Dataset.from_codes([np.arange(300) % 3, np.arange(300) // 150], domain)
    for page in (report(data, data, out=tmp_path / "r.html"), report(None, data, out=tmp_path / "p.html")):
        found = read(page)
        assert "Full names" in found.headings
        assert found.text.count(name) == 1


def test_the_owners_page(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_fignums()
    path = report(
        REAL,
        MODEL,
        out=tmp_path / "r.html",
        ledger="measure <everything>  rho 0.1",
        structural_zeros={("$pay$", "sex"): [(3, 1)]},
        workload=[("$pay$", "sex")],
        title="A <title>",
    )
    found = read(path)
    assert path == tmp_path / "r.html"
    assert found.headings == [
        "How far off a count may be",
        "Which dependences were kept",
        "What was released",
        "One attribute at a time",
        "Two attributes together",
        "The questions that matter",
        "Impossible records",
        "What it cost in privacy",
    ]
    assert "For the data owner's eyes only" in found.text
    assert "measure <everything>  rho 0.1" in found.text
    assert "A <title>" in found.text
    assert len(found.images) == 3
    impossible = MODEL.project(("$pay$", "sex")).values[3, 1]
    assert f"{impossible:,.1f}" in found.text
    error = pg.evaluation.workload_error(REAL, MODEL, pg.workloads.marginals([("$pay$", "sex")]))
    assert f"{error:,.2f}" in found.text
    assert pyplot.get_fignums() == before


@pytest.mark.usefixtures("blank_pictures")
def test_records_without_a_ledger(tmp_path):
    found = read(report(REAL, MODEL.sample(seed=0), out=tmp_path / "r.html"))
    assert "synthetic records of about" in found.text
    assert "No ledger was given" in found.text


@pytest.mark.usefixtures("blank_pictures")
def test_margins_say_how_far_off_counts_are_and_which_tables_rest_on_the_model(tmp_path):
    found = read(report(None, MODEL, out=tmp_path / "p.html"))
    assert "How far off a count may be" in found.headings
    text = found.text.split("How far off a count may be")[1].split("Which dependences")[0]
    measured, modeled = text.split("would not be seen here.")[1].split("NOT measured: rests on the model")
    pairs = ("<b>age</b> × $pay$", "$pay$ × sex")
    assert [pair in measured for pair in pairs] == [False, False]
    assert [pair in modeled for pair in pairs] == [True, True]
    for clique in (("$pay$",), ("<b>age</b>", "sex")):
        for number in count_errors(MODEL, clique).texts:
            assert number in text
    assert "95 of 100 are within the dark lines" in found.text
    records = read(report(None, REAL, out=tmp_path / "r.html"))
    assert "How far off a count may be" not in records.headings
    assert "dark lines" not in records.text


def test_the_public_page_never_sees_the_data(tmp_path):
    found = read(report(None, MODEL, out=tmp_path / "p.html"))
    assert found.headings == [
        "What the release says about each attribute",
        "Dependences in the release",
        "How far off a count may be",
        "Which dependences were kept",
        "What was released",
        "How well the model fits the noisy answers",
        "What it cost in privacy",
    ]
    assert "without access to the private data" in found.text
    assert "eyes only" not in found.text


def test_a_mechanisms_result_brings_its_ledger(tmp_path):
    class Result:
        model, domain, ledger = MODEL, DOMAIN, "the result's own ledger"
        project, sample = MODEL.project, MODEL.sample

    found = read(report(None, Result(), out=tmp_path / "p.html"))
    assert "the result's own ledger" in found.text
    assert "How well the model fits the noisy answers" in found.headings


def test_one_attribute_has_no_pairs(tmp_path):
    single = REAL.select(("<b>age</b>",))
    found = read(report(single, single, out=tmp_path / "r.html"))
    assert "Two attributes together" not in found.headings


def test_sampling_error_is_what_new_samples_show():
    rng, p = np.random.default_rng(0), np.array([0.5, 0.3, 0.2])
    drawn = rng.multinomial(1000, p, size=2000) / 1000
    simulated = 0.5 * np.abs(drawn - p).sum(axis=1).mean()
    assert sampling_error(pg.Factor({"a": 3}, 1000 * p)) == pytest.approx(simulated, rel=0.05)


def test_mistakes_are_named_and_leave_no_file(tmp_path, monkeypatch):
    out = tmp_path / "r.html"
    with pytest.raises(ArgumentError, match="a Dataset, a Model, or a mechanism's result"):
        report(REAL, "synthetic", out=out)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="real="):
        report(MODEL, MODEL, out=out)  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="different attributes"):
        report(REAL.select(("sex",)), MODEL, out=out)
    with pytest.raises(FileFormatError, match="cannot be written"):
        report(None, MODEL, out=tmp_path / "nowhere" / "r.html")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OptionalDependencyError, match="pip install matplotlib"):
        report(REAL, MODEL, out=out)
    assert list(tmp_path.iterdir()) == []


# -- labels of values -----------------------------------------------------------------------------------------------

SCHEMA = pg.Schema.from_dict(
    {
        "columns": {
            "<b>age</b>": {"type": "integer", "min": 0, "max": 49, "width": 10, "missing": True},
            "$pay$": {"type": "categorical", "values": ["$0", "<i>1</i>", "a very long description"], "other": "$3"},
            "sex": {"type": "categorical", "values": ["F"], "other": "M"},
        },
        "constraints": [{"impossible": {"$pay$": "$3", "sex": "M"}}],
    }
)


def ticks_of(figure) -> list[list[str]]:
    """Return the label of the first axis of each panel."""
    panels = [axes for axes in figure.axes if axes.get_visible() and axes.axison]
    return [[label.get_text() for label in axes.get_xticklabels()] for axes in panels]


@pytest.mark.parametrize("real", [None, REAL], ids=["public", "owner"])
def test_values_have_the_labels_of_a_schema(tmp_path, monkeypatch, real):
    drawn = []
    saved = matplotlib.figure.Figure.savefig
    monkeypatch.setattr(
        matplotlib.figure.Figure,
        "savefig",
        lambda figure, *given, **options: (saved(figure, *given, **options), drawn.extend(ticks_of(figure)))[0],
    )
    found = read(report(real, MODEL, out=tmp_path / "r.html", schema=SCHEMA))
    assert "$0, <i>1</i>, a very long description, $3" in found.text
    assert "0..9, 10..19, 20..29, 30..39, 40..49, missing" in found.text
    assert "Impossible records" in found.headings
    assert ["F", "M"] in drawn
    assert ["$0", "<i>1</i>", "a very long d…", "$3"] in drawn
    assert ["0..9", "10..19", "20..29", "30..39", "40..49", "missing"] in drawn


def test_of_many_values_some_are_marked():
    labels = {"a": [f"value {code}" for code in range(100)]}
    source = pg.Dataset.from_codes([np.arange(100)], {"a": 100})
    figure = draw_marginals(source, ["a"], labels=labels)
    marked = ticks_of(figure)[0]
    assert marked == [f"value {code}" for code in range(0, 100, 9)]
    matplotlib.pyplot.close(figure)


def test_a_schema_of_other_attributes_is_refused(tmp_path):
    other = pg.Schema.from_dict({"columns": {"sex": {"type": "boolean"}}})
    with pytest.raises(DomainError, match="schema= describes"):
        report(None, MODEL, out=tmp_path / "r.html", schema=other)
    assert list(tmp_path.iterdir()) == []


# -- the raw table ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("blank_pictures")
def test_the_owners_page_begins_with_what_the_schema_made_of_the_raw_table(tmp_path):
    import pandas as pd

    raw = pd.DataFrame({"<b>age</b>": ["x<y"] * 9 + ["7"], "$pay$": ["$0"] * 10, "sex": ["F"] * 10})
    found = read(report(REAL, MODEL, out=tmp_path / "r.html", schema=SCHEMA, check=SCHEMA.check(raw)))
    assert found.headings[0] == "How the schema fits the raw table"
    assert "THE SCHEMA DOES NOT FIT THE TABLE in <b>age</b>" in found.text
    assert "'x<y'" in found.text
    without = read(report(REAL, MODEL, out=tmp_path / "r.html", schema=SCHEMA))
    assert without.headings[0] == found.headings[0]
    assert "pgmest check TABLE SCHEMA" in without.text
    with pytest.raises(ArgumentError, match="would make the page private"):
        report(None, MODEL, out=tmp_path / "p.html", check=SCHEMA.check(raw))
