// The changes of a collection as they happen: a watch of the page, with the rights of the user. Managers are those of its history.

import { element, field, fill, foreign, visible } from "./dom.js";
import { finder } from "./finder.js";
import { time } from "./format.js";
import { get, lines, same } from "./server.js";

export const title = "Tail";

const KEPT = 300;
// How often history is asked for the managers of changes, and how often for one change: it may hear of it a moment later.
const ASKS = 1000;
const TRIES = 3;
const FORM = { Accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json" };
const FORM_OF_LIST = { Accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json" };

export function start(main, parameters) {
  const input = element("input", { type: "text", size: 40, required: true, spellcheck: "false", autocomplete: "off", placeholder: "a resource, such as pods, or a path", value: parameters.get("path") || "" });
  const labels = element("input", { type: "text", spellcheck: "false", placeholder: "app=example", value: parameters.get("labels") || "" });
  const contains = element("input", { type: "search", oninput: () => filter() });
  const told = element("p", { role: "status" });
  const code = element("code");
  const log = element("div", { class: "log mono", role: "log", "aria-label": "Events", tabindex: 0, hidden: true });
  const halt = element("button", { type: "button", disabled: true, onclick: () => stop("Stopped.") }, "Stop");
  const search = finder(input, "tail", false);
  const waiting = new Map();
  let naming = null;
  let following = null;
  fill(
    main,
    element("h2", {}, "Tail"),
    element("form", { onsubmit: (event) => { event.preventDefault(); input.value = search.path(); follow(); } },
      field("name or path of a collection", input), field("label selector", labels), element("button", {}, "Follow"), halt, field("only lines that contain", contains)),
    told,
    search.node,
    log,
    element("p", { class: "same" }, "As JSON: ", code),
  );
  if (input.value) follow();

  function stop(text) {
    following?.abort();
    following = null;
    clearTimeout(naming);
    naming = null;
    waiting.clear();
    halt.disabled = true;
    if (text) told.textContent = text;
  }

  async function follow() {
    stop();
    const mine = (following = new AbortController());
    const path = input.value.trim().startsWith("/") ? input.value.trim() : `/${input.value.trim()}`;
    const asked = (more) => `${path}?${new URLSearchParams({ ...(labels.value ? { labelSelector: labels.value } : {}), ...more })}`;
    fill(log);
    search.node.hidden = true;
    log.hidden = false;
    halt.disabled = false;
    told.className = "";
    try {
      const list = await get(asked({ limit: 1 }), mine.signal, FORM_OF_LIST);
      let revision = list.metadata.resourceVersion;
      code.textContent = same(asked({ watch: 1, resourceVersion: revision }));
      for (;;) {
        told.textContent = "Following.";
        for await (const event of lines(asked({ watch: 1, allowWatchBookmarks: true, resourceVersion: revision }), mine.signal, FORM)) {
          if (event.type === "ERROR") throw new Error(visible(event.object.message));
          revision = event.object.metadata.resourceVersion;
          if (event.type !== "BOOKMARK") add(path, event);
        }
        await new Promise((done) => setTimeout(done, 500));
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      stop();
      told.className = "bad";
      told.textContent = error.message;
    }
  }

  function add(path, { type, object }) {
    const { name, namespace, resourceVersion } = object.metadata;
    const parts = path.split("/").filter(Boolean);
    const base = parts[0] === "apis" ? parts.slice(0, 3) : parts.slice(0, 2);
    const plural = parts[parts.length - 1];
    const of = `/${[...base, ...(namespace ? ["namespaces", namespace] : []), plural, name].map(encodeURIComponent).join("/")}`;
    const line = element("p", {}, time(Date.now()), ` ${type.toLowerCase()} `,
      element("a", { href: `#object?${new URLSearchParams({ path: of })}` }, foreign(namespace ? `${namespace}/${name}` : name)),
      ` at ${resourceVersion}`);
    if (type !== "DELETED") {
      waiting.set(`${resourceVersion} ${namespace ?? ""}/${name}`, { line, tries: 0 });
      naming ??= setTimeout(() => nameManagers(path), ASKS);
    }
    line.hidden = !line.textContent.includes(contains.value);
    log.prepend(line);
    while (log.children.length > KEPT) log.lastChild.remove();
  }

  // Adds to the lines the managers of their changes, as far as they are known.
  async function nameManagers(path) {
    const signal = following?.signal;
    let items = [];
    try {
      ({ items } = await get(`history${path}?limit=500`, signal));
    } catch {
      // Without history there are lines without managers.
    }
    if (!signal || signal.aborted) return;
    for (const { revision, namespace, name, manager } of items) {
      const found = waiting.get(`${revision} ${namespace}/${name}`);
      if (!found) continue;
      waiting.delete(`${revision} ${namespace}/${name}`);
      if (manager) found.line.append(" by ", foreign(manager));
    }
    for (const [key, change] of waiting) if ((change.tries += 1) >= TRIES) waiting.delete(key);
    filter();
    naming = waiting.size ? setTimeout(() => nameManagers(path), ASKS) : null;
  }

  function filter() {
    for (const line of log.children) line.hidden = !line.textContent.includes(contains.value);
  }

  return {
    stop() {
      search.stop();
      stop();
    },
  };
}
