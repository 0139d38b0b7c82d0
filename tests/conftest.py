"""What all tests share: repeatable property tests, and puzzles to try things on."""

from __future__ import annotations

import os

# Tests run side by side, one per core: threads of one would only wait for those of the other. To be
# said before anything is imported that makes threads.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in ("OMP_NUM_THREADS", "SHERD_THREADS"):
        os.environ.setdefault(name, "1")

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from skimage import data

from sherd import Geometry, Puzzle, cut

# Derandomised: a test run never fails by chance, and two runs test the same cases.
settings.register_profile(
    "sherd",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("sherd")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """torch does everything in one thread: sums in one order, repeatable bit for bit."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def photo() -> np.ndarray:
    """A colour photograph, (400, 600, 3)."""
    return np.asarray(data.coffee())


@pytest.fixture
def small(photo: np.ndarray) -> Puzzle:
    """Twelve shuffled pieces of a photograph, 2 px missing between them."""
    return cut(photo, Geometry((3, 4), (20, 24), 2)).puzzle.shuffled(np.random.default_rng(7))
