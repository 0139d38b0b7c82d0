"""The studio's page in a real browser: bring fragments, watch, help, stop, come back."""

from __future__ import annotations

import base64
import contextlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the studio needs sherd[studio]")
pytest.importorskip("playwright", reason="the page's tests need playwright")

from playwright.sync_api import Browser, Error, Page, Route, expect, sync_playwright

from sherd import Puzzle
from studio_tools import SECONDS, Studio, files_of, puzzle_of, truth_of, until, zipped

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to test the page in")

DROP = """([name, text]) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name));
  for (const type of ["dragover", "drop"]) {
    dispatchEvent(new DragEvent(type, { dataTransfer: transfer, cancelable: true }));
  }
}"""


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    made = Studio(tmp_path_factory.mktemp("studio") / "jobs")
    yield made
    made.end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as tool:
        made = tool.chromium.launch(executable_path=CHROMIUM)
        yield made
        made.close()


@pytest.fixture
def page(browser: Browser, studio: Studio) -> Iterator[Page]:
    """A tab at the start page; whatever its console complains of fails the test."""
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    context.set_default_timeout(1000 * SECONDS)
    made = context.new_page()
    problems: list[str] = []
    made.on("pageerror", lambda e: problems.append(str(e)))
    made.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    made.goto(studio.address)
    made.wait_for_selector("[data-sample]")
    yield made
    context.close()
    studio.hold.unlink(missing_ok=True)
    for job in studio.good("GET", "/api/jobs"):
        studio.good("DELETE", f"/api/jobs/{job['id']}")
    expected = "the server responded with a status of 4"  # a refusal is told to the console too
    assert [p for p in problems if expected not in p] == []


def drop(page: Page, name: str, data: bytes) -> None:
    """Drop a file on the page."""
    page.evaluate(DROP, [name, base64.b64encode(data).decode()])


def begin(page: Page, puzzle: Puzzle) -> None:
    """Drop a puzzle as a zip, and put it together."""
    drop(page, "Old picture.zip", zipped(files_of(puzzle)))
    page.click("#go")


def reached(page: Page, state: str) -> None:
    page.wait_for_selector(f"body[data-state={state}]")


def shown(page: Page) -> list[list[int]]:
    """The board that is seen: for every cell, the fragment that lies over it."""
    found: Any = page.evaluate(
        """() => [...document.querySelectorAll(".cells [role=row]")].map((row) =>
             [...row.children].map((cell) => Number(cell.dataset.piece)))"""
    )
    return [[int(p) for p in row] for row in found]


def cell(page: Page, r: int, c: int) -> Any:
    return page.locator(f".cell[data-r='{r}'][data-c='{c}']")


def drag(page: Page, start: tuple[int, int], end: tuple[int, int]) -> None:
    """Drag what lies in one cell to another."""
    a, b = (cell(page, *at).bounding_box() for at in (start, end))
    page.mouse.move(a["x"] + 12, a["y"] + 12)
    page.mouse.down()
    page.mouse.move(b["x"] + 15, b["y"] + 15, steps=4)
    page.mouse.up()


def test_drop_watch_and_solve(page: Page, studio: Studio, photo: np.ndarray) -> None:
    puzzle = puzzle_of(photo)
    studio.hold.touch()
    drop(page, "Old picture.zip", zipped(files_of(puzzle)))
    reached(page, "ready")
    assert page.locator(".piece").count() == puzzle.n
    assert page.locator(".title").input_value() == "Old picture"
    page.click("#go")
    reached(page, "running")
    # boards that come while it searches are seen: at first none, at last one that is full
    until(lambda: shown(page), lambda b: -1 not in [p for row in b for p in row])
    expect(page.locator(".part-status")).to_contain_text("arrangements")
    assert shown(page) != truth_of(puzzle)
    studio.hold.unlink()
    reached(page, "done")
    until(lambda: shown(page), lambda b: b == truth_of(puzzle))
    expect(page.locator("#heard")).to_contain_text("Put together")
    name = f"f{truth_of(puzzle)[1][2]:03d}.png"
    told = re.compile(rf"^Row 2, column 3, {name}, \d+ % sure$")
    expect(cell(page, 1, 2)).to_have_attribute("aria-label", told)
    # the pieces themselves lie where the cells say
    piece = page.locator(f".piece[data-piece='{truth_of(puzzle)[1][2]}']")
    until(lambda: gap_between(piece, cell(page, 1, 2)), lambda away: away < 2)


def gap_between(a: Any, b: Any) -> float:
    x, y = a.bounding_box(), b.bounding_box()
    return float(abs(x["x"] - y["x"]) + abs(x["y"] - y["y"]))


