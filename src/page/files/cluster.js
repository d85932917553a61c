// The cluster behind the server: the upstream API server, or the host that this server extends.

import { element, fill, mark } from "./dom.js";
import { bytes, count, date, rate, seconds } from "./format.js";
import { asker } from "./list.js";
import { plot } from "./plot.js";
import { same } from "./server.js";
import { checks, facts, table } from "./table.js";

export const title = "Cluster";

// The reasons of `watchcache_forwarded_requests_total`.
const REASONS = {
  write: "a write",
  document: "discovery, OpenAPI, versions, unknown paths",
  not_served: "this server has no such resource, or not all of its namespaces",
  loading: "the resource is not loaded yet",
  unreadable: "stored objects that only upstream can decode",
  incomplete: "memory may differ from what upstream has",
  release: "upstream has another release, which serves it differently",
  subresource: "logs, exec, proxy: not stored objects",
  behind: "memory is too old for the request",
  unproven: "memory was not confirmed to be current in time",
  forgotten: "a watch from a revision older than history",
};

// The time within which so many of a hundred were answered, as far as the buckets tell.
function within(row, percent) {
  if (!row.count) return "–";
  const bucket = row.within.find(([, answered]) => answered * 100 >= row.count * percent);
  return bucket ? `≤ ${seconds(bucket[0])}` : `> ${seconds(row.within[row.within.length - 1][0])}`;
}

export function start(main, _, past) {
  const figures = facts();
  const requests = plot("Requests a second", [{ title: "answered here", tell: rate }, { title: "forwarded", tell: rate }], rate);
  const times = plot("Time to the first byte from upstream", [{ title: "mean", tell: seconds, spans: true }], seconds);
  const plots = element("div", { class: "plots", hidden: true }, requests.node, times.node);
  const found = checks("Health checks");
  const wrong = element("p", { class: "bad", role: "alert" });
  const handed = table("Requests forwarded to upstream, by reason", [
    { title: "reason", cell: (row) => row.reason },
    { title: "meaning", long: true, cell: (row) => REASONS[row.reason] ?? "" },
    { title: "requests", number: true, cell: (row) => count(row.count) },
    { title: "answers", long: true, cell: (row) => Object.entries(row.codes).map(([code, times]) => `${code}: ${count(times)}`).join(", ") },
    { title: "mean", number: true, cell: (row) => (row.count ? seconds(row.seconds / row.count) : "–") },
    { title: "half within", number: true, cell: (row) => within(row, 50) },
    { title: "99 % within", number: true, cell: (row) => within(row, 99) },
  ], (row) => row.reason);
  const forwardedView = element("div", { hidden: true }, element("h3", {}, "Forwarded requests"), handed.node,
    element("p", { class: "quiet" }, "Times are to the headers of the response. ", element("a", { href: "#resources?sort=-forwarded" }, "Resources that are forwarded now")));
  const asks = asker(() => "cluster", show, (why) => { wrong.textContent = why; });
  fill(
    main,
    element("h2", {}, "Cluster"),
    wrong,
    figures.node,
    plots,
    forwardedView,
    element("h3", {}, "Health"), found.node,
    element("p", { class: "same" }, "As JSON: ", element("code", {}, same("cluster"))),
  );

  function show(now) {
    wrong.textContent = "";
    const { upstream, host } = now;
    const fault = (of) => (of.lastFault ? mark(`${date(of.lastFault.at)}: ${of.lastFault.why}`) : "none");
    plots.hidden = forwardedView.hidden = !upstream;
    if (upstream) {
      const { fromMemory, notLoaded, forwarded } = upstream.resources;
      const others = Object.entries(forwarded).sort((a, b) => b[1] - a[1]).map(([reason, times]) => `${reason}: ${count(times)}`);
      figures.show({
        Upstream: mark(upstream.server),
        State: upstream.answers ? "answers" : mark(upstream.trouble || "not asked yet"),
        "Last fault": fault(upstream),
        "Objects come from": upstream.isSource ? "upstream" : "its etcd",
        "Resources in memory": count(fromMemory),
        "Resources forwarded": others.length ? others.join(", ") : "none",
        ...(upstream.isSource ? { "Resources not followed": count(notLoaded) } : {}),
        "Documents cached": `${bytes(upstream.documentsBytes)}${upstream.documentsAgeSeconds === null ? "" : `, ${seconds(upstream.documentsAgeSeconds)} old`}`,
        "Answered from cached documents": count(upstream.keptAnswers),
      }, { State: upstream.answers ? "ok" : "bad" });
      handed.show(upstream.forwarded);
      found.show(upstream.checks);
    } else {
      const bad = host.checks.some((check) => !check.ok);
      figures.show({
        "Host cluster": bad ? "has a problem" : "followed",
        Namespaces: count(host.namespaces),
        "Last fault": fault(host),
      }, { "Host cluster": bad ? "bad" : "ok" });
      found.show(host.checks);
    }
  }

  return {
    tick(now) {
      asks.tick();
      if (!now.upstream) return;
      const answered = (one) => one.forwarded.reduce((sum, row) => sum + row.count, 0);
      const grown = past.rates((one) => one.counters.requests.all, answered, (one) => one.counters.forwardedSeconds);
      requests.show(grown);
      times.show(grown.map(([at, , requests, took]) => [at, requests ? took / requests : null]));
    },
    stop() {
      asks.stop();
      requests.stop();
      times.stop();
    },
  };
}
