"""The studio's server: many jobs at once, a sudden end, who is answered."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import socket
import threading
import time
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
from sherd.studio import server as studio_server
from sherd.studio.guard import Guard
from sherd.studio.store import Store
from studio_tools import Studio, children, files_of, noise, png, puzzle_of, truth_of, until


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    made = Studio(tmp_path_factory.mktemp("studio") / "jobs")
    yield made
    made.end()


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


def test_a_job_that_cannot_be_saved_spoils_no_other(studio: Studio, photo: np.ndarray) -> None:
    puzzles = [puzzle_of(photo, (2, 3), seed=k) for k in range(2)]
    first, second = (studio.bring(files_of(p))[1]["id"] for p in puzzles)
    studio.hold.touch()
    for job in (first, second):
        studio.good("POST", f"/api/jobs/{job}/solve", {})
    until(lambda: studio.job(first), lambda j: j["live"] is not None)
    file = studio.folder / "jobs" / first / "job.json"
    file.unlink()
    (file / "in the way").mkdir(parents=True)  # as bad as a full disk
    time.sleep(1.2)  # the next board is to be written
    studio.hold.unlink()
    assert "could not write" in studio.wait(first, "failed", "done")["message"]
    assert studio.wait(second, "done", "failed")["table"]["board"] == truth_of(puzzles[1])
    for job in (first, second):
        studio.good("DELETE", f"/api/jobs/{job}")


def test_it_ends_quietly_whatever_is_going_on(tmp_path: Path, photo: np.ndarray) -> None:
    studio = Studio(tmp_path / "jobs", log=tmp_path / "log")
    job = studio.bring(files_of(puzzle_of(photo, (2, 3))))[1]["id"]
    draft = studio.good("POST", "/api/jobs", {})["id"]
    for pid in children(studio.process.pid):
        os.kill(pid, signal.SIGSTOP)  # what is asked for now is never made
    head = "HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    requests = [
        f"GET /api/jobs/{job}/made/layout.csv {head}\r\n",
        f"PUT /api/jobs/{draft}/files?name=a.png {head}Content-Length: 99\r\n\r\nhalf of it",
    ]
    with contextlib.ExitStack() as stack:
        where = f"ws://127.0.0.1:{studio.port}/api/jobs/{job}/live"
        json.loads(stack.enter_context(connect(where)).recv())
        for request in requests:
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", studio.port)))
            sock.sendall(request.encode())
        fragments = studio.folder / "jobs" / draft / "fragments"
        try:
            until(lambda: list(fragments.iterdir()), bool)
        finally:
            studio.end()
    told = (tmp_path / "log").read_text()
    assert "Traceback" not in told, told
    assert "Exception" not in told, told


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


def test_the_page_has_words_for_every_stage() -> None:
    sherd = Path(studio_server.__file__).parents[1]
    words = (sherd / "studio" / "static" / "js" / "words.js").read_text("utf-8")
    known = words.partition("const STAGES = {")[2].partition("}")[0]
    for name in ("fragments/work.py", "solvers/evolve.py", "solvers/go_on.py"):
        for stage in re.findall(r'\.stage\("(.+)"\)', (sherd / name).read_text("utf-8")):
            assert re.search(rf'^ +"?{stage}"?: ', known, re.MULTILINE), stage


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
    folder = tmp_path / "studio"
    store = Store(folder)
    good = store.new("good")
    store.close()
    for name, text in (("A" * 16, "{"), ("B" * 16, '{"format": 99}'), ("C" * 16, "[]")):
        (folder / "jobs" / name).mkdir()
        (folder / "jobs" / name / "job.json").write_text(text)
    (folder / "jobs" / ("D" * 16)).mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "jobs" / ("E" * 16)).symlink_to(outside)
    again = Store(folder)
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
