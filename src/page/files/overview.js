// The server as a whole.

import { element, fill, mark } from "./dom.js";
import { bytes, cores, count, date, plain, rate, seconds, time } from "./format.js";
import { plot } from "./plot.js";
import { same } from "./server.js";
import { checks, facts, table } from "./table.js";

export const title = "Overview";

const HOLDERS = {
  objects: "objects",
  rings: "history: its events, with the objects that they name",
  schemas: "schemas by which custom resources are read",
  store: "embedded store: pages and the last revisions, at most",
  groupLogs: "events that wait in groups of watches",
  compressedLists: "compressed pieces of lists",
  watches: "watches, as --watches-bytes-limit counts them",
  watchFilters: "selectors of watches",
  unread: "answers that clients have not read",
  requestHeads: "heads of requests",
  requestBodies: "bodies of requests",
};

export function start(main, _, past) {
  const figures = facts();
  const requests = plot("Requests a second", [{ title: "answered", tell: rate }, { title: "failed, refused or too old (410)", tell: rate }], rate);
  const events = plot("Events a second", [{ title: "received", tell: rate }, { title: "sent to watches", tell: rate }], rate);
  const age = plot("Behind", [{ title: "seconds", tell: seconds }], rate);
  const cpu = plot("CPU", [{ title: "cores", tell: cores }], cores);
  const memory = plot("Memory", [{ title: "resident", tell: bytes }, { title: "objects", tell: bytes }, { title: "history", tell: bytes }], bytes);
  const watches = plot("Watches", [{ title: "open", tell: count }, { title: "groups", tell: count }], count);
  const plots = [requests, events, age, cpu, memory, watches];
  const found = checks("What makes the server ready");
  const feeds = table("Where objects come from", [
    { title: "feed", cell: (feed) => String(feed.nth + 1) },
    { title: "revision", number: true, cell: (feed) => plain(feed.revision) },
    { title: "age", number: true, cell: (feed) => seconds(feed.ageSeconds) },
    { title: "state", cell: (feed) => (feed.behind ? "behind" : "follows") },
    { title: "last fault", long: true, cell: (feed) => mark(feed.lastFault && `${date(feed.lastFault.at)}: ${feed.lastFault.why}`) },
    { title: "note", long: true, cell: (feed) => mark(feed.note) },
  ], (feed) => feed.nth);
  const holders = table("Memory, by what holds it", [
    { title: "what", long: true, cell: (holder) => holder.what },
    { title: "size", number: true, cell: (holder) => bytes(holder.bytes) },
  ], (holder) => holder.what);
  const cluster = element("p", { hidden: true });
  const cost = element("p", { class: "quiet" });
  fill(
    main,
    element("h2", {}, "Overview"),
    figures.node,
    element("div", { class: "plots" }, plots.map((one) => one.node)),
    element("h3", {}, "Readiness"), found.node,
    element("h3", {}, "Feed"), feeds.node,
    element("h3", {}, "Memory"), holders.node,
    cluster,
    cost,
    element("p", { class: "same" }, "The same: ", element("code", {}, same("overview"))),
  );

  return {
    tick(now) {
      figures.show({
        State: now.ready ? "ready" : "not ready",
        Revision: plain(now.revision),
        "Behind by": seconds(now.ageSeconds),
        Objects: count(now.objects),
        Resources: count(now.resources),
        Watches: count(now.watches),
        Groups: count(now.groups),
        Connections: count(Object.values(now.connections).reduce((a, b) => a + b, 0)),
        "Watches cut (too slow)": count(now.counters.watchesCut),
        "Watches too old (410)": count(now.counters.watchesTooOld),
        Server: now.role,
        Version: `${now.version} (${now.commit.slice(0, 10)})`,
      }, { State: now.ready ? "well" : "bad", "Behind by": now.behind ? "bad" : "" });
      const failed = (one) => one.counters.requests.failed + one.counters.requests.tooMany + one.counters.requests.gone + one.counters.watchesTooOld;
      requests.show(past.rates((one) => one.counters.requests.all, failed));
      events.show(past.rates((one) => one.counters.eventsReceived, (one) => one.counters.eventsSent));
      age.show(past.values((one) => one.ageSeconds));
      cpu.show(past.rates((one) => one.counters.cpuSeconds));
      memory.show(past.values((one) => one.memory.resident, (one) => one.memory.objects, (one) => one.memory.rings));
      watches.show(past.values((one) => one.watches, (one) => one.groups));
      found.show(now.checks);
      feeds.show(now.feeds.map((feed, nth) => ({ ...feed, nth })));
      const held = Object.entries(HOLDERS).map(([name, what]) => ({ what, bytes: now.memory[name] }));
      held.sort((a, b) => b.bytes - a.bytes);
      holders.show(held, { caption: `Memory, by what holds it: ${bytes(now.memory.resident)} resident${now.memory.budget ? ` of a budget of ${bytes(now.memory.budget)}` : ""}` });
      cluster.hidden = !now.upstream && !now.host;
      if (!cluster.hidden && !cluster.firstChild) fill(cluster, element("a", { href: "#cluster" }, now.upstream ? "What upstream was asked, and how it is" : "How the host cluster is"));
      cost.textContent = `At ${time(now.at)}; gathered in ${rate(now.gatheredInMicroseconds / 1000)} ms for ${now.viewers} who look.`;
    },
    stop() {
      plots.forEach((one) => one.stop());
    },
  };
}
