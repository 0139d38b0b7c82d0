"""Files of fragments: images of all kinds, folders, zips, and those that are up to no good."""

from __future__ import annotations

import io
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import sherd
from sherd import Knowledge, Puzzle, SherdError
from sherd.data.folder import read_fragments, read_puzzle, write_puzzle
from sherd.data.fragments import even, load_images
from sherd.data.zips import Limits, read_zip

Grid = tuple[int, int]


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


@pytest.mark.parametrize(("kind", "white"), [(np.int32, 65535), (np.float32, 255), (float, 1)])
def test_dark_pieces_of_deep_scans_stay_dark(tmp_path: Path, kind: type, white: int) -> None:
    levels = [white, 0.6 * white, 0.003 * white]
    arrays = [np.full((8, 8), level).astype(kind) for level in levels]
    wanted = [round(255 * float(a.max()) / white) for a in arrays]
    assert [int(p.max()) for p in load_images(arrays).images] == wanted
    if kind is not float:
        for k, a in enumerate(arrays):
            save(tmp_path / f"{k}.tif", a)
        assert [int(p.max()) for p in read_puzzle(tmp_path).pieces] == wanted


@pytest.mark.parametrize("array", [np.full((8, 8), np.nan), np.full((8, 8), "x")])
def test_what_is_no_number_is_no_picture(array: np.ndarray) -> None:
    with pytest.raises(SherdError, match="expected finite numbers"):
        load_images([array])


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=3, max_size=9))
def test_nearly_equal_sizes_become_equal(off: list[Grid]) -> None:
    rng = np.random.default_rng(len(off))
    images = [rng.integers(0, 256, (40 + a, 50 + b, 3)).astype(np.uint8) for a, b in off]
    loaded = load_images(images)
    pieces, mask, notes = even(loaded)
    assert mask is None
    assert pieces.dtype == np.uint8
    sizes = np.array([i.shape[:2] for i in images])
    assert pieces.shape[1:3] == tuple(np.rint(np.median(sizes, axis=0)).astype(int))
    changed = [k for k, i in enumerate(images) if i.shape[:2] != pieces.shape[1:3]]
    assert [note.split(":")[0] for note in notes] == [str(k) for k in changed]
    for k, image in enumerate(images):
        if k not in changed:
            assert (pieces[k] == image).all()


def test_masks_are_brought_to_size_too() -> None:
    rgba = np.full((30, 30, 4), 255, np.uint8)
    rgba[:15, :, 3] = 0
    others = [np.zeros((32, 32, 3), np.uint8)] * 2
    pieces, mask, _ = even(load_images([*others, rgba]))
    assert mask is not None
    assert mask.shape == pieces.shape[:3]
    assert mask[:2].all()
    assert 0.4 < mask[2].mean() < 0.6


def test_floats_may_overshoot_white() -> None:
    bright = np.full((8, 8), 1.05)
    got = load_images([bright, 0.5 * np.ones((8, 8))]).images
    assert [int(p.max()) for p in got] == [255, 128]


def test_levels_beyond_white_are_refused_by_name(tmp_path: Path) -> None:
    save(tmp_path / "a.tif", np.full((8, 8), 70_000, np.int32))
    with pytest.raises(SherdError, match=r"a\.tif: .*levels up to 70000; expected at most 65535"):
        read_puzzle(tmp_path)


def test_floats_and_whole_numbers_have_levels_of_their_own() -> None:
    mixed = [np.full((8, 8), 0.5), np.full((8, 8), 200), np.full((8, 8), 514, ">u2")]
    assert [int(p.max()) for p in load_images(mixed).images] == [128, 200, 2]


def test_a_broken_chain_of_pages_is_one_page(tmp_path: Path) -> None:
    rgb = np.random.default_rng(0).integers(0, 256, (20, 24, 3)).astype(np.uint8)
    save(tmp_path / "a.tif", rgb)
    data = bytearray((tmp_path / "a.tif").read_bytes())
    first = int.from_bytes(data[4:8], "little")
    after = first + 2 + 12 * int.from_bytes(data[first : first + 2], "little")
    data[after : after + 4] = (10**9).to_bytes(4, "little")
    (tmp_path / "a.tif").write_bytes(data)
    assert (read_puzzle(tmp_path).pieces[0] == rgb).all()


def test_turned_pictures_are_set_upright_in_a_list_too() -> None:
    rgb = np.random.default_rng(0).integers(0, 256, (20, 24, 3)).astype(np.uint8)
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.rot90(rgb)).save(buffer, "PNG", exif=exif)
    assert (load_images([Image.open(buffer)]).images[0] == rgb).all()


def test_what_was_not_read_is_said(tmp_path: Path) -> None:
    rgb = np.zeros((20, 24, 3), np.uint8)
    pages = [Image.fromarray(rgb), Image.fromarray(rgb + 9)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    for name in ("b.png", "c.GIF"):
        save(tmp_path / name, rgb)
    wanted = (
        "c.GIF: not read; expected PNG, JPEG, TIFF, WebP or BMP",
        "a.tif: holds 2 pictures; only the first is read",
    )
    assert read_fragments(tmp_path)[1] == wanted
    files = {f"scans/{f.name}": f.read_bytes() for f in tmp_path.iterdir()}
    assert read_fragments(zip_of(tmp_path / "x.zip", files))[1] == wanted


def test_a_negative_of_16_bits_is_turned_round(tmp_path: Path) -> None:
    grey = np.random.default_rng(0).integers(0, 65536, (20, 24)).astype(np.uint16)
    save(tmp_path / "a.tif", 65535 - grey, tiffinfo={262: 0})
    assert (read_puzzle(tmp_path).pieces[0, ..., 0] == grey // 257).all()


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


def test_a_zip_is_as_good_as_a_folder(small: Puzzle, tmp_path: Path) -> None:
    puzzle = replace(small, knowledge=Knowledge(corners=frozenset({2})))
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
    noise = np.random.default_rng(0).bytes(4000)
    whole = zip_of(tmp_path / "lzma.zip", {"a.png": noise}, compression=zipfile.ZIP_LZMA)
    half = bytearray(whole.read_bytes())
    half[60:3000] = bytes(2940)
    whole.write_bytes(half)
    for name, message in (
        ("link.zip", "is a link"), ("text.zip", "no zip file"), ("none.zip", "no such file"),
        ("lzma.zip", "no zip file"),
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
