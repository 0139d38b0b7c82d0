"""The numba kernels: plain arrays in, plain arrays out, nogil, cached on disk.

``w`` is a `World` everywhere. ``board[c]``, int32 ``(C,)``, is the piece in cell c, -1 = empty;
cells from ``rows·cols`` on are the pool, where pieces that found no place lie: nothing is near a
pool cell. ``cell[p]``, int32 ``(n,)``, is the cell of piece p. ``state`` is the random state.
"""
