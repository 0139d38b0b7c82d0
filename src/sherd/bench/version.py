"""What a result depends on, as a hash; and where it was made.

A line of a log may be reused as long as the same program would write it again. "The same program"
is meant per system: its own module and all of sherd that this imports, directly or not, also inside
functions; the modules that cut and score puzzles; the weights that the system says it reads
(`Solver.weights`). Work on one system, on the studio or on training so leaves the results of the
others alone. Comments, docstrings and blank lines do not count, nor do the cards of weights.

The hash is the same under every version of Python and on every machine.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..errors import SherdError
from ..solvers.registry import solver_class

PACKAGE = Path(__file__).resolve().parent.parent
ALWAYS = ("sherd.data.sets", "sherd.data.jpleg", "sherd.puzzle", "sherd.perception.evidence")
"""What cuts and scores a puzzle, whatever solves it."""


@cache
def system_version(system: str) -> str:
    """Hash of all code and weights that the results of ``system`` depend on."""
    cls = solver_class(system)
    digest = hashlib.sha256()
    for name, path in sorted(modules((cls.__module__, *ALWAYS)).items()):
        digest.update(f"{name}\0{_code(path)}\0".encode())
    for stem in cls.weights:
        for suffix in (".json", ".safetensors"):
            path = PACKAGE / "weights" / (stem + suffix)
            digest.update(f"{path.name}\0".encode() + _weights(path) + b"\0")
    return digest.hexdigest()[:12]


def missing_weights(system: str) -> list[str]:
    """Names of the weight files that ``system`` reads and that are not there."""
    files = (f"{s}{e}" for s in solver_class(system).weights for e in (".json", ".safetensors"))
    return [name for name in files if not (PACKAGE / "weights" / name).is_file()]


def modules(roots: tuple[str, ...]) -> dict[str, Path]:
    """All modules of sherd that ``roots`` import, by name, and the roots themselves.

    What is imported for types only does not count, nor does ``sherd/__init__.py``, which only
    points at others.
    """
    found: dict[str, Path] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        path = _file(name)
        if name in found or path is None:
            continue
        found[name] = path
        todo.extend(_imports(path, name))
    return found


def _file(name: str) -> Path | None:
    """Where a module lies; None if it is neither sherd's nor loaded, or no module at all."""
    head, *rest = name.split(".")
    if head != "sherd":
        loaded = getattr(sys.modules.get(name), "__file__", None)
        return None if loaded is None else Path(loaded)
    if not rest:
        return None
    base = PACKAGE.joinpath(*rest)
    for path in (base.with_name(base.name + ".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def _imports(path: Path, name: str) -> Iterator[str]:
    """Names that a file imports from sherd; some may be functions, not modules."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in _run_time(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("sherd."))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            whole = ".".join([*base, *filter(None, [node.module])])
            if whole.split(".")[0] == "sherd":
                yield whole
                yield from (f"{whole}.{a.name}" for a in node.names)


def _run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those below ``if TYPE_CHECKING``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _run_time(node)


def _code(path: Path) -> str:
    """A file's text without comments, docstrings and blank lines."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            for row in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[row - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _weights(path: Path) -> bytes:
    """What counts of a weight file: of a description all but the card, which is for readers."""
    if not path.is_file():
        return b"missing"
    data = path.read_bytes()
    if path.suffix != ".json":
        return hashlib.sha256(data).digest()
    try:
        about = json.loads(data)
    except ValueError as e:
        raise SherdError(f"{path}: is no JSON; copy it again") from e
    return json.dumps({k: v for k, v in about.items() if k != "card"}, sort_keys=True).encode()


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def origin() -> dict[str, str | int]:
    """Where a result is made: ``commit``, ``cpu`` and ``cores``. It is recorded, and is no key."""
    return {"commit": _commit(), "cpu": _cpu(), "cores": cores()}


def _commit() -> str:
    """The commit of the checkout that sherd runs from, "+" if files differ from it.

    Where there is no checkout, as in a copy of the tree, the variable ``SHERD_COMMIT``.
    """
    given = os.environ.get("SHERD_COMMIT")
    if given:
        return given
    ask = ["git", "-C", str(PACKAGE), "describe", "--always", "--exclude=*", "--abbrev=7"]
    changed = ["git", "-C", str(PACKAGE), "status", "--porcelain", "-uno", "--", "."]
    try:
        name, dirty = (
            subprocess.run(words, capture_output=True, text=True, check=True, timeout=20).stdout
            for words in (ask, changed)
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return name.strip() + ("+" if dirty.strip() else "")


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"
