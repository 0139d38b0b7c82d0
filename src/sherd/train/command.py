"""How the module commands (``python -m sherd.train.…``) run and fail."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from ..errors import SherdError


def run_command(
    parser: argparse.ArgumentParser, work: Callable[..., None], argv: Sequence[str] | None
) -> int:
    """Call ``work`` with what ``parser`` reads, by name. 0, or 2 and one line on stderr."""
    args = parser.parse_args(argv)
    try:
        work(**vars(args))
    except SherdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