def test_a_wrong_pin_holds(page: Page, studio: Studio, photo: np.ndarray) -> None:
    puzzle = puzzle_of(photo)
    right = truth_of(puzzle)
    begin(page, puzzle)
    reached(page, "done")
    until(lambda: shown(page), lambda b: b == right)
    drag(page, (0, 0), (2, 3))
    until(lambda: shown(page)[2][3], lambda p: p == right[0][0])
    expect(page.locator(".piece.is-pinned")).to_have_count(1)
    page.click("#go")
    job = page.url.rpartition("/")[2]
    until(lambda: studio.job(job), lambda j: j["runs"] == 2 and j["state"] == "done")
    found = studio.job(job)["table"]["board"]
    assert found[2][3] == right[0][0]
    assert found != right
    until(lambda: shown(page), lambda b: b == found)
    # undo: the second solution, then the move
    page.click("#undo")
    page.click("#undo")
    until(lambda: shown(page), lambda b: b == right)
    expect(page.locator(".piece.is-pinned")).to_have_count(0)


def test_other_readings(page: Page, studio: Studio, photo: np.ndarray) -> None:
    puzzle = puzzle_of(photo)
    right = truth_of(puzzle)
    pieces = puzzle.pieces.copy()
    a, b = right[0][1], right[2][2]
    pieces[b] = np.clip(pieces[a].astype(int) + 1, 0, 255)  # twins, one a shade lighter
    begin(page, replace(puzzle, pieces=pieces))
    reached(page, "done")
    job = page.url.rpartition("/")[2]
    told = studio.job(job)
    best, others = told["table"]["board"], [x["board"] for x in told["alternatives"]]
    twins = [[{a: b, b: a}.get(p, p) for p in row] for row in best]
    k = others.index(twins)
    strip = page.get_by_role("group", name="Other readings").get_by_role("button")
    expect(strip).to_have_count(len(others))
    expect(strip.nth(k)).to_contain_text("2 cells differ")
    # to look is not to take
    strip.nth(k).click()
    until(lambda: shown(page), lambda board: board == twins)
    expect(strip.nth(k)).to_have_attribute("aria-pressed", "true")
    assert studio.job(job)["table"]["board"] == best
    page.get_by_role("button", name="Back").click()
    until(lambda: shown(page), lambda board: board == best)
    strip.nth(k).click()
    page.click("#use-reading")
    until(lambda: studio.job(job)["table"]["board"], lambda board: board == twins)
    until(lambda: shown(page), lambda board: board == twins)
    expect(strip.nth(k)).to_contain_text("this board")
    page.click("#undo")
    until(lambda: shown(page), lambda board: board == best)


