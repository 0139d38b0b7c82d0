"""The numba kernels: plain arrays in, plain arrays out, nogil, cached on disk.

Names used throughout:

``at[d, q, j]``  float32 ``(4, n, n)``: evidence that j lies at side d of q (see `SIDES`).
``cand[d, q]``   int32 ``(4, n, K)``: the K best j for side d of q, best first.
``near[c, d]``   int32 ``(C, 4)``: the cell at side d of cell c, -1 where there is none.
``rim[c, d]``    bool: side d of cell c is the rim of the puzzle.
``board[c]``     int32 ``(C,)``: piece in cell c, -1 = empty. Cells ``M·N…`` are the pool, where
                 pieces that found no place lie; nothing is near a pool cell.
``cell[p]``      int32 ``(n,)``: the cell of piece p.
``fixed[c]``     bool: cell c may not change (pinned or blocked).
``state``        uint64 ``(1,)``: the random state.
"""
