// pictures.mjs SERVER FOLDER [FED]: pictures of the page at /watchcache/ with a small shop's cluster, for docs/pictures; by hand.
//
// Makes the cluster on SERVER (an empty one that allows everything: its plain listener, http://127.0.0.1:8080): nodes, Deployments with their Pods, clients with the agents and
// users that a cluster has, a minute of their traffic. FED is a server that SERVER feeds; its view of the cluster is shown too. ALL=yes takes every view at 390, 1,280 and
// 1,920 pixels, without it those of docs/pictures are taken. CHROMIUM is the path of the browser (/usr/bin/chromium without it).
import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import puppeteer from "puppeteer-core";
import { palette } from "./palette.mjs";

const [server, folder, fed] = process.argv.slice(2);
const TRAFFIC_SECONDS = 75;
const stop = new AbortController();
const watches = [];

// --- who there is

const nodes = ["worker-a1", "worker-a2", "worker-b1", "worker-b2", "worker-c1"];
const kubelet = (node) => ({ user: `system:node:${node}`, agent: "kubelet/v1.36.3 (linux/amd64) kubernetes/5f3a2b1" });
const component = (name) => ({ user: `system:${name}`, agent: `${name}/v1.36.3 (linux/amd64) kubernetes/5f3a2b1` });
const account = (namespace, name, agent) => ({ user: `system:serviceaccount:${namespace}:${name}`, agent });
const argocd = account("argocd", "argocd-application-controller", "argocd-application-controller/v3.1.0");
const prometheus = account("monitoring", "prometheus", "Prometheus/3.5.0");
const ingress = account("ingress-nginx", "ingress-nginx", "nginx-ingress-controller/v1.13.1");
const certificates = account("cert-manager", "cert-manager", "cert-manager-certificates/v1.21.0");
const manager = component("kube-controller-manager");
const scheduler = component("kube-scheduler");
const anna = { user: "anna@shop.example", agent: "kubectl/v1.36.3 (darwin/arm64) kubernetes/5f3a2b1" };

const headers = ({ user, agent }, more) => ({ "User-Agent": agent, "Impersonate-User": user, "Impersonate-Group": "system:masters", ...more });

