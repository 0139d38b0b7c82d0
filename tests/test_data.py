"""Reading pictures, and the protocols that make puzzles of them."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sherd import SherdError
from sherd.data.cutting import Geometry, cut, lose_pieces
from sherd.data.images import (
    Picture,
    list_images,
    list_pictures,
    natural_key,
    read_image,
    split_alpha,
    write_png,
)
from sherd.data.jpleg import EDITIONS, jpleg_items
from sherd.data.sets import (
    KINDS,
    MIT_SETS,
    Cutting,
    Selection,
    art5_items,
    centre,
    data_root,
    folder_items,
    mit_items,
    training_pictures,
)


def picture(h: int, w: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (h, w, 3), dtype=np.uint8)


def save(path: Path, image: np.ndarray, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, **options)
    return path


# Reading


@pytest.mark.parametrize("ending", ["png", "tif", "tiff", "bmp", "webp"])
def test_lossless_formats_come_back_as_they_were(tmp_path: Path, ending: str) -> None:
    image = picture(9, 14)
    options = {"lossless": True} if ending == "webp" else {}
    assert (read_image(save(tmp_path / f"a.{ending}", image, **options)) == image).all()


def test_jpeg_is_read(tmp_path: Path) -> None:
    flat = np.full((16, 24, 3), 90, dtype=np.uint8)
    assert abs(read_image(save(tmp_path / "a.JPG", flat)).astype(int) - 90).max() <= 2


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "I;16", "YCbCr"])
def test_any_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.full((4, 5), 257 * 100, dtype=np.uint16))
    else:
        image = Image.new("RGB", (5, 4), (100, 100, 100)).convert(mode)
    image.save(tmp_path / ("a.tif" if mode in ("CMYK", "YCbCr") else "a.png"))
    got = read_image(next(tmp_path.iterdir()))
    assert got.shape == (4, 5, 3)
    assert got.dtype == np.uint8
    if mode != "1":
        assert abs(got.astype(int) - 100).max() <= 2


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    image = picture(6, 10)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side
    path = tmp_path / "a.png"
    Image.fromarray(image).save(path, exif=exif)
    assert (read_image(path) == np.rot90(image, -1)).all()
    assert Picture(path).dimensions() == (10, 6)


def test_names_sort_as_people_count() -> None:
    names = ["10.png", "2.png", "a10b.png", "a9b.png", "1.png"]
    assert sorted(names, key=natural_key) == ["1.png", "2.png", "10.png", "a9b.png", "a10b.png"]
    names = ["9" * 5000, "1" + "0" * 5000, "010", "x²", "x1", "9"]
    assert sorted(names, key=natural_key) == ["9", "010", "9" * 5000, names[1], "x1", "x²"]


@pytest.mark.parametrize("suffix", [".png", ".webp"])
def test_broken_orientation_is_one_sentence(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    Image.fromarray(picture(6, 10)).save(path, exif=b"Exif\0\0nonsense")
    for read in (Picture(path).dimensions, Picture(path).read):
        with pytest.raises(SherdError, match="damaged"):
            read()


def test_a_folder_lists_its_images_only(tmp_path: Path) -> None:
    for name in ("10.png", "9.JPG", ".hidden.png", "sub/1.png"):
        save(tmp_path / name, picture(4, 4), format="PNG")
    (tmp_path / "notes.txt").write_text("no image")
    assert [p.name for p in list_images(tmp_path)] == ["9.JPG", "10.png"]


def test_alpha_is_the_mask(tmp_path: Path) -> None:
    image, mask = picture(6, 8), np.zeros((6, 8), dtype=bool)
    mask[1:5, 2:7] = True
    write_png(tmp_path / "a.png", image, mask)
    got, got_mask = split_alpha(Picture(tmp_path / "a.png").open(), "a.png")
    assert (got_mask == mask).all()
    assert (got[mask] == image[mask]).all()
    write_png(tmp_path / "b.png", image, np.ones_like(mask))
    assert split_alpha(Picture(tmp_path / "b.png").open(), "b.png")[1] is None


def pack(path: Path, members: dict[str, np.ndarray]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, image in members.items():
            buffer = io.BytesIO()
            Image.fromarray(image).save(buffer, "PNG")
            info = tarfile.TarInfo(name)
            info.size = buffer.tell()
            buffer.seek(0)
            tar.addfile(info, buffer)
    return path


def test_a_pack_is_read_member_by_member(tmp_path: Path) -> None:
    members = {"paintings/2.png": picture(4, 6, 1), "engravings/10.png": picture(5, 7, 2)}
    pictures = list_pictures(pack(tmp_path / "train-0.tar", members))
    assert [p.name for p in pictures] == ["engravings/10.png", "paintings/2.png"]
    assert [p.kind for p in pictures] == ["engravings", "paintings"]
    for p in pictures:
        again = pickle.loads(pickle.dumps(p))  # as a worker process gets it
        assert (again.read() == members[p.name]).all()


def test_training_pictures_are_all_packs_of_a_name(tmp_path: Path) -> None:
    for k in (0, 1):
        pack(tmp_path / "photos" / f"train-{k}.tar", {f"s/{k}.png": picture(4, 4)})
    pack(tmp_path / "photos" / "val-0.tar", {"s/9.png": picture(4, 4)})
    names = [p.name for p in training_pictures("photos-train", tmp_path)]
    assert names == ["s/0.png", "s/1.png"]
    assert len(training_pictures("photos-val", tmp_path)) == 1
    save(tmp_path / "div2k" / "DIV2K_valid_HR" / "0801.png", picture(4, 4))
    assert [p.name for p in training_pictures("div2k-val", tmp_path)] == ["0801.png"]
    with pytest.raises(SherdError, match="put the packs of art5-train there"):
        training_pictures("art5-train", tmp_path)
    with pytest.raises(SherdError, match="unknown"):
        training_pictures("holiday", tmp_path)


# Protocols


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A data folder with two photos a set and one picture of art per kind."""
    for name in (*MIT_SETS, "bgu_large"):
        for k in (1, 2):
            save(tmp_path / "testsets" / name / f"{k:02d}.png", picture(84, 112 + 28 * k, k))
    for kind in KINDS:
        save(tmp_path / "art5" / "val" / kind / "001.png", picture(534, 534, 3))
    return tmp_path


