"""`pgmest info`: what is in a model file or a schema."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pgmest._base.widths import padded, width
from pgmest.cli.command import Add, Command
from pgmest.cli.facts import model_facts, schema_facts, unit_in_words

INFO_DETAILS = """\
examples:
  pgmest info model.npz
  pgmest info model.npz --json
  pgmest info people.yaml
"""


def _options(add: Add) -> None:
    add("file", metavar="FILE", help="a model, .npz; or a schema, .yaml, .yml or .toml")
    add("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> None:
    if Path(options.file).suffix.lower() in (".yaml", ".yml", ".toml"):
        _schema(options.file, options.json)
    else:
        _model(options.file, options.json)


def _model(path: str, as_json: bool) -> None:
    import pgmest as pg

    model = pg.load(path)
    if not isinstance(model, pg.Model):  # a distribution over public records has no tree
        print(json.dumps({"total": model.total, "domain": dict(model.domain)}, indent=1) if as_json else model)
    elif as_json:
        print(json.dumps(model_facts(model), indent=1))
    else:
        sizes = ", ".join(f"{name} ({size})" for name, size in model.domain.items())
        print(f"{model.total:,.1f} records, {len(model.domain)} attributes: {sizes}\n\n{model.junction_tree}")
        if model.report:
            print(f"\n{model.report}")


def _schema(path: str, as_json: bool) -> None:
    from pgmest.data.schema import Schema

    schema = Schema.load(path)
    if as_json:
        print(json.dumps(schema_facts(schema), indent=1))
        return
    if schema.drafted:
        print("A DRAFT: what it takes from private data is not yet replaced by public knowledge.")
    if schema.unit:
        print(unit_in_words(schema.unit))
    for column in schema.bought.values():
        print(f"{column.name}: {column.wanted}, yet to be bought; the codes below are made up")
    schema = schema.stand_in()
    most = max(width(name) for name in schema.domain)
    for name, size in schema.domain.items():
        print(f"{padded(name, most)}  {size:>6,} codes  {_shown(schema.labels(name))}")
    for clique, mask in schema.structural_zeros.items():
        print(f"{mask.sum():,} of {mask.size:,} combinations of {', '.join(clique)} cannot occur")


def _shown(labels: list[str]) -> str:
    """What the codes stand for; of many the first and the last."""
    return " | ".join(labels if len(labels) <= 6 else [*labels[:3], "...", *labels[-2:]])


INFO = Command(
    "info",
    "Show a model's domain, its junction tree with its cost, and how the estimate went; or a schema's codes.",
    INFO_DETAILS,
    _options,
    _run,
)
