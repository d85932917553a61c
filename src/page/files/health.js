// What is wrong with the server, in one line.

import { date, seconds } from "./format.js";

// The problems of an overview, worst first: whether the server works all the same (`warn`) or not (`bad`), and its texts: ours, theirs, ours…
export function problems(now) {
  const found = [];
  const failing = now.checks.filter((check) => check.fails);
  for (const check of failing) found.push({ kind: "bad", texts: [`Check ${check.name} fails`, check.why] });
  if (!now.ready && !failing.length) found.push({ kind: "bad", texts: ["The server is not ready"] });
  if (now.behind) {
    const feed = now.feeds.find((one) => one.behind) ?? now.feeds[0];
    const fault = feed?.lastFault ? [`${date(feed.lastFault.at)}, ${feed.lastFault.why}`] : [];
    found.push({ kind: "bad", texts: [`Memory is behind its source${feed?.source ? ` (${feed.source})` : ""}${now.ageSeconds === null ? "" : ` by ${seconds(now.ageSeconds)}`}`, ...fault] });
  }
  if (now.upstream && !now.upstream.answers && now.upstream.trouble) found.push({ kind: "bad", texts: ["Upstream does not answer", now.upstream.trouble] });
  if (now.host?.trouble) found.push({ kind: "bad", texts: ["The host cluster is not followed", now.host.trouble] });
  if (now.host?.orphanedObjects) found.push({ kind: "warn", texts: ["Objects in namespaces that the host does not have", now.host.orphanedObjects] });
  if (now.host?.definitionsWrong) found.push({ kind: "warn", texts: ["A definition cannot be served", now.host.definitionsWrong] });
  for (const check of now.checks.filter((one) => !one.ok && !one.fails)) found.push({ kind: "warn", texts: [`Check ${check.name}`, check.why] });
  return found;
}
