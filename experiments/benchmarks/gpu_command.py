"""`python -m experiments.benchmarks gpu`: measure what has no current result, then write the table."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.benchmarks.gpu import CASES, MBI_SCHEDULES, PRECISIONS, run_case
from experiments.benchmarks.report import heading, markdown, milliseconds, number, outdated, section
from experiments.benchmarks.runner import chosen, kept, measure_all
from experiments.benchmarks.store import Store
from pgmest._base.files import write_atomically
from pgmest.errors import DeviceError
from pgmest.inference.device.loading import load_device

MEASURED = (
    "pgmest/inference/device/*.py",
    "pgmest/inference/exact/plan_nodes.py",
    "pgmest/inference/exact/propagation_plan.py",
    "experiments/benchmarks/gpu.py",
)
COMMAND = "python -m experiments.benchmarks gpu"
NOTES = """\
Milliseconds. The first call includes the junction tree and the plan, and mbi's its compilation; our kernels are
compiled once per installation, in the time that "compiling" says. Later calls have their arrays on the device and wait
until the marginals are there; "NumPy" copies them to the device and back. mbi is the fastest of its three schedules and
the alias `fast`; JAX computes in float32 by default. "times" columns say how many times longer mbi takes, in the same
precision. "difference" is the largest of a marginal from the oracle on the processor."""

Result = Mapping[str, Any]


def run(options: Namespace) -> None:
    """Measure, print the table, and write gpu.md; without a device only say so."""
    try:
        load_device()
    except DeviceError as error:
        print(f"gpu: not measured. {error}")
        return
    store = Store.of("gpu", options.quick, MEASURED)
    measure_all(store, chosen(CASES, options.only), lambda name: run_case(name, options.quick), options.fresh)
    records = kept(store, CASES)
    if not records:
        raise SystemExit("nothing was measured.")
    results = [record["result"] for record in records]
    old = outdated(store, records, lambda result: result["problem"])
    title = heading("The oracle on a GPU", COMMAND, records, old)
    errors = [f"- {r['problem']}, {side}: {text}" for r in results for side, text in r["errors"].items()]
    devices = sorted({times["device"] for r in results for times in r["times"].values() if "device" in times})
    parts = [
        f"{title}\n- On {', '.join(devices) or 'no device'}.",
        NOTES,
        table(results),
        section("What did not run", "\n".join(errors)),
    ]
    text = "\n\n".join(filter(None, parts)) + "\n"
    store.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(store.folder / "gpu.md", text)
    print(text)


def table(results: Sequence[Result]) -> str:
    """A row for each problem and precision."""
    columns = ["problem", "vectors", "tree cells", "precision", "compiling", "first", "later", "NumPy"]
    columns += ["mbi first", "mbi later", "times: first", "times: later", "processor", "difference"]
    return markdown(columns, [_row(result, precision) for result in results for precision in PRECISIONS])


def _row(result: Result, precision: str) -> list[str]:
    times = result["times"]
    own = times.get(f"GPU, {precision}", {})
    sides = [times.get(f"mbi {schedule}, {precision}", {}) for schedule in MBI_SCHEDULES]
    first, later = (min((s[key] for s in sides if key in s), default=None) for key in ("first", "later"))
    ratios = [
        number(theirs / own[key]) if theirs is not None and key in own else "-"
        for theirs, key in ((first, "first"), (later, "later"))
    ]
    return [
        result["problem"],
        f"{result['vectors']:,}",
        f"{result['tree_cells']:,}",
        precision,
        *(milliseconds(own.get(key)) for key in ("compiling", "first", "later", "later, NumPy")),
        milliseconds(first),
        milliseconds(later),
        *ratios,
        milliseconds(times.get("processor", {}).get("later")),
        number(own.get("difference"), 2),
    ]
