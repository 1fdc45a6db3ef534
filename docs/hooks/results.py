"""Make the pages "Benchmarks" and "Compatibility" from the files that experiments and test runs wrote.

Everything in experiments/results and experiments/benchmarks/results becomes a page below `benchmarks/`, with its
pictures and its raw data beside it. A hook of mkdocs.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
RESULTS, KERNELS = ROOT / "experiments" / "results", ROOT / "experiments" / "benchmarks" / "results"
DATA = (".csv", ".png", ".json")
PEERS = """\
Nothing here was chosen for its outcome: the problems and seeds are fixed in the repository, every measured row is in
the raw data, and the first section lists the comparisons that pgmest loses. Each page states the versions of pgmest and
of its peers, the machine, and the command that measures again. A release measures again what it changed.
"""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages, and the files that they show."""
    found = {
        path.relative_to(folder).as_posix(): path
        for folder in (RESULTS, KERNELS)
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".md", *DATA)
    }
    for name, path in found.items():
        if path.suffix == ".md":
            text = without_missing_links(path.read_text(encoding="utf-8"), found)
            files.append(File.generated(config, f"benchmarks/{name}", content=text))
        elif path.suffix in DATA:
            files.append(File.generated(config, f"benchmarks/{name}", content=path.read_bytes()))
    files.append(File.generated(config, "benchmarks/index.md", content=benchmarks(found)))
    files.append(File.generated(config, "compatibility.md", content=compatibility()))
    return files


def without_missing_links(text: str, found: dict[str, Path]) -> str:
    """Replace links to other files than pages, such as folders of the repository, by their text."""

    def kept(link: re.Match[str]) -> str:
        inside = link["address"].split("#")[0] in found or link["address"].startswith(("http", "#"))
        return link[0] if inside else link["text"]

    return re.sub(r"(?<!!)\[(?P<text>[^]]*)\]\((?P<address>[^)]*)\)", kept, text)


# -- benchmarks -------------------------------------------------------------------------------------------------------


def benchmarks(found: dict[str, Path]) -> str:
    """Return the first page: the comparisons that pgmest loses, and every result."""
    parts = [f"# Benchmarks of pgmest {release()}\n", PEERS, "## What pgmest loses\n"]
    parts += [f"{line}\n" for line in sorted(losses(found))]
    parts += ["## All results\n", "| page | what it measures | raw data |", "|---|---|---|"]
    for name, path in found.items():
        if path.suffix == ".md":
            raw = [other for other in found if other.startswith(path.stem) and other.endswith(".csv")]
            links = ", ".join(f"[{one}]({one})" for one in raw)
            parts.append(f"| [{path.stem.replace('_', ' ')}]({name}) | {title(path)} | {links} |")
    return "\n".join(parts) + "\n"


def losses(found: dict[str, Path]) -> Iterator[str]:
    """Yield the goals that were not reached, and the comparisons that pgmest loses."""
    for name, path in found.items():
        if path.suffix != ".md":
            continue
        text = path.read_text(encoding="utf-8")
        for row in re.findall(r"^\| (.+?) *\| *(\S+) *\| *(.+?) *\| *no *\|$", text, re.MULTILINE):
            yield f"- [{path.stem}]({name}): {row[0]}: {row[1]}, where {row[2]} was aimed at"
        if "## What pgmest loses" in text:
            section = text.split("## What pgmest loses")[1]
            yield from (f"- [{path.stem}]({name}): {line}" for line in re.findall(r"^- (.+)$", section, re.MULTILINE))
        for sentence in re.findall(r"^It is more than .+ worse than that one: .+$", text, re.MULTILINE):
            yield f"- [{path.stem}]({name}): {sentence}"


def title(path: Path) -> str:
    """Return the first heading of a page."""
    found = re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else path.stem


def release() -> str:
    return project()["version"]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


# -- compatibility ----------------------------------------------------------------------------------------------------


def compatibility() -> str:
    """Return the page of tested versions and passed tests."""
    text = (ROOT / "docs" / "hooks" / "compatibility.md").read_text(encoding="utf-8")
    made = {"floors": floors(), "suite": suite(), "mbi": mbi(), "mechanisms": mechanisms(), "opendp": opendp()}
    made |= {"guides": guides(), "release": release(), "first_call": first_call()}
    if not read("compat_mbi.json"):
        made["mbi"] = "It has not been run for this release yet."
    for name, part in made.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def floors() -> str:
    """Return the lowest versions that pyproject.toml allows."""
    lines = ["| package | lowest version |", "|---|---|", f"| Python | {project()['requires-python'].lstrip('>=')} |"]
    wanted = [*project()["dependencies"], *project()["optional-dependencies"]["test"]]
    for requirement in wanted:
        if found := re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement):
            lines.append(f"| {found[1]} | {found[2]} |")
    return "\n".join(lines)


