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

function state(row) {
  const told = [
    row.handedOn ? `handed on: ${row.handedOn}` : row.ready ? "ready" : "not loaded",
    row.undecodable ? `${count(row.undecodable)} unreadable` : "",
    row.note || "",
    row.lastFault && (row.handedOn || !row.ready) ? `${date(row.lastFault.at)}: ${row.lastFault.why}` : "",
  ].filter(Boolean);
  return told.join("; ");
}
