"""Make ``demo.png``, the picture at the head of the README: ``python docs/img/make_demo.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from skimage import data

from sherd import Geometry, cut, make_solver
from sherd.pictures import sheet

picture = cut(data.coffee(), Geometry(grid=(7, 10), piece=(56, 56), gap=4), fit="crop")
puzzle = picture.puzzle.shuffled(np.random.default_rng(0))
result = make_solver("evolve").solve(puzzle, seed=0)
image = Image.fromarray(sheet(puzzle, result.board, width=1200))
small = image.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.FLOYDSTEINBERG)
small.save(Path(__file__).with_name("demo.png"), optimize=True)
