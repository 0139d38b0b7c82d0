"""Which puzzles a benchmark runs on."""

from __future__ import annotations

from pathlib import Path

from ..data.jpleg import EDITIONS, jpleg_items
from ..data.sets import Item, Selection, art5_items, data_root, folder_items, mit_items
from ..errors import SherdError

PROTOCOLS = ("mit", "art5", "jpleg5", "jpleg3", "folder")
CENTRED = ("art5", "jpleg5", "jpleg3")
"""Protocols whose grid has a centre and whose geometry is fixed."""


def protocol_items(
    protocol: str,
    selection: Selection,
    *,
    data: Path | None = None,
    source: Path | None = None,
) -> list[Item]:
    """The puzzles of ``protocol``, in the order in which they are reported.

    ``source`` is the folder or tar pack of the ``folder`` protocol; the others look below ``data``.
    """
    if protocol not in PROTOCOLS:
        raise SherdError(f"protocol: {protocol!r} is unknown; there are {', '.join(PROTOCOLS)}")
    if (protocol == "folder") != (source is not None):
        raise SherdError(
            "folder: needs the folder of images, as in: sherd bench folder DIR"
            if source is None
            else f"{source}: only the folder protocol takes a folder; {protocol} uses --data"
        )
    if source is not None:
        return list(folder_items(source, selection))
    root = data_root(data)
    if protocol == "mit":
        return list(mit_items(root, selection))
    if protocol in EDITIONS:
        return list(jpleg_items(protocol, root, selection))
    return list(art5_items(root, selection))
