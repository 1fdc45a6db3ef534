"""The project around the code: a light import, one version, declared dependencies, documented public names."""

import ast
import importlib
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from tests.effort import examples

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(pg.__file__).resolve().parent
HEAVY = {
    "networkx",
    "matplotlib",
    "narwhals",
    "numba",
    "opendp",
    "pandas",
    "polars",
    "pyarrow",
    "scipy.optimize",
    "sklearn",
    "tqdm",
    "yaml",
}
DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "pyyaml"}
"""The distributions whose name differs from that of their package."""


def loaded_by(statement: str) -> set[str]:
    """The modules that are loaded after a statement in a fresh interpreter."""
    code = f"{statement}\nimport sys\nprint(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("statement", ["import pgmest", "from pgmest import *", "import pgmest.cli"])
def test_import_loads_nothing_heavy(statement):
    assert loaded_by(statement) & HEAVY == set()


def test_import_loads_names_when_they_are_asked_for():
    """All 230 modules take 0.4 s of a processor, so that a program waits only for those it uses."""
    loaded = {name for name in loaded_by("import pgmest") if name.split(".")[0] in ("pgmest", "numpy")}
    assert {name for name in loaded if not name.startswith("pgmest._base")} == {"pgmest"}
    assert "pgmest.solvers" not in loaded_by("from pgmest import Domain")
    assert "pgmest.solvers" in loaded_by("from pgmest import estimate")


