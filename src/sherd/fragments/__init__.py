"""Real fragments: from files of which little is known to a picture, in one call."""

from .result import Alternative, GridTrial, Reassembly
from .reassemble import solve

__all__ = ["Alternative", "GridTrial", "Reassembly", "solve"]
