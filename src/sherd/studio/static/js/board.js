// The table: fragments that glide, cells that take focus, and a tray for what has no place.

import { h, icon } from "./dom.js";
import { sheetOf } from "./api.js";
import { percent } from "./words.js";

const RAMP = [[213, 94, 0], [240, 210, 66], [0, 158, 115]]; // as sherd's pictures have it
const TRAY = 0.62; // size of a fragment in the tray
const DOUBT = 0.5;
const MANY = 500; // fragments that are too many to glide
const SMALL = 36; // px below which a fragment carries no badge

export class Board {
  constructor(scroller, on) {
    this.on = on;
    this.scroller = scroller;
    this.zoom = 1;
    this.pieces = [];
    this.at = { r: 0, c: 0 };
    this.board = null;
    this.held = null;
    this.layer = h("div", { class: "pieces", "aria-hidden": "true" });
    this.cells = h("div", { class: "cells" });
    this.tray = h("div", { class: "tray", role: "listbox", "aria-label": "Fragments beside the board" });
    this.picture = h("img", { class: "restored", alt: "The restored picture", hidden: true });
    this.ground = h("div", { class: "ground" }, h("div", { class: "plate" }), this.layer, this.picture, this.cells, this.tray);
    scroller.append(this.ground);
    this.watcher = new ResizeObserver(() => this.lay());
    this.watcher.observe(scroller);
  }

  close() {
    this.watcher.disconnect();
  }

  // Once per job: an element for every fragment.
  take(job) {
    if (this.id === job.id) return;
    this.id = job.id;
    this.names = job.names;
    this.size = job.size;
    this.sheet = job.sheet;
    this.pieces = job.names.map((name, k) => {
      const el = h("div", { class: "piece", "data-piece": k }, h("span", { class: "frame" }),
        h("span", { class: "badge pin" }, icon("pin")), h("span", { class: "badge doubt" }, "?"));
      el.style.backgroundImage = `url("${sheetOf(job.id)}")`;
      return el;
    });
    this.layer.replaceChildren(...this.pieces);
    this.layer.classList.toggle("is-many", this.pieces.length > MANY);
    this.layer.classList.add("is-new"); // the first time they appear, they do not come flying
    requestAnimationFrame(() => requestAnimationFrame(() => this.layer.classList.remove("is-new")));
  }

  // What to show: board (rows or null), confidence, pins, forbidden, blocked, differs, gap, locked.
  show(view) {
    this.view = view;
    const before = this.board;
    this.board = view.board;
    const same = before && this.board && before.length === this.board.length
      && before[0].length === this.board[0].length;
    if (!same) this.build();
    this.lay();
    this.mark();
  }

  get rows() { return this.board?.length ?? 0; }
  get cols() { return this.board?.[0]?.length ?? 0; }
  piece(r, c) { return this.board?.[r]?.[c] ?? -1; }

  where(piece) {
    for (let r = 0; r < this.rows; r += 1) {
      const c = this.board[r].indexOf(piece);
      if (c >= 0) return [r, c];
    }
    return null;
  }

  loose() {
    const placed = new Set(this.board?.flat() ?? []);
    return this.names.map((_, k) => k).filter((k) => !placed.has(k));
  }

  build() {
    this.at = { r: Math.min(this.at.r, Math.max(0, this.rows - 1)), c: Math.min(this.at.c, Math.max(0, this.cols - 1)) };
    const rows = (this.board ?? []).map((row, r) => h("div", { role: "row", "aria-rowindex": r + 1 },
      row.map((_, c) => h("div", { class: "cell", role: "gridcell", tabindex: -1, "aria-colindex": c + 1, "data-r": r, "data-c": c },
        h("span", { class: "ban" }, icon("cross"))))));
    this.cells.replaceChildren(...rows);
    if (this.board) {
      this.cells.setAttribute("role", "grid");
      this.cells.setAttribute("aria-label", "The board");
      this.cells.setAttribute("aria-rowcount", this.rows);
      this.cells.setAttribute("aria-colcount", this.cols);
    } else {
      this.cells.removeAttribute("role");
    }
  }

  cell(r, c) { return this.cells.children[r]?.children[c] ?? null; }

  // Where everything lies, in whole pixels so that neighbours meet without a seam.
  lay() {
    if (!this.size) return;
    const wide = this.scroller.clientWidth - 48;
    const high = this.scroller.clientHeight - 48;
    if (wide <= 0 || high <= 0) return;
    const [H, W] = this.size;
    const free = this.loose();
    const spots = this.board ? this.laidOut(wide, high, H, W, free) : this.asTheyCame(wide, high, H, W);
    const [sheetRows, sheetCols] = this.sheet;
    const { cw, ch } = this.grid;
    this.pieces.forEach((el, k) => {
      const spot = spots[k];
      el.style.width = `${cw}px`;
      el.style.height = `${ch}px`;
      el.style.backgroundSize = `${sheetCols * cw}px ${sheetRows * ch}px`;
      el.style.backgroundPosition = `${-(k % sheetCols) * cw}px ${-Math.floor(k / sheetCols) * ch}px`;
      el.spot = spot;
      if (!el.classList.contains("lifted")) el.style.transform = transform(spot);
      el.classList.toggle("beside", Boolean(spot.beside));
    });
    this.ground.classList.toggle("is-laid", Boolean(this.board));
    this.ground.classList.toggle("is-small", Math.min(cw, ch) < SMALL);
    if (this.held !== null) this.hover();
  }

