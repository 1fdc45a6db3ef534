"""`pgmest info`: the content of a model file or a schema."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmest._base.widths import key_of_names, padded, short_names, shortened, width
from pgmest.cli.command import Add, Command, show
from pgmest.cli.facts import level_facts, linked_facts, model_facts, schema_facts, unit_in_words
from pgmest.tables.domain import Domain
from pgmest.tables.hierarchy import SEPARATOR

if TYPE_CHECKING:
    from pgmest.mechanisms.linked import LinkedModel
    from pgmest.schema import LinkedSchema, Schema

INFO_DETAILS = """\
examples:
  pgmest info model.npz
  pgmest info model.npz --json
  pgmest info people.yaml
  pgmest info synthetic/model.npz        (linked tables)
"""

SHOWN = ("promise", "all_runs_so_far", "who_is_protected", "mechanism", "schema", "run", "made")
"""The facts of a model's privacy statement that are shown, if it has them."""
DRAFT = "A DRAFT: it still has facts from private data, which must be replaced by public knowledge."


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
    _shown_model(model, as_json)
    if model.rows_counted and not as_json:
        show(f"\n{model.rows_counted}")
    if privacy := {} if as_json else model.about.get("privacy", {}):
        void = (
            {} if privacy.get("private") else {"promise": f"none: NOT PRIVATE ({privacy.get('promise')} was asked for)"}
        )
        facts = {**privacy, **void}
        lines = (f"{name.replace('_', ' '):16}  {facts[name]}" for name in SHOWN if facts.get(name) is not None)
        show("\n" + "\n".join(lines))


def _shown_model(model: Any, as_json: bool) -> None:
    """Show a model, without the rows that it counts and the promise of its run."""
    import pgmest as pg
    from pgmest.mechanisms.linked import LinkedModel

    privacy = model.about.get("privacy")
    counted = {"rows_counted": model.rows_counted} if model.rows_counted else {}
    counted |= {"privacy": privacy} if privacy else {}
    if isinstance(model, LinkedModel):
        _linked_model(model, as_json)
    elif not isinstance(model, pg.Model):  # a distribution over public records has no tree
        facts = {"total": model.total, "domain": dict(model.domain), **level_facts(model.domain), **counted}
        show(json.dumps(facts, indent=1) if as_json else model)
        if not as_json:
            _show_levels(model.domain)
    elif as_json:
        show(json.dumps(model_facts(model) | counted, indent=1))
    else:
        show(f"{model.total:,.1f} records, {len(model.domain)} attributes: {_sizes_text(model.domain)}")
        _show_levels(model.domain)
        show(f"\n{model.junction_tree}")
        if model.report:
            show(f"\n{model.report}")


def _sizes_text(domain: Domain) -> str:
    """Return the attributes of a domain with their numbers of values."""
    return ", ".join(f"{shortened(name)} ({size})" for name, size in domain.items())


def _linked_model(model: LinkedModel, as_json: bool) -> None:
    """Show what is counted in linked tables, how many there are, and by which attributes."""
    from pgmest.errors import plural

    facts = {name: (model.model_of(name).total, model.domain_of(name)) for name in model.counted}
    if as_json:
        counted = {name: {"total": total, "domain": dict(domain)} for name, (total, domain) in facts.items()}
        facts = {"counted": counted, "rows_counted": model.rows_counted, "privacy": model.about.get("privacy")}
        show(json.dumps(facts, indent=1))
        return
    show(f"linked tables: {model.model!r}")
    for name, (total, domain) in facts.items():
        show(f"\n{name}: {total:,.1f}, {plural(len(domain), 'attribute')}: {_sizes_text(domain)}")
        _show_levels(domain)


def _schema(path: str, as_json: bool) -> None:
    from pgmest.schema import LinkedSchema, Schema

    schema = Schema.load(path)
    if isinstance(schema, LinkedSchema):
        _linked(schema, as_json)
        return
    if as_json:
        show(json.dumps(schema_facts(schema), indent=1))
        return
    if schema.drafted:
        show(DRAFT)
    _columns(schema)


def _linked(schema: LinkedSchema, as_json: bool) -> None:
    if as_json:
        show(json.dumps(linked_facts(schema), indent=1))
        return
    if schema.drafted:
        show(DRAFT)
    show(f"protected: {schema.protection}")
    for name, part in schema.parts.items():
        above = f", at most {part.at_most} for a row of {part.parent}" if part.parent else ""
        show(f"\ntable {name}{above}; key: {', '.join(part.keys)}")
        for column, of in part.computed.items():
            show(f"{column}  {f'the number of {of}' if of else f'1, 2, ... within a row of {part.parent}'}")
        if part.schema.described:
            _columns(part.schema)
        for rule in part.rules:
            show(str(rule))


def _columns(schema: Schema) -> None:
    if schema.unit:
        show(unit_in_words(schema.unit))
    for column in schema.bought.values():
        show(f"{column.name}: {column.wanted}, not bought yet; its codes below are placeholders")
    schema = schema.stand_in()
    short = short_names([*schema.domain, *(one.name for one in schema.sums)])
    most = max(width(text) for text in short.values())
    for name, size in schema.domain.items():
        show(f"{padded(short[name], most)}  {size:>6,} codes  {_shown(schema.labels(name))}")
        if name in schema.domain.hierarchies:
            show(f"  {_levels(schema.domain, name)}")
    for one in schema.sums:
        parts = " + ".join(short.get(part, part) for part in one.parts)
        show(f"{padded(short[one.name], most)}  = {parts}, computed from them")
    for clique, mask in schema.structural_zeros.items():
        show(
            f"{mask.sum():,} of {mask.size:,} combinations of {', '.join(short[name] for name in clique)} cannot occur"
        )
    for text, name in key_of_names(short):
        show(f"{text} = {name}")


def _show_levels(domain: Domain) -> None:
    for name in domain.hierarchies:
        show(_levels(domain, name))


def _levels(domain: Domain, name: str) -> str:
    """Return the levels of an attribute with their numbers of groups, and the labels of the coarsest."""
    tree = domain.hierarchies[name]
    sizes = " > ".join(f"{size:,} {name}{SEPARATOR}{level}" for level, size in tree.sizes.items())
    return f"{sizes} > {tree.values:,} {name}; {tree.names[0]}: {_shown(list(tree.texts(tree.names[0])))}"


def _shown(labels: list[str]) -> str:
    """Return the labels of the codes; of more than six, the first three and the last two."""
    return " | ".join(map(shortened, labels if len(labels) <= 6 else [*labels[:3], "...", *labels[-2:]]))


INFO = Command(
    "info",
    "Show a model's domain, junction tree with its cost, and report of the estimation; or a schema's codes.",
    INFO_DETAILS,
    _options,
    _run,
)
