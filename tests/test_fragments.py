"""Fragments as people have them: files in, a picture out."""

from __future__ import annotations

import io
import json
import math
import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from skimage import data

import sherd
from sherd import Geometry, Knowledge, Puzzle, SherdError, cut
from sherd.data.cutting import lose_pieces
from sherd.data.folder import read_fragments, read_puzzle, write_puzzle
from sherd.data.fragments import even, load_images
from sherd.data.zips import Limits, read_zip
from sherd.fragments.grids import STRANGER, fair_score, handicap
from sherd.fragments.possible import possible_grids, spare_pieces
from sherd.fragments.strangers import LOW, lift_strangers, links_of
from sherd.perception.gaps import estimate_gap
from sherd.puzzle import EMPTY
from sherd.solvers import Callbacks, MaxRounds

Grid = tuple[int, int]


def puzzle_of(grid: Grid, piece: int = 32, gap: int = 0, seed: int = 0) -> Puzzle:
    """Shuffled pieces of a photograph."""
    whole = cut(data.coffee(), Geometry(grid, (piece, piece), gap), fit="crop").puzzle
    return whole.shuffled(np.random.default_rng(seed))


# Files


def save(path: Path, image: np.ndarray, **options: object) -> None:
    Image.fromarray(image).save(path, **options)  # type: ignore[arg-type]


def test_all_kinds_of_images_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 256, (20, 24, 3)).astype(np.uint8)
    grey16 = rng.integers(0, 65536, (20, 24)).astype(np.uint16)
    save(tmp_path / "1.png", rgb)
    save(tmp_path / "2.tif", grey16)
    save(tmp_path / "3.webp", rgb, lossless=True)
    save(tmp_path / "4.JPG", rgb, quality=100, subsampling=0)
    save(tmp_path / "5.png", rgb[..., 0])
    alpha = np.concatenate([rgb, np.full((20, 24, 1), 255, np.uint8)], axis=2)
    alpha[:5, :, 3] = 0
    save(tmp_path / "6.png", alpha)
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    Image.fromarray(np.rot90(rgb)).save(tmp_path / "10.png", exif=exif)
    (tmp_path / "notes.txt").write_text("no image")
    puzzle, notes = read_fragments(tmp_path)
    assert puzzle.names == ("1.png", "2.tif", "3.webp", "4.JPG", "5.png", "6.png", "10.png")
    assert notes == ()
    assert (puzzle.pieces[0] == rgb).all()
    assert (puzzle.pieces[1, ..., 0] == grey16 // 257).all()
    assert (puzzle.pieces[2] == rgb).all()
    assert np.abs(puzzle.pieces[3].astype(int) - rgb).mean() < 2
    assert (puzzle.pieces[4] == rgb[..., :1]).all()
    assert puzzle.mask is not None
    assert not puzzle.mask[5, :5].any()
    assert puzzle.mask[5, 5:].all()
    assert puzzle.mask[:5].all()
    assert (puzzle.pieces[6] == rgb).all()


@given(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=3, max_size=9),
    st.sampled_from(["scale", "crop", "pad"]),
)
def test_nearly_equal_sizes_become_equal(off: list[Grid], how: str) -> None:
    rng = np.random.default_rng(len(off))
    images = [rng.integers(0, 256, (40 + a, 50 + b, 3)).astype(np.uint8) for a, b in off]
    loaded = load_images(images)
    pieces, mask, notes = even(loaded, how)  # type: ignore[arg-type]
    assert mask is None
    assert pieces.dtype == np.uint8
    sizes = np.array([i.shape[:2] for i in images])
    want = {"scale": np.rint(np.median(sizes, axis=0)), "crop": sizes.min(0), "pad": sizes.max(0)}
    assert pieces.shape[1:3] == tuple(want[how].astype(int))
    changed = [k for k, i in enumerate(images) if i.shape[:2] != pieces.shape[1:3]]
    assert [note.split(":")[0] for note in notes] == [str(k) for k in changed]
    for k, image in enumerate(images):
        if k not in changed:
            assert (pieces[k] == image).all()


def test_masks_are_brought_to_size_too() -> None:
    rgba = np.full((30, 30, 4), 255, np.uint8)
    rgba[:15, :, 3] = 0
    others = [np.zeros((32, 32, 3), np.uint8)] * 2
    for how in ("scale", "crop", "pad"):
        pieces, mask, _ = even(load_images([*others, rgba]), how)  # type: ignore[arg-type]
        assert mask is not None
        assert mask.shape == pieces.shape[:3]
        assert mask[:2].all()
        assert 0.4 < mask[2].mean() < 0.6


