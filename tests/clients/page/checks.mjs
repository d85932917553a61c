// checks.mjs KUBECONFIG [FED]: a browser (Chromium) on every view of the page at /watchcache/, one line for each check, exit status 1 when one fails.
//
// FED is the URL of a server that is fed by that one: its view of the cluster behind it is looked at, too. CHROMIUM names the browser (`chromium` without it), SHOTS a folder for
// pictures of the views, PICTURES one for those of docs/pictures, DAY how many seconds of a page that stays open are played (3,600 without it; 86,400 is a day). The servers
// speak plain HTTP, and the first is under load meanwhile.
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import puppeteer from "puppeteer-core";
import { palette } from "./palette.mjs";

const server = (await readFile(process.argv[2], "utf8")).match(/server: (\S+)/)[1];
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const fed = process.argv[3];
const { SHOTS: shots, PICTURES: pictures } = process.env;
const day = Number(process.env.DAY || 3600);
const api = `${server}/watchcache/api/v1`;
const maps = `${server}/api/v1/namespaces/default/configmaps`;
const roles = `${server}/apis/rbac.authorization.k8s.io/v1/clusterroles`;
// What must be shown as text: markup, marks that turn the direction, a name as long as names may be.
const agent = `<img src=x onerror=document.title='ran'>/1`;
const annotation = "<script>document.title='ran'</script>\u202e\u0007\u0000txt";
const hebrew = "\u05d0\u05d1\u05d2";
const role = `<img src=x onerror=document.title='ran'>\u202e\u0001 ${hebrew}`;
const written = role.replace("\u202e", "\\u{202e}").replace("\u0001", "\\u{1}");
const long = `${"n".repeat(60)}.`.repeat(4) + "x".repeat(9);
let failed = false;

function check(name, held) {
  console.log(held === true ? `ok: page: ${name}` : `FAILED: page: ${name}: ${JSON.stringify(held)}`);
  failed ||= held !== true;
}

async function json(url, options) {
  const response = await fetch(url, options);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.json();
}