  asTheyCame(wide, high, H, W) {
    const n = this.pieces.length;
    const air = 0.14;
    let best = { cw: 0 };
    for (let cols = 1; cols <= n; cols += 1) {
      const rows = Math.ceil(n / cols);
      const cw = Math.min(wide / (cols * (1 + air)), (high / (rows * (1 + air))) * (W / H), 132);
      if (cw > best.cw) best = { cw, cols, rows };
    }
    const cw = Math.max(6, Math.floor(best.cw * this.zoom));
    const ch = Math.max(6, Math.round((cw * H) / W));
    const [dx, dy] = [Math.round(cw * (1 + air)), Math.round(ch * (1 + air))];
    this.grid = { cw, ch, dx, dy };
    const total = [best.cols * dx - (dx - cw), best.rows * dy - (dy - ch)];
    const [left, top] = this.frame(total[0], total[1], 0);
    this.tray.replaceChildren();
    return this.pieces.map((_, k) => ({
      x: left + (k % best.cols) * dx, y: top + Math.floor(k / best.cols) * dy, s: 1,
    }));
  }

  laidOut(wide, high, H, W, free) {
    const gap = this.view.gap ?? 0;
    const [rows, cols] = [this.rows, this.cols];
    const share = free.length ? (free.length > 2 * cols ? 0.6 : 0.8) : 1;
    const scale = Math.min(wide / (cols * W + (cols - 1) * gap), (high * share) / (rows * H + (rows - 1) * gap));
    const cw = Math.max(6, Math.floor(Math.min(scale, 220 / Math.max(W, H)) * W * this.zoom));
    const ch = Math.max(6, Math.round((cw * H) / W));
    const g = gap ? Math.max(1, Math.round((gap * cw) / W)) : 0;
    this.grid = { cw, ch, dx: cw + g, dy: ch + g };
    const total = [cols * this.grid.dx - g, rows * this.grid.dy - g];
    const tw = Math.round(cw * TRAY) + 8;
    const th = Math.round(ch * TRAY) + 8;
    const across = Math.max(1, Math.floor(Math.max(wide, total[0]) / tw));
    const deep = free.length ? Math.ceil(free.length / across) * th + 34 : 0;
    const [left, top] = this.frame(total[0], total[1], deep);
    const spots = [];
    for (let r = 0; r < rows; r += 1) {
      for (let c = 0; c < cols; c += 1) {
        const x = left + c * this.grid.dx;
        const y = top + r * this.grid.dy;
        const el = this.cell(r, c);
        Object.assign(el.style, { left: `${x}px`, top: `${y}px`, width: `${cw}px`, height: `${ch}px` });
        if (this.board[r][c] >= 0) spots[this.board[r][c]] = { x, y, s: 1 };
      }
    }
    const row = Math.min(free.length, across) * tw - 8;
    const start = Math.max(24, Math.round((this.ground.clientWidth - row) / 2));
    const below = top + total[1] + 34;
    const had = document.activeElement?.closest?.(".tray .loose")?.dataset.piece;
    this.tray.hidden = !free.length;
    this.tray.replaceChildren(...free.map((k, i) => {
      const spot = { x: start + (i % across) * tw, y: below + Math.floor(i / across) * th, s: TRAY, beside: true };
      spots[k] = spot;
      const el = h("div", { class: "loose", role: "option", tabindex: i === 0 ? 0 : -1, "data-piece": k,
        "aria-selected": "false", "aria-label": `${this.names[k]}, beside the board`, title: this.names[k] });
      Object.assign(el.style, { left: `${spot.x}px`, top: `${spot.y}px`, width: `${tw - 8}px`, height: `${th - 8}px` });
      return el;
    }));
    if (had) this.tray.querySelector(`[data-piece="${had}"]`)?.focus();
    const box = { left: `${left}px`, top: `${top}px`, width: `${total[0]}px`, height: `${total[1]}px` };
    Object.assign(this.picture.style, box);
    Object.assign(this.ground.querySelector(".plate").style, {
      left: `${left - 10}px`, top: `${top - 10}px`, width: `${total[0] + 20}px`, height: `${total[1] + 20}px`,
    });
    return spots;
  }

