// A long list of the server's: a page of it at a time, sorted and filtered there, asked for anew every other second.

import { element, field } from "./dom.js";
import { get, same } from "./server.js";
import { pager, table, turned } from "./table.js";

const LIMIT = 100;
const TYPING = 200;

// Asks every other second, and at once when it is told to. Only the newest question counts; `path()` is what it asks.
export function asker(path, show, fail) {
  let asking = null;
  let ticks = 0;
  async function ask() {
    asking?.abort();
    const mine = (asking = new AbortController());
    try {
      const answer = await get(path(), mine.signal);
      if (!mine.signal.aborted) show(answer);
    } catch (error) {
      if (!mine.signal.aborted) fail(error.message);
    } finally {
      if (asking === mine) asking = null;
    }
  }
  ask();
  return {
    ask,
    tick() {
      ticks += 1;
      if (ticks % 2 === 0 && !asking) ask();
    },
    stop() {
      asking?.abort();
    },
  };
}

// The nodes of such a list, and how it is followed. `of` is its path; `told(answer)` gives rows and a caption; columns and `key` are those of `table`; `more(filter)` gives
// further parameters of the question, and `tools` are shown beside the filter.
export function list(of, parameters, { columns, key, sort: first, numbers, label, told, more = () => ({}), tools = [] }) {
  let sort = parameters.get("sort") || first;
  let offset = 0;
  let typing = null;
  const status = element("p", { role: "status" });
  const code = element("code");
  const search = element("input", { type: "search", value: parameters.get("filter") || "", maxlength: 256, oninput: () => {
    clearTimeout(typing);
    typing = setTimeout(() => from(0), TYPING);
  } });
  const pages = pager((way) => from(Math.max(0, offset + way * LIMIT)));
  const rows = table(of, columns, key, (name) => {
    sort = turned(sort, name, numbers);
    from(0);
  });
  const asked = () => `${of}?${new URLSearchParams({ sort, filter: search.value, offset, limit: LIMIT, ...more(search.value.trim()) })}`;
  const asks = asker(
    () => {
      code.textContent = same(asked());
      return asked();
    },
    (answer) => {
      if (status.className === "bad") tell("");
      const { items, caption } = told(answer);
      rows.show(items, { sort, caption });
      pages.show(answer.offset, items.length, answer.total);
    },
    (why) => tell(why, "bad"),
  );

  function from(at) {
    offset = at;
    asks.ask();
  }

  function tell(text, kind = "") {
    status.className = kind;
    status.textContent = text;
  }

  return {
    nodes: [element("div", { class: "tools" }, field(label, search), tools, pages.node), status, rows.node, element("p", { class: "same" }, "As JSON: ", code)],
    tell,
    ask: asks.ask,
    again: () => from(0),
    tick: asks.tick,
    stop() {
      clearTimeout(typing);
      asks.stop();
    },
  };
}
