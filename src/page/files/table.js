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

// Tables of which the user wants all columns, by caption, while the page is open.
const ALL = new Set();

// `columns`: { title, hint, sort, number, long, line, more, cell(row) }, where a cell is a text or an element, `hint` a tooltip, `line` a text that stays on one line, and `more` a
// column that is hidden until the user wants all of them. `sorted(name)`: the user wants this order. What does not fit is scrolled; a sign says that there is more.
export function table(caption, columns, key, sorted) {
  const label = element("caption", {}, caption);
  const heads = columns.map((column) => {
    const inside = column.sort && sorted ? element("button", { type: "button", onclick: () => sorted(column.sort) }, column.title) : column.title;
    return element("th", { scope: "col", class: kind(column), title: column.hint }, inside);
  });
  const body = element("tbody");
  const known = new Map();
  const whole = element("table", {}, label, element("thead", {}, element("tr", {}, heads)), body);
  const scroller = element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption, onscroll: look }, whole);
  const hidden = columns.filter((column) => column.more).length;
  const toggle = element("input", { type: "checkbox", onchange: () => all(toggle.checked) });
  const sign = element("span", { class: "sign", "aria-hidden": "true" }, "more columns: scroll →");
  const bar = element("div", { class: "bar" }, hidden ? element("label", { class: "line" }, toggle, `all columns (${hidden} more)`) : "", sign);
  const node = element("div", { class: "table" }, bar, scroller);
  if (ALL.has(caption)) all(true);
  new ResizeObserver(look).observe(scroller);

  function look() {
    node.classList.toggle("is-cut", scroller.scrollWidth - scroller.clientWidth - scroller.scrollLeft > 2);
    node.classList.toggle("has-more", hidden > 0 || scroller.scrollWidth - scroller.clientWidth > 2);
  }

  function all(wanted) {
    if (wanted) ALL.add(caption);
    else ALL.delete(caption);
    toggle.checked = wanted;
    node.classList.toggle("all", wanted);
    look();
  }

  return {
    node,
    show(rows, { sort, caption: text } = {}) {
      if (text !== undefined) label.textContent = text;
      if (columns.some((column) => column.more && column.sort && (sort === column.sort || sort === `-${column.sort}`)) && !toggle.checked) all(true);
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
          line = element("tr", {}, columns.map((column) => element("td", { class: kind(column) })));
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
      look();
    },
  };
}

function kind(column) {
  const kinds = [column.number ? "number" : column.line ? "oneline" : column.long ? "long" : "", column.more ? "more" : ""].filter(Boolean);
  return kinds.length ? kinds.join(" ") : undefined;
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

// The results of checks.
export function checks(caption) {
  return table(caption, [
    { title: "check", cell: (check) => check.name },
    { title: "state", cell: (check) => (check.ok ? "ok" : check.fails ? told("bad", "failed: not ready") : told("warn", "warning: still ready")) },
    { title: "why", long: true, cell: (check) => mark(check.why) },
  ], (check) => check.name);
}

// Figures with their names; `show` takes them by name, and the class of those that have one.
export function facts(kind = "") {
  const node = element("dl", { class: `facts ${kind}`.trim() });
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
