// Asks the server that the page is from, with the credentials that the browser has for it.

import { visible } from "./dom.js";

// The page may lie behind a path of a proxy.
const PAGE = new URL("./", document.baseURI);
const ROOT = new URL("../", PAGE);
const LINE_MAX = 4 << 20;

// A path of the page's API, or with a slash at its beginning of the Kubernetes API.
export function address(path) {
  return path.startsWith("/") ? new URL(path.slice(1), ROOT) : new URL(`api/v1/${path}`, PAGE);
}

export class Refused extends Error {}

async function asked(path, options) {
  const response = await fetch(address(path), { credentials: "same-origin", cache: "no-store", redirect: "error", ...options });
  if (response.ok) return response;
  const text = await response.text();
  let told = text.slice(0, 300);
  try {
    told = JSON.parse(text).message || told;
  } catch {
    // It is no Status: the text says what there is to say.
  }
  throw new Refused(visible(`${response.status}: ${told}`));
}

export async function get(path, signal, headers = {}) {
  return (await asked(path, { signal, headers: { Accept: "application/json", ...headers } })).json();
}

export async function remove(path) {
  return (await asked(path, { method: "DELETE", headers: { Accept: "application/json" } })).json();
}

// The lines of a stream, each as the value that it is.
export async function* lines(path, signal, headers = {}) {
  const response = await asked(path, { signal, headers: { Accept: "application/json", ...headers } });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      const ended = rest.split("\n");
      rest = ended.pop();
      if (rest.length > LINE_MAX) throw new Error("a line of the stream is too long");
      for (const line of ended) if (line) yield JSON.parse(line);
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

// How to ask the same without the page.
export function same(path) {
  const url = address(path);
  const text = url.href.replace(/'/g, "%27");
  const token = url.protocol === "https:" ? ` --header "Authorization: Bearer $TOKEN"` : "";
  return `curl --globoff${token} '${text}'`;
}
