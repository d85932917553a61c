// crowd.mjs SERVER [WATCHES [CONNECTIONS]]: what the page's API costs a server that has many watches, and one at which many look.
//
// Opens so many watches of ConfigMaps (default 5,000; over HTTP/2, on so many connections, default 40), asks for each list in each order a few times, and prints the median and
// the longest answer; then has 0, 1, 10 and 100 look at the overview for a while each, and prints what that costs the server, in cores. SERVER is its plain listener:
// http://127.0.0.1:8080. The server needs --http2-max-streams-per-connection of WATCHES / CONNECTIONS or more.
import http2 from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";

const [server, watches = "5000", connections = "40"] = process.argv.slice(2);
const api = `${server}/watchcache/api/v1`;
const TIMES = 7;
const SECONDS = 20;

const json = async (path) => (await fetch(`${api}/${path}`)).json();
const figure = async (name) => Number((await (await fetch(`${server}/metrics`)).text()).match(new RegExp(`^${name} (\\S+)`, "m"))[1]);
const cpu = () => figure("process_cpu_seconds_total");

// Each tenth user agent is a long one; a hundred label selectors.
function open(session, nth) {
  return new Promise((done, fail) => {
    const agent = nth % 10 ? `agent-${nth % 977}/1.0` : `agent-${nth}/${"x".repeat(300)}`;
    const stream = session.request({ ":path": `/api/v1/configmaps?watch=1&labelSelector=nth%3D${nth % 100}`, "user-agent": agent });
    stream.on("response", (headers) => (headers[":status"] === 200 ? done(stream) : fail(new Error(`a watch: ${headers[":status"]}`))));
    stream.on("error", fail);
    stream.resume();
  });
}

const sessions = Array.from({ length: Number(connections) }, () => http2.connect(server));
let opened = 0;
await Promise.all(sessions.map(async (session, at) => {
  for (let nth = at; nth < Number(watches); nth += sessions.length) {
    await open(session, nth);
    opened += 1;
  }
}));
const first = await json("watches?limit=1");
console.log(`${opened} watches are open, the server tells ${first.open}; resident ${Math.round((await figure("process_resident_memory_bytes")) / 2 ** 20)} MiB`);

async function timed(path) {
  const took = [];
  let bytes = 0;
  for (let nth = 0; nth < TIMES; nth += 1) {
    // Answers are shared for a second.
    await sleep(1000);
    const began = performance.now();
    bytes = (await (await fetch(`${api}/${path}`)).arrayBuffer()).byteLength;
    took.push(performance.now() - began);
  }
  took.sort((a, b) => a - b);
  console.log(`${path}: median ${took[TIMES >> 1].toFixed(1)} ms, longest ${took[TIMES - 1].toFixed(1)} ms, ${bytes} bytes`);
}
for (const path of ["overview", "resources?limit=500", "resources?limit=100&sort=-requests", "watches?sort=-lag", "watches?sort=user&limit=500", "watches?sort=agent&offset=2000", "watches?filter=agent-97", "watches?filter=nobody", "cluster"]) {
  await timed(path);
}

async function look(stop) {
  const answer = await fetch(`${api}/overview?watch=true`, { signal: stop.signal });
  if (!answer.ok) throw new Error(`a stream: ${answer.status}`);
  for await (const part of answer.body) void part;
}
for (const viewers of [0, 1, 10, 100]) {
  const stop = new AbortController();
  const streams = Array.from({ length: viewers }, () => look(stop).catch((error) => stop.signal.aborted || console.log(error.message)));
  await sleep(3000);
  const before = await cpu();
  await sleep(SECONDS * 1000);
  const after = await cpu();
  const { gatheredInMicroseconds } = await json("overview");
  console.log(`${viewers} look: ${((after - before) / SECONDS).toFixed(4)} cores; gathered in ${gatheredInMicroseconds} µs`);
  stop.abort();
  await Promise.all(streams);
}
sessions.forEach((session) => session.destroy());
