// Finds collections and objects by parts of their names: `web` finds deployments/web.

import { element, fill, foreign } from "./dom.js";
import { count } from "./format.js";
import { get } from "./server.js";

const SHOWN = 12;
const RESOURCES = 40;
const NAMES = 250;
const TYPING = 150;
const FORM = { Accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json" };
// Those that people look for most; events and the like come last.
const FIRST = ["deployments", "pods", "services", "statefulsets", "configmaps", "daemonsets", "jobs", "cronjobs", "ingresses", "secrets", "namespaces", "nodes", "replicasets"];
const LAST = new Set(["events", "leases", "endpointslices", "endpoints", "controllerrevisions", "flowschemas", "prioritylevelconfigurations"]);

const base = (row) => (row.group ? `/apis/${row.group}/${row.versions[0]}` : `/api/${row.versions[0]}`);
const order = (row) => (FIRST.includes(row.resource) ? FIRST.indexOf(row.resource) : LAST.has(row.resource) ? 99 : 50);

// How good a match is: less is better; none is no match. All words must be in the path.
function rank(one, words) {
  if (!words.every((word) => one.path.toLowerCase().includes(word))) return null;
  const last = words[words.length - 1];
  const name = (one.name ?? one.resource).toLowerCase();
  return name === last ? 0 : name.startsWith(last) ? 1 : name.includes(last) ? 2 : 3;
}

// A list of links below `input`, in the view `view`: what matches its text, or with an empty one the collections. `objects`: whether objects are found, too.
export function finder(input, view, objects) {
  const stopping = new AbortController();
  const title = element("h3", {}, "Choose a resource");
  const told = element("p", { class: "quiet", role: "status" });
  const links = element("ul", { class: "found" });
  const node = element("div", {}, title, links, told);
  let collections = null;
  let names = [];
  let reading = null;
  let typing = null;
  let matches = [];

  async function readCollections() {
    const { items } = await get("resources?sort=-objects&idle=false&limit=500", stopping.signal);
    collections = items.filter((row) => !row.converted && row.ready).sort((a, b) => order(a) - order(b) || b.objects - a.objects)
      .map((row) => ({ path: `${base(row)}/${row.resource}`, resource: row.resource, objects: row.objects, row }));
    show();
  }

  // The names of objects, resource by resource: with the rights of the user, who may not list all of them.
  async function readNames() {
    while (!collections) await new Promise((done) => setTimeout(done, 50));
    for (const { row, path } of collections.filter((one) => one.objects > 0).slice(0, RESOURCES)) {
      try {
        const list = await get(`${path}?limit=${NAMES}&resourceVersion=0`, stopping.signal, FORM);
        names.push(...list.items.slice(0, NAMES).map(({ metadata }) => named(row, metadata)));
      } catch {
        if (stopping.signal.aborted) return;
      }
      show();
    }
    reading = "done";
    show();
  }

  function named(row, { name, namespace }) {
    const of = [...(namespace ? ["namespaces", namespace] : []), row.resource, name].map(encodeURIComponent).join("/");
    return { path: `${base(row)}/${of}`, resource: row.resource, namespace, name };
  }

  function show() {
    const words = input.value.trim().toLowerCase().split(/[\s/]+/).filter(Boolean);
    const all = [...(collections ?? []), ...(words.length ? names : [])];
    const ranked = words.length ? all.map((one) => [rank(one, words), one]).filter(([at]) => at !== null).sort((a, b) => a[0] - b[0]) : all.map((one) => [0, one]);
    matches = ranked.map(([, one]) => one);
    title.textContent = words.length ? "Matches" : "Choose a resource";
    fill(links, matches.slice(0, SHOWN).map((one) => element("li", {}, element("a", { href: `#${view}?${new URLSearchParams({ path: one.path })}` },
      foreign(one.name ? `${one.resource}/${one.name}` : one.resource), element("span", { class: "quiet" }, " ", one.name ? foreign(one.namespace ? `in ${one.namespace}` : "") : `${count(one.objects)} objects`)))));
    const more = matches.length > SHOWN ? `${count(matches.length - SHOWN)} more match; type more of the name.` : "";
    const wait = words.length && objects && reading !== "done" ? "Searching…" : "";
    const none = !matches.length && !wait ? (collections ? `Nothing matches. Of each resource the first ${NAMES} objects are searched; a whole path always works.` : "Loading…") : "";
    told.textContent = [wait, more, none].filter(Boolean).join(" ");
  }

  function typed() {
    node.hidden = false;
    if (objects && !reading && input.value.trim()) {
      reading = "now";
      readNames();
    }
    show();
  }

  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(typed, TYPING);
  });
  if (input.value) node.hidden = true;
  readCollections().catch((error) => {
    if (!stopping.signal.aborted) told.textContent = error.message;
  });

  return {
    node,
    // The path that a text means: itself, or of what matches it best.
    path() {
      const text = input.value.trim();
      return text.startsWith("/") ? text : matches[0]?.path ?? `/${text}`;
    },
    stop() {
      clearTimeout(typing);
      stopping.abort();
    },
  };
}
