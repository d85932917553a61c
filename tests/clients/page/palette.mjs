// A PNG picture with at most 256 colours: a third of the size for pictures of a page.
import { deflateSync, inflateSync, crc32 } from "node:zlib";

const COLOURS_MAX = 256;
// How far apart the colours are that are kept, of 3 × 255: else the greys of letters would leave none for the few pixels that are green or red.
const APART = 18;

// The chunks of a PNG file, as [type, bytes].
function chunks(png) {
  const found = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) found.push([png.toString("latin1", at + 4, at + 8), png.subarray(at + 8, at + 8 + png.readUInt32BE(at))]);
  return found;
}

function chunk(type, bytes) {
  const made = Buffer.alloc(12 + bytes.length);
  made.writeUInt32BE(bytes.length, 0);
  made.write(type, 4, "latin1");
  bytes.copy(made, 8);
  made.writeUInt32BE(crc32(made.subarray(4, 8 + bytes.length)), 8 + bytes.length);
  return made;
}

// Rows without their filters (PNG, "Filter types"), of pixels of so many bytes.
function unfiltered(packed, width, height, size) {
  const line = width * size;
  const rows = Buffer.alloc(line * height);
  for (let y = 0; y < height; y += 1) {
    const kind = packed[y * (line + 1)];
    for (let x = 0; x < line; x += 1) {
      const left = x < size ? 0 : rows[y * line + x - size];
      const up = y === 0 ? 0 : rows[(y - 1) * line + x];
      const both = x < size || y === 0 ? 0 : rows[(y - 1) * line + x - size];
      const guess = left + up - both;
      const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - both)];
      const paeth = a <= b && a <= c ? left : b <= c ? up : both;
      rows[y * line + x] = packed[y * (line + 1) + 1 + x] + [0, left, up, (left + up) >> 1, paeth][kind];
    }
  }
  return rows;
}

// The same picture with the colours that most of its pixels have, some way apart; the others become the nearest of these.
export function palette(png) {
  const all = chunks(png);
  const head = all.find(([type]) => type === "IHDR")[1];
  const [width, height, size] = [head.readUInt32BE(0), head.readUInt32BE(4), { 2: 3, 6: 4 }[head[9]]];
  if (head[8] !== 8 || !size || head[12] !== 0) throw new Error("not a PNG as Chromium makes them");
  const pixels = unfiltered(inflateSync(Buffer.concat(all.filter(([type]) => type === "IDAT").map(([, bytes]) => bytes))), width, height, size);
  const counts = new Map();
  const colour = (at) => (pixels[at * size] << 16) | (pixels[at * size + 1] << 8) | pixels[at * size + 2];
  for (let at = 0; at < width * height; at += 1) counts.set(colour(at), (counts.get(colour(at)) ?? 0) + 1);
  const apart = (a, b) => Math.abs((a >> 16) - (b >> 16)) + Math.abs(((a >> 8) & 255) - ((b >> 8) & 255)) + Math.abs((a & 255) - (b & 255));
  const kept = [];
  for (const [of] of [...counts].sort((a, b) => b[1] - a[1])) if (kept.length < COLOURS_MAX && kept.every((one) => apart(of, one) >= APART)) kept.push(of);
  const index = new Map([...counts.keys()].map((of) => [of, kept.reduce((best, one, nth) => (apart(of, one) < apart(of, kept[best]) ? nth : best), 0)]));
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y += 1) for (let x = 0; x < width; x += 1) rows[y * (width + 1) + 1 + x] = index.get(colour(y * width + x));
  const header = Buffer.from(head);
  header[9] = 3;
  const colours = Buffer.from(kept.flatMap((of) => [of >> 16, (of >> 8) & 255, of & 255]));
  return Buffer.concat([png.subarray(0, 8), chunk("IHDR", header), chunk("PLTE", colours), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}
