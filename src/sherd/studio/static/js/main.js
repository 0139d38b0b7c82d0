// Which page is shown. Two there are: the start, and one job.

import { banner } from "./dom.js";
import { startPage } from "./start.js";
import { workPage } from "./work.js";

let leave = () => {};

export function go(path) {
  if (path !== location.pathname) history.pushState(null, "", path);
  show();
  document.getElementById("main").focus({ preventScroll: true });
}

function show() {
  leave();
  banner(null);
  for (const place of ["main", "title-place", "tools-place"]) {
    document.getElementById(place).replaceChildren();
  }
  const main = document.getElementById("main");
  const match = /^\/job\/([A-Za-z0-9_-]{16})$/.exec(location.pathname);
  document.body.dataset.page = match ? "work" : "start";
  delete document.body.dataset.state;
  leave = match ? workPage(main, match[1], go) : startPage(main, go);
}

document.addEventListener("click", (e) => {
  const link = e.target.closest("a[data-home], a[data-job]");
  if (link && !e.ctrlKey && !e.metaKey && !e.shiftKey && e.button === 0) {
    e.preventDefault();
    go(new URL(link.href).pathname);
  }
});
addEventListener("popstate", show);
show();
