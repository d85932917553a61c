// The page: one view at a time, chosen by the address; one stream from the server, which ticks each second while somebody looks.

import { element, fill } from "./dom.js";
import { seconds } from "./format.js";
import { Past } from "./plot.js";
import { lines } from "./server.js";
import * as overview from "./overview.js";
import * as resources from "./resources.js";
import * as watches from "./watches.js";
import * as expired from "./expired.js";
import * as object from "./object.js";
import * as tail from "./tail.js";
import * as cluster from "./cluster.js";

const VIEWS = { overview, resources, watches, expired, object, tail, cluster };
// Those that are shown when there is something in them.
const HIDDEN = new Set(["expired", "cluster"]);
const RETRY_FROM = 1000;
const RETRY_TO = 30000;
const RETRY_AT_END = 1000;
const SILENT = 10000;

const main = document.getElementById("main");
const state = document.getElementById("state");
const links = new Map();
const past = new Past();
let view = null;

for (const [name, { title }] of Object.entries(VIEWS)) {
  const link = element("a", { href: `#${name}` }, title);
  links.set(name, link);
  document.getElementById("views").append(element("li", { hidden: HIDDEN.has(name) }, link));
}

// `#watches?filter=x` is the view of watches, with these parameters.
function place() {
  const hash = location.hash.slice(1);
  const cut = hash.indexOf("?");
  const name = cut < 0 ? hash : hash.slice(0, cut);
  return { name: Object.hasOwn(VIEWS, name) ? name : "overview", parameters: new URLSearchParams(cut < 0 ? "" : hash.slice(cut + 1)) };
}

function show(moveFocus) {
  const { name, parameters } = place();
  view?.stop();
  for (const [of, link] of links) {
    if (of === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${VIEWS[name].title} · watchcache`;
  fill(main);
  view = VIEWS[name].start(main, parameters, past);
  if (moveFocus) main.focus();
  if (past.seen.length) view.tick?.(past.seen[past.seen.length - 1]);
}

function tell(text, kind) {
  if (state.textContent !== text) state.textContent = text;
  state.className = kind;
}

// Waits so long, or until the network is back.
function pause(millis) {
  return new Promise((done) => {
    const ended = () => {
      clearTimeout(timer);
      removeEventListener("online", ended);
      done();
    };
    const timer = setTimeout(ended, millis);
    addEventListener("online", ended);
  });
}

// Follows the server while the page is seen. A tab that sleeps asks for nothing; a stream that says nothing is no stream.
async function follow() {
  let wait = RETRY_FROM;
  for (;;) {
    if (document.hidden) {
      tell("paused", "quiet");
      await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
      continue;
    }
    const stopping = new AbortController();
    const hide = () => document.hidden && stopping.abort();
    const fail = () => stopping.abort(new Error(`no data for ${SILENT / 1000} s`));
    let silence = setTimeout(fail, SILENT);
    document.addEventListener("visibilitychange", hide);
    try {
      for await (const now of lines("overview?watch=true", stopping.signal)) {
        clearTimeout(silence);
        silence = setTimeout(fail, SILENT);
        wait = RETRY_FROM;
        past.add(now);
        links.get("cluster").parentNode.hidden = !now.upstream && !now.host;
        links.get("expired").parentNode.hidden = !now.counters.watchesExpired;
        if (!now.ready) tell("not ready", "bad");
        else if (now.behind) tell(now.ageSeconds === null ? "behind" : `behind by ${seconds(now.ageSeconds)}`, "bad");
        else tell("ready", "ok");
        view?.tick?.(now);
      }
      // The server ends a stream now and then, so that the rights of a viewer are checked again.
      await pause(RETRY_AT_END);
    } catch (error) {
      if (document.hidden) continue;
      tell(`no connection: ${error.message}`, "bad");
      await pause(wait * (0.75 + Math.random() / 2));
      wait = Math.min(2 * wait, RETRY_TO);
    } finally {
      clearTimeout(silence);
      document.removeEventListener("visibilitychange", hide);
      stopping.abort();
    }
  }
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => show(true));
show(false);
follow();
