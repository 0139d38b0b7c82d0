"""Hostile uploads to the studio: refused with a sentence, and nothing is left of them."""

from __future__ import annotations

import io
import json
import socket
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the studio needs sherd[studio]")


from sherd.data.zips import Limits
from studio_tools import Studio, children, noise, png, until, zipped

MiB = 2**20
SMALL = Limits(
    files=60,
    file_bytes=2 * MiB,
    total_bytes=8 * MiB,
    zip_bytes=4 * MiB,
    pixels=400_000,
    total_pixels=1_500_000,
)


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    made = Studio(tmp_path_factory.mktemp("studio") / "jobs", limits=SMALL)
    yield made
    made.end()


def two(first: bytes, name: str = "a.png") -> dict[str, bytes]:
    """A hostile file beside a good one."""
    return {name: first, "good.png": png(noise())}


def bomb_png(width: int, height: int, rows: int) -> bytes:
    """A PNG that states a size and holds ``rows`` rows of zeros."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(rows * (1 + 3 * width)), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def saved(image: Image.Image, kind: str, **more: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **more)
    return out.getvalue()


def damaged_lzma(data: bytes) -> bytes:
    """A zip with one member, packed by LZMA and damaged."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.png", data)
    whole = bytearray(out.getvalue())
    begin = whole.index(b"a.png") + 5 + 9  # behind the name and LZMA's own head
    whole[begin : begin + 200] = b"\xff" * 200
    return bytes(whole)


def odd_zip(name: str, data: bytes, *, attr: int = 0, flags: int = 0) -> bytes:
    """A zip with one member of odd attributes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = attr << 16
        archive.writestr(info, data)
        archive.writestr("good.png", png(noise()))
    whole = bytearray(out.getvalue())
    if flags:
        for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            whole[whole.index(mark) + at] |= flags
    return bytes(whole)


def hostile() -> dict[str, dict[str, bytes]]:
    good = png(noise())
    grey = Image.fromarray(noise())
    clear = saved(Image.fromarray(np.zeros((24, 24, 4), np.uint8)), "PNG")
    whole_zip = zipped({"a.png": good, "b.png": png(noise(seed=1))})
    paths = {"format": 1, "pieces": ["../../secret.png", "good.png"]}
    no_exif = b"Exif\0\0no such thing"
    return {
        "an empty file": two(b""),
        "text called png": two(b"hello, I am no picture"),
        "html called jpg": two(b"<html><script>alert(1)</script>", "a.jpg"),
        "a gif called png": two(saved(grey, "GIF")),
        "svg called png": two(b'<svg xmlns="http://www.w3.org/2000/svg"/>'),
        "a png cut off": two(good[: len(good) // 2]),
        "a png of garbage": two(good[:60] + bytes(range(256)) * 4),
        "a jpeg cut off": two(saved(grey, "JPEG")[:200], "a.jpg"),
        "a tiff of garbage": two(b"II*\0" + b"\xff" * 300, "a.tif"),
        "a webp of garbage": two(b"RIFF\xff\xff\xff\xffWEBPVP8 " + b"\xff" * 90, "a.webp"),
        "a png whose exif is garbage": two(saved(grey, "PNG", exif=no_exif)),
        "a webp whose exif is garbage": two(saved(grey, "WEBP", exif=no_exif), "a.webp"),
        "a size that is stated only": two(bomb_png(60000, 60000, 1)),
        "more pixels than allowed": two(bomb_png(1500, 1500, 1500)),
        "nothing but transparency": two(clear),
        "a program": two(b"MZ" + bytes(100), "a.exe"),
        "a file without an ending": two(b"x", "/etc/passwd"),
        "a path upwards": two(good, "../../up.png"),
        "a path upwards, backslashes": two(good, "..\\..\\up.png"),
        "a name with a null": two(good, "a\0.png"),
        "a name with a line break": two(good, "a\n.png"),
        "a hidden name": two(good, ".a.png"),
        "a name of a device": two(good, "con.png"),
        "a long name": two(good, "a" * 300 + ".png"),
        "names that differ in case": {"a.png": good, "A.png": good},
        "a file too large": two(bytes(2 * MiB + 1)),
        "too many pixels together": {f"{k}.png": png(noise(620, k)) for k in range(4)},
        "sizes that differ": two(png(noise(60))),
        "one fragment alone": {"a.png": good},
        "fragments of two pixels": {"a.png": png(noise(2)), "b.png": png(noise(2, 1))},
        "an empty zip": {"a.zip": zipped({})},
        "a zip of garbage": {"a.zip": b"PK\x03\x04" + bytes(range(256)) * 8},
        "a zip cut off": {"a.zip": whole_zip[: len(whole_zip) * 2 // 3]},
        "a zip with damaged lzma": {"a.zip": damaged_lzma(good)},
        "a zip with a number of 5000 digits": {"a.zip": zipped({f"{'7' * 5000}.png": good})},
        "a zip without pictures": {"a.zip": zipped({"readme.txt": b"nothing"})},
        "a zip in a zip": {"a.zip": zipped({"b.zip": whole_zip})},
        "a zip bomb": {"a.zip": zipped({"a.png": bytes(64 * MiB), "b.png": good})},
        "a zip of many bombs": {"a.zip": zipped({f"{k}.png": bytes(2 * MiB) for k in range(9)})},
        "a zip of too many files": {"a.zip": zipped({f"{k}.png": good for k in range(70)})},
        "a zip that climbs": {"a.zip": zipped({"../../up.png": good, "b.png": good})},
        "a zip from the root": {"a.zip": zipped({"/up.png": good, "b.png": good})},
        "a zip with a link": {"a.zip": odd_zip("a.png", b"/etc/passwd", attr=0o120777)},
        "a zip with a password": {"a.zip": odd_zip("a.png", good, flags=1)},
        "two of a name in a zip": {"a.zip": zipped({"x/a.png": good, "y/a.png": good})},
        "a zip and a file of one name": {"z.zip": whole_zip, "a.png": good},
        "a puzzle.json that climbs": {**two(good), "puzzle.json": json.dumps(paths).encode()},
        "a puzzle.json of garbage": {**two(good), "puzzle.json": b"{" * 5000},
    }


def memory(pid: int) -> int:
    """Most bytes that a process has held."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def test_hostile_uploads_are_refused(studio: Studio) -> None:
    cases = hostile()
    assert len(cases) >= 30
    for what, files in cases.items():
        status, answer = studio.bring(files, what)
        assert 400 <= status < 500, f"{what}: {status} {answer}"
        sentence = answer["error"]
        assert 5 < len(sentence) < 300, what
        assert "\n" not in sentence, what
        assert "Something went wrong" not in sentence, what
        assert str(studio.folder) not in sentence, what
        assert studio.ask("GET", "/api/about")[0] == 200, f"{what}: the studio is gone"
    if Path("/proc/self/status").exists():
        assert memory(studio.process.pid) < 400 * MiB
        assert all(memory(pid) < 1024 * MiB for pid in children(studio.process.pid))
    assert studio.good("GET", "/api/jobs") == []
    assert list((studio.folder / "jobs").iterdir()) == []
    assert not list(studio.folder.parent.glob("*.png"))


