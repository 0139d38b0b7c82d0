"""Which pictures a training run reads, and how."""

from __future__ import annotations

import io
import tarfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sherd.errors import SherdError
from sherd.train.store import load_store

CPU = torch.device("cpu")


def put(path: Path, value: int = 0, size: tuple[int, int] = (8, 6), **how: object) -> None:
    """A picture of one grey, ``size`` wide and high; a pack of one such picture for a tar."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", size, (value, value, value))
    if path.suffix.lower() != ".tar":
        image.save(path, **how)
        return
    blob = io.BytesIO()
    image.save(blob, "PNG")
    info = tarfile.TarInfo("some/1.PNG")
    info.size = blob.tell()
    with tarfile.open(path, "w") as pack:
        pack.addfile(info, io.BytesIO(blob.getvalue()))


def greys(data: Path, split: str) -> list[int]:
    """The greys of all photographs of ``split``."""
    return sorted(int(p[0, 0, 0]) for p in load_store(data, split, CPU, workers=2).images["photos"])


def test_the_name_of_a_picture_does_not_choose_its_split(tmp_path: Path) -> None:
    put(tmp_path / "photos/val/train-station.png", 1)
    put(tmp_path / "photos/train/valley.png", 2)
    put(tmp_path / "photos/train/testcard.png", 3)
    put(tmp_path / "photos/train-and-bus.png", 4)
    assert greys(tmp_path, "train") == [2, 3]
    assert greys(tmp_path, "val") == [1]


def test_the_outermost_folder_chooses_the_split(tmp_path: Path) -> None:
    put(tmp_path / "photos/train/valleys/1.png", 1)
    put(tmp_path / "photos/val/trains/1.png", 2)
    put(tmp_path / "photos/train/valley.tar", 3)
    put(tmp_path / "photos/val-0.tar", 4)
    put(tmp_path / "train-0/photos/1.png", 5)
    assert greys(tmp_path, "train") == [1, 3, 5]
    assert greys(tmp_path, "val") == [2, 4]


def test_what_lies_below_test_is_left_alone(tmp_path: Path) -> None:
    for name in ("train/1.png", "test/train/1.png", "train/test/1.png", "test/train-0.tar",
                 "train/test-0.tar", "testsets/val/1.png"):  # fmt: skip
        put(tmp_path / "photos" / name)
    assert len(load_store(tmp_path, "train", CPU)) == 1
    with pytest.raises(SherdError, match="holds no val pictures"):
        load_store(tmp_path, "val", CPU)


def test_suffixes_may_be_large(tmp_path: Path) -> None:
    put(tmp_path / "photos/train/IMG.JPG", 1)
    put(tmp_path / "photos/train/IMG.Png", 2)
    put(tmp_path / "photos/train-0.TAR", 3)  # holds 1.PNG
    (tmp_path / "photos/train/notes.txt").write_text("no picture")
    assert greys(tmp_path, "train") == [1, 2, 3]


def test_pictures_are_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    put(tmp_path / "photos/train/1.jpg", size=(8, 6), exif=exif)
    assert load_store(tmp_path, "train", CPU).images["photos"][0].shape == (3, 8, 6)


@pytest.mark.parametrize("pixels", [10, 30])  # PIL warns of the one and refuses the other
def test_a_picture_with_too_many_pixels(
    tmp_path: Path, pixels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "photos/train/1.png", size=(pixels, 1))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 9)
    with pytest.raises(SherdError, match=r"1\.png: has too many pixels"):
        load_store(tmp_path, "train", CPU)


def test_a_picture_that_is_none(tmp_path: Path) -> None:
    put(tmp_path / "photos/train/1.png")
    (tmp_path / "photos/train/2.png").write_bytes(b"no picture")
    with pytest.raises(SherdError, match=r"2\.png: is not an image that can be read"):
        load_store(tmp_path, "train", CPU)


def test_reading_leaves_warnings_as_they_are(tmp_path: Path) -> None:
    for k in range(60):
        put(tmp_path / f"photos/train/{k}.png", k, (64, 64))
    before = list(warnings.filters)
    assert greys(tmp_path, "train") == list(np.arange(60))
    assert list(warnings.filters) == before
