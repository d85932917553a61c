// Whose watches were answered 410, and by how much each came too late.

import { element, fill } from "./dom.js";
import { count, date, plain } from "./format.js";
import { list } from "./list.js";
import { WHAT, WHOSE } from "./watches.js";

export const title = "Too late";

const NUMBERS = new Set(["at", "revision", "missed", "id"]);

export function start(main, parameters) {
  const expired = list("expired-watches", parameters, {
    sort: "-id",
    numbers: NUMBERS,
    label: "user, agent, address, resource or selector contains",
    key: (row) => row.id,
    columns: [
      { title: "at", sort: "at", cell: (row) => date(row.at) },
      ...WHOSE,
      { title: "had seen", hint: "the revision that it wanted to go on from", sort: "revision", number: true, cell: (row) => plain(row.revision) },
      { title: "history from", hint: "the oldest revision that it could have gone on from", number: true, cell: (row) => plain(row.floor) },
      { title: "missed", hint: "revisions between the two", sort: "missed", number: true, cell: (row) => count(row.missed) },
      { title: "when", cell: (row) => (row.when === "open" ? "while open: it was slow, or history was lost" : "when it began") },
      ...WHAT,
    ],
    told: ({ items, ever, kept, total }) => ({ items, caption: `${count(ever)} watches were answered 410${ever > kept ? `, the last ${count(kept)} are kept` : ""}${total < kept ? `, ${count(total)} of them match` : ""}` }),
  });
  fill(main, element("h2", {}, "Watches that came too late"), element("p", {}, "Each was answered 410, and its client has listed anew. Where many missed little, the history of the resource is too short for them: ", element("a", { href: "#resources?sort=-gone" }, "resources"), "."), expired.nodes);
  return expired;
}
