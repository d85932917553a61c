// Lines over the last ten minutes. A plot is a picture of what its caption says; the caption has the newest values as text.

import { element } from "./dom.js";
import { bytes, time } from "./format.js";

const POINTS_MAX = 600;
const HEIGHT = 120;
// Between two lines of a plot of bytes.
const POWERS = Array.from({ length: 48 }, (_, nth) => 2 ** nth);
// Seconds between two marks of time.
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600];
const scheme = matchMedia("(prefers-color-scheme: dark)");

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// `series`: { title, tell(value), spans: whether the line goes on over what there is no value of }; `axis(value)` writes a number beside the plot.
export function plot(title, series, axis) {
  const values = series.map(() => element("b", {}, "–"));
  const keys = series.map((one, at) => [element("span", { class: `key key${at}` }, one.title), " ", values[at], " "]);
  const place = element("div", { class: "plot", "aria-hidden": "true" });
  const node = element("figure", {}, element("figcaption", {}, `${title}: `, keys), place);
  const data = [[], ...series.map(() => [])];
  let drawn = null;

  function draw() {
    drawn?.destroy();
    const lines = ["--one", "--two", "--three"].map(colour);
    const grid = { stroke: colour("--line"), width: 1 };
    const axes = { stroke: colour("--quiet"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    drawn = new uPlot(
      {
        width: Math.max(place.clientWidth, 200),
        height: HEIGHT,
        cursor: { show: false },
        legend: { show: false },
        scales: { y: { range: (_, low, high) => [0, Math.max(high, 1) * 1.1] } },
        axes: [
          { ...axes, size: 30, space: 90, incrs: TIMES, values: (_, splits) => splits.map((split) => time(split * 1000)) },
          { ...axes, size: 66, values: (_, splits) => splits.map(axis), ...(axis === bytes ? { incrs: POWERS } : {}) },
        ],
        series: [{}, ...series.map((one, at) => ({ label: one.title, stroke: lines[at], width: 1.5, spanGaps: one.spans === true, points: { show: false } }))],
      },
      data,
      place,
    );
  }

  const resized = new ResizeObserver(() => {
    if (!drawn) draw();
    else if (Math.abs(drawn.width - place.clientWidth) > 4) drawn.setSize({ width: Math.max(place.clientWidth, 200), height: HEIGHT });
  });
  resized.observe(place);
  scheme.addEventListener("change", draw);

  return {
    node,
    // `points`: rows of milliseconds and a value of each series.
    show(points) {
      const kept = points.slice(-POINTS_MAX);
      data[0] = kept.map((point) => point[0] / 1000);
      series.forEach((one, at) => {
        data[at + 1] = kept.map((point) => point[at + 1]);
        values[at].textContent = kept.length ? one.tell(kept[kept.length - 1][at + 1]) : "–";
      });
      drawn?.setData(data);
    },
    stop() {
      resized.disconnect();
      scheme.removeEventListener("change", draw);
      drawn?.destroy();
    },
  };
}

// What was seen in the last ten minutes, whichever view was open.
export class Past {
  constructor() {
    this.seen = [];
  }

  add(overview) {
    this.seen.push(overview);
    if (this.seen.length > POINTS_MAX + 1) this.seen.shift();
  }

  // The growth of a count by the second, for each two that follow each other; none over a time that was not seen.
  rates(...counts) {
    return this.seen.slice(1).map((now, at) => {
      const before = this.seen[at];
      const seconds = (now.at - before.at) / 1000;
      const grown = (count) => (seconds > 0 && seconds < 10 ? Math.max(0, (count(now) - count(before)) / seconds) : null);
      return [now.at, ...counts.map(grown)];
    });
  }

  values(...values) {
    return this.seen.map((now) => [now.at, ...values.map((value) => value(now))]);
  }
}
