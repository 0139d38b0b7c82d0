"""How a TOML file changes a recipe."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from ..errors import SherdError

R = TypeVar("R")


def read_recipe(cls: type[R], path: Path | None) -> R:
    """The default recipe, or the one that a TOML file changes."""
    if path is None:
        return cls()
    try:
        values = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SherdError(f"{path}: cannot be read as TOML ({error})") from None
    return _override(cls(), values, str(path))


def _override(base: R, values: Mapping[str, Any], what: str) -> R:
    """``base`` (a dataclass) with the fields that ``values`` has."""
    hints = _hints(type(base), values, what)
    changes = {}
    for key, value in values.items():
        if is_dataclass(hints[key]) and isinstance(value, dict):
            changes[key] = _override(getattr(base, key), value, f"{what}: {key}")
        else:
            changes[key] = _fit(value, hints[key], f"{what}: {key}")
    return replace(base, **changes)  # type: ignore[type-var]


def _hints(cls: type[Any], values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Types of the fields of ``cls``; ``values`` may have no other keys."""
    hints = get_type_hints(cls)
    for key in values:
        if key not in hints:
            raise SherdError(f"{what}: unknown key {key!r}; known are {', '.join(sorted(hints))}")
    return hints


def _fit(value: Any, hint: Any, what: str) -> Any:
    """``value`` as the type ``hint``; lists become tuples, tables dataclasses."""
    if get_origin(hint) is tuple and isinstance(value, list):
        kinds = get_args(hint)
        if kinds[-1] is Ellipsis:
            kinds = kinds[:1] * len(value)
        if len(kinds) == len(value):
            pairs = zip(value, kinds, strict=True)
            return tuple(_fit(v, kind, f"{what}[{i}]") for i, (v, kind) in enumerate(pairs))
    elif is_dataclass(hint) and isinstance(value, dict):
        return _build(hint, value, what)
    elif hint is float and type(value) is int:
        return float(value)
    elif type(value) is hint:
        return value
    raise SherdError(f"{what} = {value!r}; expected {_name(hint)}")


def _build(cls: Any, values: Mapping[str, Any], what: str) -> Any:
    """The dataclass ``cls`` with these fields."""
    hints = _hints(cls, values, what)
    fitted = {key: _fit(value, hints[key], f"{what}: {key}") for key, value in values.items()}
    try:
        return cls(**fitted)
    except TypeError as error:  # a field that must be there is not
        raise SherdError(f"{what}: {error}") from None


def _name(hint: Any) -> str:
    """What TOML calls a type."""
    if hint is Ellipsis:
        return "..."
    if get_origin(hint) is tuple:
        return f"[{', '.join(map(_name, get_args(hint)))}]"
    return "table" if is_dataclass(hint) else str(hint.__name__)
