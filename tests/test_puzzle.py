"""The puzzle and its boards: checks, reordering, positions, pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd import Puzzle, SherdError
from sherd.puzzle import EMPTY, check_board, identity_board, pairs, positions


@st.composite
def boards(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """A board with holes, and the number of pieces, some of which may not be placed."""
    rows, cols = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    cells = rows * cols
    pieces = draw(st.integers(1, cells + 4))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    flat = np.full(cells, EMPTY, dtype=np.int64)
    k = draw(st.integers(0, min(cells, pieces)))
    flat[rng.permutation(cells)[:k]] = rng.permutation(pieces)[:k]
    return flat.reshape(rows, cols), pieces


@st.composite
def puzzles(draw: st.DrawFn) -> Puzzle:
    """A puzzle with distinct pieces, truth with holes, pins, blocked cells, masks and names."""
    board, n = draw(boards())
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    free = [(int(r), int(c)) for r, c in np.argwhere(board == EMPTY)]
    pinned = rng.permutation(np.flatnonzero(board.ravel() != EMPTY))[:3]
    cols = board.shape[1]
    return Puzzle(
        rng.integers(0, 256, (n, 3, 4, 3)).astype(np.uint8),
        (board.shape[0], cols),
        gap=draw(st.none() | st.integers(0, 9)),
        mask=rng.random((n, 3, 4)) < 0.7,
        pins={int(board.ravel()[c]): (int(c) // cols, int(c) % cols) for c in pinned},
        blocked=frozenset(free[:2]),
        truth=board,
        names=tuple(f"sherd {k}" for k in range(n)),
    )


def by_name(puzzle: Puzzle) -> dict[str, object]:
    """What a puzzle says, in terms of names instead of piece numbers."""
    assert puzzle.names is not None
    assert puzzle.mask is not None
    assert puzzle.truth is not None
    names = puzzle.names
    return {
        "pieces": {m: puzzle.pieces[k].tobytes() for k, m in enumerate(names)},
        "mask": {m: puzzle.mask[k].tobytes() for k, m in enumerate(names)},
        "pins": {names[p]: cell for p, cell in puzzle.pins.items()},
        "truth": [[None if p < 0 else names[p] for p in row] for row in puzzle.truth.tolist()],
        "rest": (puzzle.grid, puzzle.gap, puzzle.blocked),
    }


@given(puzzles(), st.integers(0, 10_000))
def test_reordering_changes_numbers_and_nothing_else(puzzle: Puzzle, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(puzzle.n)
    other = puzzle.reordered(order)
    assert np.array_equal(other.pieces, puzzle.pieces[order])
    assert by_name(other) == by_name(puzzle)


@given(puzzles(), st.integers(0, 10_000))
def test_reordering_composes_and_can_be_undone(puzzle: Puzzle, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.permutation(puzzle.n), rng.permutation(puzzle.n)
    twice, once = puzzle.reordered(a).reordered(b), puzzle.reordered(a[b])
    assert twice.names == once.names
    assert np.array_equal(twice.truth, once.truth)
    back = puzzle.reordered(a).reordered(np.argsort(a))
    assert back.names == puzzle.names
    assert back.pins == puzzle.pins
    assert np.array_equal(back.truth, puzzle.truth)


@given(puzzles(), st.integers(0, 10_000))
def test_shuffling_is_a_reordering_that_the_seed_decides(puzzle: Puzzle, seed: int) -> None:
    one = puzzle.shuffled(np.random.default_rng(seed))
    two = puzzle.shuffled(np.random.default_rng(seed))
    assert one.names == two.names
    assert by_name(one) == by_name(puzzle)


def test_shuffling_really_shuffles(small: Puzzle) -> None:
    orders = {small.shuffled(np.random.default_rng(k)).pieces.tobytes() for k in range(20)}
    assert len(orders) == 20


def test_reordering_leaves_unknown_things_unknown(small: Puzzle) -> None:
    bare = Puzzle(small.pieces).reordered(np.arange(small.n)[::-1])
    assert bare.grid is bare.truth is bare.mask is bare.names is bare.gap is None
    assert np.array_equal(bare.pieces, small.pieces[::-1])


@pytest.mark.parametrize("order", [[0, 1], [0] * 12, list(range(1, 13))])
def test_an_order_must_be_a_permutation(small: Puzzle, order: list[int]) -> None:
    with pytest.raises(SherdError, match="permutation"):
        small.reordered(np.array(order))


def test_without_truth_hides_only_the_truth(small: Puzzle) -> None:
    hidden = small.without_truth()
    assert hidden.truth is None
    assert hidden.pieces is small.pieces
    assert (hidden.grid, hidden.gap, hidden.pins) == (small.grid, small.gap, small.pins)


PIECES = np.zeros((4, 3, 5, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"pieces": PIECES.astype(float)}, "pieces"),
        ({"pieces": PIECES[..., :1]}, "pieces"),
        ({"pieces": PIECES[0]}, "pieces"),
        ({"pieces": PIECES[:0]}, "pieces"),
        ({"pieces": PIECES, "mask": np.ones((4, 5, 3), bool)}, "mask"),
        ({"pieces": PIECES, "gap": -1}, "gap"),
        ({"pieces": PIECES, "names": ("a",)}, "names"),
        ({"pieces": PIECES, "pins": {0: (0, 0)}}, "grid"),
        ({"pieces": PIECES, "blocked": frozenset({(0, 0)})}, "grid"),
        ({"pieces": PIECES, "grid": (0, 4)}, "grid"),
        ({"pieces": PIECES, "grid": (2, 2), "pins": {4: (0, 0)}}, "piece 4"),
        ({"pieces": PIECES, "grid": (2, 2), "pins": {0: (2, 0)}}, "outside"),
        ({"pieces": PIECES, "grid": (2, 2), "pins": {0: (0, 0), 1: (0, 0)}}, "two pieces"),
        (
            {
                "pieces": PIECES,
                "grid": (2, 2),
                "pins": {0: (0, 0)},
                "blocked": frozenset({(0, 0)}),
            },
            "blocked",
        ),
        ({"pieces": PIECES, "grid": (2, 2), "blocked": frozenset({(0, 2)})}, "outside"),
        ({"pieces": PIECES, "grid": (2, 2), "truth": identity_board((1, 4))}, "truth"),
        ({"pieces": PIECES, "grid": (2, 2), "truth": np.zeros((2, 2), int)}, "truth"),
        ({"pieces": PIECES, "grid": (1, 5), "truth": identity_board((1, 5))}, "truth"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments: dict[str, object], word: str) -> None:
    with pytest.raises(SherdError, match=word) as caught:
        Puzzle(**arguments)
    assert "\n" not in str(caught.value)


def test_size_and_number_of_pieces() -> None:
    puzzle = Puzzle(PIECES, (2, 2))
    assert (puzzle.n, puzzle.piece_size, puzzle.require_grid()) == (4, (3, 5), (2, 2))
    with pytest.raises(SherdError, match="--grid"):
        Puzzle(PIECES).require_grid()


@given(boards())
def test_positions_say_where_every_piece_lies(case: tuple[np.ndarray, int]) -> None:
    board, n = case
    where = positions(board, n)
    assert where.shape == (n,)
    for piece in range(n):
        cells = [c for c, p in enumerate(board.ravel().tolist()) if p == piece]
        assert where[piece] == (cells[0] if cells else -1)


@given(boards())
def test_pairs_are_the_adjacent_placed_pieces(case: tuple[np.ndarray, int]) -> None:
    board, _ = case
    rows, cols = board.shape
    right, below = [], []
    for r in range(rows):
        for c in range(cols):
            if c + 1 < cols and board[r, c] >= 0 and board[r, c + 1] >= 0:
                right.append([board[r, c], board[r, c + 1]])
            if r + 1 < rows and board[r, c] >= 0 and board[r + 1, c] >= 0:
                below.append([board[r, c], board[r + 1, c]])
    h, v = pairs(board)
    assert sorted(h.tolist()) == sorted(map(list, right))
    assert sorted(v.tolist()) == sorted(map(list, below))


@given(boards())
def test_good_boards_pass_the_check_unchanged(case: tuple[np.ndarray, int]) -> None:
    board, n = case
    checked = check_board(board.astype(np.int16), n)
    assert checked.dtype == np.int64
    assert np.array_equal(checked, board)


@pytest.mark.parametrize(
    ("board", "word"),
    [
        (np.zeros(4, dtype=int), "2-D"),
        (np.zeros((2, 2)), "whole numbers"),
        (np.array([[0, 4]]), "piece 4"),
        (np.array([[0, -2]]), "piece -2"),
        (np.array([[1, 0, 1]]), "piece 1 lies in 2"),
    ],
)
def test_bad_boards_are_refused(board: np.ndarray, word: str) -> None:
    with pytest.raises(SherdError, match=word):
        check_board(board, 4)


def test_identity_board_is_row_major() -> None:
    assert identity_board((2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]
