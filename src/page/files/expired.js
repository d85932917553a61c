// Watches that were answered 410, and by how many revisions each was too late.

import { element, fill } from "./dom.js";
import { count, date, plain } from "./format.js";
import { list } from "./list.js";
import { AGENT, WHAT, WHOSE } from "./watches.js";

export const title = "Expired";

const NUMBERS = new Set(["at", "revision", "missed", "id"]);

export function start(main, parameters) {
  const expired = list("expired-watches", parameters, {
    sort: "-id",
    numbers: NUMBERS,
    label: "user, agent, address, resource or selector contains",
    key: (row) => row.id,
    columns: [
      AGENT,
      { title: "missed", hint: "revisions between its own and the oldest that history has", sort: "missed", number: true, cell: (row) => count(row.missed) },
      { title: "at", sort: "at", cell: (row) => date(row.at) },
      ...WHOSE,
      { title: "asked for", hint: "the revision that it wanted to resume from", sort: "revision", number: true, cell: (row) => plain(row.revision) },
      { title: "history from", hint: "the oldest revision that it could have resumed from", number: true, cell: (row) => plain(row.floor) },
      { title: "when", cell: (row) => (row.when === "open" ? "while open: too slow, or history was lost" : "at its start") },
      ...WHAT,
    ],
    told: ({ items, ever, kept, total }) => ({ items, caption: `Watches answered 410: ${count(ever)}${ever > kept ? `; the last ${count(kept)} are listed` : ""}${total < kept ? `; ${count(total)} match` : ""}` }),
  });
  fill(main, element("h2", {}, "Expired watches"), element("p", {}, "Each was answered 410 (Expired), and its client had to list again. If many missed only a few revisions, the history of that resource is too short: ", element("a", { href: "#resources?sort=-gone" }, "resources"), "."), expired.nodes);
  return expired;
}
