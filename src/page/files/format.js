// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

// A revision or an identifier: digits without marks, so that it can be copied.
export const plain = (number) => (number === null || number === undefined ? "–" : String(number));
// A revision; 0 is one that is not known yet.
export const revision = (number) => (number ? String(number) : "–");
export const count = (number) => (number === null || number === undefined ? "–" : whole.format(number));

export function rate(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "–";
  return number >= 100 ? whole.format(Math.round(number)) : short.format(number);
}

export const cores = (number) => (number === null || number === undefined ? "–" : fine.format(number));

export function bytes(number) {
  if (number === null || number === undefined) return "–";
  let unit = 0;
  let size = number;
  for (; size >= 1024 && unit < 4; unit += 1) size /= 1024;
  return `${unit === 0 ? size : short.format(size)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

export function seconds(number) {
  if (number === null || number === undefined) return "–";
  if (number < 0.0005) return "0 s";
  if (number < 1) return `${Math.round(number * 1000)} ms`;
  if (number < 120) return `${short.format(number)} s`;
  if (number < 7200) return `${Math.round(number / 60)} min`;
  if (number < 172800) return `${short.format(number / 3600)} h`;
  return `${Math.round(number / 86400)} d`;
}

export const time = (millis) => (millis === null || millis === undefined ? "–" : clock.format(millis));
export const date = (millis) => (millis === null || millis === undefined ? "–" : day.format(millis));
