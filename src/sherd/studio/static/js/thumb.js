// Small pictures of boards, drawn from the sheet of fragments.

import { sheetOf } from "./api.js";

const sheets = new Map();

function sheet(id) {
  if (!sheets.has(id)) {
    sheets.clear(); // one job at a time is looked at
    const image = new Image();
    image.src = sheetOf(id);
    sheets.set(id, image.decode().then(() => image));
  }
  return sheets.get(id);
}

export function thumb(job, board, width, differs = null) {
  const [H, W] = job.size;
  const cw = Math.max(2, Math.floor((width * devicePixelRatio) / board[0].length));
  const ch = Math.max(2, Math.round((cw * H) / W));
  const canvas = document.createElement("canvas");
  canvas.width = cw * board[0].length;
  canvas.height = ch * board.length;
  sheet(job.id).then((image) => {
    const [rows, cols] = job.sheet;
    const [sw, sh] = [image.naturalWidth / cols, image.naturalHeight / rows];
    const brush = canvas.getContext("2d");
    board.forEach((row, r) => row.forEach((p, c) => {
      if (p < 0) return;
      brush.globalAlpha = !differs || differs[r][c] ? 1 : 0.35;
      brush.drawImage(image, (p % cols) * sw, Math.floor(p / cols) * sh, sw, sh, c * cw, r * ch, cw, ch);
    }));
  }, () => {});
  return canvas;
}

export function pieceImage(job, piece, width) {
  return thumb(job, [[piece]], width);
}

// Whether another reading has the board's own rows and columns; after an undo it may not.
export function fits(job, reading) {
  const board = job.table.board;
  return board?.length === reading.board.length && board[0].length === reading.board[0].length;
}

export function difference(a, b) {
  return a.map((row, r) => row.map((p, c) => p !== b?.[r]?.[c]));
}
