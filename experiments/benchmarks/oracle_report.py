"""The tables and plots of the oracle benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.benchmarks.oracle import FRONT_DOOR, MBI_SCHEDULES, best_mbi, own_label, thread_counts
from experiments.benchmarks.report import MISSING, heading, markdown, milliseconds, number, outdated, section, write_csv
from experiments.benchmarks.store import Store
from pgmest._base.files import write_atomically

COMMAND = "python -m experiments.benchmarks oracle"
LABELS = [f"mbi {schedule}" for schedule in MBI_SCHEDULES]
NOTES = """\
All times are medians. pgmest, mbi and `np.exp` took turns in one process; a ratio is the median over rounds of the
ratio in a round. mbi is compiled, in float64, and uses all processors. Its `fast` is an alias that it keeps for older
code: the implicit schedule, contracting in linear space, which returns NaN where potentials are large (see below). It
is compared apart from the three schedules that mbi documents. In columns named "loop" mbi runs 50 calls in one compiled
program, each with an update of the potentials, as its own estimators do; pgmest is called from Python each time."""

Result = dict[str, Any]


def write_report(store: Store, records: Sequence[Mapping[str, Any]]) -> str:
    """Write oracle.md and oracle.csv; returns the text of oracle.md."""
    results = [record["result"] for record in records]
    old = outdated(store, records, lambda result: result["problem"])
    sections = [
        heading("The MARGINAL-ORACLE: pgmest and mbi", COMMAND, records, old),
        NOTES,
        section("What was aimed at", aims_table({result["problem"]: result for result in results})),
        section("Milliseconds a call", calls_table(results)),
        section("How many times longer a call of mbi takes", ratios_table(results)),
        section("Milliseconds from a new set of cliques to the first marginals", new_table(results)),
        section(
            "Largest difference of any probability between pgmest and mbi", differences_table(results, "differences")
        ),
        section("The same, potentials 1000 times larger", differences_table(results, "wide_differences")),
        section(
            "Peak memory with the first call, MB above what the process held before", memory_table(results, "first")
        ),
        section("Peak memory of later calls, MB above the same", memory_table(results, "later")),
        section("What did not run", errors_list(results)),
    ]
    text = "\n\n".join(filter(None, sections)) + "\n"
    store.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(store.folder / "oracle.md", text)
    write_csv(store.folder / "oracle.csv", csv_rows(records))
    return text


def most_threads() -> str:
    return own_label(max(thread_counts()))


# -- tables ------------------------------------------------------------------------------------------------------------


def calls_table(results: Sequence[Result]) -> str:
    own = [own_label(threads) for threads in thread_counts()]
    others = [FRONT_DOOR, "pgmest max-product", "np.exp", *LABELS]
    rows = [
        [result["problem"], f"{result['measured_cells']:,}", f"{result['tree_cells']:,}"]
        + [milliseconds(_median(result, label)) for label in own + others]
        for result in results
    ]
    return markdown(["problem", "measured cells", "tree cells", *own, *others], rows)


def ratios_table(results: Sequence[Result]) -> str:
    """The best of mbi's three schedules, its alias, and the best of all in a compiled loop."""
    own = [own_label(threads) for threads in thread_counts()]
    columns = ["problem", *(f"{what} / {label}" for what in ("best of 3", "fast", "best loop") for label in own)]
    rows = []
    for result in results:
        others = [
            best_mbi(result, LABELS[:3]),
            LABELS[3],
            best_mbi(result, [f"{label}, compiled loop" for label in LABELS]),
        ]
        ratios = [_ratio(result, label, other) for other in others for label in own]
        exponential = _ratio(result, own[0], "np.exp")
        ratios += [1 / exponential if exponential else None, 1e6 * result["dispatch_seconds"]]
        rows.append([result["problem"], *map(number, ratios)])
    return markdown([*columns, f"{own[0]} / np.exp", "dispatch, µs"], rows)


def new_table(results: Sequence[Result]) -> str:
    columns = ["problem", "tree", "plan", "first call", "in all", "in all, first in the process", "kernels, a process"]
    rows = []
    for result in results:
        parts = list(result["new"].values())
        times = [*parts, sum(parts), result["new_cold_seconds"], result["kernels_seconds"]]
        times += [result["first_seconds"].get(label) for label in LABELS]
        rows.append([result["problem"], *map(milliseconds, times)])
    return markdown([*columns, *LABELS], rows)


def differences_table(results: Sequence[Result], key: str) -> str:
    rows = [
        [result["problem"], *(_nan_or_number(result[key], label) for label in LABELS)]
        for result in results
        if result["differences"]
    ]
    return markdown(["problem", *LABELS], rows)


def memory_table(results: Sequence[Result], when: str) -> str:
    columns = ["problem", "tree cells", "pgmest", *LABELS, "leanest mbi / pgmest"]
    rows = []
    for result in results:
        if "memory" in result:
            peaks = {label: memory[f"{when}_megabytes"] for label, memory in result["memory"].items()}
            cells = [peaks.get(label) for label in ["pgmest", *LABELS]] + [_leanest_ratio(peaks)]
            rows.append([result["problem"], f"{result['tree_cells']:,}", *map(number, cells)])
    return markdown(columns, rows)


