// Talking to the server. Every refusal is one sentence, thrown as an Error.

const AWAY = "The studio is not answering. Is it still running?";

export async function call(method, path, body) {
  let answer;
  try {
    answer = await fetch(`/api${path}`, {
      method,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Error(AWAY);
  }
  return read(answer.status, await answer.text());
}

function read(status, text) {
  let value = {};
  try {
    value = JSON.parse(text);
  } catch {
    if (status < 400) throw new Error(AWAY);
  }
  if (status >= 400) {
    const error = new Error(value.error ?? AWAY);
    error.status = status;
    throw error;
  }
  return value;
}

export const api = {
  about: () => call("GET", "/about"),
  jobs: () => call("GET", "/jobs"),
  job: (id) => call("GET", `/jobs/${id}`),
  film: (id) => call("GET", `/jobs/${id}/film`),
  create: (title) => call("POST", "/jobs", { title }),
  complete: (id, files) => call("POST", `/jobs/${id}/complete`, { files }),
  sample: (name) => call("POST", "/sample", { name }),
  change: (id, changes) => call("PATCH", `/jobs/${id}`, changes),
  remove: (id) => call("DELETE", `/jobs/${id}`),
  solve: (id, goOn) => call("POST", `/jobs/${id}/solve`, { go_on: goOn }),
  stop: (id) => call("POST", `/jobs/${id}/stop`, {}),
  edit: (id, op, more = {}) => call("POST", `/jobs/${id}/edit`, { op, ...more }),
  undo: (id) => call("POST", `/jobs/${id}/undo`, {}),
  redo: (id) => call("POST", `/jobs/${id}/redo`, {}),
};

export const sheetOf = (id) => `/api/jobs/${id}/sheet.webp`;
export const madeOf = (id, what) => `/api/jobs/${id}/made/${what}`;

// A file's bytes, as the body of one request; XMLHttpRequest because it tells how far it is.
export function upload(id, file, name, onBytes, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `/api/jobs/${id}/files?name=${encodeURIComponent(name)}`);
    request.upload.addEventListener("progress", (e) => onBytes(e.loaded));
    request.addEventListener("load", () => {
      try {
        resolve(read(request.status, request.responseText));
      } catch (error) {
        reject(error);
      }
    });
    request.addEventListener("error", () => reject(new Error(`${name}: could not be sent.`)));
    request.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

// A file that the server makes while we wait.
export async function fetchMade(id, what, signal) {
  const answer = await fetch(madeOf(id, what), { signal });
  if (!answer.ok) return read(answer.status, await answer.text());
  return answer.blob();
}
