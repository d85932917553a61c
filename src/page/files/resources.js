// Each resource.

import { element, fill, mark } from "./dom.js";
import { bytes, count, date, rate, revision, seconds } from "./format.js";
import { list } from "./list.js";

export const title = "Resources";

const NUMBERS = new Set(["objects", "bytes", "ringEvents", "ringBytes", "watches", "groups", "eventsReceived", "eventsSent", "requests", "lists", "gone", "forwarded"]);
const KNOWN_MAX = 2000;

export function start(main, parameters) {
  const idle = element("input", { type: "checkbox", checked: parameters.get("idle") === "true", onchange: () => resources.again() });
  const left = element("span", {}, "idle resources");
  const before = new Map();
  const name = (row) => `${row.name} ${row.converted ? row.versions.join() : ""}`;
  const resources = list("resources", parameters, {
    sort: "-objects",
    numbers: NUMBERS,
    label: "resource, group or kind contains",
    key: name,
    // A filter finds idle ones, too.
    more: (filter) => ({ idle: idle.checked || filter !== "" }),
    tools: [element("label", { class: "line", title: "without objects, history, watches, requests and faults" }, idle, left)],
    columns: [
      { title: "resource", sort: "name", line: true, cell: (row) => row.name },
      { title: "objects", sort: "objects", number: true, cell: (row) => count(row.objects) },
      { title: "size", sort: "bytes", number: true, cell: (row) => bytes(row.bytes) },
      { title: "watches", hint: "open watches; the link shows them", sort: "watches", number: true, cell: watched },
      { title: "requests/s", sort: "requests", number: true, cell: (row) => rate(row.asked) },
      { title: "events/s in", hint: "received from the source", sort: "eventsReceived", number: true, cell: (row) => rate(row.received) },
      { title: "events/s out", hint: "sent to watches", sort: "eventsSent", number: true, cell: (row) => rate(row.sent) },
      { title: "410", hint: "lists and watches from a revision that is older than history", sort: "gone", number: true, cell: (row) => count(row.counters.requests.gone + row.counters.watchesTooOld) },
      { title: "cut", hint: "watches that ended because their clients were too slow", number: true, more: true, cell: (row) => count(row.counters.watchesCut) },
      { title: "oldest event", hint: "how long a client may be away and still resume", number: true, cell: (row) => seconds(row.ring.oldestAgeSeconds) },
      { title: "history size", hint: "bytes that history adds to the current objects", sort: "ringBytes", number: true, cell: (row) => bytes(row.ring.bytes) },
      { title: "state", sort: "forwarded", long: true, cell: (row) => mark(state(row)) },
      { title: "history events", sort: "ringEvents", number: true, more: true, cell: (row) => count(row.ring.events) },
      { title: "resume from", hint: "the oldest revision that a watch can resume from", number: true, more: true, cell: (row) => revision(row.ring.floor) },
      { title: "revision", number: true, more: true, cell: (row) => revision(row.revision) },
      { title: "age", hint: "how old the objects in memory may be", number: true, more: true, cell: (row) => seconds(row.ageSeconds) },
      { title: "lists: memory", hint: "lists answered from memory", sort: "lists", number: true, more: true, cell: (row) => count(row.counters.listsFromMemory) },
      { title: "lists: etcd", hint: "lists read from the store", number: true, more: true, cell: (row) => count(row.counters.listsFromEtcd) },
      { title: "groups", hint: "watches with the same question share a group", sort: "groups", number: true, more: true, cell: (row) => count(row.groups) },
      { title: "versions", more: true, cell: (row) => row.versions.join(", ") + (row.converted ? " (converted)" : "") },
      { title: "indexes", hint: "labels and fields that selectors ask for often", long: true, more: true, cell: (row) => row.indexes.join(", ") },
    ],
    told(answer) {
      if (before.size > KNOWN_MAX) before.clear();
      const at = performance.now();
      left.textContent = answer.idle ? `idle resources (${count(answer.idle)} hidden)` : "idle resources";
      return { items: answer.items.map((row) => withRates(row, at)), caption: `Resources: ${count(answer.total)}${answer.idle ? `; ${count(answer.idle)} idle ones are hidden` : ""}` };
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
    row.forwarded ? `forwarded: ${row.forwarded}` : row.ready ? "ready" : row.lastFault ? "not loaded" : "not followed",
    row.undecodable ? `${count(row.undecodable)} unreadable` : "",
    row.note || "",
    row.lastFault && (row.forwarded || !row.ready) ? `${date(row.lastFault.at)}: ${row.lastFault.why}` : "",
  ].filter(Boolean);
  return told.join("; ");
}
