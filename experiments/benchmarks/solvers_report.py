"""The tables of the solvers benchmark: seconds until a loss is reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.benchmarks.report import heading, markdown, number, outdated, section, write_csv
from experiments.benchmarks.solvers import CASES
from experiments.benchmarks.store import Store
from pgmest._base.files import write_atomically

COMMAND = "python -m experiments.benchmarks solvers"
SHARES = (0.1, 0.01, 0.001)
OWN_DEFAULT = "accelerated"
NOTES = """\
The loss is the sum of 1/2 ||(mu - y) / sigma||^2 with mu in counts; the total is known. "Best" is the least loss known:
the smaller of a published one and the least that any method reached here. Seconds leave out evaluating the loss. For
pgmest they run from the measurements to the marginals, junction tree and plan included; what it has at any moment is a
model. For mbi they leave out compilation (a column of its own) and, for all but mirror descent and L-BFGS, the fit of
potentials to the marginals that its `estimate` ends with ("fit", with the loss of the model it gives; "over" where the
fit was stopped): before it there are marginals but no model. mbi's universal method is run with its line search too.
"0.1 % proven" is the time of a run of `estimate` by itself, which stops as soon as its certificate says so."""

Trace = Mapping[str, Any]


def write_report(stores: Mapping[str, Store], records: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Write solvers.md and one CSV of traces per side; returns the text of solvers.md."""
    folder = stores["pgmest"].folder
    everything = [record for side in records.values() for record in side]
    old = [name for side in stores for name in outdated(stores[side], records[side], _name)]
    results = traces_of(record["result"] for record in everything)
    failures = [record["result"] for record in everything if "failed" in record["result"]]
    sections = [heading("Solvers: pgmest and mbi", COMMAND, everything, old), NOTES]
    sections.append(section("What was aimed at", aims_table(results)))
    for case in CASES:
        traces = [trace for trace in results if trace["problem"] == case]
        if traces:
            sections.append(section(f"{CASES[case].make().title}: seconds until", reach_table(case, traces)))
            sections += [
                f"mbi {failure['method']} has no trace: {failure['failed']} (compilation included)."
                for failure in failures
                if failure["problem"] == case
            ]
            sections.append(section(f"{case}: pgmest against where mbi's methods end", end_table(traces)))
    text = "\n\n".join(filter(None, sections)) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "solvers.md", text)
    for side, kept in records.items():
        traces = traces_of(record["result"] for record in kept)
        write_csv(folder / f"solvers_{side}.csv", [row for trace in traces for row in _rows(trace)])
    return text


def traces_of(results: Iterable[Trace]) -> list[Trace]:
    """Those of the results that have a trace: the method did not fail."""
    return [result for result in results if "failed" not in result]


def best_loss(case: str, traces: Sequence[Trace]) -> float:
    """The least loss known of a problem."""
    return min([loss for trace in traces for loss in trace["losses"]] + [CASES[case].optimum or float("inf")])


def seconds_to(trace: Trace, loss: float) -> float | None:
    """Seconds until a trace is at most at `loss`."""
    return next((s for s, value in zip(trace["seconds"], trace["losses"], strict=True) if value <= loss), None)


def reach_table(case: str, traces: Sequence[Trace]) -> str:
    best = best_loss(case, traces)
    columns = ["method", *(f"{100 * share:g} % above best" for share in SHARES), "0.1 % proven"]
    columns += ["loss at the end", "iterations", "seconds", "compilation", "fit", "loss of the model"]
    rows = [
        [f"{trace['side']} {trace['method']}"]
        + [number(seconds_to(trace, best * (1 + share))) for share in SHARES]
        + [number(trace.get("certified_seconds"))]
        + [f"{trace['losses'][-1]:,.2f}", f"{trace['iterations'][-1]:,}"]
        + [number(trace["seconds"][-1]), number(trace["compile_seconds"]), _fit(trace)]
        + ["-" if trace["model_loss"] is None else f"{trace['model_loss']:,.2f}"]
        for trace in traces
    ]
    return f"The best loss known is {best:,.2f}.\n\n" + markdown(columns, rows)


