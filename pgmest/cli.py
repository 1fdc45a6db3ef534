"""The command line: `pgmest measure | estimate | info | query | sample`, from files to files.

Each command is one function that reads its arguments and calls the library. Results go to standard output or to the
file named; progress and errors go to standard error, so that commands can be piped.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import io
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from pgmest.domain import Clique, Domain
from pgmest.errors import ArgumentError, FileFormatError, PgmestError
from pgmest.files import read_text, write_atomically
from pgmest.usage import make_parser

if TYPE_CHECKING:
    from pgmest.factor import Factor
    from pgmest.model import Model


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0 when done, 1 after an error, 2 for wrong usage, 130 when interrupted."""
    options = make_parser(COMMANDS).parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except PgmestError as error:
        print(f"pgmest: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # Of standard output: files raise a PgmestError. Python flushes it again at exit, and that must not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # which is a reader that has seen enough (`| head`)
            print(f"pgmest: error: {error}", file=sys.stderr)
            return 1
    except KeyboardInterrupt:
        print("pgmest: interrupted.", file=sys.stderr)
        return 130
    return 0


# -- commands -------------------------------------------------------------------------------------------------------


def _measure(options: argparse.Namespace) -> None:
    import pgmest as pg
    from pgmest.measurement_file import save_measurements
    from pgmest.simulation import simulate_measurements

    domain = Domain.load(options.domain)
    cliques = [_clique(text) for text in options.cliques or ()] + _cliques_of_file(options.cliques_file)
    if not cliques:
        raise ArgumentError("no clique to measure: name some with --cliques age,income sex, or with --cliques-file.")
    data = pg.Dataset.load(options.data, domain)
    measurements = simulate_measurements(data, cliques, options.stddev, seed=options.seed)
    save_measurements(options.out, measurements)
    print("pgmest: these measurements are simulated; they are NOT private.", file=sys.stderr)


def _estimate(options: argparse.Namespace) -> None:
    import pgmest as pg
    from pgmest.measurement_file import load_measurements
    from pgmest.progress import progress_bar

    domain = Domain.load(options.domain)
    measurements = load_measurements(options.measurements, domain)
    with progress_bar() as callback:
        model = pg.estimate(
            measurements,
            domain,
            total=options.total,
            method=options.method,
            loss=options.loss,
            tolerance=options.tolerance,
            max_iterations=options.max_iterations,
            max_megabytes=options.max_megabytes,
            callback=callback,
        )
    model.save(options.out)
    print(model.report)
    if model.report and model.report.message.startswith("interrupted"):  # what had been found is saved nevertheless
        raise KeyboardInterrupt


def _info(options: argparse.Namespace) -> None:
    import pgmest as pg

    model = pg.load(options.model)
    if options.json:
        print(json.dumps(_facts(model), indent=1))
    else:
        sizes = ", ".join(f"{name} ({size})" for name, size in model.domain.items())
        print(f"{model.total:,.1f} records, {len(model.domain)} attributes: {sizes}\n\n{model.junction_tree}")
        if model.report:
            print(f"\n{model.report}")


def _query(options: argparse.Namespace) -> None:
    import pgmest as pg

    model = pg.load(options.model)
    tables = model.project_many(_clique(text) for text in options.cliques)
    write = _write_json if options.json else _write_csv
    if options.out is None:
        write(tables, sys.stdout)
    else:
        text = io.StringIO()
        write(tables, text)
        write_atomically(options.out, text.getvalue())


def _sample(options: argparse.Namespace) -> None:
    import pgmest as pg
    from pgmest.sampling import write_samples

    write_samples(pg.load(options.model), options.rows, options.out, method=options.method, seed=options.seed)


COMMANDS = {"estimate": _estimate, "info": _info, "query": _query, "sample": _sample, "measure": _measure}


# -- cliques and tables ---------------------------------------------------------------------------------------------


def _clique(text: str) -> Clique:
    """The attributes of a clique as written on the command line."""
    if not text.lstrip().startswith("["):
        return tuple(name.strip() for name in text.split(","))
    try:
        return _names(json.loads(text))
    except ValueError:
        raise ArgumentError.of("clique", text, 'a JSON list of names such as ["age", "income"]') from None


def _cliques_of_file(path: str | None) -> list[Clique]:
    if path is None:
        return []
    try:
        return [_names(clique) for clique in json.loads(read_text(path))]
    except (ValueError, TypeError) as error:
        if isinstance(error, PgmestError):
            raise
        remedy = 'A file of cliques is a JSON list of lists of names, such as [["age", "sex"], ["income"]].'
        raise FileFormatError.of(path, "not a list of cliques.", remedy) from None


def _names(value: Any) -> Clique:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("not a list of names")
    return tuple(value)


def _facts(model: Model) -> dict[str, Any]:
    """What `info --json` prints; numbers that JSON does not have (a gap that is infinite) become null."""
    tree = model.junction_tree
    report = dataclasses.asdict(model.report) if model.report else {}
    return {
        "total": model.total,
        "total_stddev": model.total_stddev,
        "domain": dict(model.domain),
        "measured_cliques": [list(clique) for clique in model.cliques],
        "junction_tree": {"cliques": [list(clique) for clique in tree.cliques], "total_cells": tree.total_cells},
        "report": {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in report.items()
        },
    }


def _write_csv(tables: Iterable[Factor], stream: TextIO) -> None:
    """One table after the other, an empty line between them: a column per attribute, then the count."""
    writer = csv.writer(stream, lineterminator="\n")
    for position, table in enumerate(tables):
        if position:
            stream.write("\n")
        writer.writerow([*table.domain.attributes, "count"])
        for codes, count in zip(np.ndindex(table.values.shape), table.datavector(), strict=True):
            writer.writerow([*codes, f"{count:.10g}"])


def _write_json(tables: Iterable[Factor], stream: TextIO) -> None:
    """A list of tables; the counts are nested lists with an axis per attribute."""
    listed = [{"attributes": list(table.domain), "counts": table.values.tolist()} for table in tables]
    stream.write(json.dumps(listed) + "\n")
