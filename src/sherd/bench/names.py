"""Lists of names as users type them."""

from __future__ import annotations

from ..errors import SherdError


def split_names(text: str, what: str) -> tuple[str, ...]:
    """``a,b``, each once."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not all(names):
        raise SherdError(f"{what}: {text!r}; expected names separated by commas")
    return names