async function send(who, method, path, body, type = "application/json", to = server) {
  const answer = await fetch(`${to}${path}`, { method, headers: headers(who, body && { "Content-Type": type }), body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}
const apply = (who, name, path, body) => send(who, "PATCH", `${path}?fieldManager=${name}&force=true`, body, "application/apply-patch+yaml");
const merge = (who, path, body, to) => send(who, "PATCH", path, body, "application/merge-patch+json", to);
const watch = (who, path) => watches.push(fetch(`${server}${path}${path.includes("?") ? "&" : "?"}watch=1&resourceVersion=0&allowWatchBookmarks=true`, { headers: headers(who), signal: stop.signal }).catch(() => null));

// --- the cluster

const apps = [
  ["shop", "web", 4, "shop/web:2.14.0"], ["shop", "cart", 2, "shop/cart:1.8.3"], ["shop", "search", 3, "shop/search:4.1.0"],
  ["payments", "ledger", 2, "shop/ledger:0.9.7"], ["payments", "api", 2, "shop/payments-api:3.2.1"],
  ["monitoring", "prometheus", 1, "shop/prometheus/prometheus:v3.5.0"], ["monitoring", "grafana", 1, "shop/grafana/grafana:12.1.0"],
  ["cert-manager", "cert-manager", 1, "shop/jetstack/cert-manager-controller:v1.21.0"], ["argocd", "argocd-application-controller", 1, "shop/argoproj/argocd:v3.1.0"],
  ["ingress-nginx", "ingress-nginx-controller", 2, "shop/ingress-nginx/controller:v1.13.1"], ["kube-system", "coredns", 2, "shop/coredns/coredns:v1.13.0"],
];
const deployment = (namespace, name) => `/apis/apps/v1/namespaces/${namespace}/deployments/${name}`;
const template = (name, image) => ({ metadata: { labels: { app: name } }, spec: { containers: [{ name, image, resources: { requests: { cpu: "100m", memory: "128Mi" } } }] } });
const wanted = (namespace, name, replicas, image) => ({
  apiVersion: "apps/v1", kind: "Deployment", metadata: { name, namespace, labels: { app: name } }, spec: { replicas, selector: { matchLabels: { app: name } }, template: template(name, image) },
});

async function makePod(namespace, name, image, nth) {
  const node = nodes[(nth * 3 + name.length) % nodes.length];
  const pod = `${name}-${"7c9d4f8b6d"}-${["x2k9p", "m4q7z", "t8w5v", "h6r3n"][nth]}`;
  const path = `/api/v1/namespaces/${namespace}/pods`;
  await send(manager, "POST", `${path}?fieldManager=kube-controller-manager`, { metadata: { name: pod, ...template(name, image).metadata }, spec: template(name, image).spec });
  await send(scheduler, "POST", `${path}/${pod}/binding`, { apiVersion: "v1", kind: "Binding", metadata: { name: pod }, target: { kind: "Node", name: node } });
  const time = new Date().toISOString().replace(/\.\d+/, "");
  await merge(kubelet(node), `${path}/${pod}/status?fieldManager=kubelet`, { status: {
    phase: "Running", podIP: `10.244.${nodes.indexOf(node)}.${20 + nth + name.length}`, hostIP: `10.0.0.${11 + nodes.indexOf(node)}`, startTime: time,
    conditions: [{ type: "Ready", status: "True", lastTransitionTime: time }],
    containerStatuses: [{ name, image, imageID: image, ready: true, started: true, restartCount: 0, state: { running: { startedAt: time } } }],
  } });
}

for (const node of nodes) {
  await send(kubelet(node), "POST", "/api/v1/nodes", { metadata: { name: node, labels: { "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": `eu-1${node[7]}` } } });
  await send(kubelet(node), "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", { metadata: { name: node }, spec: { holderIdentity: node, leaseDurationSeconds: 40 } });
}
for (const namespace of new Set(apps.map(([namespace]) => namespace))) {
  if (namespace !== "kube-system") await send(anna, "POST", "/api/v1/namespaces", { metadata: { name: namespace } });
  await send(argocd, "POST", `/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name: "settings" }, data: { level: "info" } });
}
for (const [namespace, name, replicas, image] of apps) {
  await apply(argocd, "argocd-controller", deployment(namespace, name), wanted(namespace, name, replicas, image));
  await send(argocd, "POST", `/api/v1/namespaces/${namespace}/services`, { metadata: { name, labels: { app: name } }, spec: { selector: { app: name }, ports: [{ port: 80 }] } });
  for (let nth = 0; nth < replicas; nth += 1) await makePod(namespace, name, image, nth);
  await merge(manager, `${deployment(namespace, name)}/status?fieldManager=kube-controller-manager`, { status: { observedGeneration: 1, replicas, readyReplicas: replicas, availableReplicas: replicas } });
}

// --- who watches

for (const node of nodes) {
  watch(kubelet(node), `/api/v1/pods?fieldSelector=spec.nodeName%3D${node}`);
  watch(kubelet(node), `/api/v1/nodes?fieldSelector=metadata.name%3D${node}`);
  watch(kubelet(node), "/api/v1/services");
  watch({ user: "system:serviceaccount:kube-system:kube-proxy", agent: "kube-proxy/v1.36.3 (linux/amd64)" }, "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=%21service.kubernetes.io%2Fheadless");
  watch(kubelet(node), "/api/v1/namespaces/shop/configmaps?fieldSelector=metadata.name%3Dsettings");
}
for (const resource of ["/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces", "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/apis/batch/v1/jobs"]) watch(manager, resource);
for (const resource of ["/api/v1/pods", "/api/v1/nodes"]) watch(scheduler, resource);
for (const resource of ["/api/v1/pods", "/api/v1/services", "/apis/apps/v1/deployments", "/api/v1/configmaps"]) watch(argocd, resource);
for (const resource of ["/api/v1/pods", "/api/v1/services", "/api/v1/nodes"]) watch(prometheus, resource);
for (const resource of ["/apis/networking.k8s.io/v1/ingresses", "/api/v1/secrets", "/api/v1/services"]) watch(ingress, resource);
for (const resource of ["/api/v1/secrets", "/apis/networking.k8s.io/v1/ingresses"]) watch(certificates, resource);
watch(anna, "/api/v1/namespaces/shop/pods");
await Promise.all(watches);

// --- what happens

const events = { level: 0, replicas: 4 };
async function happens(nth) {
  const node = nodes[nth % nodes.length];
  await merge(kubelet(node), `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${node}`, { spec: { renewTime: new Date().toISOString().replace("Z", "000Z") } });
  if (nth % 4 === 0) await merge(kubelet(node), `/api/v1/nodes/${node}/status`, { status: { conditions: [{ type: "Ready", status: "True", lastHeartbeatTime: new Date().toISOString().replace(/\.\d+/, "") }] } });
  if (nth % 3 === 0) {
    const [namespace, name] = apps[nth % apps.length];
    const { items } = await send(anna, "GET", `/api/v1/namespaces/${namespace}/pods?labelSelector=app%3D${name}`);
    if (items[0]) await merge(kubelet(items[0].spec.nodeName), `/api/v1/namespaces/${namespace}/pods/${items[0].metadata.name}/status`, { status: { message: `probe ${nth}` } });
  }
  if (nth % 40 === 10) {
    events.replicas = events.replicas === 4 ? 6 : 4;
    await merge({ ...manager, user: "system:serviceaccount:kube-system:horizontal-pod-autoscaler" }, `${deployment("shop", "web")}/scale?fieldManager=horizontal-pod-autoscaler`, { spec: { replicas: events.replicas } });
    await merge(manager, `${deployment("shop", "web")}/status?fieldManager=kube-controller-manager`, { status: { observedGeneration: 2 + Math.floor(nth / 40), replicas: events.replicas, readyReplicas: 4 } });
  }
  if (nth % 40 === 25) await merge(anna, `/api/v1/namespaces/shop/configmaps/settings?fieldManager=kubectl-edit`, { data: { level: (events.level += 1) % 2 ? "debug" : "info" } });
  if (nth === 60) await merge(anna, `${deployment("shop", "web")}?fieldManager=kubectl-set`, { spec: { template: { spec: { containers: [{ name: "web", image: "shop/web:2.14.1" }] } } } });
  if (fed && nth % 3 === 0) {
    await merge(anna, "/api/v1/namespaces/shop/configmaps/settings?fieldManager=kubectl-edit", { data: { page: String(nth) } }, fed);
    for (const path of ["/api/v1/namespaces/shop/configmaps", "/api/v1/pods?resourceVersion=0", nth % 5 ? "/api/v1/services?resourceVersion=0" : "/apis"]) await (await fetch(`${fed}${path}`, { headers: headers(anna) })).arrayBuffer();
  }
}
const traffic = (async () => {
  for (let nth = 0; !stop.signal.aborted; nth += 1) {
    await happens(nth);
    await sleep(120 + 80 * Math.sin(nth / 25));
  }
})();
traffic.catch((error) => { console.error(error); process.exit(1); });

// --- the pictures

const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"] });
const page = await browser.newPage();
const screens = { desk: [1280, 900, "light"], phone: [390, 844, "dark"], wide: [1920, 1080, "light"] };
const taken = new Set(["overview-desk", "resources-desk", "watches-desk", "object-desk", "object-phone", "cluster-desk"]);

async function take(name, from, hash, wait = 0) {
  for (const [where, [width, height, scheme]] of Object.entries(screens)) {
    if (process.env.ALL !== "yes" && !taken.has(`${name}-${where}`)) continue;
    await page.setViewport({ width, height });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(`${from}/watchcache/${hash}`, { waitUntil: "domcontentloaded" });
    await sleep(wait || 3000);
    await writeFile(`${folder}/${name}-${where}.png`, palette(Buffer.from(await page.screenshot())));
    wait = 0;
  }
}

await take("overview", server, "#overview", TRAFFIC_SECONDS * 1000);
await take("resources", server, "#resources");
await take("watches", server, "#watches");
await take("object", server, "#object?path=/apis/apps/v1/namespaces/shop/deployments/web");
await take("tail", server, "#tail");
if (process.env.ALL === "yes") await take("expired", server, "#expired");
if (fed) await take("cluster", fed, "#cluster", TRAFFIC_SECONDS * 1000);
await browser.close();
stop.abort();
process.exit(0);
