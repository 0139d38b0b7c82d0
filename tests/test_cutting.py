"""The cutter: lossless, of the promised geometry, from any kind of picture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from sherd import Geometry, SherdError, cut
from sherd.data.cutting import board_corners, fit_image, largest_piece, paste, to_rgb

sides = st.integers(1, 40)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    erode = draw(st.sampled_from(["between", "side"]))
    piece = (draw(st.integers(1, 24)), draw(st.integers(1, 24)))
    most = 12 if erode == "between" else (min(piece) - 1) // 2
    return Geometry(
        (draw(st.integers(1, 5)), draw(st.integers(1, 5))),
        piece,
        draw(st.integers(0, most)),
        erode,
        draw(st.integers(0, 5)),
    )


@st.composite
def pictures(draw: st.DrawFn) -> np.ndarray:
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return rng.integers(0, 256, (draw(sides), draw(sides), 3)).astype(np.uint8)


@given(geometries(), pictures(), st.sampled_from(["resize", "crop"]), st.integers(0, 99))
def test_pieces_laid_back_give_the_picture(
    geometry: Geometry, picture: np.ndarray, fit: str, seed: int
) -> None:
    made = cut(picture, geometry, rng=np.random.default_rng(seed), fit=fit)
    size = geometry.size
    assert made.image.shape == (*size, 3)
    back = paste(made.puzzle.pieces, made.corners, size)
    covered = paste(np.full_like(made.puzzle.pieces, 255), made.corners, size) == 255
    assert np.array_equal(back[covered], made.image[covered])
    assert not back[~covered].any()
    if geometry.jitter == 0:  # nothing overlaps, so every pixel of every piece is seen
        assert covered.sum() == made.puzzle.pieces.size


@given(geometries(), st.integers(0, 99))
def test_fragments_lie_where_the_geometry_says(geometry: Geometry, seed: int) -> None:
    (rows, cols), (h, w) = geometry.grid, geometry.fragment
    picture = np.zeros((*geometry.size, 3), dtype=np.uint8)
    made = cut(picture, geometry, rng=np.random.default_rng(seed))
    assert made.puzzle.pieces.shape == (rows * cols, h, w, 3)
    assert (made.corners >= 0).all()
    assert (made.corners + np.array([h, w]) <= geometry.size).all()
    off = made.corners - geometry.corners()
    assert np.abs(off).max() <= geometry.jitter
    regular = geometry.corners().reshape(rows, cols, 2)
    assert (np.diff(regular[..., 0], axis=0) == h + geometry.missing).all()
    assert (np.diff(regular[..., 1], axis=1) == w + geometry.missing).all()


@given(geometries(), st.integers(0, 99))
def test_the_puzzle_is_in_true_order_and_says_what_is_missing(
    geometry: Geometry, seed: int
) -> None:
    puzzle = cut(np.zeros((9, 9), np.uint8), geometry, rng=np.random.default_rng(seed)).puzzle
    assert puzzle.grid == geometry.grid
    assert puzzle.truth is not None
    assert puzzle.truth.ravel().tolist() == list(range(puzzle.n))
    factor = 2 if geometry.erode == "side" else 1
    assert puzzle.gap == factor * geometry.gap


@given(geometries())
def test_a_board_drawn_with_the_gap_is_the_picture_that_was_cut(geometry: Geometry) -> None:
    assume(geometry.erode == "between" and geometry.jitter == 0)
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (*geometry.size, 3)).astype(np.uint8)
    made = cut(picture, geometry)
    corners, size = board_corners(geometry.grid, geometry.fragment, geometry.missing)
    assert size == geometry.size
    assert np.array_equal(corners, made.corners)


@pytest.mark.parametrize(
    ("geometry", "side"),
    [
        (Geometry((5, 5), (96, 96), 12, jitter=3), 534),
        (Geometry((3, 3), (96, 96), 48, jitter=7), 398),
    ],
)
def test_geometries_of_jpleg(geometry: Geometry, side: int) -> None:
    assert geometry.size == (side, side)


def test_erosion_between_and_off_each_side() -> None:
    between = Geometry((7, 10), (64, 64), 4, "between")
    side = Geometry((7, 10), (64, 64), 4, "side")
    assert between.size == (7 * 64 + 6 * 4, 10 * 64 + 9 * 4)
    assert side.size == (7 * 64, 10 * 64)
    assert (between.fragment, between.missing) == ((64, 64), 4)
    assert (side.fragment, side.missing) == ((56, 56), 8)


def test_jitter_is_drawn_from_the_generator_and_both_ways() -> None:
    geometry = Geometry((6, 6), (8, 8), 6, jitter=2)
    picture = np.zeros((10, 10, 3), np.uint8)
    one, two = (cut(picture, geometry, rng=np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(one.corners, two.corners)
    other = cut(picture, geometry, rng=np.random.default_rng(4))
    assert not np.array_equal(one.corners, other.corners)
    assert set((one.corners - geometry.corners()).ravel().tolist()) == {-2, -1, 0, 1, 2}
    with pytest.raises(SherdError, match="jitter"):
        cut(picture, geometry)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"grid": (0, 3)}, "grid"),
        ({"grid": (3, 3), "piece": (0, 4)}, "piece"),
        ({"grid": (3, 3), "gap": -1}, "gap"),
        ({"grid": (3, 3), "jitter": -1}, "jitter"),
        ({"grid": (3, 3), "erode": "corner"}, "erode"),
        ({"grid": (3, 3), "piece": (8, 9), "gap": 4, "erode": "side"}, "leaves nothing"),
    ],
)
def test_impossible_geometries_are_refused(arguments: dict[str, object], word: str) -> None:
    with pytest.raises(SherdError, match=word):
        Geometry(**arguments)


@given(pictures())
def test_rgb_arrays_pass_unchanged(picture: np.ndarray) -> None:
    assert np.array_equal(to_rgb(picture), picture)
    assert np.array_equal(to_rgb(Image.fromarray(picture)), picture)


@given(pictures())
def test_grey_pictures_of_any_depth_agree(picture: np.ndarray) -> None:
    grey = picture[..., 0]
    wanted = np.repeat(grey[..., None], 3, axis=2)
    for same in (
        grey,
        grey[..., None],
        grey.astype(np.uint16) * 257,
        grey.astype(np.float64) / 255.0,
        Image.fromarray(grey),
        Image.fromarray(grey.astype(np.uint16) * 257),
    ):
        assert np.array_equal(to_rgb(same), wanted)


@given(pictures())
def test_alpha_is_laid_on_white(picture: np.ndarray) -> None:
    h, w = picture.shape[:2]
    solid = np.dstack([picture, np.full((h, w), 255, np.uint8)])
    clear = np.dstack([picture, np.zeros((h, w), np.uint8)])
    for make in (lambda a: a, Image.fromarray):
        assert np.array_equal(to_rgb(make(solid)), picture)
        assert (to_rgb(make(clear)) == 255).all()
    half = np.dstack([picture, np.full((h, w), 51, np.uint8)])  # a fifth
    wanted = 0.2 * picture + 0.8 * 255
    for make in (lambda a: a, Image.fromarray):
        assert np.abs(to_rgb(make(half)) - wanted).max() <= 1.5


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV"])
def test_every_mode_of_pillow_is_read(mode: str) -> None:
    ramp = np.tile(np.linspace(0, 255, 64).astype(np.uint8), (8, 1))
    image = Image.fromarray(ramp).convert("RGB")
    image = image.convert("LA").convert(mode) if mode == "PA" else image.convert(mode)
    got = to_rgb(image)
    assert got.shape == (8, 64, 3)
    assert got.dtype == np.uint8
    assert got[:, 48:].mean() > got[:, :16].mean() + 100


@pytest.mark.parametrize("mode", ["I", "F", "I;16"])
def test_deep_modes_of_pillow_are_scaled(mode: str) -> None:
    values = np.array([[0, 32768, 65535]])
    kind = {"I": np.int32, "F": np.float32, "I;16": np.uint16}[mode]
    image = Image.fromarray(values.astype(kind))
    assert image.mode == mode
    assert to_rgb(image)[0, :, 0].tolist() in ([0, 127, 255], [0, 128, 255])


def test_palette_transparency_is_laid_on_white() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([0, 0, 0, 10, 20, 30])
    image.putpixel((1, 0), 1)
    image.info["transparency"] = 0
    assert to_rgb(image).tolist() == [[[255, 255, 255], [10, 20, 30]]]


@pytest.mark.parametrize("shape", [(4,), (4, 4, 5), (0, 4, 3), (2, 2, 2, 3)])
def test_what_is_no_picture_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(SherdError, match="shape"):
        to_rgb(np.zeros(shape, np.uint8))


def test_cutting_leaves_its_input_alone(photo: np.ndarray) -> None:
    before = photo.copy()
    made = cut(photo, Geometry((2, 2), (200, 300)))
    made.puzzle.pieces[:] = 0
    assert np.array_equal(photo, before)


@given(pictures(), sides, sides, st.sampled_from(["resize", "crop"]))
def test_fitting_gives_the_size_asked_for(
    picture: np.ndarray, height: int, width: int, how: str
) -> None:
    assert fit_image(picture, (height, width), how).shape == (height, width, 3)


def test_crop_takes_the_middle_and_resize_takes_all() -> None:
    picture = np.zeros((20, 60, 3), np.uint8)
    picture[:, 20:40] = 255
    cropped = fit_image(picture, (20, 20), "crop")
    assert (cropped == 255).all()
    squeezed = fit_image(picture, (20, 20), "resize")
    assert 0.2 < (squeezed > 127).mean() < 0.47


@given(
    sides.map(lambda s: 5 * s), sides.map(lambda s: 5 * s), st.integers(1, 6), st.integers(1, 6),
    st.integers(0, 6), st.sampled_from(["between", "side"]),
)  # fmt: skip
def test_the_largest_piece_fits_and_a_larger_one_does_not(
    height: int, width: int, rows: int, cols: int, gap: int, erode: str
) -> None:
    def fits(side: int) -> bool:
        size = Geometry((rows, cols), (side, side), gap, erode).size
        return size[0] <= height and size[1] <= width

    smallest = 2 * gap + 1 if erode == "side" else 1
    if fits(smallest):
        piece = largest_piece((height, width), (rows, cols), gap, erode)
        assert piece[0] == piece[1]
        assert fits(piece[0])
        assert not fits(piece[0] + 1)
    else:
        with pytest.raises(SherdError, match="does not fit"):
            largest_piece((height, width), (rows, cols), gap, erode)