def suite() -> str:
    """Return a table of pgmest's own tests, with the installed versions."""
    lines = ["| run | test files | passed | failed | skipped | versions |", "|---|---:|---:|---:|---:|---|"]
    whole = len(list((ROOT / "tests").rglob("test_*.py")))
    for name, run in read("compat_suite.json").items():
        files = run["files"].values()
        counts = [sum(one["passed"] for one in files), sum(len(one["failed"]) for one in files)]
        versions = ", ".join(f"{package} {version}" for package, version in run["versions"].items())
        skipped = sum(one["skipped"] for one in files)
        ran = sum(file.startswith("tests/") for file in run["files"])
        lines.append(f"| {name} | {ran} of {whole} | {counts[0]:,} | {counts[1]:,} | {skipped:,} | {versions} |")
    return "\n".join(lines)


def mbi() -> str:
    """Return a table of mbi's own tests."""
    lines = ["| mbi | test files run | in scope | passed | left out | with |", "|---|---|---:|---:|---:|---|"]
    more: list[str] = []
    for name, run in read("compat_mbi.json").items():
        files = run["files"].values()
        passed, failed = sum(one["passed"] for one in files), [test for one in files for test in one["failed"]]
        reasons: dict[str, int] = {}
        for one in files:
            for reason, count in one["left_out"].items():
                reasons[reason] = reasons.get(reason, 0) + count
        versions = ", ".join(f"{package} {version}" for package, version in run["versions"].items() if package != "mbi")
        counts = f"{len(files)} of {run['of']} | {passed + len(failed):,} | {passed:,} | {sum(reasons.values())}"
        lines.append(f"| {name} | {counts} | {versions} |")
        more += [f"- {name}, left out {count}: {reason}." for reason, count in reasons.items()]
        chances = {test: why for one in files for test, why in one.get("by_chance", {}).items()}
        more += [f"- {name}, failed: `{test}`" + (f": {chances[test]}." if test in chances else ".") for test in failed]
    return "\n".join([*lines, "", *more])


def mechanisms() -> str:
    """Return a table of mbi's own mechanisms, on pgmest and on mbi."""
    lines = ["| mbi | script | on | processor seconds | mean error of its workload |", "|---|---|---|---:|---:|"]
    for name, run in read("compat_mechanisms.json").items():
        for row in run["rows"]:
            seconds = row["note"] if row["seconds"] is None else f"{row['seconds']:.1f}"
            error = "" if row["error"] is None else f"{row['error']:.3f}"
            lines.append(f"| {name} | {row['mechanism']} | {row['on']} | {seconds} | {error} |")
    return "\n".join(lines) if len(lines) > 2 else "They have not been timed for this release yet."


def first_call() -> str:
    """Return the output of `.ci/first_call`."""
    path = RESULTS / "compat_first_call.txt"
    return (
        f"```text\n{path.read_text(encoding='utf-8')}```" if path.exists() else "It has not been run for this release."
    )


def guides() -> str:
    """Return a table of the guide's sections that ran with the library that they are about."""
    lines = ["| section | blocks that ran | with |", "|---|---:|---|"]
    for name, run in read("compat_guides.json").items():
        versions = ", ".join(f"{package} {version}" for package, version in run["versions"].items())
        anchor = name.lower().replace(" ", "-")
        lines.append(f"| [{name}](guides/coming_from_other_libraries.md#{anchor}) | {run['blocks']} | {versions} |")
    return "\n".join(lines)


def opendp() -> str:
    """Return a table of OpenDP's contingency tables with either estimator."""
    lines = [
        "| opendp | mbi | algorithm | estimator | runs | seconds, first | later | error of pairs |",
        "|---|---|---|---|---:|---:|---:|---:|",
    ]
    for name, run in read("compat_opendp.json").items():
        for row in sorted(run["rows"], key=lambda one: (one["algorithm"], one["estimator"])):
            values = (name, run["versions"]["mbi"], row["algorithm"], row["estimator"], str(row["runs"]))
            later = "" if row["later"] is None else f"{row['later']:.1f}"
            error = f"{row['error of pairs']:.4f} ({row['least']:.4f} to {row['largest']:.4f})"
            lines.append(f"| {' | '.join(values)} | {row['first']:.1f} | {later} | {error} |")
    return "\n".join(lines)


def read(name: str) -> dict[str, Any]:
    """Read a file of results; return an empty dictionary if there is none."""
    path = RESULTS / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
