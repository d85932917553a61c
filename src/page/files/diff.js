// The difference of two texts, line by line (Myers, "An O(ND) Difference Algorithm"), with a few equal lines around each change.

const AROUND = 3;
const EDITS_MAX = 400;

// Pairs of [" ", line], ["-", line], ["+", line].
export function difference(before, after) {
  const [a, b] = [before, after].map((text) => (text ? text.split("\n") : []));
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middle = edits(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const equal = (lines) => lines.map((line) => [" ", line]);
  return [...equal(a.slice(0, start)), ...middle, ...equal(end ? a.slice(-end) : [])];
}

function edits(a, b) {
  const most = Math.min(a.length + b.length, EDITS_MAX);
  const reach = new Map([[1, 0]]);
  const steps = [];
  for (let d = 0; d <= most; d += 1) {
    steps.push(new Map(reach));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? reach.get(k + 1) : reach.get(k - 1) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1;
        y += 1;
      }
      reach.set(k, x);
      if (x >= a.length && y >= b.length) return walked(steps, a, b);
    }
  }
  // Too different to be worth a search.
  return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
}

// Goes back from the end through what was reached with ever fewer edits.
function walked(steps, a, b) {
  const found = [];
  let x = a.length;
  let y = b.length;
  for (let d = steps.length - 1; d >= 0; d -= 1) {
    const reach = steps[d];
    const k = x - y;
    const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const fromX = d === 0 ? 0 : down ? reach.get(k + 1) : reach.get(k - 1);
    const fromY = d === 0 ? 0 : fromX - (down ? k + 1 : k - 1);
    while (x > fromX && y > fromY) {
      found.push([" ", a[x - 1]]);
      x -= 1;
      y -= 1;
    }
    if (d === 0) break;
    if (down) found.push(["+", b[(y -= 1)]]);
    else found.push(["-", a[(x -= 1)]]);
  }
  return found.reverse();
}

// The same without the equal lines that are far from any change: ["…", how many] in their place.
export function folded(lines) {
  const near = new Uint8Array(lines.length);
  lines.forEach(([kind], at) => {
    if (kind !== " ") near.fill(1, Math.max(0, at - AROUND), at + AROUND + 1);
  });
  const shown = [];
  for (let at = 0; at < lines.length; at += 1) {
    if (near[at]) shown.push(lines[at]);
    else if (shown.length && shown[shown.length - 1][0] === "…") shown[shown.length - 1][1] += 1;
    else shown.push(["…", 1]);
  }
  return shown;
}
