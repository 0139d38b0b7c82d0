"""What `sherd.solve` does, stage by stage: look, choose a grid, search, look again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..perception.evidence import Evidence
from ..puzzle import EMPTY, Puzzle
from ..solvers import Callbacks, Recorder, Stop
from ..solvers.evolve import Evolve, Sight, search
from ..solvers.go_on import go_on
from .result import GridTrial, Reassembly


@dataclass
class Work:
    """One puzzle on the way to its `Reassembly`."""

    puzzle: Puzzle
    """In the caller's order of pieces."""
    solver: Evolve
    seed: int
    stop: Stop | None
    callbacks: Callbacks
    notes: list[str]

    def run(self, start: np.ndarray | None, missing: int | None) -> Reassembly:
        """All stages. Pieces are shuffled with the seed, as in `Solver.solve`."""
        puzzle = self.puzzle
        self._check_knowledge()
        self.callbacks.on_start(self.solver.name, puzzle.n)
        order = np.random.default_rng([self.seed, 1]).permutation(puzzle.n)
        back = np.argsort(order)
        old, new = np.append(order, EMPTY), np.append(back, EMPTY)
        rng = np.random.default_rng([self.seed, 2])
        record = Recorder(self.callbacks, order)
        hidden = puzzle.without_truth().reordered(order)
        record.stage("perception")
        sight = self.solver.look(hidden)
        trials: list[GridTrial] = []
        first = None if start is None else new[start]
        if hidden.grid is None:
            record.stage("grid")
            trials, first = self._grids(sight, hidden, missing, rng, record)
            hidden = replace(hidden, grid=trials[0].grid)
        if hidden.gap is None:
            record.stage("gap")
            hidden = _with_gap(sight, hidden, first, rng)
        evidence = sight(hidden)
        if start is None:
            found = search(evidence, hidden, self.stop, rng, record, start=first)
        else:
            found = go_on(evidence, hidden, self.stop, rng, record, new[start])
        record.stage("second look")
        board, sure = found.board, found.confidence
        lifted = self._lift(found.evidence or evidence, hidden, board, given=not trials)
        if len(lifted[1]):
            board = lifted[0]
            sure = np.where(board == EMPTY, 0.0, sure)
        result = self._result(old[board], sure, found.score, trials, record)
        from .alternatives import find_alternatives

        others = find_alternatives(evidence, hidden, board, found.others)
        result = replace(
            result,
            evidence=evidence.reordered(back),
            score=evidence.full_score(board) if len(lifted[1]) else found.score,
            alternatives=tuple(replace(a, board=old[a.board]) for a in others),
        )
        record.finish()
        self.callbacks.on_end(result.board.copy(), result.score)
        return replace(result, history=record.history, timings=record.timings)

    def _check_knowledge(self) -> None:
        """Contradictions, in the caller's names, before the slow part."""
        if self.puzzle.knowledge and self.puzzle.grid is not None:
            from ..search.bounds import bind

            bind(self.puzzle)

    def _grids(
        self,
        sight: Sight,
        hidden: Puzzle,
        missing: int | None,
        rng: np.random.Generator,
        record: Recorder,
    ) -> tuple[list[GridTrial], np.ndarray]:
        from .grids import rank_grids
        from .possible import possible_grids

        tried = 0

        def heard(grid: tuple[int, int], best: float) -> bool:
            nonlocal tried
            record.round(tried, best)
            tried += 1
            return self.stop is not None and self.stop(best)

        grids = possible_grids(hidden.n, missing)
        trials, board = rank_grids(sight(hidden), hidden, grids, rng, heard)
        best = trials[0]
        text = f"grid: {best.grid[0]}x{best.grid[1]}, found among {len(trials)}"
        if len(trials) > 1:
            rows, cols = trials[1].grid
            text += f"; the next is {rows}x{cols}, {best.score - trials[1].score:.0f} nats behind"
        self._note(text)
        return trials, board

    def _lift(
        self, evidence: Evidence, hidden: Puzzle, board: np.ndarray, *, given: bool
    ) -> tuple[np.ndarray, list[int]]:
        """Pieces that nothing speaks for are taken out, unless the caller says that all fit."""
        rows, cols = hidden.require_grid()
        if given and hidden.n == rows * cols - len(hidden.blocked):
            return board, []
        from .strangers import lift_strangers

        stay = frozenset(hidden.pins) | hidden.knowledge.pieces
        return lift_strangers(evidence, board, stay)

    def _result(
        self,
        board: np.ndarray,
        sure: np.ndarray,
        score: float,
        trials: list[GridTrial],
        record: Recorder,
    ) -> Reassembly:
        from ..perception.gaps import estimate_gap

        shape = (board.shape[0], board.shape[1])
        puzzle = self.puzzle
        if puzzle.truth is not None and puzzle.truth.shape != shape:
            puzzle = puzzle.without_truth()
        puzzle = replace(puzzle, grid=shape)
        if puzzle.gap is None:
            gap = estimate_gap(puzzle, board)
            if gap is not None:
                puzzle = replace(puzzle, gap=gap)
                self._note(f"gap: about {gap} px, estimated from the picture")
        if empty := int((board == EMPTY).sum()) - len(puzzle.blocked):
            self._note(f"empty: {empty} cells have no piece")
        placed = set(board.ravel().tolist())
        names = puzzle.names or tuple(str(k) for k in range(puzzle.n))
        if out := [names[k] for k in range(puzzle.n) if k not in placed]:
            self._note(f"not placed: {', '.join(out)}")
        return Reassembly(
            board,
            score,
            sure,
            None,
            self.solver.name,
            self.seed,
            puzzle=puzzle,
            grids=tuple(trials),
            notes=tuple(self.notes),
        )

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.callbacks.on_note(text)


def _with_gap(
    sight: Sight, hidden: Puzzle, board: np.ndarray | None, rng: np.random.Generator
) -> Puzzle:
    """The puzzle with the gap that a first board shows: whole boards are judged with gaps filled.

    What the network has seen of the pieces stays: it hardly depends on the gap.
    """
    from ..perception.gaps import estimate_gap
    from ..search.evolution import Evolution
    from ..search.problem import make_problem
    from .grids import SHORT

    if board is None:
        evidence = sight(replace(hidden, grid=None, pins={}, blocked=frozenset()))
        problem = make_problem(evidence, hidden)
        board, _ = Evolution(problem, SHORT).run(rng, lambda *_: False)
    return replace(hidden, gap=estimate_gap(hidden, board))
