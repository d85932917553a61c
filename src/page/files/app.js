// The page: one view at a time, chosen by the address; one stream from the server, which ticks each second while somebody looks.

import { element, fill } from "./dom.js";
import { seconds } from "./format.js";
import { Past } from "./plot.js";
import { lines } from "./server.js";
import * as overview from "./overview.js";
import * as resources from "./resources.js";
import * as watches from "./watches.js";
import * as object from "./object.js";
import * as tail from "./tail.js";

const VIEWS = { overview, resources, watches, object, tail };
const RETRY_FROM = 1000;
const RETRY_TO = 30000;

const main = document.getElementById("main");
const state = document.getElementById("state");
const links = new Map();
const past = new Past();
let view = null;

for (const [name, { title }] of Object.entries(VIEWS)) {
  const link = element("a", { href: `#${name}` }, title);
  links.set(name, link);
  document.getElementById("views").append(element("li", {}, link));
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

// Follows the server while the page is seen. A tab that sleeps asks for nothing.
async function follow() {
  let pause = RETRY_FROM;
  for (;;) {
    if (document.hidden) {
      tell("paused", "quiet");
      await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
      continue;
    }
    const stopping = new AbortController();
    const hide = () => document.hidden && stopping.abort();
    document.addEventListener("visibilitychange", hide);
    try {
      for await (const now of lines("overview?watch=true", stopping.signal)) {
        pause = RETRY_FROM;
        past.add(now);
        if (!now.ready) tell("not ready", "bad");
        else if (now.behind) tell(`behind by ${seconds(now.ageSeconds)}`, "bad");
        else tell("ready", "well");
        view?.tick?.(now);
      }
      // The server ends a stream now and then, so that it is asked anew whether somebody may look.
      await new Promise((done) => setTimeout(done, 200));
    } catch (error) {
      if (!stopping.signal.aborted) {
        tell(`no connection: ${error.message}`, "bad");
        await new Promise((done) => setTimeout(done, pause * (0.75 + Math.random() / 2)));
        pause = Math.min(2 * pause, RETRY_TO);
      }
    } finally {
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
