// The board by keyboard. Keys count only while the board or the tray has the focus.

import { say } from "./dom.js";
import { place } from "./words.js";

export const HELP = [
  ["Arrow keys", "go from cell to cell; Home and End to the ends of a row"],
  ["Enter", "pick a fragment up, and put it down: it is pinned there"],
  ["Escape", "put it back"],
  ["T", "go to the fragments beside the board, and back"],
  ["P", "pin or unpin"],
  ["X", "not here: rule this place out, or allow it again"],
  ["Delete", "take the fragment off the board"],
  ["U, R", "undo, redo"],
  ["S", "solve on, or stop"],
  ["+ and −", "larger, smaller"],
];

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function keys(board, act) {
  function onBoard(e) {
    const { r, c } = board.at;
    const piece = board.piece(r, c);
    if (e.key in STEPS) {
      const [dr, dc] = STEPS[e.key];
      const [nr, nc] = [r + dr, c + dc];
      if (nr >= 0 && nr < board.rows && nc >= 0 && nc < board.cols) board.focus(nr, nc);
      else if (nr === board.rows) board.tray.querySelector(".loose")?.focus();
      return true;
    }
    switch (e.key) {
      case "Home": board.focus(r, 0); return true;
      case "End": board.focus(r, board.cols - 1); return true;
      case "Enter":
      case " ":
        if (board.held !== null) act.put([r, c]);
        else if (piece >= 0) act.pick(piece);
        return true;
      case "Delete":
      case "Backspace": if (piece >= 0) act.lift(piece); return true;
      case "p": if (piece >= 0) act.pin(piece); return true;
      case "x": if (piece >= 0) act.ban(piece, [r, c]); return true;
      case "t": board.tray.querySelector(".loose")?.focus(); return true;
      default: return false;
    }
  }

  function onTray(e) {
    const all = [...board.tray.querySelectorAll(".loose")];
    const k = all.indexOf(document.activeElement);
    const go = (j) => {
      if (!all[j]) return;
      all[k].tabIndex = -1;
      all[j].tabIndex = 0;
      all[j].focus();
    };
    switch (e.key) {
      case "ArrowRight":
      case "ArrowDown": go(k + 1); return true;
      case "ArrowLeft": go(k - 1); return true;
      case "ArrowUp":
      case "t": board.focus(board.at.r, board.at.c); return true;
      case "Enter":
      case " ":
        act.pick(Number(all[k].dataset.piece));
        board.focus(board.at.r, board.at.c);
        return true;
      default: return false;
    }
  }

  board.ground.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey) {
      const z = e.key.toLowerCase();
      if (z === "z" || z === "y") {
        e.preventDefault();
        act.step(z === "z" && !e.shiftKey);
      }
      return;
    }
    if (e.altKey) return;
    if (e.key === "Escape" && board.held !== null) {
      board.release();
      say("Put back.");
      e.preventDefault();
      return;
    }
    const here = e.target.closest(".tray") ? onTray : onBoard;
    if (e.target.closest(".cells, .tray") && here(e)) {
      e.preventDefault();
      return;
    }
    const more = { u: () => act.step(true), r: () => act.step(false), s: act.go, "+": () => act.zoom(1), "-": () => act.zoom(-1) };
    if (more[e.key]) {
      e.preventDefault();
      more[e.key]();
    }
  });
  board.cells.addEventListener("focusin", (e) => {
    const el = e.target.closest(".cell");
    if (!el) return;
    board.at = { r: Number(el.dataset.r), c: Number(el.dataset.c) };
    act.seen(Number(el.dataset.piece), [board.at.r, board.at.c]);
  });
  board.tray.addEventListener("focusin", (e) => {
    const el = e.target.closest(".loose");
    if (el) act.seen(Number(el.dataset.piece), null);
  });
}

export const pickedUp = (name) => say(`Picked up ${name}. Arrow keys move it, Enter puts it down, Escape puts it back.`);
export const putDown = (name, cell) => say(`${name} lies in ${place(cell)} and is pinned there.`);
