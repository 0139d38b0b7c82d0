"""Real fragments: from files of which little is known to a picture, in one call."""

from .reassemble import solve
from .result import Alternative, GridTrial, Reassembly

__all__ = ["Alternative", "GridTrial", "Reassembly", "solve"]