def test_a_flood_of_files_is_refused(studio: Studio) -> None:
    job = studio.good("POST", "/api/jobs", {})["id"]
    data = png(noise(8))
    answers = [studio.put(job, f"{k}.png", data)[0] for k in range(SMALL.files + 1)]
    assert answers == [201] * SMALL.files + [413]
    status, answer = studio.ask("POST", f"/api/jobs/{job}/complete", {"files": 99})
    assert status == 409
    assert "60 of 99" in answer["error"]
    assert studio.ask("PUT", f"/api/jobs/{job}", body=bytes(2 * MiB))[0] == 413
    studio.good("DELETE", f"/api/jobs/{job}")


def raw(studio: Studio, head: str, body: bytes) -> bytes:
    """What the studio answers to bytes and a hang-up."""
    with socket.create_connection(("127.0.0.1", studio.port), timeout=60) as sock:
        sock.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        sock.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := sock.recv(65536):
            answer += chunk
    return answer


def test_half_an_upload_leaves_nothing(studio: Studio) -> None:
    job = studio.good("POST", "/api/jobs", {})["id"]
    where = f"/api/jobs/{job}/files?name=a.png"
    head = f"PUT {where} HTTP/1.1\nHost: 127.0.0.1\nContent-Length: 5000"
    answer = raw(studio, head, b"x" * 1200)
    assert b" 201 " not in answer
    chunked = f"PUT {where} HTTP/1.1\nHost: 127.0.0.1\nTransfer-Encoding: chunked"
    answer = raw(studio, chunked, b"400\r\n" + b"x" * 500)
    assert b" 201 " not in answer
    fragments = studio.folder / "jobs" / job / "fragments"
    assert until(lambda: list(fragments.iterdir()), lambda left: not left) == []
    assert studio.ask("POST", f"/api/jobs/{job}/complete", {"files": 1})[0] == 409
    studio.good("DELETE", f"/api/jobs/{job}")
