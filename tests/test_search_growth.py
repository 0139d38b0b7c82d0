"""Growth and births: every board is whole, what is kept is kept, what is sure is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_cases import (
    Case,
    assert_valid,
    blank_puzzle,
    cases,
    cells_of,
    planted_evidence,
    random_state,
)
from sherd import Evidence
from sherd.puzzle import identity_board, pairs
from sherd.search.kernels import forget_stale
from sherd.search.kernels.breed import (
    carry_part,
    largest_part,
    move_blocks,
    open_region,
    regrow,
    settle,
    weak_cell,
)
from sherd.search.kernels.growth import frame_to_board, grow, neighbours_of
from sherd.search.kernels.moves import EPS, full_score
from sherd.search.problem import Problem, candidates, make_problem

GRIDS = [(1, 1), (1, 2), (1, 7), (6, 1), (2, 2), (4, 5), (5, 3)]


def nobody(n: int) -> np.ndarray:
    return np.empty((0, 4, n), np.int32)


def grown_from(
    problem: Problem, piece: int, parents: np.ndarray, bonus: float, noise: float, seed: int
) -> np.ndarray:
    """The (M, N) board that grows, floating, from one piece."""
    w = problem.world
    frame = np.full((2 * w.rows + 1) * (2 * w.cols + 1), -1, np.int32)
    frame[w.rows * (2 * w.cols + 1) + w.cols] = piece
    top, left = grow(w, parents, bonus, frame, True, noise, random_state(seed))
    board, cell = np.empty_like(problem.start), np.empty(problem.n, np.int32)
    frame_to_board(w, frame, top, left, board, cell)
    assert np.array_equal(cell, cells_of(board, problem.n))
    return problem.to_board(board)


def parent_table(problem: Problem, boards: list[np.ndarray]) -> np.ndarray:
    table = np.empty((len(boards), 4, problem.n), np.int32)
    for k, board in enumerate(boards):
        neighbours_of(problem.world, problem.from_board(board), table[k])
    return table


def links(board: np.ndarray) -> set[tuple[int, int, int]]:
    """(direction, piece, piece) of every adjacency."""
    return {(d, int(i), int(j)) for d, pair in enumerate(pairs(board)) for i, j in pair}


# --- growth -------------------------------------------------------------------------------------


@given(cases(short_lists=True), st.booleans(), st.sampled_from([0.0, 0.5]))
def test_growth_fills_any_board(case: Case, floating: bool, noise: float) -> None:
    board, cell = case.problem.start.copy(), np.empty(case.evidence.n, np.int32)
    keep = case.world.fixed.copy()
    nothing = nobody(case.evidence.n)
    regrow(case.world, nothing, 0.0, board, cell, keep, floating, noise, case.state)
    assert_valid(case, board, cell)


@pytest.mark.parametrize("depth", [1, 2, 32])
@pytest.mark.parametrize("grid", GRIDS)
def test_strong_evidence_grows_the_true_board_from_every_piece(
    grid: tuple[int, int], depth: int
) -> None:
    truth = identity_board(grid)
    problem = make_problem(planted_evidence(grid), blank_puzzle(truth.size, grid))
    short = problem.world._replace(cand=candidates(problem.world.at, depth))
    problem = Problem(short, problem.start)
    for piece in range(truth.size):
        board = grown_from(problem, piece, nobody(truth.size), 0.0, 0.0, piece)
        assert np.array_equal(board, truth)


@pytest.mark.parametrize("grid", GRIDS)
def test_strong_evidence_grows_the_true_board_from_every_pin(grid: tuple[int, int]) -> None:
    truth = identity_board(grid)
    evidence = planted_evidence(grid)
    for piece in range(truth.size):
        puzzle = blank_puzzle(truth.size, grid, pins={piece: divmod(piece, grid[1])})
        problem = make_problem(evidence, puzzle)
        board, cell = problem.start.copy(), np.empty(truth.size, np.int32)
        keep, state = problem.world.fixed.copy(), random_state(piece)
        regrow(problem.world, nobody(truth.size), 0.0, board, cell, keep, True, 0.0, state)
        assert np.array_equal(problem.to_board(board), truth)


def test_growth_leaves_a_wrong_piece_out() -> None:
    """Six pieces for five cells: the one that fits nowhere ends in the pool."""
    h = np.full((6, 6), -1.0)
    h[[0, 1, 2, 3], [1, 2, 3, 4]] = 4.0
    problem = make_problem(Evidence(h, np.zeros((6, 6))), blank_puzzle(6, (1, 5)))
    for piece in range(5):
        board = grown_from(problem, piece, nobody(6), 0.0, 0.0, 0)
        assert board.tolist() == [[0, 1, 2, 3, 4]]


def test_growth_starts_again_behind_blocked_cells() -> None:
    """A blocked column cuts the board in two; both halves are grown by their evidence."""
    grid, wall = (3, 5), frozenset({(0, 2), (1, 2), (2, 2)})
    loose = np.random.default_rng(0).permutation(np.delete(identity_board(grid), 2, axis=1).ravel())
    whole = planted_evidence(grid)
    evidence = Evidence(whole.h[np.ix_(loose, loose)], whole.v[np.ix_(loose, loose)])
    problem = make_problem(evidence, blank_puzzle(12, grid, blocked=wall))
    scores = []
    for seed in range(40):
        board, cell = problem.start.copy(), np.empty(12, np.int32)
        keep, state = problem.world.fixed.copy(), random_state(seed)
        regrow(problem.world, nobody(12), 0.0, board, cell, keep, True, 0.0, state)
        scores.append(full_score(problem.world, board))
    assert max(scores) == 14 * 4.0  # two random pieces that begin right are enough


# --- crossover ----------------------------------------------------------------------------------


@given(st.sampled_from(GRIDS), st.integers(0, 10_000))
def test_one_parent_without_evidence_is_inherited_whole(grid: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = grid[0] * grid[1]
    problem = make_problem(Evidence(np.zeros((n, n)), np.zeros((n, n))), blank_puzzle(n, grid))
    parent = rng.permutation(n).reshape(grid)
    table = parent_table(problem, [parent])
    child = grown_from(problem, int(rng.integers(n)), table, 1000.0, 0.5, seed)
    assert np.array_equal(child, parent)


@given(st.integers(2, 5), st.integers(1, 5), st.integers(0, 10_000))
def test_what_both_parents_contain_is_inherited(rows: int, cols: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = rows * cols
    problem = make_problem(
        Evidence(np.zeros((n, n)), np.zeros((n, n))), blank_puzzle(n, (rows, cols))
    )
    mother = rng.permutation(n).reshape(rows, cols)
    father = np.roll(mother, 1, axis=0)
    table = parent_table(problem, [mother, father])
    child = grown_from(problem, int(rng.integers(n)), table, 1000.0, 0.5, seed)
    assert links(child) >= links(mother) & links(father)


@given(cases())
def test_the_table_of_a_parent_names_its_neighbours(case: Case) -> None:
    table = np.empty((4, case.evidence.n), np.int32)
    neighbours_of(case.world, case.board, table)
    right, below = pairs(case.problem.to_board(case.board))
    wanted = np.full((4, case.evidence.n), -1)
    wanted[1, right[:, 0]], wanted[3, right[:, 1]] = right[:, 1], right[:, 0]
    wanted[2, below[:, 0]], wanted[0, below[:, 1]] = below[:, 1], below[:, 0]
    assert np.array_equal(table, wanted)


# --- births -------------------------------------------------------------------------------------


@given(cases(), st.sampled_from([0.2, 0.7, 1.0]))
def test_regrowth_in_place_keeps_what_is_kept(case: Case, share: float) -> None:
    board, cell = case.board.copy(), case.cell
    keep = case.world.fixed | (case.rng.random(len(board)) < share)
    regrow(case.world, nobody(case.evidence.n), 0.0, board, cell, keep, False, 1.0, case.state)
    assert_valid(case, board, cell)
    held = keep & (case.board >= 0)
    held[case.problem.cells :] = False
    assert np.array_equal(board[held], case.board[held])


@given(cases(anchors=False))
def test_regrowth_of_a_floating_part_moves_it_as_one(case: Case) -> None:
    board, cell = case.board.copy(), case.cell
    keep = np.zeros(len(board), np.bool_)
    largest_part(case.world, board, 0.3, keep)
    regrow(case.world, nobody(case.evidence.n), 0.0, board, cell, keep, True, 1.0, case.state)
    assert_valid(case, board, cell)
    cols = case.world.cols
    old = np.flatnonzero(keep[: case.problem.cells])
    new = cell[case.board[old]]
    assert len(set(zip(new // cols - old // cols, new % cols - old % cols, strict=True))) == 1


def parts(case: Case, threshold: float) -> list[set[int]]:
    """Cells held together by links above ``threshold``, by merging sets."""
    w, board = case.world, case.board
    groups = [{c} for c in range(case.problem.cells) if board[c] >= 0]
    for c in range(case.problem.cells):
        for d in (1, 2):
            x = w.near[c, d]
            if x < 0 or board[c] < 0 or board[x] < 0 or w.at[d, board[c], board[x]] <= threshold:
                continue
            one = next(g for g in groups if c in g)
            two = next(g for g in groups if int(x) in g)
            if one is not two:
                groups.remove(two)
                one |= two
    return groups


@given(cases(), st.sampled_from([-1.0, 0.0, 0.5, 9.0]))
def test_largest_part_is_connected_by_links_and_largest(case: Case, threshold: float) -> None:
    keep = np.zeros(len(case.board), np.bool_)
    largest_part(case.world, case.board, threshold, keep)
    fixed = set(np.flatnonzero(case.world.fixed).tolist())
    groups = parts(case, threshold)
    largest = [g for g in groups if len(g) == max(map(len, groups))]
    assert set(np.flatnonzero(keep).tolist()) in [g | fixed for g in largest]


@given(cases(), st.integers(1, 12))
def test_an_open_region_is_connected_and_small(case: Case, size: int) -> None:
    keep = np.ones(len(case.board), np.bool_)
    centre = int(case.rng.integers(case.problem.cells))
    open_region(case.world, centre, size, case.state, keep)
    opened = set(np.flatnonzero(~keep).tolist())
    assert len(opened) <= size
    assert not case.world.fixed[list(opened)].any()
    assert (centre in opened) == (not case.world.fixed[centre])
    reached, front = set(), opened & {centre}
    while front:
        reached |= front
        front = {int(x) for c in front for x in case.world.near[c]} & opened - reached
    assert reached == opened


@given(cases(), st.sampled_from([-1.0, 0.0, 0.5]))
def test_a_carried_part_stays_together_and_off_fixed_cells(case: Case, threshold: float) -> None:
    board, keep = case.board.copy(), np.zeros(len(case.board), np.bool_)
    carry_part(case.world, board, threshold, keep, case.state)
    fixed, cols = case.world.fixed, case.world.cols
    assert np.array_equal(board[fixed], case.board[fixed])
    assert keep[fixed].all()
    kept = board[keep & (board >= 0)]
    assert len(set(kept.tolist())) == len(kept)
    new = np.flatnonzero(keep & (board != case.board))
    old = case.cell[board[new]]
    assert len(set(zip(new // cols - old // cols, new % cols - old % cols, strict=True))) <= 1
    if len(new):
        part = next(g for g in parts(case, threshold) if int(old[0]) in g)
        assert set(old.tolist()) <= part
        assert not fixed[list(part)].any()  # a pin would hold it


def test_a_part_is_carried_to_where_it_fits() -> None:
    """A row of three in a 2x4 grid with one blocked corner has two other places."""
    h = np.full((7, 7), -1.0)
    h[0, 1] = h[1, 2] = 4.0
    puzzle = blank_puzzle(7, (2, 4), blocked=frozenset({(0, 0)}))
    problem = make_problem(Evidence(h, np.full((7, 7), -1.0)), puzzle)
    start = problem.from_board(np.array([[-1, 0, 1, 2], [3, 4, 5, 6]]))
    seen = set()
    for seed in range(60):
        board, keep = start.copy(), np.zeros(8, np.bool_)
        carry_part(problem.world, board, 0.0, keep, random_state(seed))
        seen |= set(np.flatnonzero(keep & (board == 0)).tolist())
    assert seen - {1} == {4, 5}


@given(cases(most=6), st.sampled_from([1, 60]))
def test_moved_blocks_never_cost_and_never_move_what_is_fixed(case: Case, tries: int) -> None:
    board, cell = case.board.copy(), case.cell
    dirty = np.zeros(len(board), np.bool_)
    moved = move_blocks(case.world, board, cell, tries, dirty, case.state)
    assert_valid(case, board, cell)
    gain = full_score(case.world, board) - full_score(case.world, case.board)
    assert gain >= moved * EPS * 0.9
    assert (moved > 0) == (not np.array_equal(board, case.board)) == bool(dirty.any())
    assert dirty[np.flatnonzero(board != case.board)].all()


def test_blocks_are_carried_home() -> None:
    """Two exchanged 2x2 blocks: one exchange of blocks puts the board right."""
    grid = (4, 8)
    problem = make_problem(planted_evidence(grid), blank_puzzle(32, grid))
    board = identity_board(grid)
    board[:2, :2], board[2:, 5:7] = board[2:, 5:7].copy(), board[:2, :2].copy()
    flat = problem.from_board(board)
    cell = cells_of(flat, 32)
    move_blocks(problem.world, flat, cell, 2000, np.zeros(32, np.bool_), random_state(1))
    assert np.array_equal(problem.to_board(flat), identity_board(grid))


@given(cases())
def test_a_settled_board_scores_what_is_said_and_no_less(case: Case) -> None:
    board, cell = case.board.copy(), case.cell
    score = settle(case.world, board, cell, np.ones(len(board), np.bool_), case.state)
    assert_valid(case, board, cell)
    assert score == pytest.approx(full_score(case.world, board), abs=1e-9)
    assert score >= full_score(case.world, case.board) - 1e-4


@given(cases())
def test_a_weak_cell_is_a_cell_of_the_board(case: Case) -> None:
    assert 0 <= weak_cell(case.world, case.board, case.state) < case.problem.cells


def test_weak_cells_are_found_where_the_board_is_wrong() -> None:
    grid = (5, 6)
    problem = make_problem(planted_evidence(grid), blank_puzzle(30, grid))
    board = identity_board(grid)
    board[1, 1], board[3, 4] = board[3, 4], board[1, 1]
    flat, state = problem.from_board(board), random_state(3)
    found = [weak_cell(problem.world, flat, state) for _ in range(200)]
    wrong = np.mean([divmod(c, 6) in [(1, 1), (3, 4)] for c in found])
    assert wrong > 0.25  # 2 of 30 cells, looked for six at a time


# --- the cache ----------------------------------------------------------------------------------


def test_a_changed_source_drops_all_compiled_kernels(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("1")
    (tmp_path / "two.py").write_text("2")
    index = tmp_path / "__pycache__" / "one.f.nbi"
    forget_stale(tmp_path)
    index.write_text("compiled")
    forget_stale(tmp_path)
    assert index.exists()  # nothing has changed
    (tmp_path / "two.py").write_text("3")
    forget_stale(tmp_path)
    assert not index.exists()
    index.write_text("compiled again")
    forget_stale(tmp_path)
    assert index.exists()


# --- candidate lists ----------------------------------------------------------------------------


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 1000))
def test_candidate_lists_hold_the_best_in_order(n: int, depth: int, seed: int) -> None:
    at = np.random.default_rng(seed).normal(size=(4, n, n)).astype(np.float32)
    got = candidates(at, depth)
    for d in range(4):
        for q in range(n):
            best = sorted((j for j in range(n) if j != q), key=lambda j: -at[d, q, j])[:depth]
            assert got[d, q].tolist() == (best or [-1])
