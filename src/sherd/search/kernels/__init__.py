"""The numba kernels: plain arrays in, plain arrays out, nogil, cached on disk.

``w`` is a `World` everywhere. ``board[c]``, int32 ``(C,)``, is the piece in cell c, -1 = empty;
cells from ``rows·cols`` on are the pool, where pieces that found no place lie: nothing is near a
pool cell. ``cell[p]``, int32 ``(n,)``, is the cell of piece p. ``state`` is the random state.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path


def forget_stale(folder: Path) -> None:
    """Drop the compiled kernels in ``folder`` if any source there has changed since.

    Numba looks at the file of a kernel only, not at those of the kernels that it calls: after a
    change in one file the others would go on with the old code.
    """
    sources = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        sources.update(path.name.encode() + b"\0" + path.read_bytes())
    cache = folder / "__pycache__"
    stamp = cache / "kernels.sha256"
    with contextlib.suppress(OSError):  # a folder that cannot be written is left alone
        if stamp.exists() and stamp.read_text() == sources.hexdigest():
            return
        for index in cache.glob("*.nbi"):
            index.unlink(missing_ok=True)
        cache.mkdir(exist_ok=True)
        stamp.write_text(sources.hexdigest())


forget_stale(Path(__file__).parent)
