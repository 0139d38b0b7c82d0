// One job: its board, its panel, and everything that can be done with it.

import { api, fetchMade } from "./api.js";
import { Board } from "./board.js";
import { banner, h, icon, say } from "./dom.js";
import { drags } from "./drag.js";
import { HELP, keys, pickedUp, putDown } from "./keys.js";
import { Player, watch } from "./live.js";
import { Panel } from "./panel.js";
import { difference, fits } from "./thumb.js";
import { count, stage, verdict } from "./words.js";

// What pictures of a table show: that somebody knows the grid is no part of it.
const drawn = (job) => JSON.stringify({ ...job?.table, grid: null });

export function workPage(main, id, go) {
  const stop = new AbortController();
  const left = () => stop.signal.aborted; // another page is shown: nothing may be painted any more
  const ui = { told: null, began: 0, piece: null, at: null, reading: null, making: null, sure: true, changed: false, restored: null, removing: false };
  let job = null;
  let lastSaid = "";

  const table = h("div", { class: "stage", "aria-busy": "true" });
  const bar = h("div", { class: "bar", role: "toolbar", "aria-label": "View" });
  const ribbon = h("div", { class: "ribbon", hidden: true });
  const side = h("aside", { class: "panel", "aria-label": "About this picture" });
  main.append(h("div", { class: "work" }, h("div", { class: "desk" }, bar, ribbon, table), side));
  const board = new Board(table);
  const player = new Player((rows) => draw(rows));
  const busy = () => !job || ["waiting", "running"].includes(job.state);
  const locked = () => busy() || ui.reading !== null || Boolean(ui.restored) || !job.table.board;

  // ------------------------------------------------------------------ what is seen

  function draw(rows, more = {}) {
    board.show({
      board: rows, confidence: null, pins: job.table.pins, forbidden: job.table.forbidden, blocked: job.blocked,
      gap: job.gap ?? job.found_gap ?? (rows ? 0 : null), sure: ui.sure, locked: locked(), ...more,
    });
  }

  function present() {
    if (ui.reading !== null) {
      const { board: other } = job.alternatives[ui.reading];
      draw(other, { differs: difference(other, job.table.board) });
    } else {
      draw(job.table.board, { confidence: job.table.confidence });
    }
    table.setAttribute("aria-busy", busy() ? "true" : "false");
  }

  function update(next) {
    if (job && next.version < job.version) return; // overtaken on its way
    const first = !job;
    const was = job?.state;
    const before = drawn(job);
    job = next;
    board.take(job);
    document.body.dataset.state = job.state;
    if (!busy()) {
      if (before !== drawn(job)) unrestore();
      const reading = job.alternatives[ui.reading];
      if (!reading || !fits(job, reading)) ui.reading = null;
      if (job.state !== was) ui.changed = false;
    }
    if (job.state === "running") {
      ui.told ??= job.run ?? { stage: "start" };
      if (job.run) ui.began = Date.now() - 1000 * job.run.seconds;
      if (was !== "running") {
        ui.reading = null;
        unrestore();
        if (job.live) player.add(job.live);
        else draw(job.table.board);
      }
    } else {
      ui.told = null;
      if (was === "running") {
        player.after(present); // boards that are still to be seen come first
      } else {
        player.clear();
        present();
      }
    }
    paint();
    speak(first);
  }

  function paint() {
    document.title = `${job.title} · sherd studio`;
    title();
    tools();
    panel.show(job, ui);
  }

  function speak(first) {
    const [head, words] = verdict(job, ui.told);
    const now = `${head}. ${words}`;
    if (now !== lastSaid && !(first && job.state === "done")) say(now);
    lastSaid = now;
  }

  function hear(message) {
    if (message.type === "gone") {
      go("/");
      if (!ui.removing) banner("This work is gone: deleted, or expired.");
    } else if (message.type === "job") {
      update(message.job);
    } else if (message.type === "ahead" && job) {
      job.ahead = message.ahead;
      panel.show(job, ui);
    } else if (job) {
      const fresh = ui.told?.stage !== message.stage;
      ui.told = { ...ui.told, ...message };
      ui.began = Date.now() - 1000 * message.seconds;
      if (message.type === "board") {
        job.live = message.board;
        player.add(message.board);
      }
      if (fresh) say(stage(message.stage));
      panel.show(job, ui);
    }
  }

  // ------------------------------------------------------------------ what can be done

  async function doing(work) {
    try {
      const next = await work();
      if (left()) return false;
      update(next);
      return true;
    } catch (error) {
      if (left()) return false;
      banner(error.message);
      if (job) present();
      return false;
    }
  }

  async function edit(op, more, changes = true) {
    if (busy()) {
      banner("Stop it first; then move fragments.");
      return false;
    }
    const done = await doing(() => api.edit(id, op, more));
    if (done && changes) {
      ui.changed = true;
      panel.show(job, ui);
    }
    return done;
  }

  const act = {
    go: () => (busy() ? act.stop() : doing(() => api.solve(id, Boolean(job.runs && job.table.board)))),
    afresh: () => doing(() => api.solve(id, false)),
    stop: () => doing(() => api.stop(id)),
    step: (back) => doing(() => (back ? api.undo(id) : api.redo(id))).then((ok) => ok && say(back ? "Undone." : "Done again.")),
    know: (changes) => doing(() => api.change(id, changes)).then((ok) => { if (ok) { ui.changed = true; panel.show(job, ui); } }),
    clear: () => edit("clear", {}),
    pin: (piece) => edit(job.table.pins.some(([p]) => p === piece) ? "unpin" : "pin", { piece }),
    ban: (piece, cell) => {
      const has = job.table.forbidden.some(([p, r, c]) => p === piece && r === cell[0] && c === cell[1]);
      return edit(has ? "allow" : "forbid", { piece, cell });
    },
    lift: (piece) => edit("lift", { piece }),
    pick: (piece) => {
      if (locked()) { banner(busy() ? "Stop it first; then move fragments." : "Go back to the board first."); return; }
      board.release();
      const at = board.where(piece);
      board.hold(piece);
      if (at) board.focus(at[0], at[1]);
      else board.focus(board.at.r, board.at.c);
      pickedUp(job.names[piece]);
    },
    put: async (cell) => {
      const piece = board.held;
      board.release();
      if (await edit("move", { piece, cell })) putDown(job.names[piece], cell);
      if (left()) return;
      board.focus(cell[0], cell[1]);
    },
    seen: (piece, at) => {
      ui.piece = piece >= 0 ? piece : null;
      ui.at = at;
      if (job) panel.show(job, ui);
    },
    read: (k) => {
      ui.reading = k;
      unrestore();
      present();
      paint();
    },
    zoom: (by) => {
      board.zoom = by === 0 ? 1 : Math.min(6, Math.max(0.5, board.zoom * (by > 0 ? 1.3 : 1 / 1.3)));
      board.lay();
    },
    fetch: async (what, words) => {
      if (ui.making) return;
      ui.making = what;
      panel.show(job, ui);
      try {
        const blob = await fetchMade(id, what, stop.signal);
        if (left()) return;
        const link = h("a", { href: URL.createObjectURL(blob), download: `${job.title} - ${what}` });
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 60000);
        say(`${words} is ready.`);
      } catch (error) {
        if (left()) return;
        banner(error.message);
      }
      ui.making = null;
      panel.show(job, ui);
    },
    remove: async () => {
      if (!confirm(`Delete “${job.title}” and its files?`)) return;
      ui.removing = true;
      try {
        await api.remove(id);
        if (left()) return;
        go("/");
      } catch (error) {
        if (left()) return;
        ui.removing = false;
        banner(error.message);
      }
    },
    film: async () => {
      const { film } = await api.film(id).catch(() => ({ film: [] }));
      if (left()) return;
      unrestore();
      ui.reading = null;
      draw(null);
      await new Promise((done) => { setTimeout(done, 900); });
      if (left()) return;
      player.play(film.length ? film : [job.table.board]);
      player.after(() => { present(); paint(); });
    },
    restore: async () => {
      if (ui.restored) { unrestore(); present(); paint(); return; }
      ui.making = "restored.png";
      paint();
      try {
        const blob = await fetchMade(id, "restored.png", stop.signal);
        if (left()) return;
        ui.restored = URL.createObjectURL(blob);
        board.restored(ui.restored);
      } catch (error) {
        if (left()) return;
        banner(error.message);
      }
      ui.making = null;
      present();
      paint();
    },
  };

  function unrestore() {
    if (ui.restored) URL.revokeObjectURL(ui.restored);
    ui.restored = null;
    board.restored(null);
  }

  // ------------------------------------------------------------------ around the board

  function title() {
    const box = document.getElementById("title-place");
    if (box.contains(document.activeElement)) return;
    const input = h("input", { class: "title", value: job.title, "aria-label": "Title", maxlength: 120, disabled: busy(),
      onchange: () => input.value.trim() && doing(() => api.change(id, { title: input.value.trim() })),
      onkeydown: (e) => { if (e.key === "Enter") input.blur(); } });
    box.replaceChildren(input);
  }

  function tools() {
    const laid = Boolean(job.table.board?.flat().some((p) => p >= 0));
    const button = (name, words, onclick, more = {}) => h("button", { class: "tool", title: words, "aria-label": words, onclick, ...more }, icon(name));
    bar.replaceChildren(
      h("div", { class: "group" },
        button("undo", "Undo (U)", () => act.step(true), { id: "undo", disabled: busy() || !job.past }),
        button("redo", "Redo (R)", () => act.step(false), { id: "redo", disabled: busy() || !job.future })),
      h("div", { class: "group" },
        h("label", { class: "switch" }, h("input", { type: "checkbox", id: "sure", checked: ui.sure,
          onchange: (e) => { ui.sure = e.target.checked; if (!busy()) present(); } }), h("span", {}, "How sure")),
        ui.sure && job.table.confidence && !busy() ? h("span", { class: "key", "aria-hidden": "true" }, "unsure", h("i", {}), "sure") : null),
      h("div", { class: "group" },
        laid && !busy() ? h("button", { class: "tool wide", id: "restored", "aria-pressed": ui.restored ? "true" : "false", disabled: ui.making === "restored.png", onclick: act.restore },
          ui.making === "restored.png" ? "Restoring…" : "Restored") : null,
        laid && job.runs && !busy() ? h("button", { class: "tool wide", id: "again", onclick: act.film }, icon("play"), "Watch again") : null),
      h("div", { class: "group end" },
        button("minus", "Smaller", () => act.zoom(-1)), button("fit", "Fit", () => act.zoom(0)), button("plus", "Larger", () => act.zoom(1)),
        button("help", "Keys", help, { id: "help" })));
    ribbon.hidden = ui.reading === null;
    if (ui.reading !== null) {
      const n = difference(job.alternatives[ui.reading].board, job.table.board).flat().filter(Boolean).length;
      ribbon.replaceChildren(h("span", {}, `Another reading: ${count(n, "cell")} differ${n === 1 ? "s" : ""}.`),
        h("button", { class: "primary", id: "use-reading", onclick: async () => {
          const k = ui.reading;
          ui.reading = null;
          await edit("choose", { alternative: k });
        } }, "Use this one"),
        h("button", { onclick: () => act.read(null) }, "Back"));
    }
  }

  function help() {
    const list = HELP.flatMap(([key, what]) => [h("dt", {}, key), h("dd", {}, what)]);
    const dialog = h("dialog", { class: "help", "aria-label": "Keys", onclose: () => dialog.remove() },
      h("h2", {}, "By keyboard"), h("p", { class: "faint" }, "Click or tab to the board; then:"),
      h("dl", {}, list), h("form", { method: "dialog" }, h("button", { class: "primary" }, "Close")));
    document.body.append(dialog);
    dialog.showModal();
  }

  function select(spot) {
    if (board.held !== null && spot.classList.contains("cell")) {
      act.put([Number(spot.dataset.r), Number(spot.dataset.c)]);
      return;
    }
    board.release();
    if (spot.classList.contains("cell")) board.focus(Number(spot.dataset.r), Number(spot.dataset.c));
    else spot.focus();
  }

  const panel = new Panel(side, act);
  const dragging = drags(board, { locked, select, lift: act.lift, move: (piece, cell) => edit("move", { piece, cell }).then((ok) => {
    if (ok) { putDown(job.names[piece], cell); board.focus(cell[0], cell[1]); }
  }) });
  keys(board, act);
  addEventListener("keydown", (e) => { if (e.key === "Escape") dragging.clear(); }, { signal: stop.signal });
  const end = watch(id, hear, (lost) => banner(lost ? "The studio is not answering. Trying again…" : null, { stay: true }));
  return () => {
    end();
    stop.abort();
    player.clear();
    panel.close();
    board.close();
    unrestore();
  };
}
