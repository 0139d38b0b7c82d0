// The panel beside the board: how it stands, what is known, one fragment, other readings, files.

import { madeOf } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { difference, fits, pieceImage, thumb } from "./thumb.js";
import { clock, count, day, doubts, percent, place, sentence, verdict } from "./words.js";

const FILES = [
  ["picture.png", "Picture", "as the fragments lie, gaps left open"],
  ["restored.png", "Restored picture", "gaps filled; this takes a moment"],
  ["report.html", "Report", "pictures, places and doubts on one page"],
  ["layout.csv", "Layout for a spreadsheet", "which fragment lies where"],
  ["layout.json", "Layout as JSON", "the same for programs"],
];

export class Panel {
  constructor(place, act) {
    this.act = act;
    this.parts = {};
    for (const name of ["status", "piece", "known", "hints", "readings", "files", "end"]) {
      this.parts[name] = h("section", { class: `part part-${name}` });
    }
    place.append(...Object.values(this.parts));
    this.timer = setInterval(() => this.tick(), 500);
  }

  close() {
    clearInterval(this.timer);
  }

  show(job, ui) {
    this.job = job;
    this.ui = ui;
    this.status(job, ui);
    this.piece(job, ui);
    this.known(job);
    this.hints(job);
    this.readings(job, ui);
    this.files(job, ui);
    this.end(job);
  }

  tick() {
    const el = this.parts.status.querySelector(".clock");
    if (el && this.ui?.began) el.textContent = clock((Date.now() - this.ui.began) / 1000);
  }

  status(job, ui) {
    const { act } = this;
    const busy = ["waiting", "running"].includes(job.state);
    const key = [job.state, job.message, job.ahead, ui.told?.stage, job.runs, job.seconds, job.table.board?.length,
      doubts(job), job.notes, ui.changed, job.by_hand, Boolean(job.table.board)];
    fill(this.parts.status, key, () => {
      const [title, words] = verdict(job, ui.told);
      const doubt = job.state !== "done" ? null : job.by_hand ? "You have changed it since." : doubts(job);
      const begun = job.runs > 0 && job.table.board;
      const buttons = [];
      if (busy) {
        buttons.push(h("button", { class: "stop", "data-name": "go", id: "stop", onclick: act.stop }, "Stop"));
      } else {
        const again = begun ? "Solve on" : job.runs ? "Begin again" : "Put together";
        const plain = job.state === "done" && !ui.changed && !job.by_hand;
        buttons.push(h("button", { class: plain ? "" : "primary", "data-name": "go", id: "go",
          title: begun ? "Go on from the board as it lies, with your pins" : null, onclick: act.go }, again));
        if (begun) buttons.push(h("button", { class: "quiet", id: "afresh", title: "Forget the board, keep the pins", onclick: act.afresh }, "Start afresh"));
      }
      return [
        h("div", { class: "head" }, h("h2", { class: job.state === "failed" ? "bad" : "" }, title),
          job.state === "running" ? h("span", { class: "clock", "aria-hidden": "true" }, "") : null),
        h("p", { class: "verdict" }, words, doubt ? ` ${doubt}` : ""),
        busy ? h("div", { class: "pulse", "aria-hidden": "true" }) : null,
        h("div", { class: "row" }, buttons),
        job.notes.length && !busy ? h("ul", { class: "notes" }, job.notes.slice(0, 6).map((n) => h("li", {}, sentence(n)))) : null,
      ];
    });
    this.tick();
  }

  piece(job, ui) {
    const { act } = this;
    const { piece } = ui;
    const busy = ["waiting", "running"].includes(job.state);
    const board = job.table.board;
    const at = piece === null || !board ? null : ui.at;
    const pinned = job.table.pins.some(([p]) => p === piece);
    const sure = at ? job.table.confidence?.[at[0]]?.[at[1]] ?? null : null;
    const bans = job.table.forbidden.filter(([p]) => p === piece);
    const here = at && bans.some(([, r, c]) => r === at[0] && c === at[1]);
    this.parts.piece.hidden = piece === null || !board;
    fill(this.parts.piece, [job.id, piece, at, pinned, sure, bans, busy, Boolean(board)], () => {
      if (piece === null || !board) return [];
      const judged = pinned ? "pinned here" : sure === null ? (at ? "not judged" : "beside the board") : `${percent(sure)} sure`;
      return [
        h("div", { class: "one" }, pieceImage(job, piece, 76),
          h("div", {}, h("h3", {}, job.names[piece]),
            h("p", { class: "faint" }, at ? `${place(at)}, ${judged}` : judged))),
        h("div", { class: "tools" },
          at ? tool("pin", pinned ? "Unpin" : "Pin here", "P", busy, () => act.pin(piece)) : null,
          at ? tool("cross", here ? "Allow here" : "Not here", "X", busy, () => act.ban(piece, at)) : null,
          tool("move", "Move", "Enter", busy, () => act.pick(piece)),
          at ? tool("lift", "Take off", "Delete", busy, () => act.lift(piece)) : null),
        bans.length ? h("p", { class: "faint" }, `Ruled out: ${bans.map(([, r, c]) => place([r, c])).join("; ")}.`) : null,
      ];
    });
  }

