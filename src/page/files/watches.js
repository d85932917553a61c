// Who watches what, and how far each is.

import { element, field, fill, foreign } from "./dom.js";
import { bytes, count, date, plain, seconds } from "./format.js";
import { get, remove, same } from "./server.js";
import { pager, table, turned } from "./table.js";

export const title = "Watches";

const LIMIT = 100;
const NUMBERS = new Set(["since", "lag", "events", "bytes", "unread", "fellBehind", "revision", "id"]);

export function start(main, parameters) {
  let sort = parameters.get("sort") || "-lag";
  let filter = parameters.get("filter") || "";
  let offset = 0;
  let asking = null;
  let ticks = 0;
  const told = element("p", { role: "status" });
  const code = element("code");
  const search = element("input", { type: "search", value: filter, oninput: () => { filter = search.value; offset = 0; ask(); } });
  const pages = pager((way) => { offset = Math.max(0, offset + way * LIMIT); ask(); });
  const mark = (text) => (text ? foreign(text, { "data-mark": text }) : "");
  const rows = table("Watches", [
    { title: "number", sort: "id", number: true, cell: (row) => plain(row.id) },
    { title: "user", sort: "user", long: true, cell: (row) => mark(row.impersonator ? `${row.user}, by ${row.impersonator}` : row.user) },
    { title: "agent", sort: "agent", long: true, cell: (row) => mark(row.agent) },
    { title: "address", sort: "address", cell: (row) => row.address },
    { title: "resource", sort: "resource", cell: (row) => `${row.resource}${row.group ? `.${row.group}` : ""} ${row.version}` },
    { title: "of", long: true, cell: (row) => mark(scope(row)) },
    { title: "form", cell: (row) => row.form },
    { title: "since", sort: "since", cell: (row) => date(row.since) },
    { title: "state", cell: (row) => row.phase },
    { title: "revision", sort: "revision", number: true, cell: (row) => plain(row.revision) },
    { title: "lacks events", sort: "lag", number: true, cell: (row) => (row.lag ? `${row.lag.atMost && row.lag.events ? "≤ " : ""}${count(row.lag.events)}` : "–") },
    { title: "behind", number: true, cell: (row) => (row.lag ? seconds(row.lag.seconds) : "–") },
    { title: "sent", sort: "events", number: true, cell: (row) => count(row.events) },
    { title: "size", sort: "bytes", number: true, cell: (row) => bytes(row.bytes) },
    { title: "connection unread", sort: "unread", number: true, cell: (row) => bytes(row.connectionUnreadBytes) },
    { title: "fell behind", sort: "fellBehind", number: true, cell: (row) => count(row.fellBehind) },
    { title: "end", cell: (row) => element("button", { type: "button", "data-mark": row.id, "aria-label": `End watch ${row.id}`, onclick: () => sure(row) }, "End") },
  ], (row) => row.id, (name) => { sort = turned(sort, name, NUMBERS); offset = 0; ask(); });
  const question = element("p");
  const yes = element("button", { type: "button" }, "End it");
  const no = element("button", { type: "button", onclick: () => dialog.close() }, "Leave it");
  const dialog = element("dialog", { "aria-label": "End a watch" }, question, element("div", { class: "tools" }, yes, no));
  fill(
    main,
    element("h2", {}, "Watches"),
    element("div", { class: "tools" }, field("user, agent, address, resource or selector contains", search), pages.node),
    told,
    rows.node,
    dialog,
    element("p", { class: "same" }, "The same: ", code),
  );
  ask();

  function scope(row) {
    const parts = [row.name || row.namespace ? [row.namespace, row.name].filter(Boolean).join("/") : "everything"];
    if (row.labelSelector) parts.push(`labels ${row.labelSelector}`);
    if (row.fieldSelector) parts.push(`fields ${row.fieldSelector}`);
    return parts.join("; ");
  }

  function sure(row) {
    fill(question, "End watch ", String(row.id), " of ", foreign(row.user), ` on ${row.resource}? It ends as if its time were over: its client goes on where it was.`);
    yes.onclick = async () => {
      dialog.close();
      try {
        await remove(`watches/${row.id}`);
        told.className = "";
        told.textContent = `Watch ${row.id} was ended.`;
      } catch (error) {
        told.className = "bad";
        told.textContent = error.message;
      }
      ask();
    };
    dialog.showModal();
  }

  async function ask() {
    asking?.abort();
    const mine = (asking = new AbortController());
    const path = `watches?${new URLSearchParams({ sort, filter, offset, limit: LIMIT })}`;
    code.textContent = same(path);
    try {
      const answer = await get(path, mine.signal);
      rows.show(answer.items, { sort, caption: filter ? `${answer.open} watches are open, ${answer.total} of them match` : `${answer.open} watches are open` });
      pages.show(answer.offset, answer.items.length, answer.total);
    } catch (error) {
      if (!mine.signal.aborted) {
        told.className = "bad";
        told.textContent = error.message;
      }
    } finally {
      if (asking === mine) asking = null;
    }
  }

  return {
    tick() {
      ticks += 1;
      if (ticks % 2 === 0 && !asking) ask();
    },
    stop() {
      asking?.abort();
    },
  };
}
