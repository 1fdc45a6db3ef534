"""The report on a finished run of LAMP."""

from pgmest.mechanisms.lamp.scored_rounds import MeasuredMarginal, measurement_report


def test_the_report_says_what_was_measured_and_why():
    measured = [
        MeasuredMarginal(0, ("age",), (85,), 0.2, 3.0),
        MeasuredMarginal(1, ("age", "sex"), (8, 2), 0.5, 2.0, 0.3, 0.01),
        MeasuredMarginal(2, ("sex", "income"), (2, 2), 0.1, 5.0, 0.1, 0.02),
    ]
    lines = measurement_report(measured).splitlines()
    assert lines[0] == "20% of the budget for one-way marginals, the rest for 2 pairs and scores"
    assert lines[2].split() == ["age", "x", "sex", "1", "8x2", "50.00%", "0.3000", "0.0100"]
    assert measurement_report(measured[:1]).count("\n") == 0
    many = [MeasuredMarginal(1, ("a", "b"), (2, 2), 0.01, 1.0, 0.2, 0.1)] * 20
    assert measurement_report(many).endswith("and 8 measurements with less gain")


def test_the_report_names_triples_and_the_public_table():
    measured = [MeasuredMarginal(3, ("a", "b", "c"), (2, 2, 2), 0.5, 2.0, 0.3, 0.01)]
    assert measurement_report(measured).splitlines()[0].endswith("the rest for 0 pairs, 1 triple and scores")
    assert "the public table gives the dependence of 2 pairs" in measurement_report(measured, 2)
