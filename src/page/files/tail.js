// What happens to a resource, as it happens: a watch of the page's own, with the rights of who looks.

import { element, field, fill, foreign, visible } from "./dom.js";
import { time } from "./format.js";
import { get, lines, same } from "./server.js";

export const title = "Tail";

const KEPT = 300;
const FORM = { Accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json" };
const FORM_OF_LIST = { Accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json" };

export function start(main, parameters) {
  const input = element("input", { type: "text", size: 40, required: true, spellcheck: "false", placeholder: "/api/v1/namespaces/default/pods", value: parameters.get("path") || "" });
  const labels = element("input", { type: "text", spellcheck: "false", placeholder: "app=example", value: parameters.get("labels") || "" });
  const contains = element("input", { type: "search", oninput: () => filter() });
  const told = element("p", { role: "status" });
  const code = element("code");
  const log = element("div", { class: "log mono", role: "log", "aria-label": "Events", tabindex: 0, hidden: true });
  const halt = element("button", { type: "button", disabled: true, onclick: () => stop("Stopped.") }, "Stop");
  let following = null;
  fill(
    main,
    element("h2", {}, "Tail"),
    element("form", { onsubmit: (event) => { event.preventDefault(); follow(); } },
      field("path of a collection", input), field("label selector", labels), element("button", {}, "Follow"), halt, field("show what contains", contains)),
    told,
    log,
    element("p", { class: "same" }, "The same: ", code),
  );
  if (input.value) follow();

  function stop(text) {
    following?.abort();
    following = null;
    halt.disabled = true;
    if (text) told.textContent = text;
  }

  async function follow() {
    stop();
    const mine = (following = new AbortController());
    const path = input.value.trim().startsWith("/") ? input.value.trim() : `/${input.value.trim()}`;
    const asked = (more) => `${path}?${new URLSearchParams({ ...(labels.value ? { labelSelector: labels.value } : {}), ...more })}`;
    fill(log);
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
    const { name, namespace, resourceVersion, managedFields } = object.metadata;
    const latest = (managedFields || []).reduce((a, b) => (!a || (b.time || "") >= (a.time || "") ? b : a), null);
    const parts = path.split("/").filter(Boolean);
    const base = parts[0] === "apis" ? parts.slice(0, 3) : parts.slice(0, 2);
    const plural = parts[parts.length - 1];
    const of = `/${[...base, ...(namespace ? ["namespaces", namespace] : []), plural, name].map(encodeURIComponent).join("/")}`;
    const line = element("p", {}, time(Date.now()), ` ${type.toLowerCase()} `,
      element("a", { href: `#object?${new URLSearchParams({ path: of })}` }, foreign(namespace ? `${namespace}/${name}` : name)),
      ` at ${resourceVersion}`, latest && type !== "DELETED" ? [" by ", foreign(latest.manager)] : "");
    line.hidden = !line.textContent.includes(contains.value);
    log.prepend(line);
    while (log.children.length > KEPT) log.lastChild.remove();
  }

  function filter() {
    for (const line of log.children) line.hidden = !line.textContent.includes(contains.value);
  }

  return { stop: () => stop() };
}
