// The start page: bring fragments, try a sample, go on with earlier work.

import { api, sheetOf } from "./api.js";
import { banner, h, say } from "./dom.js";
import { chosen, dropped, send, sorted } from "./intake.js";
import { STATES, count, when } from "./words.js";

const HERE = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

export function startPage(main, go) {
  document.title = "sherd studio";
  const stop = new AbortController();
  let about = null;
  let busy = null;

  const files = h("input", {
    type: "file", multiple: true, hidden: true, id: "files",
    accept: ".png,.jpg,.jpeg,.tif,.tiff,.webp,.bmp,.zip,.json",
    onchange: () => bring(chosen(files)),
  });
  const folder = h("input", {
    type: "file", webkitdirectory: true, hidden: true, id: "folder",
    onchange: () => bring(chosen(folder)),
  });
  const progress = h("div", { class: "sending", hidden: true });
  const samples = h("p", { class: "samples" });
  const refusal = h("p", { class: "refusal", role: "alert", hidden: true });
  const zone = h("section", { class: "zone", "aria-label": "Bring your fragments" },
    h("img", { class: "vase", src: "/static/img/amphora.svg", alt: "", width: 176, height: 208 }),
    h("div", { class: "zone-words" },
      h("h1", {}, "Put a broken picture back together"),
      h("p", { class: "lead" },
        "Drop a folder or a zip with photographs of the fragments anywhere on this page. ",
        `Nothing leaves ${HERE ? "this computer" : "the computer that runs the studio"}.`),
      h("div", { class: "row" },
        h("button", { class: "primary", id: "pick-folder", onclick: () => folder.click() }, "Choose a folder"),
        h("button", { id: "pick-files", onclick: () => files.click() }, "Choose files or a zip")),
      samples, refusal, progress, files, folder));
  const earlier = h("section", { class: "earlier", "aria-labelledby": "earlier-title", hidden: true });
  main.append(h("div", { class: "start" }, zone, earlier));

  const show = (problem) => {
    refusal.textContent = problem ?? "";
    refusal.hidden = !problem;
  };

  async function bring(found) {
    if (busy) return;
    show(null);
    busy = new AbortController();
    const bar = h("progress", { max: 1, value: 0, "aria-label": "Sent" });
    const words = h("p", {}, "Sending…");
    progress.replaceChildren(words, bar, h("button", { class: "quiet", onclick: () => busy?.abort() }, "Cancel"));
    progress.hidden = false;
    zone.classList.add("is-busy");
    try {
      about ??= await api.about();
      const load = sorted(found, about.limits);
      say(`Sending ${count(load.files.length, "file")}.`);
      const job = await send(load, (share) => {
        bar.value = share;
        if (share === 1) words.textContent = "Looking at the fragments…";
      }, busy.signal);
      go(`/job/${job.id}`);
      if (load.left) banner(`${count(load.left, "file")} that ${load.left === 1 ? "is no picture was" : "are no pictures were"} left out.`);
    } catch (error) {
      if (error.name !== "AbortError") show(error.message);
    } finally {
      busy = null;
      progress.hidden = true;
      zone.classList.remove("is-busy");
      files.value = folder.value = "";
    }
  }

  async function sample(name) {
    if (busy) return;
    show(null);
    busy = new AbortController();
    zone.classList.add("is-busy");
    try {
      const job = await api.sample(name);
      await api.solve(job.id, false);
      go(`/job/${job.id}`);
    } catch (error) {
      show(error.message);
    } finally {
      busy = null;
      zone.classList.remove("is-busy");
    }
  }

  async function load() {
    try {
      about = await api.about();
      const links = Object.entries(about.samples).map(([name, title]) =>
        h("button", { class: "link", "data-sample": name, onclick: () => sample(name) }, title.toLowerCase()));
      samples.replaceChildren("Nothing at hand? Try ", links[0], " or ", links[1], ".");
      list(await api.jobs());
    } catch (error) {
      show(error.message);
    }
  }

  function list(jobs) {
    earlier.hidden = !jobs.length;
    earlier.replaceChildren(
      h("h2", { id: "earlier-title" }, "Earlier work"),
      h("p", { class: "faint" }, `Kept for ${count(about.keep_days, "day")} after the last change.`),
      h("ul", { class: "cards" }, jobs.map(card)));
  }

  function card(job) {
    const link = h("a", { class: "card", href: `/job/${job.id}`, "data-job": job.id },
      cover(job),
      h("span", { class: "card-words" },
        h("strong", {}, job.title),
        h("span", { class: "faint" }, `${count(job.pieces, "fragment")}, ${STATES[job.state]}`),
        h("span", { class: "faint" }, when(job.changed))));
    return h("li", {}, link);
  }

  // A few fragments of a job, enough to know it by.
  function cover(job) {
    const box = h("span", { class: "cover", "aria-hidden": "true" });
    const [rows, cols] = job.sheet;
    box.style.backgroundImage = `url("${sheetOf(job.id)}")`;
    const [height, width] = job.size;
    const wide = 34;
    box.style.backgroundSize = `${cols * wide}px ${rows * wide * (height / width)}px`;
    return box;
  }

  const over = (e) => {
    if (![...(e.dataTransfer?.types ?? [])].includes("Files")) return;
    e.preventDefault();
    zone.classList.add("is-over");
  };
  const out = (e) => { if (!e.relatedTarget) zone.classList.remove("is-over"); };
  const drop = async (e) => {
    e.preventDefault();
    zone.classList.remove("is-over");
    try {
      const found = await dropped(e.dataTransfer);
      if (found.files.length) await bring(found);
    } catch {
      show("What was dropped cannot be read.");
    }
  };
  addEventListener("dragover", over, { signal: stop.signal });
  addEventListener("dragleave", out, { signal: stop.signal });
  addEventListener("drop", drop, { signal: stop.signal });
  addEventListener("focus", () => api.jobs().then(list, () => {}), { signal: stop.signal });
  load();
  return () => stop.abort();
}