def errors_list(results: Sequence[Result]) -> str:
    lines = [
        f"- {result['problem']}, {label}: {text}" for result in results for label, text in result["errors"].items()
    ]
    lines += [f"- {result['problem']}: mbi, not asked for" for result in results if not _has_mbi(result)]
    return "\n".join(lines) or "Everything did."


def csv_rows(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row per problem and subject, in seconds and megabytes."""
    rows = []
    for record in records:
        result = record["result"]
        shared = {key: result[key] for key in ("problem", "attributes", "cliques", "measured_cells", "tree_cells")}
        for label, call in result["calls"].items():
            memory = result.get("memory", {}).get("pgmest" if label == most_threads() else label, {})
            rows.append(
                {
                    **shared,
                    "subject": label,
                    "median_seconds": call["median"],
                    "least_seconds": call["least"],
                    "calls": call["calls"],
                    "first_seconds": result["first_seconds"].get(label),
                    "difference": result["differences"].get(label),
                    **{f"times {own}": result["ratios"][own].get(label, 1.0) for own in result["ratios"]},
                    **memory,
                    "measured": record["measured"],
                    "code": record["code"],
                }
            )
    return rows


# -- what was aimed at -------------------------------------------------------------------------------------------------


def aims_table(results: Mapping[str, Result]) -> str:
    rows = [
        [text, number(value), limit, MISSING if value is None else met] for text, value, limit, met in _aims(results)
    ]
    return markdown(["aim", "measured", "wanted", "met"], rows)


def _aims(results: Mapping[str, Result]) -> list[tuple[str, float | None, str, str]]:
    one, most = own_label(1), most_threads()
    aims: list[tuple[str, float | None, str, str]] = []

    def add(text: str, value: float | None, wanted: float, at_least: bool) -> None:
        met = value is not None and (value >= wanted if at_least else value <= wanted)
        sign = "at least" if at_least else "at most"
        aims.append((text, value, f"{sign} {wanted:g}", "yes" if met else "no"))

    def faster(name: str, wanted: float, label: str, alias: float | None = None) -> None:
        if name in results:
            result = results[name]
            best = best_mbi(result, LABELS[:3])
            add(f"{name}: best of mbi's 3 schedules / {label}, a call", _ratio(result, label, best), wanted, True)
            add(
                f"{name}: mbi's alias `fast` / {label}, a call", _ratio(result, label, LABELS[3]), alias or wanted, True
            )

    for name, wanted in {"chain-10": 8, "chain-30": 10, "chain-100": 10, "chain-300": 10, "adult14-pairs": 5}.items():
        faster(name, wanted, one)
    if "chain-1000" in results:
        long = results["chain-1000"]
        add("chain-1000: pgmest / np.exp, one thread", 1 / (_ratio(long, one, "np.exp") or 1), 4, False)
        add("chain-1000: new cliques to first marginals, first in the process, s", long["new_cold_seconds"], 1.5, False)
    if {"chain-100", "chain-3000"} <= results.keys():
        each = [(_median(results[f"chain-{d}"], one) or 0.0) / d for d in (100, 3000)]
        add("chain: time an attribute, d = 3000 / d = 100", each[1] / each[0], 1.25, False)
    if "adult14-pairs" in results:
        pairs = results["adult14-pairs"]
        add("adult14-pairs: Python and dispatch, microseconds a call", 1e6 * pairs["dispatch_seconds"], 20, False)
        add("adult14-pairs: new cliques to first marginals, ms", 1e3 * pairs["new_cold_seconds"], 10, False)
    for name, result in results.items():
        if _ratio(result, most, FRONT_DOOR):
            add(f"{name}: pg.marginals / {most}, a call", _ratio(result, most, FRONT_DOOR), 1.3, False)
    faster("adult14-fifteen", 30, most, alias=4)
    for name in (f"census-1e{exponent}" for exponent in (5, 6, 7, 8)):
        faster(name, 30, most, alias=4)
        for when in ("first", "later"):
            memory = results.get(name, {}).get("memory", {})
            ratio = _leanest_ratio({label: peaks[f"{when}_megabytes"] for label, peaks in memory.items()})
            if ratio is not None:
                add(f"{name}: peak memory, leanest mbi / pgmest, {when} call", ratio, 2, True)
    return aims


def _has_mbi(result: Result) -> bool:
    return bool(result["first_seconds"] or result["errors"])


def _median(result: Result, label: str) -> float | None:
    return result["calls"].get(label, {}).get("median")


def _ratio(result: Result, own: str, other: str | None) -> float | None:
    return result["ratios"][own].get(other) if own in result["ratios"] and other else None


def _leanest_ratio(peaks: Mapping[str, float]) -> float | None:
    others = [peak for label, peak in peaks.items() if label != "pgmest"]
    return min(others) / max(peaks["pgmest"], 0.1) if others else None


def _nan_or_number(values: Mapping[str, float | None], label: str) -> str:
    if label not in values:
        return MISSING
    return "NaN" if values[label] is None else number(values[label], 2)