def end_table(traces: Sequence[Trace]) -> str:
    """Return how much sooner pgmest's default reaches the least loss of each of mbi's methods."""
    own = next((t for t in traces if (t["side"], t["method"]) == ("pgmest", OWN_DEFAULT)), None)
    if own is None:
        return ""
    rows = []
    for trace in traces:
        least = min(trace["losses"])
        mine = seconds_to(own, least)
        if trace["side"] == "mbi" and mine is not None:
            times = _stages(trace, least)
            ratios = [None if seconds is None else seconds / mine for seconds in times]
            rows.append([f"mbi {trace['method']}", f"{least:,.2f}", *map(number, [mine, *times, *ratios])])
    columns = ["mbi's method", "its least loss", f"pgmest {OWN_DEFAULT}, s", "mbi, s", "with compilation, s"]
    columns += ["with compilation and fit, s", "mbi / pgmest", "with compilation", "with compilation and fit"]
    return markdown(columns, rows)


def aims_table(traces: Sequence[Trace]) -> str:
    """Return the time of pgmest's default to within 0.1 % of the best loss, and how much longer mbi takes."""
    found = {(trace["problem"], trace["side"], trace["method"]): trace for trace in traces}
    rows: list[list[str]] = []

    def add(text: str, value: float | None, wanted: float, at_least: bool) -> None:
        if value is not None:
            met = value >= wanted if at_least else value <= wanted
            rows.append(
                [text, number(value), f"at {'least' if at_least else 'most'} {wanted:g}", "yes" if met else "no"]
            )

    for problem, most in CERTIFIED.items():
        certified = found.get((problem, "pgmest", OWN_DEFAULT), {}).get("certified_seconds")
        add(f"{problem}: seconds until a loss within 0.1 % of the optimum is proven", certified, most, False)
    for problem, method, wanted in AIMS:
        own, other = found.get((problem, "pgmest", OWN_DEFAULT)), found.get((problem, "mbi", method))
        if own is None:
            continue
        best = best_loss(problem, [trace for trace in traces if trace["problem"] == problem])
        add(f"{problem}: seconds to 1 % above the best loss", seconds_to(own, 1.01 * best), 0.25, False)
        mine = own.get("certified_seconds")
        if other is None or mine is None:
            continue
        loss = max(min(other["losses"]), 1.001 * best)
        for stage, seconds, limit in zip(STAGES, _stages(other, loss), wanted, strict=True):
            text = f"{problem}: mbi {method} to a loss of {loss:,.0f}{stage} / pgmest certified within 0.1 %"
            add(text, None if seconds is None else seconds / mine, limit, True)
    return markdown(["aim", "measured", "wanted", "met"], rows)


CERTIFIED = {"adult14-pairs": 0.1, "adult14-fifteen": 1.0}
"""The time limit, in seconds."""

AIMS = (
    ("adult14-pairs", "universal_accelerated_linesearch", (100, 100, 100)),
    ("adult14-nine", "mirror_descent", (5, 20, 20)),
)
STAGES = ("", ", with compilation", ", with compilation and fit")


def _stages(trace: Trace, loss: float) -> tuple[float | None, float | None, float | None]:
    """Seconds until a trace is at `loss`: of iterations alone, with compilation, and with the fit of a model."""
    marginals = seconds_to(trace, loss)
    if marginals is None:
        return None, None, None
    compiled = marginals + trace["compile_seconds"]
    return marginals, compiled, None if trace["fit_seconds"] is None else compiled + trace["fit_seconds"]


def _fit(trace: Trace) -> str:
    known = trace["fit_seconds"] is None or trace["fit_complete"]
    return number(trace["fit_seconds"]) if known else f"over {number(trace['fit_seconds'])}"


def _name(trace: Trace) -> str:
    return f"{trace['problem']} {trace['side']} {trace['method']}"


def _rows(trace: Trace) -> list[dict[str, Any]]:
    calls = trace.get("oracle_calls") or [None] * len(trace["losses"])
    return [
        {
            "problem": trace["problem"],
            "method": trace["method"],
            "iteration": iteration,
            "oracle_calls": call,
            "seconds": f"{seconds:.6g}",
            "seconds_with_compilation": f"{seconds + trace['compile_seconds']:.6g}",
            "loss": f"{loss:.10g}",
        }
        for iteration, call, seconds, loss in zip(
            trace["iterations"], calls, trace["seconds"], trace["losses"], strict=True
        )
    ]