def test_by_keyboard(page: Page, photo: np.ndarray) -> None:
    puzzle = puzzle_of(photo)
    right = truth_of(puzzle)
    begin(page, puzzle)
    reached(page, "done")
    until(lambda: shown(page), lambda b: b == right)
    cell(page, 0, 0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(cell(page, 1, 1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#heard")).to_contain_text("Picked up")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    until(lambda: shown(page)[1][2], lambda p: p == right[1][1])
    expect(page.locator("#heard")).to_contain_text("pinned")
    expect(cell(page, 1, 2)).to_be_focused()
    page.keyboard.press("p")
    expect(page.locator(".piece.is-pinned")).to_have_count(0)
    page.keyboard.press("x")
    expect(page.locator(".cell.is-banned")).to_have_count(1)
    page.keyboard.press("Delete")
    until(lambda: shown(page)[1][2], lambda p: p == -1)
    expect(page.locator(".tray .loose")).to_have_count(1)
    page.keyboard.press("t")
    expect(page.locator(".tray .loose")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.locator(".tray .loose")).to_have_count(1)
    for _ in range(4):
        page.keyboard.press("u")
        page.wait_for_timeout(50)
    until(lambda: shown(page), lambda b: b == right)


def test_stop(page: Page, studio: Studio, photo: np.ndarray) -> None:
    studio.hold.touch()
    begin(page, puzzle_of(photo))
    reached(page, "running")
    page.wait_for_selector(".part-status .clock")
    page.click("#stop")
    reached(page, "stopped")
    studio.hold.unlink()
    page.click("#go")
    reached(page, "done")


def test_reload_while_it_runs(page: Page, studio: Studio, photo: np.ndarray) -> None:
    puzzle = puzzle_of(photo)
    studio.hold.touch()
    begin(page, puzzle)
    reached(page, "running")
    page.reload()
    reached(page, "running")
    until(lambda: shown(page), lambda b: bool(b) and -1 not in [p for row in b for p in row])
    studio.hold.unlink()
    reached(page, "done")
    until(lambda: shown(page), lambda b: b == truth_of(puzzle))
    page.goto(studio.address)
    expect(page.locator(".card")).to_contain_text("put together")
    page.click(".card")
    reached(page, "done")


def test_a_page_that_was_left_paints_no_more(page: Page, studio: Studio, photo: np.ndarray) -> None:
    begin(page, puzzle_of(photo, (2, 3)))
    reached(page, "done")
    job = page.url.rpartition("/")[2]
    asked: list[Route] = []
    some = re.compile(rf"/api/jobs/{job}(/film|/made/restored.png)?$")
    page.route(some, lambda route: asked.append(route))
    page.click("#restored")
    page.click("#again")
    page.fill(".title", "Another title")
    page.press(".title", "Enter")
    until(lambda: page.title() and len(asked), lambda n: n == 3)
    page.click("a[data-home]")
    page.wait_for_selector("[data-sample]")
    for route in asked:
        with contextlib.suppress(Error):  # the page has let go of one itself
            route.continue_()
    until(lambda: studio.job(job)["title"], lambda title: title == "Another title")
    page.wait_for_timeout(1500)  # the film has a break of 900 ms before it begins
    expect(page.locator(".title")).to_have_count(0)
    assert page.title() == "sherd studio"
    assert page.evaluate("document.body.dataset.state ?? null") is None
    page.unroute(some)
    # who deletes a work leaves its page, and need not be told that it is gone
    page.click(".card")
    reached(page, "done")
    page.on("dialog", lambda dialog: dialog.accept())
    page.click("#delete")
    page.wait_for_selector("[data-sample]")
    page.wait_for_timeout(200)
    expect(page.locator("#banner")).to_be_hidden()


def test_a_reading_of_another_grid_is_not_offered(
    page: Page, studio: Studio, photo: np.ndarray
) -> None:
    puzzle = puzzle_of(photo, (2, 3))
    job = studio.bring(files_of(puzzle))[1]["id"]
    at = f"/api/jobs/{job}"
    studio.good("POST", f"{at}/solve", {})
    told = studio.wait(job, "done")
    board = told["table"]["board"]
    tall = [board[0][:2], [board[0][2], board[1][0]], board[1][1:]]
    others = [{"board": b, "odds": 0.5, "score": 0.0} for b in (tall, board[::-1], tall)]
    told.update(version=told["version"] + 1, title="With readings", alternatives=others)
    page.goto(f"{studio.address}job/{job}")
    reached(page, "done")
    page.route(f"**{at}", lambda route: route.fulfill(json=told))
    page.fill(".title", "With readings")
    page.press(".title", "Enter")
    expect(page).to_have_title("With readings · sherd studio")
    strip = page.get_by_role("group", name="Other readings").get_by_role("button")
    expect(strip).to_have_count(1)
    strip.click()
    until(lambda: shown(page), lambda b: b == board[::-1])


def test_two_tabs(page: Page, studio: Studio, photo: np.ndarray) -> None:
    first, second = puzzle_of(photo), puzzle_of(photo[40:, 60:], (2, 3), seed=5)
    studio.hold.touch()
    begin(page, first)
    reached(page, "running")
    other = page.context.new_page()
    other.goto(studio.address)
    other.wait_for_selector("[data-sample]")
    begin(other, second)
    reached(other, "waiting")
    expect(other.locator(".part-status")).to_contain_text("1 puzzle before this one")
    studio.hold.unlink()
    reached(page, "done")
    reached(other, "done")
    until(lambda: shown(page), lambda b: b == truth_of(first))
    until(lambda: shown(other), lambda b: b == truth_of(second))


def test_a_folder_and_a_refusal(
    page: Page, studio: Studio, photo: np.ndarray, tmp_path: Path
) -> None:
    drop(page, "letter.txt", b"no picture")
    expect(page.locator(".refusal")).to_contain_text("no pictures")
    drop(page, "broken.png", b"no picture either")
    expect(page.locator(".refusal")).to_be_visible()
    drop(page, "broken.zip", b"no zip")
    expect(page.locator(".refusal")).to_contain_text("broken.zip")
    folder = tmp_path / "Torn letter"
    folder.mkdir()
    puzzle = puzzle_of(photo, (2, 3))
    for name, data in files_of(puzzle, tell_grid=False).items():
        (folder / name).write_bytes(data)
    (folder / "notes.txt").write_text("found in the attic")
    page.set_input_files("#folder", folder)
    reached(page, "ready")
    assert page.locator(".title").input_value() == "Torn letter"
    expect(page.locator("#banner")).to_contain_text("1 file")
    page.fill("#know-rows", "2")
    page.fill("#know-cols", "2")
    page.press("#know-cols", "Tab")
    expect(page.locator("#banner")).to_contain_text("room for 4")
    page.fill("#know-cols", "3")
    page.fill("#know-gap", "2")
    page.press("#know-gap", "Tab")
    expect(page.locator(".cell")).to_have_count(6)
    page.click("#go")
    reached(page, "done")
    until(lambda: shown(page), lambda b: b == truth_of(puzzle))
    with page.expect_download() as told:
        page.click("[data-file='layout.csv']")
    assert told.value.suggested_filename == "Torn letter - layout.csv"
    lines = Path(told.value.path()).read_text().splitlines()
    assert len(lines) == 1 + puzzle.n