const post = (body, to = maps) => json(to, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
const put = (name, body) => json(`${maps}/${name}?fieldManager=painter`, { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

async function until(question) {
  let answer;
  for (let tries = 0; tries < 150; tries += 1) {
    answer = await question();
    if (answer === true) return true;
    await sleep(100);
  }
  return answer ?? "it never came";
}

// --- the load: a change each 20 ms, and watches

const body = (name, value) => ({ metadata: { name, annotations: { text: annotation.replace("\u0000", ""), value } }, data: { value } });
await post(body("shown", "first"));
await post({ metadata: { name: role, annotations: { text: `${hebrew}, ${hebrew}` } }, rules: [{ apiGroups: [hebrew], resources: [hebrew], verbs: [hebrew] }] }, roles);
await post(body(long, "first"));
await put("shown", body("shown", "second"));
const stop = new AbortController();
const open = [];
for (let nth = 0; nth < 20; nth += 1) {
  const name = nth === 1 ? Buffer.from(`${hebrew}/1 (\u202e)`).toString("latin1") : nth ? `loader/${nth}` : agent;
  open.push(fetch(`${maps}?watch=1&labelSelector=nth%3D${nth}`, { headers: { "User-Agent": name }, signal: stop.signal }).catch(() => null));
}
const loading = (async () => {
  for (let nth = 0; !stop.signal.aborted; nth += 1) {
    await put(long, body(long, String(nth)));
    await sleep(20);
  }
})();
await Promise.all(open);

// --- the browser

const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM || "chromium", args: ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"] });
const page = await browser.newPage();
const wrong = [];
page.on("console", (message) => message.type() === "error" && wrong.push(`console: ${message.text()}`));
page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
page.on("request", (request) => request.url().startsWith(`${server}/`) || wrong.push(`outside: ${request.url()}`));
page.on("requestfailed", (request) => request.failure()?.errorText === "net::ERR_ABORTED" || wrong.push(`failed: ${request.url()} ${request.failure()?.errorText}`));

const text = (selector) => page.$eval(selector, (element) => element.textContent);
const all = (selector) => page.$$eval(selector, (elements) => elements.map((element) => element.textContent));
const number = (shown) => Number(shown.replace(/[^0-9.]/g, ""));

async function faults() {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
  return found.violations.length === 0 || found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 2).map((node) => node.html)}`);
}

async function visit(hash, ready) {
  await page.goto(`${server}/watchcache/${hash}`, { waitUntil: "domcontentloaded" });
  return until(ready);
}

// Those of docs/pictures.
const PICTURES = new Set(["overview-desk", "resources-desk", "watches-desk", "object-desk", "object-phone", "cluster-desk"]);

// Each view by day on a desk, and by night on a phone.
async function looks(name) {
  for (const [where, width, height, scheme] of [["desk", 1280, 900, "light"], ["phone", 390, 844, "dark"]]) {
    await page.setViewport({ width, height });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await sleep(300);
    check(`${name}: accessible, ${where}, ${scheme}`, await faults());
    check(`${name}: no wider than the screen, ${where}`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1));
    if (shots) await page.screenshot({ path: `${shots}/${name}-${where}.png` });
    if (pictures && PICTURES.has(`${name}-${where}`)) await writeFile(`${pictures}/${name}-${where}.png`, palette(Buffer.from(await page.screenshot())));
  }
  await page.setViewport({ width: 1280, height: 900 });
}

const fact = (name) => text(`dd[data-fact="${name}"]`);
check("overview comes", await visit("#overview", async () => (await page.$(".health p")) !== null && (await text(".health")).startsWith("Healthy")));
check("overview: three numbers come first", await until(() => page.$$eval(".numbers dd", (numbers) => (numbers.length === 3 && numbers.every((one) => one.textContent !== "–")) || numbers.map((one) => one.textContent))));
check("overview: figures beside the plots", await until(async () => ((values) => (values.length > 9 && values.every((value) => value !== "–")) || values)(await all("figcaption b"))));
const told = await json(`${api}/overview`);
check("overview: objects as the API says", Math.abs(number(await fact("Objects")) - told.objects) <= 2 || [await fact("Objects"), told.objects]);
check("overview: watches as the API says", number(await fact("Watches")) === told.watches || [await fact("Watches"), told.watches]);
check("overview: it moves", await (async () => { const was = number(await fact("Revision")); return until(async () => number(await fact("Revision")) > was); })());
check("overview: one who looks", told.viewers === 1 || told.viewers);
if (pictures) await sleep(60000);
await looks("overview");
const bytes = await page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .filter((entry) => !entry.name.includes("/api/")).reduce((sum, entry) => sum + entry.encodedBodySize, 0));
check("the page weighs at most 150 KB", (bytes > 50_000 && bytes <= 150_000) || bytes);

// A row by its first cell, with its cells by the titles of their columns.
const row = async (name) => {
  const [titles, rows] = [await all("thead th"), await page.$$eval("tbody tr", (rows) => rows.map((one) => [...one.children].map((cell) => cell.textContent)))];
  const cells = rows.find((cells) => cells[0] === name);
  return cells && Object.fromEntries(titles.map((title, nth) => [title, cells[nth]]));
};
check("resources: idle ones are hidden", await visit("#resources", async () => (await row("configmaps")) !== undefined && (await row("podtemplates")) === undefined));
check("resources come", await visit("#resources?sort=name", async () => (await row("configmaps")) !== undefined));
const figures = (await json(`${api}/resources?filter=configmaps`)).items[0];
const cells = await row("configmaps");
check("resources: objects as the API says", number(cells.objects) === figures.objects || [cells, figures.objects]);
const gauge = (await (await fetch(`${server}/metrics`)).text()).match(/^apiserver_resource_objects\{.*resource="configmaps".*\} (\d+)/m);
check("resources: objects as the metrics say", number(cells.objects) === Number(gauge?.[1]) || [cells, gauge?.[1]]);
check("resources: rates come", await until(async () => Number((await row("configmaps"))?.["events/s in"]) > 5 || (await row("configmaps"))));
await looks("resources");
await page.click("thead button");
check("resources: sorted the other way", await until(async () => (await page.$eval("th[aria-sort=descending]", (head) => head.textContent).catch(() => "")) === "resource"));
await page.type("input[type=search]", "secrets");
check("resources: filtered", await until(async () => (await all("tbody tr td:first-child")).join() === "secrets" || (await all("tbody tr td:first-child"))));

check("watches come", await visit("#watches?sort=id&filter=nth%3D", async () => (await all("tbody tr")).length === 20 || (await all("tbody tr")).length));
check("watches: a name with markup is a text", (await all("tbody bdi")).includes(agent));
check("watches: a mark that turns the direction is written out", (await all("tbody bdi")).includes(`${hebrew}/1 (\\u{202e})`) || (await all("tbody tr:nth-child(2) bdi")));
await looks("watches");
await page.setViewport({ width: 390, height: 844 });
check("watches: lag is on the screen of a phone", await page.$$eval("thead th", (heads) => heads.find((one) => one.textContent.startsWith("lag")).getBoundingClientRect().right <= innerWidth));
check("watches: a table that is cut says so", await page.$eval(".is-cut .sign", (sign) => getComputedStyle(sign).visibility === "visible"));
await page.setViewport({ width: 1280, height: 900 });
await page.click("input[type=search]", { clickCount: 3 });
await page.type("input[type=search]", "loader/7");
check("watches: filtered", await until(async () => (await all("tbody tr")).length === 1 || (await all("tbody tr")).length));
const { open: opened } = await json(`${api}/watches`);
await page.click("tbody button");
await page.waitForSelector("dialog[open]");
check("watches: the question is accessible", await faults());
await page.evaluate(() => [...document.querySelectorAll("dialog button")].find((button) => button.textContent === "End watch").click());
check("watches: one is ended", await until(async () => (await json(`${api}/watches`)).open === opened - 1 || (await json(`${api}/watches`)).open));
check("watches: that is told", await until(async () => (await text("main p[role=status]")).endsWith("was ended.") || (await text("main p[role=status]"))));

// A watch from before all history: the view of those that came too late is there from then on. Other clients may have had theirs.
const late = await fetch(`${maps}?watch=1&resourceVersion=1`, { headers: { "User-Agent": agent } }).then((response) => response.text());
check("a watch comes too late", late.includes('"code":410') || late);
check("too late: comes", await visit(`#expired?sort=-missed&filter=${encodeURIComponent(agent)}`, async () => (await all("tbody tr")).length === 1 || (await all("tbody tr")).length));
check("too late: a name with markup is a text", (await all("tbody bdi")).includes(agent));
check("too late: the link to it is shown", await until(async () => page.$eval('a[href="#expired"]', (link) => !link.parentNode.hidden)));
await looks("expired");

// The history of what was written at the beginning may be gone by now: there is much load.
await put("shown", body("shown", "first"));
await put("shown", body("shown", "second"));
// History is memory's, which hears of a write a moment later.
const written_at = Number((await json(`${server}/api/v1/namespaces/default/configmaps/shown`)).metadata.resourceVersion);
check("history has the last write", await until(async () => (await json(`${api}/history/api/v1/namespaces/default/configmaps/shown`)).items[0]?.revision === written_at || written_at));
check("objects are found by name", await visit("#object", async () => (await page.$("form input")) !== null) === true && (await page.type("form input", "shown"), await until(async () => (await all(".found a")).some((found) => found.startsWith("configmaps/shown")) || (await all(".found a")))));
check("an object comes", await visit("#object?path=/api/v1/namespaces/default/configmaps/shown", async () => (await all(".diff .added")).length > 0));
const difference = [...(await all(".diff .removed")), ...(await all(".diff .added"))];
check("object: the difference is shown", (difference.some((line) => line.includes('- ') && line.includes('"value": "first"')) && difference.some((line) => line.includes('"value": "second"'))) || difference);
check("object: who changed it", (await all("tbody tr:first-child td")).includes("painter") || (await all("tbody tr:first-child td")));
const unseen = await page.$eval(".diff", (diff) => diff.textContent.includes("\\u{202e}") || !diff.textContent.includes("\u202e"));
check("object: marks that turn the direction are written out", unseen);
await looks("object");
check("a collection comes", await visit(`#object?path=/api/v1/namespaces/default/configmaps`, async () => (await all("tbody tr")).length > 5));
check("collection: long names are shown whole", (await all("tbody bdi")).includes(`default/${long}`));
check("collection: accessible", await faults());

// From left to right, whatever is written in them.
const inOrder = (selector) => page.$$eval(selector, (elements) => elements.filter((one) => one.offsetParent).map((one) => one.getBoundingClientRect().left).every((left, at, lefts) => at === 0 || left >= lefts[at - 1]));
check("odd names come", await visit(`#object?path=/apis/rbac.authorization.k8s.io/v1/clusterroles`, async () => (await all("tbody bdi")).includes(written) || (await all("tbody bdi")).slice(0, 3)));
await page.evaluate((text) => [...document.querySelectorAll("tbody a")].find((link) => link.textContent === text).click(), written);
check("an object with an odd name comes", await until(async () => (await all(".diff bdi")).some((text) => text.startsWith(`"${hebrew},`)) || (await all(".diff bdi"))));
check("odd: a name and its value stay in their places", await page.$$eval(".diff span", (lines) => {
  const line = lines.find((one) => one.textContent.includes('"text": '));
  const [name, value] = [...line.querySelectorAll("bdi")].map((one) => one.getBoundingClientRect());
  return line.querySelectorAll("bdi").length === 2 && name.right <= value.left;
}));
check("odd: cells stay in their places", await inOrder("tbody tr:first-child td"));
check("odd: accessible", await faults());
check("what is refused is told", await visit(`#object?path=/api/v1/%E2%80%AE%3Cimg%20src%3Dx%3E`, async () => ((told) => (/^4\d\d: /.test(told) && !told.includes("\u202e")) || told)(await text("main p[role=status]"))));

check("tail follows", await visit("#tail?path=/api/v1/namespaces/default/configmaps", async () => (await all(".log p")).length > 5 || (await all(".log p")).length));
check("tail: who changes it", await until(async () => (await all(".log p")).some((line) => line.endsWith("by painter")) || (await text(".log p"))));
await looks("tail");

check("the keyboard reaches the views", await (async () => {
  await page.goto("about:blank");
  await visit("#overview", async () => (await page.$(".health p")) !== null);
  await page.keyboard.press("Tab");
  const skip = await page.evaluate(() => document.activeElement.id);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  return (await until(async () => (await page.evaluate(() => location.hash)) === "#resources")) === true && skip === "skip";
})());
check("nothing that others wrote ran", (await page.title()) !== "ran");
const before = await json(`${api}/overview`);
const other = await browser.newPage();
await other.bringToFront();
check("a tab that sleeps asks for nothing", await until(async () => (await json(`${api}/overview`)).viewers === 0 || (await page.evaluate(() => document.visibilityState))));
await page.bringToFront();
check("and goes on when it is seen", await until(async () => (await json(`${api}/overview`)).viewers === 1));
check("it was followed before", before.viewers === 1 || before.viewers);

// --- a network that goes away, a server that falls silent, a page that stays open

const state = () => text("#state");
await other.bringToFront();
await until(async () => (await state()) === "paused");
await page.setOfflineMode(true);
await page.bringToFront();
check("a network that is away is told", await until(async () => (await state()).startsWith("no connection") || (await state())));
await page.setOfflineMode(false);
check("and the page goes on when it is back", await until(async () => (await state()) === "ready" || (await state())));
const away = /ERR_INTERNET_DISCONNECTED|Failed to load resource/;
wrong.splice(0, wrong.length, ...wrong.filter((one) => !away.test(one)));

// A page of its own whose stream is played: so many snapshots as fast as it takes them, then silence.
async function played(seconds, view) {
  const stage = await browser.newPage();
  await stage.setViewport({ width: 1280, height: 900 });
  await stage.evaluateOnNewDocument((first, seconds) => {
    const real = window.fetch;
    const state = (window.played = { sent: 0, streams: 0, until: 700, seconds });
    window.fetch = (url, options) => {
      if (!String(url).includes("overview?watch=true")) return real(url, options);
      state.streams += 1;
      const encoder = new TextEncoder();
      return Promise.resolve(new Response(new ReadableStream({
        start: (controller) => options.signal.addEventListener("abort", () => controller.error(options.signal.reason)),
        async pull(controller) {
          while (state.sent >= state.until) await new Promise((done) => setTimeout(done, 50));
          if (state.sent % 100 === 0) await new Promise((done) => setTimeout(done));
          const now = structuredClone(first);
          state.sent += 1;
          now.at += state.sent * 1000;
          now.revision += state.sent;
          now.watches = 20 + (state.sent % 50);
          now.counters.requests.all += state.sent * 10;
          now.counters.cpuSeconds += state.sent / 50;
          controller.enqueue(encoder.encode(`${JSON.stringify(now)}\n`));
        },
      }, { highWaterMark: 0 })));
    };
  }, await json(`${api}/overview`), seconds);
  await stage.goto(`${server}/watchcache/${view}`, { waitUntil: "domcontentloaded" });
  const sent = () => stage.evaluate(() => window.played.sent);
  const weigh = async (until) => {
    await stage.evaluate((until) => { window.played.until = until; }, until);
    while ((await sent()) < until) await sleep(200);
    const session = await stage.createCDPSession();
    for (let times = 0; times < 3; times += 1) await session.send("HeapProfiler.collectGarbage");
    const { JSHeapUsedSize, Nodes, JSEventListeners } = await stage.metrics();
    return { heap: JSHeapUsedSize, nodes: Nodes, listeners: JSEventListeners };
  };
  return { stage, weigh };
}

const { stage, weigh } = await played(day, "#overview");
const [young, began] = [await weigh(700), Date.now()];
const old = await weigh(day);
console.log(`   page: ${day} s played in ${Math.round((Date.now() - began) / 1000)} s: heap ${Math.round(young.heap / 1024)} KiB after 700 s, ${Math.round(old.heap / 1024)} KiB at the end; nodes ${young.nodes}, ${old.nodes}; listeners ${young.listeners}, ${old.listeners}`);
const grows = (before, after) => (after.heap <= 1.1 * before.heap + (1 << 20) && after.nodes <= before.nodes + 50 && after.listeners <= before.listeners + 5) || [before, after];
check("a page that stays open does not grow", grows(young, old));
check("nor do one's ways through its views", await (async () => {
  const round = async (times) => {
    for (let nth = 0; nth < times; nth += 1) {
      for (const hash of ["resources", "watches", "tail", "object", "cluster", "overview"]) {
        await stage.evaluate((hash) => { location.hash = hash; }, hash);
        await sleep(20);
      }
    }
    await sleep(500);
    return weigh(day);
  };
  const before = await round(3);
  return grows(before, await round(20));
})());
check("a stream that is silent is opened again", await until(async () => (await stage.evaluate(() => window.played.streams)) > 1));
await stage.close();
await page.bringToFront();

// --- a server that has another behind it

if (fed) {
  const behind = `${fed}/watchcache/api/v1`;
  await json(`${fed}/api/v1/namespaces/default/configmaps`);
  await fetch(`${fed}/version`);
  await json(`${fed}/api/v1/namespaces/default/configmaps`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ metadata: { name: "through" } }) });
  wrong.splice(0, wrong.length, ...wrong.filter((one) => !one.startsWith(`outside: ${fed}/`)));
  check("cluster: shown only where there is one", (await page.$eval('nav a[href="#cluster"]', (link) => link.parentNode.hidden)) === true);
  await page.goto(`${fed}/watchcache/#cluster`, { waitUntil: "domcontentloaded" });
  check("cluster comes", await until(async () => (await page.$('dd[data-fact="State"]')) !== null && (await fact("State")) === "answers"));
  check("cluster: its link is there", await until(async () => (await page.$eval('nav a[href="#cluster"]', (link) => link.parentNode.hidden)) === false));
  const told = (await json(`${behind}/cluster`)).upstream.forwarded.find((one) => one.reason === "write");
  check("cluster: a write was forwarded", await until(async () => ((cells) => (number(cells?.requests ?? "") === told.count && cells.answers === `201: ${told.count}`) || cells)(await row("write"))));
  check("cluster: where objects come from", (await fact("Objects come from")) === "upstream");
  const done = new AbortController();
  const busy = (async () => {
    for (let nth = 0; !done.signal.aborted; nth += 1) {
      await json(`${fed}/api/v1/namespaces/default/configmaps/through`, { method: "PATCH", headers: { "Content-Type": "application/merge-patch+json" }, body: JSON.stringify({ data: { nth: String(nth) } }) });
      for (const path of ["/api/v1/namespaces/default/configmaps", "/api/v1/namespaces?resourceVersion=0", nth % 5 ? "/api/v1/services?resourceVersion=0" : "/apis"]) await (await fetch(`${fed}${path}`)).arrayBuffer();
      await sleep(100);
    }
  })();
  if (pictures) await sleep(60000);
  check("cluster: it moves", await until(async () => ((values) => (values.length === 3 && values[0] !== "–") || values)(await all("figcaption b"))));
  await looks("cluster");
  done.abort();
  await busy;
  wrong.splice(0, wrong.length, ...wrong.filter((one) => !one.startsWith(`outside: ${fed}/`)));
}
check("no error, no request to anybody else", wrong.length === 0 || wrong);
await browser.close();
check("nobody looks, nothing is gathered", await until(async () => (await json(`${api}/overview`)).viewers === 0));
stop.abort();
await loading.catch(() => null);
process.exit(failed ? 1 : 0);