def test_wild_sizes_are_refused_by_name(tmp_path: Path) -> None:
    for k in range(4):
        save(tmp_path / f"{k}.png", np.zeros((40, 40 if k != 2 else 60, 3), np.uint8))
    with pytest.raises(SherdError, match=r"2\.png: is 60x40 px, most fragments are about 40x40"):
        read_fragments(tmp_path)


def zip_of(path: Path, files: dict[str, bytes], **options: int) -> Path:
    with zipfile.ZipFile(path, "w", options.get("compression", zipfile.ZIP_STORED)) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def png(value: int = 0, side: int = 8) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.full((side, side, 3), value, np.uint8)).save(out, "PNG")
    return out.getvalue()


def test_a_zip_is_as_good_as_a_folder(tmp_path: Path) -> None:
    puzzle = replace(puzzle_of((3, 4)), knowledge=Knowledge(corners=frozenset({2})))
    write_puzzle(tmp_path / "p", puzzle)
    files = {f"scans/{f.name}": f.read_bytes() for f in (tmp_path / "p").iterdir()}
    files |= {"__MACOSX/scans/._000.png": b"x", "scans/.DS_Store": b"x", "readme.md": b"hi"}
    folder = read_puzzle(tmp_path / "p")
    packed = read_puzzle(zip_of(tmp_path / "p.zip", files))
    assert (packed.pieces == folder.pieces).all()
    assert packed.truth is not None
    assert (packed.truth == folder.truth).all()
    assert packed.knowledge == folder.knowledge == puzzle.knowledge
    assert (packed.names, packed.grid, packed.gap) == (folder.names, folder.grid, folder.gap)


LINK = zipfile.ZipInfo("a.png")
LINK.external_attr = (stat.S_IFLNK | 0o777) << 16


