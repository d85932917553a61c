// A table whose rows stay the same elements while their figures change, so that focus and selection stay where they are.

import { element, fill, mark } from "./dom.js";

// Writes a text or an element where it is not written already.
function write(cell, value) {
  if (value instanceof Node) {
    const mark = value.dataset?.mark;
    if (mark !== undefined && cell.firstChild?.dataset?.mark === mark) return;
    fill(cell, value);
  } else if (cell.textContent !== value || cell.firstElementChild) {
    cell.textContent = value;
  }
}

// `columns`: { title, hint, sort, number, long, cell(row) }, where a cell is a text or an element, and a hint what a pointer is told. `sorted(name)`: somebody wants this order.
export function table(caption, columns, key, sorted) {
  const label = element("caption", {}, caption);
  const heads = columns.map((column) => {
    const inside = column.sort && sorted ? element("button", { type: "button", onclick: () => sorted(column.sort) }, column.title) : column.title;
    return element("th", { scope: "col", class: column.number ? "number" : undefined, title: column.hint }, inside);
  });
  const body = element("tbody");
  const known = new Map();
  const whole = element("table", {}, label, element("thead", {}, element("tr", {}, heads)), body);
  const scroller = element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption }, whole);

  return {
    node: scroller,
    show(rows, { sort, caption: text } = {}) {
      if (text !== undefined) label.textContent = text;
      columns.forEach((column, at) => {
        if (!column.sort) return;
        const order = sort === column.sort ? "ascending" : sort === `-${column.sort}` ? "descending" : "none";
        heads[at].setAttribute("aria-sort", order);
      });
      const shown = new Set();
      rows.forEach((row, at) => {
        const name = String(key(row));
        shown.add(name);
        let line = known.get(name);
        if (!line) {
          line = element("tr", {}, columns.map((column) => element("td", { class: column.number ? "number" : column.long ? "long" : undefined })));
          known.set(name, line);
        }
        columns.forEach((column, nth) => write(line.children[nth], column.cell(row)));
        if (body.children[at] !== line) body.insertBefore(line, body.children[at] ?? null);
      });
      for (const [name, line] of known) {
        if (!shown.has(name)) {
          line.remove();
          known.delete(name);
        }
      }
    },
  };
}

// Sorting by a column again turns its order.
export function turned(sort, name, numbers) {
  if (sort === name) return `-${name}`;
  if (sort === `-${name}`) return name;
  return numbers.has(name) ? `-${name}` : name;
}

// Buttons that go through a long list.
export function pager(moved) {
  const before = element("button", { type: "button", onclick: () => moved(-1) }, "Previous");
  const after = element("button", { type: "button", onclick: () => moved(1) }, "Next");
  const where = element("span", { class: "quiet" });
  return {
    node: element("div", { class: "tools" }, before, after, where),
    show(offset, shown, total) {
      before.disabled = offset === 0;
      after.disabled = offset + shown >= total;
      where.textContent = total === 0 ? "none" : `${offset + 1} to ${offset + shown} of ${total}`;
    },
  };
}

const told = (kind, text) => element("span", { class: kind, "data-mark": text }, text);

// What checks have found.
export function checks(caption) {
  return table(caption, [
    { title: "check", cell: (check) => check.name },
    { title: "state", cell: (check) => (check.ok ? "well" : check.fails ? told("bad", "fails: not ready") : told("warn", "noted: still ready")) },
    { title: "why", long: true, cell: (check) => mark(check.why) },
  ], (check) => check.name);
}

// Figures with their names; `show` takes them by name, and the class of those that have one.
export function facts() {
  const node = element("dl", { class: "facts" });
  const known = new Map();
  return {
    node,
    show(figures, classes = {}) {
      for (const [name, figure] of Object.entries(figures)) {
        let value = known.get(name);
        if (!value) {
          value = element("dd", { "data-fact": name });
          known.set(name, value);
          node.append(element("div", {}, element("dt", {}, name), value));
        }
        write(value, figure);
        value.className = classes[name] ?? "";
      }
      for (const [name, value] of known) value.parentNode.hidden = !(name in figures);
    },
  };
}