  // Size of the ground, and where what it carries begins: in the middle, as long as there is room.
  frame(width, height, below) {
    const full = [Math.max(this.scroller.clientWidth, width + 48), Math.max(this.scroller.clientHeight, height + below + 48)];
    this.ground.style.width = `${full[0]}px`;
    this.ground.style.height = `${full[1]}px`;
    return [Math.round((full[0] - width) / 2), Math.round((full[1] - height - below) / 2)];
  }

  // Pins, doubts, bans, differences, and what a screen reader says of every cell.
  mark() {
    const { confidence, pins, forbidden, blocked, differs, sure, locked } = this.view;
    const pinned = new Map((pins ?? []).map(([p, r, c]) => [p, `${r},${c}`]));
    const banned = new Set((forbidden ?? []).map(([p, r, c]) => `${p},${r},${c}`));
    const shut = new Set((blocked ?? []).map(([r, c]) => `${r},${c}`));
    this.ground.classList.toggle("is-locked", Boolean(locked));
    this.cells.setAttribute("aria-readonly", locked ? "true" : "false");
    for (const el of this.pieces) {
      el.classList.remove("is-pinned", "is-doubted", "is-judged", "differs");
    }
    for (let r = 0; r < this.rows; r += 1) {
      for (let c = 0; c < this.cols; c += 1) {
        const p = this.board[r][c];
        const el = this.cell(r, c);
        const value = confidence?.[r]?.[c] ?? null;
        const ban = p >= 0 && banned.has(`${p},${r},${c}`);
        el.dataset.piece = p;
        el.classList.toggle("is-empty", p < 0);
        el.classList.toggle("is-blocked", shut.has(`${r},${c}`));
        el.classList.toggle("is-banned", ban);
        el.tabIndex = r === this.at.r && c === this.at.c ? 0 : -1;
        const words = [`Row ${r + 1}, column ${c + 1}`];
        if (p < 0) {
          words.push(shut.has(`${r},${c}`) ? "must stay empty" : "empty");
        } else {
          const piece = this.pieces[p];
          words.push(this.names[p]);
          const held = pinned.get(p) === `${r},${c}`;
          piece.classList.toggle("is-pinned", held);
          piece.classList.toggle("differs", Boolean(differs?.[r]?.[c]));
          if (held) words.push("pinned");
          else if (value !== null) words.push(`${percent(value)} sure`);
          if (ban) words.push("must not lie here");
          const judged = sure && value !== null && !held;
          piece.classList.toggle("is-judged", Boolean(judged));
          piece.classList.toggle("is-doubted", Boolean(judged && value < DOUBT));
          if (judged) {
            piece.style.setProperty("--sure", colour(value));
            piece.style.setProperty("--ink", (1 - 0.8 * value * value).toFixed(2));
          }
        }
        el.setAttribute("aria-label", words.join(", "));
        el.title = words.slice(1).join(", ");
      }
    }
  }

  restored(url) {
    this.picture.hidden = !url;
    if (url) this.picture.src = url;
    this.ground.classList.toggle("is-restored", Boolean(url));
  }

  // ------------------------------------------------------------------ focus, and a piece in hand

  focus(r, c) {
    const el = this.cell(r, c);
    if (!el) return;
    const old = this.cell(this.at.r, this.at.c);
    if (old) old.tabIndex = -1;
    this.at = { r, c };
    el.tabIndex = 0;
    el.focus({ preventScroll: false });
    if (this.held !== null) this.hover();
  }

  hold(piece) {
    this.held = piece;
    this.pieces[piece].classList.add("lifted", "by-key");
    this.ground.classList.add("is-holding");
    this.hover();
  }

  hover() {
    const el = this.cell(this.at.r, this.at.c);
    if (!el) return;
    const x = parseFloat(el.style.left) + Math.round(this.grid.cw * 0.09);
    const y = parseFloat(el.style.top) - Math.round(this.grid.ch * 0.09);
    this.pieces[this.held].style.transform = transform({ x, y, s: 1 });
  }

  release() {
    if (this.held === null) return;
    const el = this.pieces[this.held];
    el.classList.remove("lifted", "by-key");
    this.ground.classList.remove("is-holding");
    this.held = null;
    el.style.transform = transform(el.spot);
  }

  // The cell, or the tray, under a point of the screen.
  under(x, y) {
    const box = this.ground.getBoundingClientRect();
    for (const row of this.cells.children) {
      for (const el of row.children) {
        const left = parseFloat(el.style.left) + box.left;
        const top = parseFloat(el.style.top) + box.top;
        if (x >= left && x < left + this.grid.dx && y >= top && y < top + this.grid.dy) return el;
      }
    }
    return null;
  }
}

export const transform = ({ x, y, s }) => `translate(${x}px, ${y}px) scale(${s})`;

export function colour(value) {
  const x = Math.min(1, Math.max(0, value)) * (RAMP.length - 1);
  const k = Math.min(RAMP.length - 2, Math.floor(x));
  const mix = RAMP[k].map((a, i) => Math.round(a + (RAMP[k + 1][i] - a) * (x - k)));
  return `rgb(${mix.join(" ")})`;
}
