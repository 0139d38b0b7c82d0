"""One entry per system. Modules are imported when their system is asked for."""

from __future__ import annotations

from importlib import import_module

from ..errors import SherdError
from .base import Solver

SYSTEMS: dict[str, str] = {
    "greedy": "sherd.solvers.greedy:Greedy",
    "tabu": "sherd.solvers.tabu:Tabu",
    "ga": "sherd.solvers.ga:GA",
    "deepzzle": "sherd.solvers.deepzzle:Deepzzle",
    "inpaint-gan": "sherd.solvers.inpaint_gan:InpaintGan",
    "pdn-ga": "sherd.solvers.pdn_ga:PdnGa",
    "sd2rl": "sherd.solvers.sd2rl:Sd2rl",
    "erl-mpp": "sherd.solvers.erl_mpp:ErlMpp",
    "evolve": "sherd.solvers.evolve:Evolve",
    "sherd": "sherd.solvers.sherd:Sherd",
}

ABLATIONS: dict[str, str] = {
    "mppn-dqn": "sherd.solvers.erl_mpp:MppnDqn",
    "sdn-evorl": "sherd.solvers.sd2rl:SdnEvoRl",
    "sherd-evorl": "sherd.solvers.sherd_evorl:SherdEvoRl",
}
"""Systems with a part taken out or put in, to measure what it adds. They can be asked for by name,
but are not offered, and need not solve anything."""

DEFAULT = "sherd"


def solver_class(name: str) -> type[Solver]:
    """The class of the system called ``name``."""
    if name not in SYSTEMS and name not in ABLATIONS:
        raise SherdError(f"system: {name!r} is unknown; there are {', '.join(SYSTEMS)}")
    module, attribute = {**ABLATIONS, **SYSTEMS}[name].split(":")
    cls = getattr(import_module(module), attribute)
    assert issubclass(cls, Solver)
    return cls


def make_solver(name: str = DEFAULT) -> Solver:
    """The system called ``name`` with its default parameters."""
    return solver_class(name)()
