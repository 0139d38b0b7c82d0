"""The house: a package imports only from its left, and text names no machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "sherd"

# What each package may import besides itself and the single files beside the packages
# (errors and the like), which import nothing of sherd.
FLOW = ["puzzle", "perception", "search", "agent", "solvers"]
LEFT = {name: set(FLOW[:k]) for k, name in enumerate(FLOW)}
LEFT["data"] = {"puzzle"}
LEFT["pictures"] = {"puzzle", "data"}
LEFT["fragments"] = {*FLOW, "data", "pictures"}
LEFT["train"] = {"puzzle", "data", "perception", "search", "agent"}
LEFT["bench"] = {*FLOW, "data", "pictures"}
LEFT["studio"] = {*FLOW, "data", "pictures", "fragments"}
LEFT["cli"] = {*LEFT["studio"], "bench", "train", "studio"}
FOR_TYPES_ONLY = {("pictures", "solvers")}
"""Allowed under ``if TYPE_CHECKING``, where nothing is imported at run time."""

HEAVY = {"torch", "numba", "matplotlib", "skimage", "scipy", "transformers"}


def imports(tree: ast.Module, module: tuple[str, ...]) -> Iterator[tuple[str, bool]]:
    """Every module that ``tree`` imports, by its full name, and whether for types only."""
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for branch in node.body
        for inner in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in guarded
        elif isinstance(node, ast.ImportFrom):
            base = list(module[: len(module) - node.level]) if node.level else []
            name = ".".join([*base, *(node.module or "").split(".")]).rstrip(".")
            if name == "sherd":
                for alias in node.names:
                    yield f"sherd.{alias.name}", id(node) in guarded
            else:
                yield name, id(node) in guarded


def layer(name: str) -> str | None:
    """The package of sherd that a module belongs to; None for single files and the outside."""
    parts = name.split(".")
    if parts[0] != "sherd" or len(parts) < 2 or not (SRC / parts[1]).is_dir():
        return None
    return parts[1]


def wrong_imports(path: Path, text: str) -> list[str]:
    """The imports of one file that go against the flow."""
    parts = ("sherd", *path.relative_to(SRC).with_suffix("").parts)
    here = parts[1] if len(parts) > 2 else None
    found = []
    for name, for_types in imports(ast.parse(text), parts):
        there = layer(name)
        if there is None or there == here:
            continue
        if here is None:
            found.append(f"{path.name}: a single file imports {name}")
        elif there not in LEFT[here] and not (for_types and (here, there) in FOR_TYPES_ONLY):
            found.append(f"{'/'.join(parts[1:])}: {here} imports {name}")
    return found


MODULES = sorted(p for p in SRC.rglob("*.py") if p != SRC / "__init__.py")


def test_every_package_has_its_place() -> None:
    packages = {p.parent.name for p in SRC.glob("*/__init__.py")}
    assert packages <= set(LEFT), "say in LEFT what a new package may import"


def test_imports_go_from_right_to_left() -> None:
    wrong = [w for path in MODULES for w in wrong_imports(path, path.read_text("utf-8"))]
    assert not wrong


@pytest.mark.parametrize(
    ("where", "text", "count"),
    [
        ("puzzle/x.py", "from ..errors import SherdError", 0),
        ("puzzle/x.py", "from .board import EMPTY", 0),
        ("puzzle/x.py", "from ..data import cutting", 1),
        ("puzzle/x.py", "from .. import data", 1),
        ("puzzle/x.py", "import sherd.solvers.base", 1),
        ("search/x.py", "def f():\n    from ..solvers import Solver", 1),
        ("search/kernels/x.py", "from ...perception.evidence import Evidence", 0),
        ("search/kernels/x.py", "from ...agent import env", 1),
        ("solvers/x.py", "from sherd.perception import evidence", 0),
        ("solvers/x.py", "from sherd import bench", 1),
        ("pictures/x.py", "if TYPE_CHECKING:\n    from ..solvers import Snapshot", 0),
        ("pictures/x.py", "from ..solvers import Snapshot", 1),
        ("search/x.py", "if TYPE_CHECKING:\n    from ..solvers import Snapshot", 1),
        ("errors.py", "from .puzzle import Puzzle", 1),
    ],
)
def test_the_rule_catches_what_it_should(where: str, text: str, count: int) -> None:
    assert len(wrong_imports(SRC / where, text)) == count


@pytest.mark.parametrize(
    "module",
    ["sherd", "sherd.puzzle", "sherd.data", "sherd.solvers", "sherd.pictures", "sherd.fragments"],
)
def test_light_modules_stay_light(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & {HEAVY!r}))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []


def test_a_network_is_loaded_by_name(tmp_path: Path) -> None:
    """torch comes with the first use of ``sherd.load_model``, not with ``import sherd``."""
    code = (
        "import sys, sherd\n"
        "from sherd import Puzzle, SherdError\n"
        "assert 'load_model' in dir(sherd) and 'torch' not in sys.modules\n"
        "try: sherd.load_model(sys.argv[1])\n"
        "except SherdError as error: print(error)\n"
        "print(sherd.load_model().card['step'] > 0, 'torch' in sys.modules)"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert out[0].startswith(f"{tmp_path / 'mppn.json'}: is missing")
    assert out[1] == "True True"


def test_names_of_the_package_exist() -> None:
    import sherd

    for name in sherd.__all__:
        assert getattr(sherd, name) is not None
    assert set(sherd.__all__) <= set(dir(sherd))
    with pytest.raises(AttributeError, match="potsherd"):
        _ = sherd.potsherd


MACHINE = re.compile(
    r"/(?:work|home|root|Users|mnt|srv)/"  # somebody's disk
    r"|\b(?:10\.\d+|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+\b"  # somebody's network
    r"|\b[A-Z]:\\\w"
)


def product_texts() -> list[Path]:
    kinds = {".py", ".md", ".toml", ".json", ".txt", ".html", ".js", ".css", ".yml", ""}
    inside = [p for top in ("src/sherd", "docs", "tests", "benchmarks")
              for p in (ROOT / top).rglob("*")]  # fmt: skip
    beside = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile")]
    files = [p for p in (*inside, *beside) if p.is_file() and p.suffix in kinds]
    return [p for p in files if "__pycache__" not in p.parts]


def test_no_text_names_a_machine() -> None:
    texts = product_texts()
    assert len(texts) > 40
    named = []
    for path in texts:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if MACHINE.search(line):
                named.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not named


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("see " + "/".join(["", "work", "shared"]), True),
        ("see " + "/".join(["", "home", "ann", "x"]), True),
        ("host " + ".".join(["10", "1", "2", "3"]), True),
        ("host 127.0.0.1 and version 10.3", False),
        ("framework/home", False),
    ],
)
def test_the_search_for_machines_finds_them(text: str, caught: bool) -> None:
    assert bool(MACHINE.search(text)) == caught
