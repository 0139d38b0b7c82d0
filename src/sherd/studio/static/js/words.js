// What the studio says.

const STAGES = {
  start: "Getting ready",
  perception: "Comparing the edges of all fragments",
  grid: "Finding out how many rows and columns there were",
  gap: "Measuring how much is missing between fragments",
  search: "Trying arrangements, keeping the best",
  polish: "Looking closely at the best arrangements",
  "second look": "Looking for doubts and other readings",
};

export const stage = (name) => STAGES[name] ?? `${name[0].toUpperCase()}${name.slice(1)}`;

// A line of sherd's as a sentence; a file name at its beginning stays what it is.
export function sentence(text) {
  const whole = /[.!?]$/.test(text) ? text : `${text}.`;
  return /^[a-z]+[ ,:;]/.test(whole) ? whole.charAt(0).toUpperCase() + whole.slice(1) : whole;
}

export const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

export const percent = (share) => `${Math.round(100 * share)} %`;

export const place = ([r, c]) => `row ${r + 1}, column ${c + 1}`;

export function clock(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

export function day(seconds) {
  return new Date(1000 * seconds).toLocaleDateString(undefined, { day: "numeric", month: "long" });
}

export function when(seconds) {
  const then = new Date(1000 * seconds);
  const time = then.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  const today = then.toDateString() === new Date().toDateString();
  return today ? `today, ${time}` : `${day(seconds)}, ${time}`;
}

export const STATES = {
  ready: "ready",
  waiting: "waiting",
  running: "being put together",
  done: "put together",
  stopped: "stopped",
  failed: "could not be solved",
  interrupted: "interrupted",
};

// Headline and sentence of a job, as its panel shows them.
export function verdict(job, told) {
  const n = job.names.length;
  const placed = (job.table.board ?? []).flat().filter((p) => p >= 0).length;
  switch (job.state) {
    case "ready":
      return [count(n, "fragment"), "They lie here as they came. Say what you know, or just begin."];
    case "waiting":
      if (!job.ahead) return ["Waiting", "It comes next."];
      return ["Waiting", `${count(job.ahead, "puzzle")} before this one.`];
    case "running":
      return ["Putting it together", `${stage(told?.stage ?? "start")}.`];
    case "done": {
      const shape = `${count(job.table.board.length, "row")}, ${count(job.table.board[0].length, "column")}`;
      const left = n - placed;
      const rest = left ? `${count(left, "fragment")} found no place.` : "Every fragment has its place.";
      return ["Put together", `${shape}. ${rest}`];
    }
    case "stopped":
      return ["Stopped", job.table.board ? "This is the best so far." : "Nothing was found yet."];
    case "interrupted":
      return ["Interrupted", `${job.message} Nothing is lost; begin again when you like.`];
    default:
      return ["It did not work", sentence(job.message)];
  }
}

export function doubts(job) {
  const { board, confidence } = job.table;
  if (!board || !confidence) return null;
  const pinned = new Set(job.table.pins.map(([p]) => p)); // who pinned them, knows them
  const cells = board.flat();
  const values = confidence.flat().filter((s, k) => s !== null && cells[k] >= 0 && !pinned.has(cells[k]));
  if (!values.length) return null;
  const unsure = values.filter((s) => s < 0.5).length;
  const some = values.filter((s) => s >= 0.5 && s < 0.9).length;
  if (!unsure && !some) return "sherd is sure of all of them.";
  if (!unsure) return `${count(some, "place")} could do with a second look.`;
  return `sherd doubts ${count(unsure, "place")}; they are marked.`;
}
