"""The studio's table: every edit keeps a valid board and honest pins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd.errors import SherdError
from sherd.studio import table as edits
from sherd.studio.job import UNDO, Job, new_job
from sherd.studio.table import Table

BOARD = ((0, 1, 2), (3, -1, 4))
SURE = ((0.9, 0.8, 0.7), (0.6, 0.0, 0.5))
START = Table(board=BOARD, confidence=SURE)
PIECES = 7
"""Of which 5 and 6 lie beside the board."""


def test_a_move_swaps_and_pins() -> None:
    moved = edits.moved(START, 0, (1, 2))
    assert moved.board == ((4, 1, 2), (3, -1, 0))
    assert moved.pins == {0: (1, 2)}
    assert moved.confidence == ((None, 0.8, 0.7), (0.6, 0.0, None))


def test_a_move_from_beside_the_board_sends_the_other_there() -> None:
    moved = edits.moved(START, 5, (0, 0))
    assert moved.board == ((5, 1, 2), (3, -1, 4))
    assert moved.place(0) is None


def test_a_move_to_an_empty_cell_leaves_one() -> None:
    assert edits.moved(START, 4, (1, 1)).board == ((0, 1, 2), (3, 4, -1))


def test_what_was_shown_before_pieces_were_moved() -> None:
    shown = [list(row) for row in BOARD]
    twice = edits.moved(edits.moved(START, 0, (1, 2)), 2, (1, 0))
    assert twice.board == ((4, 1, 3), (2, -1, 0))
    assert edits.before_moves(twice, shown) == BOARD
    beside = edits.moved(START, 5, (0, 1))
    assert edits.before_moves(beside, shown) == BOARD
    # other edits are no answer to it alone: the table counts as it is
    for other in (edits.lifted(twice, 4), edits.unpinned(twice, 0), Table(board=BOARD[:1])):
        assert edits.before_moves(other, shown) == other.board
    assert edits.before_moves(twice, None) == twice.board
    assert edits.before_moves(Table(), shown) is None


def test_a_pinned_piece_is_not_pushed_away() -> None:
    pinned = edits.pinned(START, 4)
    with pytest.raises(SherdError, match="pinned"):
        edits.moved(pinned, 0, (1, 2))
    assert edits.moved(pinned, 4, (1, 2)).board == BOARD


def test_to_rule_a_place_out_unpins_there() -> None:
    table = edits.forbidden(edits.pinned(START, 0), 0, (0, 0))
    assert table.pins == {}
    assert table.forbidden == {(0, (0, 0))}
    assert edits.pinned(table, 0).forbidden == frozenset(), "to pin it allows it again"


def test_another_reading_keeps_the_pins_that_it_honours() -> None:
    table = edits.pinned(edits.pinned(START, 0), 1)
    other = ((0, 2, 1), (3, -1, 4))
    assert edits.chosen(table, other).pins == {0: (0, 0)}


def test_what_cannot_be() -> None:
    for wrong in (
        lambda: edits.moved(START, 0, (2, 0)),
        lambda: edits.moved(Table(), 0, (0, 0)),
        lambda: edits.pinned(START, 5),
        lambda: edits.lifted(START, 5),
        lambda: edits.forbidden(START, 0, (0, 3)),
        lambda: edits.chosen(START, BOARD[:1]),
    ):
        with pytest.raises(SherdError):
            wrong()


cells = st.tuples(st.integers(0, 1), st.integers(0, 2))
steps = st.tuples(
    st.sampled_from(["move", "lift", "pin", "unpin", "forbid", "allow", "clear", "undo", "redo"]),
    st.integers(0, PIECES - 1),
    cells,
)


def apply(job: Job, step: tuple[str, int, tuple[int, int]]) -> None:
    op, piece, cell = step
    table = job.table
    if op == "undo":
        job.undo()
    elif op == "redo":
        job.redo()
    elif op == "clear":
        job.lay(edits.cleared(table))
    elif op in ("move", "forbid", "allow"):
        act = {"move": edits.moved, "forbid": edits.forbidden, "allow": edits.allowed}[op]
        job.lay(act(table, piece, cell))
    else:
        job.lay(
            {"lift": edits.lifted, "pin": edits.pinned, "unpin": edits.unpinned}[op](table, piece)
        )


@given(st.lists(steps, max_size=12))
def test_any_edits_keep_the_table_whole(steps: list[tuple[str, int, tuple[int, int]]]) -> None:
    job = new_job("x")
    job.table = START
    for step in steps:
        before = job.table
        try:
            apply(job, step)
        except SherdError:
            assert job.table is before, "a refusal changes nothing"
        assert job.table.board is not None
        placed = [p for row in job.table.board for p in row if p >= 0]
        assert len(placed) == len(set(placed))
        assert all(job.table.place(p) == cell for p, cell in job.table.pins.items())
        assert not job.table.forbidden & set(job.table.pins.items())
        assert Job.of(job.entries()).entries() == job.entries()
    for _ in range(UNDO):
        job.undo()
    assert job.table == START