@pytest.mark.parametrize(
    ("files", "limits", "message"),
    [
        ({"../a.png": png()}, Limits(), "points outside"),
        ({"/etc/a.png": png()}, Limits(), "points outside"),
        ({"..\\a.png": png()}, Limits(), "points outside"),
        ({"C:/a.png": png()}, Limits(), "points outside"),
        ({"a/x.png": png(), "b/x.png": png()}, Limits(), "two files called 'x.png'"),
        ({"readme.txt": b"x"}, Limits(), "holds no images"),
        ({"a.png": b"\0" * 1000}, Limits(file_bytes=999), "unpacks to more"),
        ({"a.png": b"\0" * 600, "b.png": b"\0" * 600}, Limits(total_bytes=1000), "unpacks to more"),
        ({f"{k}.png": b"" for k in range(9)}, Limits(files=3), "more than 3 images"),
        ({f"{k}.txt": b"" for k in range(99)}, Limits(files=3), "99 files"),
        ({"a.png": png()}, Limits(zip_bytes=10), "pack fewer"),
        ({"a.png": b"no image"}, Limits(), "is not an image"),
        ({"a.png": png(side=200)[:-30]}, Limits(), "damaged"),
        ({"a.png": png(side=40)}, Limits(pixels=1000), "at most 1,000 pixels"),
        ({"a.png": png(), "b.png": png()}, Limits(total_pixels=100), "over 100 pixels"),
    ],
)
def test_zips_that_are_up_to_no_good(
    tmp_path: Path, files: dict[str, bytes], limits: Limits, message: str
) -> None:
    path = zip_of(tmp_path / "bad.zip", files, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(SherdError, match=message) as caught:
        read_fragments(path, limits=limits)
    assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.zip"]  # nothing is unpacked to disk


def test_links_broken_zips_and_missing_ones(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(LINK, "/etc/passwd")
    (tmp_path / "text.zip").write_text("no zip")
    for name, message in (
        ("link.zip", "is a link"), ("text.zip", "no zip file"), ("none.zip", "no such file"),
    ):  # fmt: skip
        with pytest.raises(SherdError, match=message):
            read_zip(tmp_path / name)


def test_a_bomb_ends_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    zip_of(path, {"a.png": b"\0" * 50_000_000}, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000
    with pytest.raises(SherdError, match="unpacks to more than there is room for"):
        read_zip(path, Limits(file_bytes=1_000_000))


@pytest.mark.parametrize(
    ("images", "message"),
    [([], "there are none"), ([3], "number 0 is of type int"), ([np.zeros(4)], "shape")],
)
def test_images_that_are_none(images: list, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(SherdError, match=message):
        sherd.solve(images, grid=(1, 1))


# Grids


@given(st.integers(1, 200), st.integers(0, 12))
def test_possible_grids_are_all_there(n: int, missing: int) -> None:
    grids = possible_grids(n, missing)
    assert len(set(grids)) == len(grids)
    assert all(n - spare_pieces(n) <= r * c <= n + missing for r, c in grids)
    assert all((r, n // r) in grids for r in range(1, n + 1) if n % r == 0)
    assert all((c, r) in grids for r, c in grids)


@given(st.integers(1, 60), st.integers(0, 9))
def test_the_handicap_counts_boards(n: int, empty: int) -> None:
    boards = math.comb(n + empty, empty)  # ways to choose the empty cells
    assert handicap(n, n + empty, 0) == pytest.approx(math.log(boards), abs=1e-6)
    assert handicap(n, n, 0) == pytest.approx(0.0, abs=1e-9)
    assert handicap(n, n, 2) == pytest.approx(2 * STRANGER)


def test_a_stranger_speaks_against_no_grid() -> None:
    h = np.full((5, 5), -5.0)
    h[0, 1] = h[2, 3] = 4.0
    v = np.full((5, 5), -5.0)
    v[0, 2] = v[1, 3] = 4.0
    evidence = sherd.Evidence(h, v)
    board = np.array([[0, 1], [2, 3]])
    assert fair_score(evidence, board) == pytest.approx(16.0 - STRANGER)
    beside = np.array([[0, 1, EMPTY], [2, 3, 4]])
    assert fair_score(evidence, beside) == pytest.approx(16.0 - STRANGER - math.log(15))


class Listener(Callbacks):
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []

    def on_stage(self, stage: str) -> None:
        self.stages.append(stage)

    def on_note(self, note: str) -> None:
        self.notes.append(note)


@pytest.mark.parametrize(("grid", "lost"), [((4, 5), 0), ((3, 7), 0), ((5, 4), 2), ((2, 9), 1)])
def test_the_grid_is_found(grid: Grid, lost: int) -> None:
    rng = np.random.default_rng(sum(grid))
    whole = puzzle_of(grid, 48)
    puzzle = lose_pieces(whole, lost, rng)
    heard = Listener()
    result = sherd.solve(
        list(puzzle.pieces), gap=0, missing=2, system="evolve", callbacks=heard, seed=1
    )
    assert puzzle.truth is not None
    assert np.array_equal(result.board, puzzle.truth)
    assert result.puzzle.grid == grid
    assert result.grids[0].grid == grid
    assert result.grids[0].missing == lost
    assert [t.score for t in result.grids] == sorted((t.score for t in result.grids), reverse=True)
    assert heard.stages[:2] == ["perception", "grid"]
    assert any(note.startswith(f"grid: {grid[0]}x{grid[1]}") for note in heard.notes)
    assert tuple(heard.notes) == result.notes


def test_the_network_finds_grid_gap_and_losses() -> None:
    puzzle = lose_pieces(puzzle_of((4, 5), 40, gap=4), 1, np.random.default_rng(2))
    result = sherd.solve(list(puzzle.pieces), missing=1)
    assert puzzle.truth is not None
    assert np.array_equal(result.board, puzzle.truth)
    assert result.puzzle.gap is not None
    assert abs(result.puzzle.gap - 4) <= 2
    assert result.confidence[result.board != EMPTY].min() > 0.5


def test_what_is_known_rules_grids_out() -> None:
    puzzle = puzzle_of((3, 4), 48)
    assert puzzle.truth is not None
    corner = int(puzzle.truth[2, 3])
    pieces = list(puzzle.pieces)
    found = sherd.solve(pieces, gap=0, pins={corner: (2, 3)}, missing=0, system="evolve")
    assert np.array_equal(found.board, puzzle.truth)
    assert all(t.grid[0] >= 3 and t.grid[1] >= 4 for t in found.grids)
    wrong = sherd.solve(
        pieces, gap=0, missing=0, system="evolve",
        knowledge=Knowledge(pins={corner: (1, 0)}, rims=frozenset({(corner, "bottom")})),
    )  # fmt: skip
    assert wrong.board.shape == (2, 6)
    assert wrong.board[1, 0] == corner
    with pytest.raises(SherdError, match="pin: cell"):
        sherd.solve(pieces, gap=0, pins={0: (50, 50)}, system="evolve")


# Gaps


@pytest.mark.parametrize("gap", [0, 1, 2, 4, 8])
@pytest.mark.parametrize("name", ["coffee", "astronaut", "cat"])
def test_the_gap_shows_in_the_picture(name: str, gap: int) -> None:
    image = np.asarray(getattr(data, name)())
    puzzle = cut(image, Geometry((4, 5), (48, 48), gap), fit="crop").puzzle
    assert puzzle.truth is not None
    found = estimate_gap(replace(puzzle, gap=None), puzzle.truth)
    assert found is not None
    assert abs(found - gap) <= 1 + gap // 2


def test_the_gap_of_nothing_is_unknown() -> None:
    alone = Puzzle(np.zeros((1, 8, 8, 3), np.uint8))
    assert estimate_gap(alone, np.array([[0]])) is None
    tiny = puzzle_of((3, 3), 4)
    assert tiny.truth is not None
    assert estimate_gap(tiny, tiny.truth) is None
    masked = replace(puzzle_of((3, 3), 24, gap=2), mask=np.zeros((9, 24, 24), bool))
    assert masked.truth is not None
    assert estimate_gap(masked, masked.truth) is not None  # no pixel, but no crash either


# Strangers


def test_links_of_a_piece_are_what_it_adds() -> None:
    rng = np.random.default_rng(0)
    evidence = sherd.Evidence(*rng.normal(size=(2, 6, 6)))
    board = np.array([[0, 1, EMPTY], [2, 3, 4]])
    links = links_of(evidence, board)
    for r, c in np.argwhere(board != EMPTY):
        without = board.copy()
        without[r, c] = EMPTY
        lost = evidence.score(board) - evidence.score(without)
        assert links[r, c] == pytest.approx(lost, abs=1e-5)
    assert links[0, 2] == 0


def test_strangers_are_left_out_and_others_are_not() -> None:
    puzzle = puzzle_of((4, 5), 40, gap=2)
    assert puzzle.truth is not None
    lost = lose_pieces(puzzle, 1, np.random.default_rng(0))
    strange = cut(data.cat(), Geometry((3, 4), (40, 40), 2)).puzzle.pieces[5:6]
    pieces = [*lost.pieces, *strange]
    result = sherd.solve(pieces, gap=2)
    assert result.board.shape == (4, 5)
    assert result.unplaced == [19]
    assert lost.truth is not None
    assert np.array_equal(result.board, lost.truth)
    assert any(note == "not placed: 19" for note in result.notes)
    exact = sherd.solve(pieces, grid=(4, 5), gap=2, stop=MaxRounds(3))
    assert exact.unplaced == []  # 20 pieces on 20 cells: the user says that all belong


def test_the_worst_is_lifted_first() -> None:
    h = np.full((3, 3), 3.0)
    h[0, 1] = h[1, 2] = 2 * LOW  # the one in the middle; its neighbours look strange because of it
    evidence = sherd.Evidence(h, np.zeros((3, 3)))
    board, lifted = lift_strangers(evidence, np.array([[0, 1, 2]]), frozenset())
    assert lifted == [1]
    assert board.tolist() == [[0, EMPTY, 2]]
    assert lift_strangers(evidence, np.array([[0, 1, 2]]), frozenset({0, 1, 2}))[1] == []


# Going on


def test_going_on_from_a_board() -> None:
    puzzle = puzzle_of((4, 5), 32)
    assert puzzle.truth is not None
    first = sherd.solve(puzzle, system="evolve", stop=MaxRounds(1), seed=3)
    wrong = puzzle.truth.copy()
    wrong[0, 0], wrong[2, 2] = wrong[2, 2], wrong[0, 0]
    again = sherd.solve(puzzle, system="evolve", start=wrong, stop=MaxRounds(1))
    assert again.evidence is not None
    assert again.score >= again.evidence.score(wrong)
    assert first.score <= again.score + 1e-3
    pinned = sherd.solve(
        replace(puzzle, grid=None, truth=None), gap=0, system="evolve", start=wrong,
        pins={int(puzzle.truth[0, 0]): (0, 0)}, stop=MaxRounds(2),
    )  # fmt: skip
    assert pinned.board.shape == (4, 5)
    assert pinned.board[0, 0] == puzzle.truth[0, 0]


def refuse(do: Callable[[], object], message: str) -> None:
    with pytest.raises(SherdError, match=message) as caught:
        do()
    assert "\n" not in str(caught.value)


def test_starts_that_are_none() -> None:
    puzzle = puzzle_of((2, 3), 16)
    board = np.arange(6).reshape(3, 2)
    refuse(lambda: sherd.solve(puzzle, start=board), "start: is 3x2, the grid is 2x3")
    refuse(lambda: sherd.solve(puzzle, start=board.T + 1), "start: holds piece 6")
    refuse(lambda: sherd.solve(puzzle, start=board.T, system="greedy"), "cannot go on")
    bare = Puzzle(puzzle.pieces)
    refuse(lambda: sherd.solve(bare, grid=(1, 4)), "4 free cells for 6 pieces")
    refuse(lambda: sherd.solve(puzzle, pins={"x.png": (0, 0)}), "'x.png' is none of the pieces")
    refuse(lambda: sherd.solve(bare, system="greedy"), "give it")


def test_the_same_as_the_solver_where_all_is_known() -> None:
    puzzle = puzzle_of((3, 4), 24, gap=2)
    for system in ("evolve", "greedy"):
        one = sherd.make_solver(system).solve(puzzle, seed=4)
        two = sherd.solve(puzzle, system=system, seed=4)
        assert np.array_equal(one.board, two.board)
        assert one.score == pytest.approx(two.score)
        assert np.array_equal(one.confidence, two.confidence)


@settings(max_examples=8)
@given(st.integers(0, 100))
def test_one_seed_one_answer(seed: int) -> None:
    puzzle = puzzle_of((3, 3), 12, seed=seed)
    pieces = list(puzzle.pieces)
    one, two = (
        sherd.solve(pieces, missing=1, system="evolve", seed=seed, stop=MaxRounds(40))
        for _ in range(2)
    )
    assert np.array_equal(one.board, two.board)
    assert one.grids == two.grids
    assert one.notes == two.notes


def test_told_to_stop_it_has_a_board() -> None:
    pieces = list(puzzle_of((3, 4), 16).pieces)
    result = sherd.solve(pieces, system="evolve", stop=MaxRounds(1))
    assert (result.board != EMPTY).sum() + len(result.unplaced) == 12
    assert len(result.grids) == 1


def test_alternatives_come_near_and_differ() -> None:
    sky = np.array(data.coffee()[:128, :160])
    sky[:32] = 250 + np.random.default_rng(0).integers(0, 3, (32, 160, 3))  # pieces like peas
    puzzle = cut(sky, Geometry((4, 5), (32, 32))).puzzle.shuffled(np.random.default_rng(1))
    result = sherd.solve(puzzle, system="evolve")
    assert result.alternatives
    assert result.evidence is not None
    for other in result.alternatives:
        assert np.array_equal(other.differs, other.board != result.board)
        assert other.differs.any()
        assert other.score == pytest.approx(result.evidence.full_score(other.board), abs=1e-2)
        assert 0 < other.odds <= 1
    scores = [other.score for other in result.alternatives]
    assert scores == sorted(scores, reverse=True)
    assert len({o.differs.tobytes() for o in result.alternatives}) == len(scores)
    clear = sherd.solve(puzzle_of((3, 4), 48), system="evolve")
    assert all(other.odds < 0.5 for other in clear.alternatives)


def test_a_result_goes_to_a_folder_and_comes_back(tmp_path: Path) -> None:
    puzzle = replace(puzzle_of((3, 4), 32), names=tuple(f"s{k}.png" for k in range(12)))
    result = sherd.solve(puzzle, system="evolve", pins={"s3.png": (1, 1)})
    assert result.show().size == (result.image().shape[1], result.image().shape[0])
    assert result._repr_png_().startswith(b"\x89PNG")
    entries = result.save(tmp_path / "out", animate=True, report=True)
    made = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert made == [
        "assembled.png", "layout.csv", "reassembly.gif", "report.html", "result.json"
    ]  # fmt: skip
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == json.loads(
        json.dumps(entries)
    )
    assert entries["pins"] == {"s3.png": [1, 1]}
    lines = (tmp_path / "out" / "layout.csv").read_text().splitlines()
    assert lines[0] == "piece,row,column,confidence"
    for line in lines[1:]:
        name, row, column, sure = line.split(",")
        k = result.names.index(name)
        assert result.board[int(row), int(column)] == k
        assert float(sure) == pytest.approx(result.confidence[int(row), int(column)], abs=1e-4)
    with pytest.raises(SherdError, match="not empty"):
        result.save(tmp_path / "out")
    result.save(tmp_path / "out", force=True)
    assert (np.asarray(Image.open(tmp_path / "out" / "assembled.png")) == result.image()).all()
