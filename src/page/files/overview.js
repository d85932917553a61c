// The server as a whole: whether it is healthy, the three numbers that matter, and the rest.

import { element, fill, mark } from "./dom.js";
import { bytes, cores, count, date, plain, rate, revision, seconds, time } from "./format.js";
import { problems } from "./health.js";
import { plot } from "./plot.js";
import { same } from "./server.js";
import { checks, facts, table } from "./table.js";

export const title = "Overview";

const HOLDERS = {
  objects: "Current objects",
  rings: "History: events and the objects that they replaced",
  schemas: "Schemas of custom resources",
  store: "Embedded store: page cache and recent revisions (upper bound)",
  groupLogs: "Events queued for watches",
  compressedLists: "Compressed parts of lists",
  watches: "Open watches (--watches-bytes-limit)",
  watchFilters: "Selectors of watches",
  unread: "Responses that clients have not read",
  requestHeads: "Request headers",
  requestBodies: "Request bodies",
};

const total = (connections) => Object.values(connections).reduce((a, b) => a + b, 0);

export function start(main, _, past) {
  const health = element("div", { class: "health" });
  let written = "";
  const numbers = facts("numbers");
  const figures = facts();
  const requests = plot("Requests a second", [{ title: "answered", tell: rate }, { title: "failed, refused or too old (410)", tell: rate }], rate);
  const events = plot("Events a second", [{ title: "received", tell: rate }, { title: "sent to watches", tell: rate }], rate);
  const age = plot("Behind", [{ title: "seconds", tell: seconds }], rate);
  const cpu = plot("CPU", [{ title: "cores", tell: cores }], cores);
  const memory = plot("Memory", [{ title: "resident", tell: bytes }, { title: "objects", tell: bytes }, { title: "history", tell: bytes }], bytes);
  const watches = plot("Watches", [{ title: "open", tell: count }, { title: "groups", tell: count }], count);
  const plots = [requests, events, age, cpu, memory, watches];
  const found = checks("Readiness checks");
  const feeds = table("Sources of objects", [
    { title: "source", cell: (feed) => feed.source ?? "" },
    { title: "state", cell: (feed) => (feed.behind ? "behind" : feed.ageSeconds === null ? "not heard yet" : "up to date") },
    { title: "age", number: true, cell: (feed) => seconds(feed.ageSeconds) },
    { title: "revision", number: true, cell: (feed) => revision(feed.revision) },
    { title: "last fault", long: true, cell: (feed) => mark(feed.lastFault && `${date(feed.lastFault.at)}: ${feed.lastFault.why}`) },
    { title: "note", long: true, cell: (feed) => mark(feed.note) },
  ], (feed) => feed.nth);
  const holders = table("Memory use", [
    { title: "used by", long: true, cell: (holder) => holder.what },
    { title: "size", number: true, cell: (holder) => bytes(holder.bytes) },
  ], (holder) => holder.what);
  const cluster = element("p", { hidden: true });
  const cost = element("p", { class: "quiet" });
  fill(
    main,
    element("h2", {}, "Overview"),
    health,
    numbers.node,
    element("div", { class: "plots" }, plots.map((one) => one.node)),
    element("h3", {}, "Details"), figures.node,
    cluster,
    element("h3", {}, "Readiness"), found.node,
    element("h3", {}, "Sources"), feeds.node,
    element("h3", {}, "Memory"), holders.node,
    cost,
    element("p", { class: "same" }, "As JSON: ", element("code", {}, same("overview"))),
  );

  // One line when all is ok, else one for each problem. It is written again only when it changes, for it is read aloud.
  function showHealth(now) {
    const wrong = problems(now);
    const text = JSON.stringify(wrong);
    if (text === written) return;
    written = text;
    const bad = wrong.some((one) => one.kind === "bad");
    health.className = `health ${bad ? "is-bad" : wrong.length ? "is-warn" : "is-ok"}`;
    const line = ({ kind, texts: [ours, theirs] }) => element("p", { class: kind }, ours, theirs ? [": ", mark(theirs)] : ".");
    const head = bad ? [] : [element("p", { class: "ok" }, wrong.length ? "Ready, with warnings:" : "Healthy: the server is ready and memory is up to date.")];
    fill(health, head, wrong.map(line));
  }

  return {
    tick(now) {
      showHealth(now);
      const rates = past.rates((one) => one.counters.requests.all, (one) => one.counters.requests.failed);
      const [, perSecond, failing] = rates[rates.length - 1] ?? [];
      const { resident, budget } = now.memory;
      numbers.show({
        "Behind by": seconds(now.ageSeconds),
        "Requests a second": `${rate(perSecond)}${failing >= 0.05 ? `, ${rate(failing)} failed` : ""}`,
        Memory: `${bytes(resident)}${budget ? ` of ${bytes(budget)}` : ""}`,
      }, { "Behind by": now.behind ? "bad" : "", "Requests a second": failing >= 0.05 ? "bad" : "", Memory: budget && resident > 0.9 * budget ? "bad" : "" });
      const { followed } = now;
      figures.show({
        Objects: count(now.objects),
        Resources: followed === null || followed === undefined ? count(now.resources) : `${count(followed)} of ${count(now.resources)} followed`,
        Watches: count(now.watches),
        "Watch groups": count(now.groups),
        Connections: count(total(now.connections)),
        "Watches cut (too slow)": count(now.counters.watchesCut),
        "Watches too old (410)": count(now.counters.watchesTooOld),
        Revision: revision(now.revision),
        Server: now.role,
        Version: `${now.version} (${now.commit.slice(0, 10)})`,
      });
      const failed = (one) => one.counters.requests.failed + one.counters.requests.tooMany + one.counters.requests.gone + one.counters.watchesTooOld;
      requests.show(past.rates((one) => one.counters.requests.all, failed));
      events.show(past.rates((one) => one.counters.eventsReceived, (one) => one.counters.eventsSent));
      age.show(past.values((one) => one.ageSeconds));
      cpu.show(past.rates((one) => one.counters.cpuSeconds));
      memory.show(past.values((one) => one.memory.resident, (one) => one.memory.objects, (one) => one.memory.rings));
      watches.show(past.values((one) => one.watches, (one) => one.groups));
      found.show(now.checks);
      feeds.show(now.feeds.map((feed, nth) => ({ ...feed, nth })));
      const held = Object.entries(HOLDERS).map(([name, what]) => ({ what, bytes: now.memory[name] })).filter((one) => one.bytes);
      held.sort((a, b) => b.bytes - a.bytes);
      holders.show(held, { caption: `Memory use: ${bytes(resident)} resident${budget ? ` of a budget of ${bytes(budget)}` : ""}. Nothing is listed that uses none.` });
      cluster.hidden = !now.upstream && !now.host;
      if (!cluster.hidden && !cluster.firstChild) fill(cluster, element("a", { href: "#cluster" }, now.upstream ? "The upstream cluster, and the requests that it answers" : "The host cluster"));
      cost.textContent = `At ${time(now.at)}; collected in ${rate(now.gatheredInMicroseconds / 1000)} ms. Viewers: ${plain(now.viewers)}.`;
    },
    stop() {
      plots.forEach((one) => one.stop());
    },
  };
}
