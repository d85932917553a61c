// Each resource.

import { element, fill, mark } from "./dom.js";
import { bytes, count, date, plain, rate, seconds } from "./format.js";
import { list } from "./list.js";

export const title = "Resources";

const NUMBERS = new Set(["objects", "bytes", "ringEvents", "ringBytes", "watches", "groups", "eventsReceived", "eventsSent", "requests", "lists", "gone", "handedOn"]);
const KNOWN_MAX = 2000;

export function start(main, parameters) {
  const before = new Map();
  const name = (row) => `${row.name} ${row.converted ? row.versions.join() : ""}`;
  const resources = list("resources", parameters, {
    sort: "-objects",
    numbers: NUMBERS,
    label: "resource, group or kind contains",
    key: name,
    columns: [
      { title: "resource", sort: "name", cell: (row) => row.name },
      { title: "watches", hint: "open watches; the link shows them", sort: "watches", number: true, cell: watched },
      { title: "410", hint: "lists and watches from a revision that history no longer reaches back to", sort: "gone", number: true, cell: (row) => count(row.counters.requests.gone + row.counters.watchesTooOld) },
      { title: "cut", hint: "watches that ended because they were slower than history is long", number: true, cell: (row) => count(row.counters.watchesCut) },
      { title: "resume from", hint: "the oldest revision that a watch can go on from", number: true, cell: (row) => plain(row.ring.floor) },
      { title: "oldest event", hint: "for how long a client may be away", number: true, cell: (row) => seconds(row.ring.oldestAgeSeconds) },
      { title: "history: events", sort: "ringEvents", number: true, cell: (row) => count(row.ring.events) },
      { title: "history: size", sort: "ringBytes", number: true, cell: (row) => bytes(row.ring.bytes) },
      { title: "events/s in", sort: "eventsReceived", number: true, cell: (row) => rate(row.received) },
      { title: "events/s out", hint: "sent to watches", sort: "eventsSent", number: true, cell: (row) => rate(row.sent) },
      { title: "requests/s", sort: "requests", number: true, cell: (row) => rate(row.asked) },
      { title: "lists: memory", hint: "lists that memory has answered", sort: "lists", number: true, cell: (row) => count(row.counters.listsFromMemory) },
      { title: "lists: etcd", hint: "lists that etcd was asked for", number: true, cell: (row) => count(row.counters.listsFromEtcd) },
      { title: "objects", sort: "objects", number: true, cell: (row) => count(row.objects) },
      { title: "size", sort: "bytes", number: true, cell: (row) => bytes(row.bytes) },
      { title: "revision", number: true, cell: (row) => plain(row.revision) },
      { title: "age", hint: "how old what memory has may be", number: true, cell: (row) => seconds(row.ageSeconds) },
      { title: "groups", hint: "watches that ask for the same share one", sort: "groups", number: true, cell: (row) => count(row.groups) },
      { title: "versions", cell: (row) => row.versions.join(", ") + (row.converted ? " (converted)" : "") },
      { title: "indexes", hint: "labels and fields that selectors ask for often", long: true, cell: (row) => row.indexes.join(", ") },
      { title: "state", sort: "handedOn", long: true, cell: (row) => mark(state(row)) },
    ],
    told(answer) {
      if (before.size > KNOWN_MAX) before.clear();
      const at = performance.now();
      return { items: answer.items.map((row) => withRates(row, at)), caption: `Resources: ${count(answer.total)}` };
    },
  });
  fill(main, element("h2", {}, "Resources"), resources.nodes);

  function withRates(row, at) {
    const was = before.get(name(row));
    const passed = was ? (at - was.at) / 1000 : 0;
    const grown = (now, then) => (passed > 0 && passed < 15 ? Math.max(0, (now - then) / passed) : undefined);
    const { eventsReceived, eventsSent, requests } = row.counters;
    before.set(name(row), { at, received: eventsReceived, sent: eventsSent, asked: requests.all });
    return { ...row, received: was && grown(eventsReceived, was.received), sent: was && grown(eventsSent, was.sent), asked: was && grown(requests.all, was.asked) };
  }

  return resources;
}

function watched(row) {
  const open = count(row.watches);
  return row.watches ? element("a", { href: `#watches?filter=${encodeURIComponent(row.name.split(".")[0])}`, "data-mark": open, "aria-label": `${open} watches of ${row.name}` }, open) : open;
}

function state(row) {
  const told = [
    row.handedOn ? `handed on: ${row.handedOn}` : row.ready ? "ready" : "not loaded",
    row.undecodable ? `${count(row.undecodable)} unreadable` : "",
    row.note || "",
    row.lastFault && (row.handedOn || !row.ready) ? `${date(row.lastFault.at)}: ${row.lastFault.why}` : "",
  ].filter(Boolean);
  return told.join("; ");
}
