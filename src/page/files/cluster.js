// The cluster behind the server: the API server that answers what this one does not, or the host that it extends.

import { element, fill, mark } from "./dom.js";
import { bytes, count, date, rate, seconds } from "./format.js";
import { asker } from "./list.js";
import { plot } from "./plot.js";
import { same } from "./server.js";
import { checks, facts, table } from "./table.js";

export const title = "Cluster";

// The reasons of `watchcache_handed_on_requests_total`.
const REASONS = {
  write: "it changes something",
  document: "it asks about the cluster: discovery, OpenAPI, versions, unknown paths",
  not_served: "this server has no such resource, or not all of its namespaces",
  loading: "memory of the resource is not there yet",
  unreadable: "stored objects that only upstream can show",
  incomplete: "memory is not known to be what upstream has",
  release: "upstream is of another release, which shows it otherwise",
  subresource: "logs, exec, proxy: what is nowhere stored",
  behind: "memory is too old for it",
  unproven: "memory was not proven to be new in time",
  forgotten: "a watch from before what memory reaches back to",
};

// The time within which so many of a hundred were answered, as far as the buckets tell.
function within(row, percent) {
  if (!row.count) return "–";
  const bucket = row.within.find(([, answered]) => answered * 100 >= row.count * percent);
  return bucket ? `≤ ${seconds(bucket[0])}` : `> ${seconds(row.within[row.within.length - 1][0])}`;
}

export function start(main, _, past) {
  const figures = facts();
  const requests = plot("Requests a second", [{ title: "answered here", tell: rate }, { title: "handed on", tell: rate }], rate);
  const times = plot("Until upstream's answer began", [{ title: "mean", tell: seconds, spans: true }], seconds);
  const plots = element("div", { class: "plots", hidden: true }, requests.node, times.node);
  const found = checks("What is known of it");
  const wrong = element("p", { class: "bad", role: "alert" });
  const handed = table("Requests that upstream answered, and why", [
    { title: "reason", cell: (row) => row.reason },
    { title: "which is", long: true, cell: (row) => REASONS[row.reason] ?? "" },
    { title: "requests", number: true, cell: (row) => count(row.count) },
    { title: "answers", long: true, cell: (row) => Object.entries(row.codes).map(([code, times]) => `${code}: ${count(times)}`).join(", ") },
    { title: "mean", number: true, cell: (row) => (row.count ? seconds(row.seconds / row.count) : "–") },
    { title: "half within", number: true, cell: (row) => within(row, 50) },
    { title: "99 % within", number: true, cell: (row) => within(row, 99) },
  ], (row) => row.reason);
  const handedOn = element("div", { hidden: true }, element("h3", {}, "Handed on"), handed.node,
    element("p", { class: "quiet" }, "Times until the head of the answer. ", element("a", { href: "#resources?sort=-handedOn" }, "Which resources are handed on now")));
  const asks = asker(() => "cluster", show, (why) => { wrong.textContent = why; });
  fill(
    main,
    element("h2", {}, "Cluster"),
    wrong,
    figures.node,
    plots,
    handedOn,
    element("h3", {}, "Health"), found.node,
    element("p", { class: "same" }, "The same: ", element("code", {}, same("cluster"))),
  );

  function show(now) {
    wrong.textContent = "";
    const { upstream, host } = now;
    const fault = (of) => (of.lastFault ? mark(`${date(of.lastFault.at)}: ${of.lastFault.why}`) : "none");
    plots.hidden = handedOn.hidden = !upstream;
    if (upstream) {
      const { fromMemory, notLoaded, handedOn } = upstream.resources;
      const others = Object.entries(handedOn).sort((a, b) => b[1] - a[1]).map(([reason, times]) => `${reason}: ${count(times)}`);
      figures.show({
        Upstream: mark(upstream.server),
        State: upstream.answers ? "answers" : mark(upstream.trouble || "has not been asked yet"),
        "Last fault": fault(upstream),
        "Objects come from": upstream.isSource ? "upstream" : "its etcd",
        "Resources in memory": count(fromMemory),
        "Resources handed on": others.length ? others.join(", ") : "none",
        ...(upstream.isSource ? { "Not asked for yet": count(notLoaded) } : {}),
        "Documents kept": `${bytes(upstream.documentsBytes)}${upstream.documentsAgeSeconds === null ? "" : `, ${seconds(upstream.documentsAgeSeconds)} old`}`,
        "Answered as kept": count(upstream.keptAnswers),
      }, { State: upstream.answers ? "well" : "bad" });
      handed.show(upstream.handedOn);
      found.show(upstream.checks);
    } else {
      const bad = host.checks.some((check) => !check.ok);
      figures.show({
        "Host cluster": bad ? "something is wrong" : "is followed",
        Namespaces: count(host.namespaces),
        "Last fault": fault(host),
      }, { "Host cluster": bad ? "bad" : "well" });
      found.show(host.checks);
    }
  }

  return {
    tick(now) {
      asks.tick();
      if (!now.upstream) return;
      const answered = (one) => one.handedOn.reduce((sum, row) => sum + row.count, 0);
      const grown = past.rates((one) => one.counters.requests.all, answered, (one) => one.counters.handedOnSeconds);
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
