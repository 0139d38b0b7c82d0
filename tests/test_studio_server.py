"""The studio's server: hostile uploads, many jobs at once, a sudden end, who is answered."""

from __future__ import annotations

import io
import json
import signal
import socket
import struct
import threading
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the studio needs sherd[studio]")

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sherd.cli.main import run
from sherd.data.zips import Limits
from sherd.studio import server as studio_server
from sherd.studio.guard import Guard
from sherd.studio.store import Store
from studio_tools import Studio, files_of, png, puzzle_of, truth_of, until, zipped

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


# ---------------------------------------------------------------------------- hostile uploads


def noise(side: int = 24, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)


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


def saved(image: Image.Image, kind: str) -> bytes:
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


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


def children(pid: int) -> list[int]:
    """Processes that a process has started, where the system tells."""
    told = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(k) for k in told.read_text().split()] if told.exists() else []


def test_hostile_uploads_are_refused(studio: Studio) -> None:
    cases = hostile()
    assert len(cases) >= 30
    for what, files in cases.items():
        status, answer = studio.bring(files, what)
        assert 400 <= status < 500, f"{what}: {status} {answer}"
        sentence = answer["error"]
        assert 5 < len(sentence) < 300, what
        assert "\n" not in sentence, what
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


# ---------------------------------------------------------------------------- work


