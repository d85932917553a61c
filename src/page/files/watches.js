// Who watches what, and how far each is.

import { element, fill, foreign, mark } from "./dom.js";
import { bytes, count, date, plain, seconds } from "./format.js";
import { list } from "./list.js";
import { remove } from "./server.js";

export const title = "Watches";

const NUMBERS = new Set(["since", "lag", "events", "bytes", "unread", "fellBehind", "revision", "id"]);

// What of a resource a watch asks for.
function scope(row) {
  const parts = [row.name || row.namespace ? [row.namespace, row.name].filter(Boolean).join("/") : "everything"];
  if (row.labelSelector) parts.push("; labels ", row.labelSelector);
  if (row.fieldSelector) parts.push("; fields ", row.fieldSelector);
  return mark(...parts);
}

// The columns that tell whose a watch is,
export const WHOSE = [
  { title: "user", sort: "user", long: true, cell: (row) => mark(row.user, row.impersonator && [", by ", row.impersonator]) },
  { title: "agent", sort: "agent", long: true, cell: (row) => mark(row.agent) },
  { title: "resource", sort: "resource", cell: (row) => `${row.resource}${row.group ? `.${row.group}` : ""} ${row.version}` },
];
// and what it asks for, and from where.
export const WHAT = [
  { title: "scope", hint: "the namespace or name, and selectors", long: true, cell: scope },
  { title: "address", sort: "address", cell: (row) => row.address },
];

export function start(main, parameters) {
  const question = element("p");
  const yes = element("button", { type: "button" }, "End it");
  const no = element("button", { type: "button", onclick: () => dialog.close() }, "Leave it");
  const dialog = element("dialog", { "aria-label": "End a watch" }, question, element("div", { class: "tools" }, yes, no));
  const watches = list("watches", parameters, {
    sort: "-lag",
    numbers: NUMBERS,
    label: "user, agent, address, resource or selector contains",
    key: (row) => row.id,
    columns: [
      { title: "number", sort: "id", number: true, cell: (row) => plain(row.id) },
      ...WHOSE,
      { title: "state", hint: "initial: the objects that are there; replaying: from history; live: as it happens", cell: (row) => row.phase },
      { title: "events to come", hint: "events that have happened and were not sent to it", sort: "lag", number: true, cell: (row) => (row.lag ? `${row.lag.atMost && row.lag.events ? "≤ " : ""}${count(row.lag.events)}` : "–") },
      { title: "behind", hint: "how old the oldest of them is", number: true, cell: (row) => (row.lag ? seconds(row.lag.seconds) : "–") },
      { title: "unread", hint: "bytes that its client has not read, of all streams of its connection", sort: "unread", number: true, cell: (row) => bytes(row.connectionUnreadBytes) },
      { title: "fell behind", hint: "how often it was so slow that it went back to history", sort: "fellBehind", number: true, cell: (row) => count(row.fellBehind) },
      ...WHAT,
      { title: "since", sort: "since", cell: (row) => date(row.since) },
      { title: "form", hint: "how its events are written", cell: (row) => row.form },
      { title: "revision", hint: "everything up to here was sent", sort: "revision", number: true, cell: (row) => plain(row.revision) },
      { title: "sent", sort: "events", number: true, cell: (row) => count(row.events) },
      { title: "size", sort: "bytes", number: true, cell: (row) => bytes(row.bytes) },
      { title: "end", cell: (row) => element("button", { type: "button", "data-mark": row.id, "aria-label": `End watch ${row.id}`, onclick: () => sure(row) }, "End") },
    ],
    told: ({ items, open, total }) => ({ items, caption: open === total ? `${count(open)} watches are open` : `${count(open)} watches are open, ${count(total)} of them match` }),
  });
  fill(main, element("h2", {}, "Watches"), watches.nodes, dialog);

  function sure(row) {
    fill(question, "End watch ", String(row.id), " of ", foreign(row.user), ` on ${row.resource}? It ends as if its time were over: its client goes on where it was.`);
    yes.onclick = async () => {
      dialog.close();
      try {
        await remove(`watches/${row.id}`);
        watches.tell(`Watch ${row.id} was ended.`);
      } catch (error) {
        watches.tell(error.message, "bad");
      }
      watches.ask();
    };
    dialog.showModal();
  }

  return watches;
}
