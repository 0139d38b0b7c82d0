// Moving fragments with a mouse, a pen or a finger.

import { transform } from "./board.js";

const FAR = 5; // px before a press becomes a drag

export function drags(board, { locked, select, move, lift }) {
  let press = null;

  function begin(e) {
    const spot = e.target.closest(".cell, .loose");
    if (!spot || e.button !== 0 || press) return;
    const piece = Number(spot.dataset.piece);
    press = { piece, spot, x: e.clientX, y: e.clientY, id: e.pointerId, moving: false, target: null };
  }

  function on(e) {
    if (!press || e.pointerId !== press.id) return;
    const dx = e.clientX - press.x;
    const dy = e.clientY - press.y;
    if (!press.moving) {
      if (Math.hypot(dx, dy) < FAR || press.piece < 0 || locked()) return;
      press.moving = true;
      board.release();
      board.ground.setPointerCapture(press.id);
      board.pieces[press.piece].classList.add("lifted");
      board.ground.classList.add("is-dragging");
    }
    const el = board.pieces[press.piece];
    const { spot } = el;
    // a fragment from the tray grows under the finger that took it
    const grow = 1 / spot.s;
    const inX = (press.x - board.ground.getBoundingClientRect().left - spot.x) * (grow - 1);
    const inY = (press.y - board.ground.getBoundingClientRect().top - spot.y) * (grow - 1);
    el.style.transform = transform({ x: spot.x + dx - inX, y: spot.y + dy - inY, s: 1 });
    const target = board.under(e.clientX, e.clientY);
    if (target !== press.target) {
      press.target?.classList.remove("is-target");
      target?.classList.add("is-target");
      press.target = target;
    }
  }

  function end(e) {
    if (!press || e.pointerId !== press.id) return;
    const { piece, spot, moving, target } = press;
    clear();
    if (!moving) {
      select(spot);
    } else if (target) {
      move(piece, [Number(target.dataset.r), Number(target.dataset.c)]);
    } else if (spot.classList.contains("cell")) {
      lift(piece);
    }
  }

  function clear() {
    if (!press) return;
    const el = board.pieces[press.piece];
    press.target?.classList.remove("is-target");
    board.ground.classList.remove("is-dragging");
    if (press.moving && el) {
      el.classList.remove("lifted");
      el.style.transform = transform(el.spot);
    }
    press = null;
  }

  board.ground.addEventListener("pointerdown", begin);
  board.ground.addEventListener("pointermove", on);
  board.ground.addEventListener("pointerup", end);
  board.ground.addEventListener("pointercancel", clear);
  return { clear };
}