def test_mit_cuts_every_photo_for_every_grid_and_gap(tree: Path) -> None:
    items = list(mit_items(tree, Selection(cutting=Cutting(((2, 3), (3, 4)), (0, 4)))))
    assert len(items) == 2 * 2 * 6
    assert {i.set for i in items} == set(MIT_SETS)
    item = next(i for i in items if i.grid == (3, 4) and i.gap == 4)
    puzzle = item.puzzle(0)
    assert puzzle.grid == (3, 4)
    assert puzzle.gap == 4
    assert puzzle.pieces.shape == (12, 64, 64, 3)
    whole = cut(read_image(tree / "testsets" / item.set / item.id), Geometry((3, 4), gap=4)).image
    assert whole.shape[:2] == (3 * 64 + 2 * 4, 4 * 64 + 3 * 4)
    assert (puzzle.pieces[5] == whole[68:132, 68:132]).all()


def test_erosion_off_each_side_leaves_smaller_fragments(tree: Path) -> None:
    cutting = Cutting(((2, 3),), (4,), erode="side")
    puzzle = next(iter(mit_items(tree, Selection(cutting=cutting)))).puzzle(0)
    assert puzzle.piece_size == (56, 56)
    assert puzzle.gap == 8


def test_pieces_of_28_px_are_cut_from_the_photo_as_it_is(tree: Path) -> None:
    items = list(mit_items(tree, Selection(("mit20",), cutting=Cutting(gaps=(0,), pieces=28))))
    assert [i.grid for i in items] == [(3, 5), (3, 6)]
    whole = read_image(tree / "testsets" / "mit20" / "01.png")
    assert (items[0].puzzle(0).pieces[6] == whole[28:56, 28:56]).all()
    gapped = list(mit_items(tree, Selection(("mit20",), cutting=Cutting(gaps=(2,), pieces=28))))
    assert gapped[0].grid == (3, 5)
    assert gapped[0].puzzle(0).pieces.shape == (15, 28, 28, 3)


def test_a_rim_that_is_no_whole_piece_is_cropped(tmp_path: Path) -> None:
    image = picture(10, 17)
    save(tmp_path / "a.png", image)
    (item,) = folder_items(tmp_path, Selection(cutting=Cutting(gaps=(0,), pieces=4)))
    assert item.grid == (2, 4)
    assert (item.puzzle(0).pieces[0] == image[1:5, 0:4]).all()


def test_a_portrait_photo_is_cut_into_the_grid_on_its_side(tmp_path: Path) -> None:
    save(tmp_path / "a.png", picture(90, 60))
    save(tmp_path / "b.png", picture(60, 90))
    items = list(folder_items(tmp_path, Selection(cutting=Cutting(((2, 3),), (0,)))))
    assert [i.grid for i in items] == [(2, 3), (2, 3)]
    assert [i.puzzle(0).grid for i in items] == [(3, 2), (2, 3)]