  known(job) {
    const busy = ["waiting", "running"].includes(job.state);
    const found = job.table.board && job.runs ? [job.table.board.length, job.table.board[0].length] : null;
    fill(this.parts.known, [job.id, job.grid, job.gap, job.found_gap, found, busy, job.runs > 0], () => {
      const box = (name, label, value, hint) => h("label", { class: "box" }, h("span", {}, label),
        h("input", { type: "number", inputmode: "numeric", min: name === "gap" ? 0 : 1, max: 1000, name, "data-name": name,
          id: `know-${name}`, value: value ?? "", placeholder: hint ?? "?", disabled: busy, onchange: () => this.tell() }));
      const auto = !job.grid && found ? "What stands grey was found." : "Leave empty what you do not know: it is found.";
      const fields = [
        h("div", { class: "boxes" },
          box("rows", "Rows", job.grid?.[0], job.grid ? null : found?.[0]),
          h("span", { class: "times", "aria-hidden": "true" }, "×"),
          box("cols", "Columns", job.grid?.[1], job.grid ? null : found?.[1]),
          box("gap", "Gap in pixels", job.gap, job.gap === null ? job.found_gap : null)),
        h("p", { class: "faint", id: "known-hint" }, auto),
      ];
      if (!job.runs) return [h("h3", {}, "What you know"), ...fields];
      // once there is an answer, the fields step back
      const gap = job.gap ?? job.found_gap;
      const shape = job.grid ?? found;
      const short = [shape ? `${shape[0]} × ${shape[1]}` : null, gap === null ? null : `gap ${gap} px`].filter(Boolean).join(", ");
      const folded = h("details", { open: this.knownOpen ?? !found }, h("summary", { "data-name": "known", onclick: () => { this.knownOpen = !folded.open; } }, h("h3", {}, "What you know"), h("span", { class: "faint" }, short)),
        h("div", { class: "known-body" }, fields));
      return folded;
    });
  }

  tell() {
    const value = (name) => {
      const text = this.parts.known.querySelector(`[name=${name}]`).value.trim();
      return text === "" ? null : Number(text);
    };
    const [rows, cols, gap] = ["rows", "cols", "gap"].map(value);
    const hint = this.parts.known.querySelector("#known-hint");
    if ([rows, cols].some((v) => v !== null && (!Number.isInteger(v) || v < 1)) || (gap !== null && (!Number.isInteger(gap) || gap < 0))) {
      hint.textContent = "Whole numbers, please.";
      return;
    }
    if ((rows === null) !== (cols === null)) {
      hint.textContent = rows === null ? "And how many rows?" : "And how many columns?";
      if (gap !== this.job.gap) this.act.know({ gap });
      return;
    }
    this.act.know({ grid: rows === null ? null : [rows, cols], gap });
  }

  hints(job) {
    const { pins, forbidden } = job.table;
    const busy = ["waiting", "running"].includes(job.state);
    this.parts.hints.hidden = !job.table.board;
    fill(this.parts.hints, [pins.length, forbidden.length, busy, Boolean(job.table.board), job.runs > 0], () => {
      if (!pins.length && !forbidden.length) {
        return h("p", { class: "faint" }, busy ? "" : "Drag a fragment to where it belongs: it is pinned there, and what you pin stays.");
      }
      const parts = [];
      if (pins.length) parts.push(`${count(pins.length, "fragment")} pinned`);
      if (forbidden.length) parts.push(`${count(forbidden.length, "place")} ruled out`);
      return h("p", {}, `${parts.join(", ")}. `,
        h("button", { class: "link", id: "clear", disabled: busy, onclick: this.act.clear }, "Forget all"));
    });
  }

  readings(job, ui) {
    const shown = [...job.alternatives.keys()].filter((k) => fits(job, job.alternatives[k]));
    const busy = ["waiting", "running"].includes(job.state);
    this.parts.readings.hidden = !shown.length || busy;
    fill(this.parts.readings, [job.id, job.runs, shown, ui.reading, job.table.board], () => {
      if (!shown.length) return [];
      return [
        h("h3", {}, "Other readings"),
        h("div", { class: "readings", role: "group", "aria-label": "Other readings" }, shown.map((k) => {
          const a = job.alternatives[k];
          const differs = difference(a.board, job.table.board);
          const n = differs.flat().filter(Boolean).length;
          const odds = a.odds >= 0.995 ? "as likely" : `${percent(a.odds)} as likely`;
          return h("button", { class: "reading", "data-name": `reading-${k}`, "aria-pressed": ui.reading === k ? "true" : "false",
            onclick: () => this.act.read(ui.reading === k ? null : k) },
            thumb(job, a.board, 88, n ? differs : null),
            h("span", {}, n ? `${count(n, "cell")} differ${n === 1 ? "s" : ""}` : "this board"), h("span", { class: "faint" }, odds));
        })),
      ];
    });
  }

  files(job, ui) {
    const ready = job.table.board?.flat().some((p) => p >= 0) && !["waiting", "running"].includes(job.state);
    this.parts.files.hidden = !ready;
    fill(this.parts.files, [job.id, ready, ui.making], () => {
      if (!ready) return [];
      return [
        h("h3", {}, "Take home"),
        h("ul", { class: "files" }, FILES.map(([what, title, note]) => {
          const wait = ui.making === what;
          return h("li", {}, h("a", { href: madeOf(job.id, what), download: "", "data-file": what, "data-name": what, "aria-busy": wait ? "true" : null,
            onclick: (e) => { e.preventDefault(); this.act.fetch(what, title); } },
            icon("download"), h("span", {}, h("strong", {}, title), h("span", { class: "faint" }, wait ? "being made…" : note))));
        })),
      ];
    });
  }

  end(job) {
    fill(this.parts.end, [job.until], () => h("p", { class: "faint" }, `Kept until ${day(job.until)}. `,
      h("button", { class: "link", id: "delete", onclick: this.act.remove }, "Delete now")));
  }
}

function tool(name, words, key, disabled, onclick) {
  return h("button", { class: "tool", disabled, onclick, "data-name": `tool-${name}`, title: `${words} (${key})` }, icon(name), h("span", {}, words));
}
