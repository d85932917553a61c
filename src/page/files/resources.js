// Each resource.

import { element, field, fill } from "./dom.js";
import { bytes, count, plain, rate, seconds } from "./format.js";
import { get, same } from "./server.js";
import { pager, table, turned } from "./table.js";

export const title = "Resources";

const LIMIT = 100;
const NUMBERS = new Set(["objects", "bytes", "ringEvents", "ringBytes", "watches", "groups", "eventsReceived", "eventsSent", "requests", "lists", "gone"]);

export function start(main, parameters) {
  let sort = parameters.get("sort") || "-objects";
  let filter = parameters.get("filter") || "";
  let offset = 0;
  let total = 0;
  let asking = null;
  let ticks = 0;
  const before = new Map();
  const wrong = element("p", { class: "bad", role: "alert" });
  const code = element("code");
  const search = element("input", { type: "search", value: filter, oninput: () => { filter = search.value; offset = 0; ask(); } });
  const pages = pager((way) => { offset = Math.max(0, offset + way * LIMIT); ask(); });
  const rows = table("Resources", [
    { title: "resource", sort: "name", cell: (row) => row.name },
    { title: "versions", cell: (row) => row.versions.join(", ") + (row.converted ? " (converted)" : "") },
    { title: "objects", sort: "objects", number: true, cell: (row) => count(row.objects) },
    { title: "size", sort: "bytes", number: true, cell: (row) => bytes(row.bytes) },
    { title: "revision", number: true, cell: (row) => plain(row.revision) },
    { title: "age", number: true, cell: (row) => seconds(row.ageSeconds) },
    { title: "history: events", sort: "ringEvents", number: true, cell: (row) => count(row.ring.events) },
    { title: "history: size", sort: "ringBytes", number: true, cell: (row) => bytes(row.ring.bytes) },
    { title: "resume from", number: true, cell: (row) => plain(row.ring.floor) },
    { title: "oldest event", number: true, cell: (row) => seconds(row.ring.oldestAgeSeconds) },
    { title: "watches", sort: "watches", number: true, cell: (row) => count(row.watches) },
    { title: "groups", sort: "groups", number: true, cell: (row) => count(row.groups) },
    { title: "events/s in", sort: "eventsReceived", number: true, cell: (row) => rate(row.received) },
    { title: "events/s out", sort: "eventsSent", number: true, cell: (row) => rate(row.sent) },
    { title: "requests/s", sort: "requests", number: true, cell: (row) => rate(row.asked) },
    { title: "lists: memory", sort: "lists", number: true, cell: (row) => count(row.counters.listsFromMemory) },
    { title: "lists: etcd", number: true, cell: (row) => count(row.counters.listsFromEtcd) },
    { title: "410", sort: "gone", number: true, cell: (row) => count(row.counters.requests.gone + row.counters.watchesTooOld) },
    { title: "cut", number: true, cell: (row) => count(row.counters.watchesCut) },
    { title: "indexes", long: true, cell: (row) => row.indexes.join(", ") },
    { title: "state", cell: (row) => (!row.ready ? "not loaded" : row.undecodable ? `${row.undecodable} unreadable` : row.note || "ready") },
  ], (row) => `${row.name} ${row.converted ? row.versions.join() : ""}`, (name) => { sort = turned(sort, name, NUMBERS); offset = 0; ask(); });
  fill(
    main,
    element("h2", {}, "Resources"),
    element("div", { class: "tools" }, field("resource, group or kind contains", search), pages.node),
    wrong,
    rows.node,
    element("p", { class: "same" }, "The same: ", code),
  );
  ask();

  function withRates(row, at) {
    const name = `${row.name} ${row.converted ? row.versions.join() : ""}`;
    const was = before.get(name);
    const passed = was ? (at - was.at) / 1000 : 0;
    const grown = (now, then) => (passed > 0 && passed < 15 ? Math.max(0, (now - then) / passed) : undefined);
    const told = {
      ...row,
      received: was && grown(row.counters.eventsReceived, was.received),
      sent: was && grown(row.counters.eventsSent, was.sent),
      asked: was && grown(row.counters.requests.all, was.asked),
    };
    before.set(name, { at, received: row.counters.eventsReceived, sent: row.counters.eventsSent, asked: row.counters.requests.all });
    return told;
  }

  async function ask() {
    asking?.abort();
    const mine = (asking = new AbortController());
    const path = `resources?${new URLSearchParams({ sort, filter, offset, limit: LIMIT })}`;
    code.textContent = same(path);
    try {
      const answer = await get(path, mine.signal);
      wrong.textContent = "";
      total = answer.total;
      if (before.size > 2000) before.clear();
      const at = performance.now();
      rows.show(answer.items.map((row) => withRates(row, at)), { sort, caption: `Resources: ${total}` });
      pages.show(answer.offset, answer.items.length, total);
    } catch (error) {
      if (!mine.signal.aborted) wrong.textContent = error.message;
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
