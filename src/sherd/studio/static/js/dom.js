// Building elements. Text is always set as text, so nothing a file is called can become markup.

export function h(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) el.addEventListener(key.slice(2), value);
    else if (key === "class") el.className = value;
    else if (key === "value" || key === "checked" || key === "disabled") el[key] = value;
    else el.setAttribute(key, value === true ? "" : value);
  }
  el.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return el;
}

const PATHS = {
  pin: "M9 3h6l-1 6 4 4v2h-5v6l-1 1-1-1v-6H6v-2l4-4z",
  cross: "M6 6l12 12M18 6L6 18",
  undo: "M9 7L4 12l5 5M4 12h10a6 6 0 0 1 6 6",
  redo: "M15 7l5 5-5 5M20 12H10a6 6 0 0 0-6 6",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  move: "M12 3v18M3 12h18M12 3l-3 3M12 3l3 3M12 21l-3-3M12 21l3-3M3 12l3-3M3 12l3 3M21 12l-3-3M21 12l-3 3",
  lift: "M12 15V4M7 9l5-5 5 5M4 20h16",
  play: "M8 5l11 7-11 7z",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  help: "M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 17.5v.5",
};

export function icon(name) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(ns, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

// Swap what a place shows, but only when it differs: focus and half-typed numbers stay.
export function fill(place, key, build) {
  const text = JSON.stringify(key);
  if (place.dataset.key === text) return;
  const focus = document.activeElement;
  const name = place.contains(focus) ? focus.dataset.name : null;
  place.dataset.key = text;
  const made = build();
  place.replaceChildren(...(Array.isArray(made) ? made : [made]).filter(Boolean));
  if (name) place.querySelector(`[data-name="${CSS.escape(name)}"]`)?.focus();
}

export function say(sentence) {
  const heard = document.getElementById("heard");
  if (heard.textContent === sentence) heard.textContent = "";
  requestAnimationFrame(() => { heard.textContent = sentence; });
}

let hide = 0;
export function banner(sentence, { stay = false } = {}) {
  const place = document.getElementById("banner");
  clearTimeout(hide);
  place.textContent = sentence ?? "";
  place.hidden = !sentence;
  if (sentence && !stay) hide = setTimeout(() => banner(null), 9000);
}
