// What happens to a job, as it happens: a socket that comes back, and a player of boards.

const SHOWN = 420; // ms that a board stays, when nothing presses
const BEHIND = 14; // boards that may wait; older ones are passed over

export function watch(id, hear, onLost) {
  let socket = null;
  let tries = 0;
  let timer = 0;
  let over = false;

  function open() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    socket = new WebSocket(`${scheme}://${location.host}/api/jobs/${id}/live`);
    socket.addEventListener("message", (e) => {
      if (tries) onLost(false);
      tries = 0;
      const message = JSON.parse(e.data);
      if (message.type === "gone") over = true;
      hear(message);
    });
    socket.addEventListener("close", () => {
      if (over) return;
      tries += 1;
      if (tries > 1) onLost(true);
      timer = setTimeout(open, Math.min(8000, 300 * 2 ** tries));
    });
  }

  open();
  return () => {
    over = true;
    clearTimeout(timer);
    socket?.close();
  };
}

// Shows boards one after the other, each long enough to be seen.
export class Player {
  constructor(show, pace = SHOWN) {
    this.show = show;
    this.pace = pace;
    this.queue = [];
    this.timer = 0;
    this.onEmpty = null;
  }

  add(board) {
    this.queue.push(board);
    if (this.queue.length > BEHIND) this.queue.splice(0, this.queue.length - BEHIND);
    if (!this.timer) this.step();
  }

  play(boards) {
    this.clear();
    this.queue = [...boards];
    this.step();
  }

  step() {
    this.timer = 0;
    const board = this.queue.shift();
    if (!board) {
      const done = this.onEmpty;
      this.onEmpty = null;
      done?.();
      return;
    }
    this.show(board);
    const wait = Math.max(90, this.pace / (1 + this.queue.length / 4));
    this.timer = setTimeout(() => this.step(), wait);
  }

  // Calls back when everything was shown.
  after(done) {
    this.onEmpty = done;
    if (!this.timer) this.step();
  }

  clear() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.queue = [];
    this.onEmpty = null;
  }
}