def test_limit_takes_the_first_of_each_set(tree: Path) -> None:
    items = list(mit_items(tree, Selection(limit=1, cutting=Cutting(((2, 3),), (0, 2)))))
    assert [(i.set, i.id, i.gap) for i in items] == [
        (s, "01.png", g) for s in MIT_SETS for g in (0, 2)
    ]


def test_art5_is_jplegs_geometry_with_a_seeded_jitter(tree: Path) -> None:
    items = list(art5_items(tree, Selection(split="val")))
    assert [i.kind for i in items] == list(KINDS)
    a, b, c = (items[0].puzzle(seed) for seed in (0, 0, 1))
    assert a.grid == (5, 5)
    assert a.gap == 12
    assert a.pieces.shape == (25, 96, 96, 3)
    assert (a.pieces == b.pieces).all()
    assert (a.pieces != c.pieces).any()
    assert (items[0].puzzle(0).pieces != items[1].puzzle(0).pieces).any()  # its own jitter


def test_items_travel_to_other_processes(tree: Path) -> None:
    item = next(iter(art5_items(tree, Selection(split="val"))))
    assert (pickle.loads(pickle.dumps(item)).puzzle(3).pieces == item.puzzle(3).pieces).all()


def jpleg3(folder: Path, n: int = 4) -> np.ndarray:
    images = np.stack([picture(288, 288, k) for k in range(n)])
    folder.mkdir(parents=True)
    np.save(folder / "test_img_48gap_33.npy", images)
    return images


def test_jpleg_without_labels_is_in_true_order(tmp_path: Path) -> None:
    images = jpleg3(tmp_path / "jpleg3")
    items = list(jpleg_items("jpleg3", tmp_path, Selection()))
    assert [i.kind for i in items] == ["paintings", "paintings", "engravings", "artifacts"]
    puzzle = items[1].puzzle(0)
    assert puzzle.gap == 48
    assert (puzzle.truth == np.arange(9).reshape(3, 3)).all()
    assert (puzzle.pieces[5] == images[1, 96:192, 192:288]).all()


def test_jpleg_labels_say_where_each_piece_belongs(tmp_path: Path) -> None:
    images = jpleg3(tmp_path / "jpleg3")
    others = np.delete(np.arange(9), 4)
    belongs = np.random.default_rng(1).permutation(8)  # the piece in slot k belongs in slot b[k]
    labels = np.zeros((4, 8, 8))
    labels[:, np.arange(8), belongs] = 1
    shuffled = np.empty_like(images)
    for slot, true in [(4, 4), *zip(others, others[belongs], strict=True)]:
        r, c, tr, tc = slot // 3 * 96, slot % 3 * 96, true // 3 * 96, true % 3 * 96
        shuffled[:, r : r + 96, c : c + 96] = images[:, tr : tr + 96, tc : tc + 96]
    np.save(tmp_path / "jpleg3" / "test_img_48gap_33.npy", shuffled)
    np.save(tmp_path / "jpleg3" / "test_label_48gap_33.npy", labels)
    puzzle = next(iter(jpleg_items("jpleg3", tmp_path, Selection(limit=1)))).puzzle(0)
    for cell in range(9):
        r, c = cell // 3 * 96, cell % 3 * 96
        piece = puzzle.truth[cell // 3, cell % 3]
        assert (puzzle.pieces[piece] == images[0, r : r + 96, c : c + 96]).all()


def test_jpleg_thirds_are_those_of_the_test_split(tmp_path: Path) -> None:
    folder = tmp_path / "jpleg5"
    folder.mkdir()
    header = np.lib.format.open_memmap(  # sparse: 2000 images of 480x480 that take no space
        folder / "test_img_12gap_55.npy", "w+", np.uint8, (2000, 480, 480, 3)
    )
    del header
    kinds = [i.kind for i in jpleg_items("jpleg5", tmp_path, Selection())]
    assert [kinds.index(k) for k in KINDS] == [0, 667, 1334]
    assert len(kinds) == 2000
    assert len(list(jpleg_items("jpleg5", tmp_path, Selection(limit=5)))) == 15


def test_jpleg_training_files_have_their_authors_names() -> None:
    images, labels = EDITIONS["jpleg5"].files(Path("d"), "train")
    assert images == Path("d/jpleg5/train_img_12gap_55-002.npy")
    assert labels == Path("d/jpleg5/train_label_12gap_55.npy")
    assert EDITIONS["jpleg3"].files(Path("d"), "val")[0].name == "valid_img_48gap_33.npy"


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((2, 480, 480, 3), np.uint8), None, "expected \\(n, 288, 288, 3\\)"),
        (np.zeros((2, 288, 288, 3), np.uint8), np.zeros((2, 9, 9)), "expected \\(2, 8, 8\\)"),
        (np.zeros((2, 288, 288, 3), np.uint8), np.zeros((2, 8, 8)), "no one-hot permutation"),
    ],
)
def test_jpleg_of_another_shape_is_refused(
    tmp_path: Path, images: np.ndarray, labels: np.ndarray | None, message: str
) -> None:
    (tmp_path / "jpleg3").mkdir()
    np.save(tmp_path / "jpleg3" / "test_img_48gap_33.npy", images)
    if labels is not None:
        np.save(tmp_path / "jpleg3" / "test_label_48gap_33.npy", labels)
    with pytest.raises(SherdError, match=message):
        [i.puzzle(0) for i in jpleg_items("jpleg3", tmp_path, Selection())]


