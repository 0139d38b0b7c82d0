"""Boards, sheets, animations and plots: what people look at."""

from .animation import animate
from .board import render_board
from .plots import convergence
from .save import save_picture
from .sheet import arrival_board, sheet

__all__ = ["animate", "arrival_board", "convergence", "render_board", "save_picture", "sheet"]
