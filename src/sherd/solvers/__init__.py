"""One class per system, one registry."""

from .base import Found, Recorder, Result, Snapshot, Solver
from .callbacks import Callbacks, Many
from .registry import DEFAULT, SYSTEMS, make_solver, solver_class
from .stop import AnyOf, MaxRounds, MaxRuntime, NoImprovement, Stop

__all__ = [
    "DEFAULT",
    "SYSTEMS",
    "AnyOf",
    "Callbacks",
    "Found",
    "Many",
    "MaxRounds",
    "MaxRuntime",
    "NoImprovement",
    "Recorder",
    "Result",
    "Snapshot",
    "Solver",
    "Stop",
    "make_solver",
    "solver_class",
]
