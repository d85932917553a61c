// The history of an object: its states, the managers that wrote them, and the difference between any two.

import { difference, folded } from "./diff.js";
import { element, field, fill, foreign, visible } from "./dom.js";
import { finder } from "./finder.js";
import { bytes, date, plain, revision } from "./format.js";
import { get, same } from "./server.js";
import { table } from "./table.js";

export const title = "Object";

// A member of an object in JSON, or an element of a list, whose texts are written from right to left: each of them by itself, so that they do not change places.
const FROM_RIGHT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const MEMBER = /^(\s*)("(?:[^"\\]|\\.)*")(: )?(.*?)(,?)$/;

function parts(line) {
  const found = FROM_RIGHT.test(line) && line.match(MEMBER);
  if (!found) return [visible(line)];
  const [, indent, name, colon = "", value, comma] = found;
  return [indent, foreign(name), colon, foreign(value), comma];
}

export function start(main, parameters) {
  const input = element("input", { type: "text", name: "path", size: 60, required: true, spellcheck: "false", autocomplete: "off", placeholder: "a name, such as web, or a path", value: parameters.get("path") || "" });
  const manages = element("input", { type: "checkbox", onchange: () => compare() });
  const told = element("p", { role: "status" });
  const code = element("code");
  const codeOfState = element("code");
  const shown = element("div");
  const diff = element("pre", { class: "diff", tabindex: 0, "aria-label": "Difference" });
  const compared = element("h3", { hidden: true }, "Difference");
  const choices = { from: null, to: null };
  let path = "";
  let next = null;
  let items = [];
  let asking = null;
  const more = element("button", { type: "button", hidden: true, onclick: () => ask(next) }, "Older");
  const choose = (which) => ({
    title: which === "from" ? "from" : "to",
    cell: (row) => (row.type === "DELETED" || !isObject() ? "" : element("input", { type: "radio", name: which, value: row.revision, "data-mark": `${which}${row.revision}${choices[which]}`, checked: choices[which] === row.revision, "aria-label": `compare ${which} revision ${row.revision}`, onchange: () => { choices[which] = row.revision; compare(); } })),
  });
  const search = finder(input, "object", true);
  path = address();
  const rows = table("States", [
    ...(isObject() ? [choose("from"), choose("to")] : [{ title: "object", long: true, cell: (row) => link(row) }]),
    { title: "change", cell: (row) => ({ ADDED: "created", MODIFIED: "changed", DELETED: "deleted", STATE: "earlier state" })[row.type] },
    { title: "manager", hint: "the owner of the changed fields in managedFields; empty if it is not known", long: true, cell: (row) => (row.manager ? foreign(row.subresource ? `${row.manager} (${row.subresource})` : row.manager, { "data-mark": row.manager }) : "") },
    { title: "time", hint: "when this server saw the change", cell: (row) => date(row.at) },
    { title: "revision", number: true, cell: (row) => plain(row.revision) },
    { title: "operation", cell: (row) => row.operation || "" },
    { title: "manager's time", hint: "the time in managedFields", cell: (row) => (row.managerTime ? date(Date.parse(row.managerTime)) : "") },
    { title: "size", number: true, cell: (row) => bytes(row.bytes) },
  ], (row) => `${row.revision} ${row.namespace}/${row.name} ${row.type}`);
  fill(
    main,
    element("h2", {}, "Object"),
    element("form", { onsubmit: (event) => { event.preventDefault(); location.hash = `object?${new URLSearchParams({ path: search.path() })}`; } },
      field("name or path of an object or a collection", input), element("button", {}, "Show history"), element("label", { class: "line" }, manages, "with managedFields")),
    told,
    search.node,
    shown,
  );
  if (input.value) ask(null);

  function address() {
    const text = input.value.trim();
    return text.startsWith("/") ? text : `/${text}`;
  }

  // A path with a name at its end: `/api/v1/…` has the resource at its third or fifth part, `/apis/G/V/…` one later.
  function isObject() {
    const parts = path.split("/").filter(Boolean).slice(path.startsWith("/apis/") ? 3 : 2);
    return parts[0] === "namespaces" && parts.length > 2 ? parts.length === 4 : parts.length === 2;
  }

  function link(row) {
    const name = row.namespace ? `${row.namespace}/${row.name}` : row.name;
    if (isObject()) return foreign(name, { "data-mark": name });
    const parts = path.replace(/\/+$/, "").split("/").map(decodeURIComponent);
    const plural = parts[parts.length - 1];
    const base = path.startsWith("/apis/") ? parts.slice(0, 4) : parts.slice(0, 3);
    const to = [...base, ...(row.namespace ? ["namespaces", row.namespace] : []), plural, row.name].map(encodeURIComponent).join("/");
    return element("a", { href: `#object?${new URLSearchParams({ path: to })}`, "data-mark": name }, foreign(name));
  }

  async function ask(before) {
    asking?.abort();
    const mine = (asking = new AbortController());
    path = address();
    const asked = `history${path}${before === null ? "" : `?before=${before}`}`;
    told.className = "";
    told.textContent = "…";
    try {
      const answer = await get(asked, mine.signal);
      items = before === null ? answer.items : [...items, ...answer.items];
      next = answer.before;
      more.hidden = next === null;
      code.textContent = same(asked);
      const states = items.filter((item) => item.type !== "DELETED");
      if (before === null) [choices.to, choices.from] = [states[0]?.revision ?? null, states[1]?.revision ?? null];
      rows.show(items, { caption: `History starts at revision ${revision(answer.floor)}; memory is at ${revision(answer.revision)}.` });
      told.textContent = items.length ? "" : "History has no change of it.";
      fill(shown, rows.node, element("div", { class: "tools" }, more), compared, diff, element("p", { class: "same" }, "As JSON: ", code, codeOfState));
      await compare();
    } catch (error) {
      if (mine.signal.aborted) return;
      fill(shown);
      told.className = "bad";
      told.textContent = error.message;
    }
  }

  async function compare() {
    compared.hidden = diff.hidden = !isObject() || choices.to === null;
    codeOfState.textContent = "";
    if (diff.hidden) return;
    const signal = asking?.signal;
    const state = async (revision) => (revision === null ? "" : text(await get(`history${path}?revision=${revision}`, signal)));
    try {
      const [before, after] = [await state(choices.from), await state(choices.to)];
      if (signal?.aborted) return;
      codeOfState.textContent = same(`history${path}?revision=${choices.to}`);
      const lines = folded(difference(before, after));
      const kinds = { "+": "added", "-": "removed", "…": "skipped" };
      fill(diff, lines.map(([kind, line]) => element("span", { class: kinds[kind] }, kind === "…" ? `… ${line} equal lines` : [`${kind} `, ...parts(line)])));
      if (!lines.some(([kind]) => kind === "+" || kind === "-")) fill(diff, element("span", { class: "skipped" }, "No difference."));
    } catch (error) {
      if (!signal?.aborted) fill(diff, element("span", {}, error.message));
    }
  }

  function text(object) {
    if (!manages.checked) delete object.metadata?.managedFields;
    return JSON.stringify(object, null, 2);
  }

  return {
    stop() {
      search.stop();
      asking?.abort();
    },
  };
}
