"""A random stream that is the same everywhere: splitmix64 over a one-word state."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, inline="always")
def next_word(state):  # type: ignore[no-untyped-def]
    """The next 64 random bits."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def uniform(state):  # type: ignore[no-untyped-def]
    """A float in [0, 1)."""
    return float(next_word(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def below(state, n):  # type: ignore[no-untyped-def]
    """A whole number in 0 … n-1."""
    return int(uniform(state) * n)


@njit(cache=True, nogil=True)
def shuffle(state, a):  # type: ignore[no-untyped-def]
    """Shuffle ``a`` in place."""
    for i in range(len(a) - 1, 0, -1):
        j = below(state, i + 1)
        t = a[i]
        a[i] = a[j]
        a[j] = t


@njit(cache=True, nogil=True)
def gumbel(state):  # type: ignore[no-untyped-def]
    """A standard Gumbel variate: the noise whose argmax samples a softmax."""
    u = uniform(state)
    if u < 1e-300:
        u = 1e-300
    return -np.log(-np.log(u))
