"""sherd puts pictures back together from fragments whose edges are gone."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_LAZY = {
    "Evidence": "sherd.perception.evidence",
    "Geometry": "sherd.data.cutting",
    "Knowledge": "sherd.puzzle",
    "Puzzle": "sherd.puzzle",
    "Reassembly": "sherd.fragments",
    "Result": "sherd.solvers",
    "Scores": "sherd.puzzle",
    "SherdError": "sherd.errors",
    "cut": "sherd.data.cutting",
    "load_model": "sherd.perception.mppn.weights",
    "make_solver": "sherd.solvers",
    "score_puzzle": "sherd.puzzle",
    "solve": "sherd.fragments",
}
__all__ = [
    "Evidence",
    "Geometry",
    "Knowledge",
    "Puzzle",
    "Reassembly",
    "Result",
    "Scores",
    "SherdError",
    "__version__",
    "cut",
    "load_model",
    "make_solver",
    "score_puzzle",
    "solve",
]

if TYPE_CHECKING:
    from .data.cutting import Geometry, cut
    from .errors import SherdError
    from .fragments import Reassembly, solve
    from .perception.evidence import Evidence
    from .perception.mppn.weights import load_model
    from .puzzle import Knowledge, Puzzle, Scores, score_puzzle
    from .solvers import Result, make_solver


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'sherd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
