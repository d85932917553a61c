// Open watches: by which client, of what, and how far each is.

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

// The column that names the program of a watch,
export const AGENT = { title: "agent", hint: "the client program", sort: "agent", long: true, cell: (row) => mark(row.agent) };
// those of its user and its resource,
export const WHOSE = [
  { title: "user", sort: "user", line: true, cell: (row) => mark(row.user, row.impersonator && [", by ", row.impersonator]) },
  { title: "resource", sort: "resource", cell: (row) => `${row.resource}${row.group ? `.${row.group}` : ""} ${row.version}` },
];
// and what it asks for, and from where.
export const WHAT = [
  { title: "scope", hint: "the namespace or name, and selectors", long: true, cell: scope },
  { title: "address", sort: "address", more: true, cell: (row) => row.address },
];

export function start(main, parameters) {
  const question = element("p");
  const yes = element("button", { type: "button" }, "End watch");
  const no = element("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const dialog = element("dialog", { "aria-label": "End a watch" }, question, element("div", { class: "tools" }, yes, no));
  const watches = list("watches", parameters, {
    sort: "-lag",
    numbers: NUMBERS,
    label: "user, agent, address, resource or selector contains",
    key: (row) => row.id,
    columns: [
      AGENT,
      { title: "lag", hint: "events that were not sent to it yet", sort: "lag", number: true, cell: (row) => (row.lag ? `${row.lag.atMost && row.lag.events ? "≤ " : ""}${count(row.lag.events)}` : "–") },
      { title: "behind", hint: "age of the oldest event that was not sent yet", number: true, cell: (row) => (row.lag ? seconds(row.lag.seconds) : "–") },
      { title: "state", hint: "initial: current objects are sent; replaying: events from history; live: events as they happen", cell: (row) => row.phase },
      ...WHOSE,
      { title: "unread", hint: "bytes that its client has not read, over all streams of its connection", sort: "unread", number: true, cell: (row) => bytes(row.connectionUnreadBytes) },
      { title: "fell behind", hint: "how often it was so slow that it was served from history again", sort: "fellBehind", number: true, more: true, cell: (row) => count(row.fellBehind) },
      ...WHAT,
      { title: "number", sort: "id", number: true, more: true, cell: (row) => plain(row.id) },
      { title: "since", sort: "since", more: true, cell: (row) => date(row.since) },
      { title: "form", hint: "the encoding of its events", more: true, cell: (row) => row.form },
      { title: "revision", hint: "everything up to this revision was sent", sort: "revision", number: true, more: true, cell: (row) => plain(row.revision) },
      { title: "events sent", sort: "events", number: true, more: true, cell: (row) => count(row.events) },
      { title: "bytes sent", sort: "bytes", number: true, more: true, cell: (row) => bytes(row.bytes) },
      { title: "end", cell: (row) => element("button", { type: "button", "data-mark": row.id, "aria-label": `End watch ${row.id}`, onclick: () => sure(row) }, "End") },
    ],
    told: ({ items, open, total }) => ({ items, caption: open === total ? `Open watches: ${count(open)}` : `Open watches: ${count(open)}, of which ${count(total)} match` }),
  });
  fill(main, element("h2", {}, "Watches"), watches.nodes, dialog);

  function sure(row) {
    fill(question, "End watch ", String(row.id), " of ", foreign(row.user), ` on ${row.resource}? It ends as at its timeout: its client resumes where it was.`);
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