def test_names_are_what_a_type_checker_takes_them_for():
    body = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body
    (for_types,) = (node for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    names: dict[str, object] = {}
    exec(compile(ast.Module(for_types.body, []), "the block for type checkers", "exec"), names)
    del names["__builtins__"]
    assert [name for name, there in names.items() if getattr(pg, name) is not there] == []
    assert {*names, "__version__"} == set(pg.__all__)


def test_noise_loads_only_what_draws_it():
    """OpenDP's prelude would load pandas, polars and scikit-learn: more than a second of a first call."""
    statement = "from pgmest.privacy.noise import OpenDP; OpenDP().selection_price(1.0, 1, True, True)"
    loaded = loaded_by(statement)
    assert "opendp.measurements" in loaded
    assert loaded & (HEAVY | {"scipy.stats"}) - {"opendp"} == set()


def test_only_the_kernels_import_numba():
    importing = [path for path in PACKAGE.rglob("*.py") if "numba" in imported_by(path)]
    assert importing
    assert [path.name for path in importing if not path.name.endswith("kernels.py")] == ["compiled.py"]


def imported_by(path: Path) -> set[str]:
    """The top-level packages that a file imports anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def test_every_package_imported_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for_users = [lines for extra, lines in extras.items() if extra not in ("bench", "compat", "dev", "docs", "test")]
    declared = {re.split(r"[\[<>=]", line)[0] for lines in [project["dependencies"], *for_users] for line in lines}
    imported = set.union(*(imported_by(path) for path in PACKAGE.rglob("*.py")))
    outside = imported - set(sys.stdlib_module_names) - {"pgmest"}
    assert {DISTRIBUTIONS.get(name, name) for name in outside} <= declared


def test_version_is_the_changelogs_latest():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    latest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert latest is not None
    assert project["version"] == latest[1] == pg.__version__
    assert f"version: {project['version']}\n" in (ROOT / "CITATION.cff").read_text()


def test_installed_scripts_are_functions():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts
    for target in scripts.values():
        module, name = target.split(":")
        assert callable(getattr(importlib.import_module(module), name)), target


def test_the_conda_recipe_asks_for_what_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "packaging" / "conda" / "meta.yaml").read_text()
    run = re.search(r"\n  run:\n((?:    - .+\n)+)", recipe)
    assert run is not None
    wanted = {line.strip("- ").replace(" ", "") for line in run[1].splitlines()}
    assert wanted == {*project["dependencies"], f"python{project['requires-python']}"}
    assert f'version = "{project["version"]}"' in recipe
    assert all(f"- {name} = {target}" in recipe for name, target in project["scripts"].items())


def test_every_public_name_is_documented():
    undocumented = [name for name in pg.__all__ if name[0].isupper() and not getattr(pg, name).__doc__]
    assert undocumented == []


@pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="no README.md here")
def test_names_used_in_the_readme_exist():
    names = set(re.findall(r"\bpg\.(\w+)", (ROOT / "README.md").read_text()))
    missing = sorted(name for name in names if not hasattr(pg, name))
    assert names
    assert missing == []


@pytest.mark.skipif(not (ROOT / ".ci" / "prose").exists(), reason="no .ci here")
def test_the_prose_check_finds_fragments_and_turns_of_phrase():
    found = runpy.run_path(str(ROOT / ".ci" / "prose"))["findings"]
    source = '''"""The module."""
SIZE = 3
"""Of a block."""

class Table:
    """What a table holds."""

    cells: int
    """The number of cells; it stands for more."""

    def rows(self):
        """Return whether there are rows; None if there is none."""

    def columns(self):
        """Whether there are columns."""
'''
    count, fragments, phrases = found(source)
    assert count == 6
    assert sorted(fragments) == [(3, "Of a block."), (6, "What a table holds."), (15, "Whether there are columns.")]
    assert phrases == [(9, "stands for")]


@pytest.mark.skipif(not (ROOT / ".ci" / "size").exists(), reason="no .ci here")
def test_the_size_check_counts_code_parameters_and_constants():
    size = runpy.run_path(str(ROOT / ".ci" / "size"))
    source = '''"""The module, which is not counted."""
import math  # nor is this

LEAST, MOST = 1, 2
"""Two constants."""
other = 3

def area(width, *, height=2.0):
    """Return the area."""
    return (width *
            height)  # in pixels

def _hidden(a, b): ...

@dataclass(frozen=True)
class Box:
    kind: ClassVar[str]
    width: int

    def grown(self, by): ...
'''
    assert size["constants"](source) == ["LEAST", "MOST"]
    assert list(size["parameters"](source)) == [("area", 2), ("Box", 1), ("Box.grown", 1)]
    function = "def area(width, *, height=2.0):\n    return width * height\n"
    assert size["tokens"](function) == 16
    assert size["tokens"]('"""A module."""\nimport math\n# a remark\n' + function.replace("* h", "*\\\n h")) == 16


@pytest.mark.skipif(not (ROOT / ".ci" / "size").exists(), reason="no .ci here")
def test_ceilings_are_set_anew_and_keep_their_comments(tmp_path, monkeypatch):
    size = runpy.run_path(str(ROOT / ".ci" / "size"))
    path = tmp_path / "ceilings.toml"
    path.write_text("# A heading.\nroom = 100  # for a reason\n")
    monkeypatch.setitem(size["write"].__globals__, "CEILINGS", path)
    size["write"]({"room": 200, "more": 10})
    assert path.read_text() == "# A heading.\nroom = 201  # for a reason\nmore = 11\n"


@settings(max_examples=60)
@given(st.booleans())
def test_random_examples_are_as_many_as_the_profile_says(drawn):
    used = vars(test_random_examples_are_as_many_as_the_profile_says)["_hypothesis_internal_use_settings"]
    assert used.max_examples == examples(60)
    assert drawn in (False, True)


def test_nothing_imports_what_opens_a_network_connection():
    network = {
        "aiohttp",
        "asyncio",
        "ftplib",
        "http",
        "httpx",
        "requests",
        "smtplib",
        "socket",
        "ssl",
        "urllib",
        "urllib3",
    }
    assert [path.name for path in PACKAGE.rglob("*.py") if imported_by(path) & network] == []


def test_files_that_docstrings_name_exist():
    package, tests, experiments = (
        [*folder.rglob("*.py")] for folder in (PACKAGE, ROOT / "tests", ROOT / "experiments")
    )
    files = [path.as_posix() for path in (*package, *tests, *experiments)]
    missing = []
    for path in (*package, *tests):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                named = re.findall(r"[\w/]+\.py\b", ast.get_docstring(node) or "")
                missing += [(path.name, name) for name in named if not any(one.endswith(f"/{name}") for one in files)]
    assert missing == []