def test_a_damaged_npy_is_named(tmp_path: Path) -> None:
    (tmp_path / "jpleg3").mkdir()
    (tmp_path / "jpleg3" / "test_img_48gap_33.npy").write_bytes(b"\x93NUMPY\x01")
    with pytest.raises(SherdError, match=r"48gap_33\.npy: is no \.npy file"):
        list(jpleg_items("jpleg3", tmp_path, Selection()))


def test_missing_data_says_what_to_put_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHERD_DATA", raising=False)
    with pytest.raises(SherdError, match="--data DIR or set SHERD_DATA"):
        data_root()
    with pytest.raises(SherdError, match="no such folder"):
        data_root(tmp_path / "nowhere")
    monkeypatch.setenv("SHERD_DATA", str(tmp_path))
    assert data_root() == tmp_path
    with pytest.raises(SherdError, match="testsets/mit20: no such folder; put the photos of mit20"):
        list(mit_items(tmp_path, Selection()))
    with pytest.raises(SherdError, match=r"test_img_12gap_55\.npy: no such file; put"):
        list(jpleg_items("jpleg5", tmp_path, Selection()))


def test_unknown_sets_and_splits_are_refused(tree: Path) -> None:
    with pytest.raises(SherdError, match="'mit21' is unknown; there are mit20"):
        list(mit_items(tree, Selection(("mit21",))))
    with pytest.raises(SherdError, match="val or test"):
        list(art5_items(tree, Selection(split="train")))
    with pytest.raises(SherdError, match="limit: 0"):
        Selection(limit=0)


def test_the_centre_is_known_only_where_there_is_one() -> None:
    puzzle = cut(picture(30, 30), Geometry((3, 3), (10, 10))).puzzle
    assert centre(puzzle) == (4, (1, 1))
    with pytest.raises(SherdError, match="no centre cell"):
        centre(cut(picture(20, 30), Geometry((2, 3), (10, 10))).puzzle)


def test_lost_pieces_leave_empty_cells() -> None:
    puzzle = cut(picture(20, 30), Geometry((2, 3), (10, 10))).puzzle
    less = lose_pieces(puzzle, 2, np.random.default_rng(0))
    assert less.n == 4
    assert less.truth is not None
    assert (less.truth == -1).sum() == 2
    for cell in np.argwhere(less.truth >= 0):
        r, c = cell
        assert (less.pieces[less.truth[r, c]] == puzzle.pieces[3 * r + c]).all()
    with pytest.raises(SherdError, match="at least one must be left"):
        lose_pieces(puzzle, 6, np.random.default_rng(0))


@pytest.mark.skipif(
    not Path(os.environ.get("SHERD_DATA") or "none", "testsets").is_dir(),
    reason="SHERD_DATA names no folder of test sets",
)
def test_the_test_sets_have_the_sizes_of_the_literature() -> None:
    root = data_root()
    assert len(list(mit_items(root, Selection(cutting=Cutting(((7, 10),), (2,)))))) == 60
    every = Selection((*MIT_SETS, "bgu_large"), cutting=Cutting(gaps=(0,), pieces=28))
    counts = {(i.set, i.grid[0] * i.grid[1]) for i in mit_items(root, every)}
    assert counts == {
        ("mit20", 432), ("mcgill20", 540), ("bgu20", 805), ("bgu_large", 2360), ("bgu_large", 3300)
    }  # fmt: skip
    assert len(list(art5_items(root, Selection()))) == 360
