// Files from a drop or a chooser, checked and sent.

import { api, upload } from "./api.js";
import { count } from "./words.js";

const PICTURE = /\.(png|jpe?g|tiff?|webp|bmp)$/i;
const ZIP = /\.zip$/i;
const AT_ONCE = 4;

// Everything below what was dropped: files as they are, folders with all they hold.
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return { title: null, files: [...transfer.files] };
  const folder = entries.length === 1 && entries[0].isDirectory ? entries[0].name : null;
  const files = [];
  for (const entry of entries) await gather(entry, files);
  return { title: folder, files };
}

async function gather(entry, files) {
  if (entry.isFile) {
    files.push(await new Promise((resolve, reject) => entry.file(resolve, reject)));
    return;
  }
  const reader = entry.createReader();
  for (;;) { // a reader hands out a hundred at a time
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return;
    for (const inner of some) await gather(inner, files);
  }
}

export function chosen(input) {
  const files = [...input.files];
  const folder = files[0]?.webkitRelativePath?.split("/")[0];
  return { title: folder || null, files };
}

// The files that can be sent, how many were left out, and a title; or an error in one sentence.
export function sorted({ title, files }, limits) {
  const usable = files.filter(
    (f) => !f.name.startsWith(".") && (PICTURE.test(f.name) || ZIP.test(f.name) || f.name === "puzzle.json"),
  );
  const left = files.filter((f) => !f.name.startsWith(".")).length - usable.length;
  const pictures = usable.filter((f) => PICTURE.test(f.name));
  const zips = usable.filter((f) => ZIP.test(f.name));
  if (!pictures.length && !zips.length) {
    throw new Error("There are no pictures in this; expected PNG, JPEG, TIFF, WebP or BMP, or a zip of them.");
  }
  if (usable.length > limits.files) {
    throw new Error(`${usable.length} files are too many; at most ${limits.files}.`);
  }
  const most = (f) => (ZIP.test(f.name) ? limits.zip_bytes : limits.file_bytes);
  const big = usable.find((f) => f.size > most(f));
  if (big) throw new Error(`${big.name}: is larger than ${Math.floor(most(big) / 2 ** 20)} MiB.`);
  const total = usable.reduce((sum, f) => sum + f.size, 0);
  if (total > limits.total_bytes) {
    throw new Error(`Together they are larger than ${Math.floor(limits.total_bytes / 2 ** 20)} MiB.`);
  }
  const name = title ?? (zips.length === 1 && !pictures.length ? zips[0].name.replace(ZIP, "") : null);
  return { title: name ?? count(pictures.length, "fragment"), files: usable, left };
}

// Sends everything and returns the job; onShare hears 0..1.
export async function send({ title, files }, onShare, signal) {
  const { id } = await api.create(title);
  const total = files.reduce((sum, f) => sum + f.size, 0) || 1;
  const sent = new Map();
  const queue = [...files];
  const lane = async () => {
    for (let file = queue.shift(); file; file = queue.shift()) {
      const now = file;
      await upload(id, now, now.name, (bytes) => {
        sent.set(now, Math.min(bytes, now.size));
        onShare([...sent.values()].reduce((a, b) => a + b, 0) / total);
      }, signal);
      sent.set(now, now.size);
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, lane));
    onShare(1);
    return await api.complete(id, files.length);
  } catch (error) {
    queue.length = 0;
    api.remove(id).catch(() => {}); // refused files are gone already
    throw error;
  }
}