def test_twenty_jobs_at_once(studio: Studio, photo: np.ndarray) -> None:
    puzzles = [puzzle_of(photo[k:, k:], (2, 3), seed=k) for k in range(20)]
    answers: dict[int, dict[str, Any]] = {}
    problems: list[BaseException] = []

    def bring(k: int) -> None:
        try:
            status, job = studio.bring(files_of(puzzles[k]), f"job {k}")
            assert status == 200, job
            studio.good("POST", f"/api/jobs/{job['id']}/solve", {})
            answers[k] = studio.job(job["id"])
        except BaseException as e:
            problems.append(e)

    studio.hold.touch()
    threads = [threading.Thread(target=bring, args=(k,)) for k in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems
    # One is being done, and all others know how many come before them.
    ids = [a["id"] for a in answers.values()]
    until(lambda: [studio.job(i)["state"] for i in ids], lambda s: s.count("running") == 1)
    ahead = [studio.job(i)["ahead"] for i in ids]
    assert sorted(a for a in ahead if a is not None) == list(range(1, 20))
    studio.hold.unlink()
    for k, answer in answers.items():
        job = studio.wait(answer["id"], "done", "failed")
        assert job["state"] == "done", job["message"]
        assert job["table"]["board"] == truth_of(puzzles[k])
        studio.good("DELETE", f"/api/jobs/{answer['id']}")


def test_what_nobody_knows_is_found(studio: Studio, photo: np.ndarray) -> None:
    puzzle = puzzle_of(photo, (4, 5))
    job = studio.bring(files_of(puzzle, tell_grid=False))[1]
    assert (job["grid"], job["gap"], job["table"]["board"]) == (None, None, None)
    studio.good("POST", f"/api/jobs/{job['id']}/solve", {})
    found = studio.wait(job["id"], "done", "failed")
    assert found["table"]["board"] == truth_of(puzzle)
    assert found["found_gap"] is not None
    assert found["grid"] is None, "what was found is not taken for what was said"
    studio.good("DELETE", f"/api/jobs/{job['id']}")


def test_edits_are_kept_and_undone(studio: Studio, photo: np.ndarray) -> None:
    puzzle = puzzle_of(photo, (2, 3))
    job = studio.bring(files_of(puzzle))[1]["id"]
    at = f"/api/jobs/{job}"
    studio.good("POST", f"{at}/solve", {})
    right = truth_of(puzzle)
    assert studio.wait(job, "done")["table"]["board"] == right
    piece = right[0][0]
    moved = studio.good("POST", f"{at}/edit", {"op": "move", "piece": piece, "cell": [1, 2]})
    assert moved["table"]["board"][1][2] == piece
    assert moved["table"]["board"][0][0] == right[1][2]
    assert moved["table"]["pins"] == [[piece, 1, 2]]
    assert moved["table"]["confidence"][1][2] is None
    assert moved["by_hand"]
    other = right[1][2]
    studio.good("POST", f"{at}/edit", {"op": "forbid", "piece": other, "cell": [0, 0]})
    status, answer = studio.ask(
        "POST", f"{at}/edit", {"op": "move", "piece": right[0][1], "cell": [1, 2]}
    )
    assert (status, "pinned" in answer["error"]) == (422, True)
    for bad in ({"op": "move"}, {"op": "dance"}, {"op": "pin", "piece": 99}, {"cell": [0]}, []):
        assert studio.ask("POST", f"{at}/edit", bad)[0] == 422
    studio.good("POST", f"{at}/solve", {"go_on": True})
    again = studio.wait(job, "done", "failed")
    assert again["state"] == "done", again["message"]
    assert again["table"]["board"][1][2] == piece, "a pin holds"
    assert again["table"]["board"][0][0] != other, "what is ruled out stays out"
    for _ in range(3):
        back = studio.good("POST", f"{at}/undo", {})
    assert back["table"]["board"] == right
    assert back["table"]["pins"] == []
    assert back["future"] == 3
    assert studio.good("POST", f"{at}/redo", {})["table"]["pins"] == [[piece, 1, 2]]
    studio.good("DELETE", at)


def test_what_people_take_home(studio: Studio, photo: np.ndarray) -> None:
    puzzle = puzzle_of(photo, (2, 3))
    job = studio.bring(files_of(puzzle), 'a "title" / of ünusual name')[1]["id"]
    at = f"/api/jobs/{job}"
    assert studio.ask("GET", f"{at}/made/../job.json")[0] == 404
    studio.good("POST", f"{at}/solve", {})
    studio.wait(job, "done")
    picture = Image.open(io.BytesIO(studio.good("GET", f"{at}/made/picture.png")))
    assert picture.size == (3 * 40 + 2 * 2, 2 * 40 + 2)
    layout = studio.good("GET", f"{at}/made/layout.json")
    assert layout["board"] == truth_of(puzzle)
    lines = studio.good("GET", f"{at}/made/layout.csv").decode().splitlines()
    r, c = next((r, c) for r in range(2) for c in range(3) if layout["board"][r][c] == 0)
    assert lines[0] == "piece,row,column,confidence,pinned"
    assert lines[1].startswith(f"f000.png,{r},{c},")
    report = studio.good("GET", f"{at}/made/report.html").decode()
    assert "a &quot;title&quot; / of ünusual name" in report
    assert "by hand" not in report
    studio.good("POST", f"{at}/edit", {"op": "lift", "piece": 0})
    report = studio.good("GET", f"{at}/made/report.html").decode()
    assert "by hand" in report
    lines = studio.good("GET", f"{at}/made/layout.csv").decode().splitlines()
    assert lines[1] == "f000.png,,,,no", "the present board counts, not an earlier one"
    studio.good("DELETE", at)


def test_a_sudden_end_loses_nothing(tmp_path: Path, photo: np.ndarray) -> None:
    studio = Studio(tmp_path / "jobs")
    try:
        puzzle = puzzle_of(photo, (2, 3))
        done, running, waiting, ready = (
            studio.bring(files_of(puzzle), name)[1]["id"] for name in ("a", "b", "c", "d")
        )
        draft = studio.good("POST", "/api/jobs", {})["id"]
        studio.put(draft, "a.png", png(noise()))
        studio.good("POST", f"/api/jobs/{done}/solve", {})
        before = studio.wait(done, "done")
        studio.hold.touch()
        for job in (running, waiting):
            studio.good("POST", f"/api/jobs/{job}/solve", {})
        until(lambda: studio.job(running), lambda j: j["live"] is not None)
        workers = children(studio.process.pid)
        studio.end(signal.SIGKILL)
        until(lambda: [alive(pid) for pid in workers], lambda a: not any(a))

        studio.hold.unlink()
        studio.start()
        after = studio.job(done)
        assert {**after, "until": 0} == {**before, "until": 0}
        assert studio.good("GET", f"/api/jobs/{done}/made/picture.png")[:4] == b"\x89PNG"
        assert studio.job(ready)["state"] == "ready"
        broken = studio.job(running)
        assert broken["state"] == "interrupted"
        assert "ended" in broken["message"]
        assert studio.wait(waiting, "done")["table"]["board"] == truth_of(puzzle)
        studio.good("POST", f"/api/jobs/{running}/solve", {})
        assert studio.wait(running, "done")["table"]["board"] == truth_of(puzzle)
    finally:
        studio.end()


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_killed_worker_is_replaced(studio: Studio, photo: np.ndarray) -> None:
    puzzle = puzzle_of(photo, (2, 3))
    job = studio.bring(files_of(puzzle))[1]["id"]
    studio.hold.touch()
    studio.good("POST", f"/api/jobs/{job}/solve", {})
    until(lambda: studio.job(job), lambda j: j["live"] is not None)
    stopped = studio.good("POST", f"/api/jobs/{job}/stop", {})
    stopped = studio.wait(job, "stopped")
    assert stopped["table"]["board"] is not None, "its best board stays"
    studio.hold.unlink()
    studio.good("POST", f"/api/jobs/{job}/solve", {})
    assert studio.wait(job, "done")["table"]["board"] == truth_of(puzzle)
    studio.good("DELETE", f"/api/jobs/{job}")
    assert studio.ask("GET", f"/api/jobs/{job}")[0] == 404


# ---------------------------------------------------------------------------- who is answered


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:1234"}, 200),
        ({"Host": "[::1]"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "192.0.2.7"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "127.0.0.1", "Origin": "http://127.0.0.1"}, 200),
        ({"Host": "127.0.0.1", "Origin": "http://127.0.0.1:99"}, 403),
        ({"Host": "127.0.0.1", "Origin": "https://evil.example"}, 403),
        ({"Host": "127.0.0.1", "Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
    ],
)
def test_who_is_answered(studio: Studio, headers: dict[str, str], status: int) -> None:
    assert studio.ask("GET", "/api/about", headers=headers)[0] == status
    site = headers.get("Sec-Fetch-Site")
    linked = headers.get("Sec-Fetch-Mode") == "navigate"
    page = studio.ask("GET", "/", headers=headers)[0]
    assert page == (200 if site == "cross-site" and linked else status), "a link to it is fine"


@pytest.mark.parametrize(
    ("host", "loopback", "ours"),
    [
        ("127.0.0.1:8765", True, True),
        ("192.0.2.7", True, False),
        ("192.0.2.7:80", False, True),
        ("[2001:db8::1]:80", False, True),
        ("studio.museum.example", False, True),
        ("STUDIO.museum.example:8765", False, True),
        ("other.museum.example", False, False),
        ("192.0.2.7.museum.example", False, False),
        ("[", False, False),
    ],
)
def test_names_of_a_studio(host: str, loopback: bool, ours: bool) -> None:
    async def nothing(*_: Any) -> None: ...

    names = () if loopback else ("studio.museum.example",)
    assert Guard(nothing, loopback=loopback, names=names).ours(host) == ours


def test_the_socket_asks_for_its_origin_too(studio: Studio) -> None:
    where = f"ws://127.0.0.1:{studio.port}/api/jobs/AAAAAAAAAAAAAAAA/live"
    with connect(where, origin=f"http://127.0.0.1:{studio.port}") as socket:  # type: ignore[arg-type]
        assert json.loads(socket.recv()) == {"type": "gone"}
    for other in ("http://evil.example", "http://127.0.0.1:1"):
        with pytest.raises(InvalidStatus, match="403"):
            connect(where, origin=other)  # type: ignore[arg-type]


def test_the_page_needs_nobody_else(studio: Studio) -> None:
    static = Path(studio_server.__file__).parent / "static"
    for path in static.rglob("*"):
        if path.suffix in {".html", ".js", ".css", ".svg"}:
            text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
            assert "http:" not in text, path.name
            assert "https:" not in text.replace('"https:"', ""), path.name
            assert " style=" not in text, "the policy forbids inline styles"
    with socket.create_connection(("127.0.0.1", studio.port)) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        head = sock.recv(65536).decode().lower()
    assert "default-src 'none'; script-src 'self'" in head
    assert "nosniff" in head
    assert studio.ask("GET", "/static/../server.py")[0] == 404
    assert studio.ask("GET", "/static/..%2fserver.py")[0] == 404
    assert studio.ask("GET", "/docs")[0] == 404


# ---------------------------------------------------------------------------- keeping, and flags


def test_jobs_expire(tmp_path: Path) -> None:
    store = Store(tmp_path, keep_days=2.0)
    old, new, busy, draft = (store.new(t) for t in ("old", "new", "busy", "draft"))
    for job, state in ((old, "done"), (new, "done"), (busy, "running")):
        job.state = state  # type: ignore[assignment]
        store.save(job)
    now = time.time()
    old.changed = busy.changed = now - 2.1 * 86400
    draft.changed = now - 4000
    gone = {job.title for job in store.expire(now)}
    assert gone == {"old", "draft"}
    assert sorted(p.name for p in (tmp_path / "jobs").iterdir()) == sorted([new.id, busy.id])
    assert list((tmp_path / "trash").iterdir()) == []
    store.close()
    again = Store(tmp_path, keep_days=2.0)
    assert {j.title: j.state for j in again.jobs.values()} == {"new": "done", "busy": "interrupted"}
    again.close()
    last = Store(tmp_path, keep_days=1e-9)
    assert not last.jobs
    last.close()


def test_a_broken_job_breaks_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    good = store.new("good")
    store.close()
    for name, text in (("A" * 16, "{"), ("B" * 16, '{"format": 99}'), ("C" * 16, "[]")):
        (tmp_path / "jobs" / name).mkdir()
        (tmp_path / "jobs" / name / "job.json").write_text(text)
    (tmp_path / "jobs" / ("D" * 16)).mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "jobs" / ("E" * 16)).symlink_to(outside)
    again = Store(tmp_path)
    assert list(again.jobs) == [good.id]
    assert outside.exists()
    again.close()


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is started, should a bad flag go unnoticed."""
    monkeypatch.setattr(studio_server.uvicorn, "Server", None)


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        run(["studio", "--no-browser", *words])
    assert end.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.usefixtures("quiet")
def test_bad_flags(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = ("--folder", str(tmp_path / "jobs"), "--port", "0")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "cannot listen" in complaint(capsys, *place[:2], "--port", port)
    assert "70000" in complaint(capsys, *place[:2], "--port", "70000")
    assert "nowhere.invalid" in complaint(capsys, *place, "--host", "nowhere.invalid")
    assert "keep" in complaint(capsys, *place, "--keep", "0")
    assert "keep" in complaint(capsys, *place, "--keep", "nan")
    assert "workers" in complaint(capsys, *place, "--workers", "0")
    assert "unknown" in complaint(capsys, *place, "--system", "magic")
    (tmp_path / "file").write_text("x")
    below = str(tmp_path / "file" / "jobs")
    assert "cannot be written" in complaint(capsys, "--folder", below, "--port", "0")
    store = Store(tmp_path / "jobs")
    assert "another studio" in complaint(capsys, *place)
    store.close()
