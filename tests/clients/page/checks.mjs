// checks.mjs KUBECONFIG: a browser (Chromium) on every view of the page at /watchcache/, one line for each check, exit status 1 when one fails.
//
// CHROMIUM names the browser (`chromium` without it), SHOTS a folder for pictures of the views. The server speaks plain HTTP, and is under load meanwhile.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import puppeteer from "puppeteer-core";

const server = (await readFile(process.argv[2], "utf8")).match(/server: (\S+)/)[1];
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const shots = process.env.SHOTS;
const api = `${server}/watchcache/api/v1`;
const maps = `${server}/api/v1/namespaces/default/configmaps`;
// What must be shown as text: markup, marks that turn the direction, a name as long as names may be.
const agent = `<img src=x onerror=document.title='ran'>/1`;
const annotation = "<script>document.title='ran'</script>\u202e\u0007\u0000txt";
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

const post = (body) => json(maps, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
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
await post(body(long, "first"));
await put("shown", body("shown", "second"));
const stop = new AbortController();
const open = [];
for (let nth = 0; nth < 20; nth += 1) {
  open.push(fetch(`${maps}?watch=1&labelSelector=nth%3D${nth}`, { headers: { "User-Agent": nth ? `loader/${nth}` : agent }, signal: stop.signal }).catch(() => null));
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

// Each view by day on a desk, and by night on a phone.
async function looks(name) {
  for (const [where, width, height, scheme] of [["desk", 1280, 900, "light"], ["phone", 390, 844, "dark"]]) {
    await page.setViewport({ width, height });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await sleep(300);
    check(`${name}: accessible, ${where}, ${scheme}`, await faults());
    check(`${name}: no wider than the screen, ${where}`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1));
    if (shots) await page.screenshot({ path: `${shots}/${name}-${where}.png` });
  }
  await page.setViewport({ width: 1280, height: 900 });
}

const fact = (name) => text(`dd[data-fact="${name}"]`);
check("overview comes", await visit("#overview", async () => (await page.$('dd[data-fact="State"]')) !== null && (await fact("State")) === "ready"));
check("overview: figures beside the plots", await until(async () => ((values) => (values.length > 9 && values.every((value) => value !== "–")) || values)(await all("figcaption b"))));
const told = await json(`${api}/overview`);
check("overview: objects as the API says", Math.abs(number(await fact("Objects")) - told.objects) <= 2 || [await fact("Objects"), told.objects]);
check("overview: watches as the API says", number(await fact("Watches")) === told.watches || [await fact("Watches"), told.watches]);
check("overview: it moves", await (async () => { const was = number(await fact("Revision")); return until(async () => number(await fact("Revision")) > was); })());
check("overview: one who looks", told.viewers === 1 || told.viewers);
await looks("overview");
const bytes = await page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .filter((entry) => !entry.name.includes("/api/")).reduce((sum, entry) => sum + entry.encodedBodySize, 0));
check("the page weighs at most 150 KB", (bytes > 50_000 && bytes <= 150_000) || bytes);

const row = async (name) => (await page.$$eval("tbody tr", (rows) => rows.map((one) => [...one.children].map((cell) => cell.textContent)))).find((cells) => cells[0] === name);
check("resources come", await visit("#resources?sort=name", async () => (await row("configmaps")) !== undefined));
const figures = (await json(`${api}/resources?filter=configmaps`)).items[0];
const cells = await row("configmaps");
check("resources: objects as the API says", number(cells[2]) === figures.objects || [cells, figures.objects]);
const gauge = (await (await fetch(`${server}/metrics`)).text()).match(/^apiserver_resource_objects\{.*resource="configmaps".*\} (\d+)/m);
check("resources: objects as the metrics say", number(cells[2]) === Number(gauge?.[1]) || [cells[2], gauge?.[1]]);
check("resources: rates come", await until(async () => Number((await row("configmaps"))?.[12]) > 5 || (await row("configmaps"))));
await looks("resources");
await page.click("thead button");
check("resources: sorted the other way", await until(async () => (await page.$eval("th[aria-sort=descending]", (head) => head.textContent).catch(() => "")) === "resource"));
await page.type("input[type=search]", "secrets");
check("resources: filtered", await until(async () => (await all("tbody tr td:first-child")).join() === "secrets" || (await all("tbody tr td:first-child"))));

check("watches come", await visit("#watches?sort=id", async () => (await all("tbody tr")).length === 20 || (await all("tbody tr")).length));
check("watches: a name with markup is a text", (await all("tbody bdi")).includes(agent));
await looks("watches");
await page.type("input[type=search]", "loader/7");
check("watches: filtered", await until(async () => (await all("tbody tr")).length === 1 || (await all("tbody tr")).length));
await page.click("tbody button");
await page.waitForSelector("dialog[open]");
check("watches: the question is accessible", await faults());
await page.evaluate(() => [...document.querySelectorAll("dialog button")].find((button) => button.textContent === "End it").click());
check("watches: one is ended", await until(async () => (await json(`${api}/watches`)).open === 19 || (await json(`${api}/watches`)).open));
check("watches: that is told", await until(async () => (await text("main p[role=status]")).endsWith("was ended.") || (await text("main p[role=status]"))));

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

check("tail follows", await visit("#tail?path=/api/v1/namespaces/default/configmaps", async () => (await all(".log p")).length > 5 || (await all(".log p")).length));
check("tail: who changes it", (await text(".log p")).endsWith("by painter") || (await text(".log p")));
await looks("tail");

check("the keyboard reaches the views", await (async () => {
  await page.goto("about:blank");
  await visit("#overview", async () => (await page.$('dd[data-fact="State"]')) !== null);
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
check("no error, no request to anybody else", wrong.length === 0 || wrong);
await browser.close();
check("nobody looks, nothing is gathered", await until(async () => (await json(`${api}/overview`)).viewers === 0));
stop.abort();
await loading.catch(() => null);
process.exit(failed ? 1 : 0);
