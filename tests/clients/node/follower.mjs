// follower.mjs KUBECONFIG RESTRICTED NAME NAMESPACE: the official client `@kubernetes/client-node` as a follower of tests/clients/follow.py, which says what is asked and answered.
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import * as k8s from '@kubernetes/client-node';

const [kubeconfig, restricted, name, namespace] = process.argv.slice(2);
const path = `/api/v1/namespaces/${namespace}/configmaps`;
const labelSelector = `follower!=${name}`;
// How long the informer's user waits until he starts it again.
const PAUSE_MS = 200;
let informer;

const say = (...words) => console.log(words.join(' '));
const check = (what, held) => say(held === true ? `ok ${what}` : `FAILED ${what}: ${JSON.stringify(held)}`);
const load = (file) => {
  const config = new k8s.KubeConfig();
  config.loadFromFile(file);
  return config;
};
const config = load(kubeconfig);
const core = config.makeApiClient(k8s.CoreV1Api);

/** Whether the call ends with the client's own exception, which tells the server's Status. */
async function refused(what, code, reason, call) {
  try {
    check(what, { answered: await call() });
  } catch (error) {
    const body = typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
    check(what, (error instanceof k8s.ApiException && error.code === code && body.reason === reason) || String(error));
  }
}

async function answers() {
  const found = [];
  let _continue;
  do {
    const page = await core.listNamespacedConfigMap({ namespace, limit: 700, _continue });
    found.push(...page.items.map((it) => it.metadata.name));
    _continue = page.metadata._continue;
  } while (_continue);
  say('paged', found.length, new Set(found).size);

  const map = (called, a = '1') => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: called }, data: { a } });
  const create = (called) => core.createNamespacedConfigMap({ namespace: name, body: map(called) });
  await refused('404', 404, 'NotFound', () => core.readNamespacedConfigMap({ namespace: name, name: 'missing' }));
  const stale = await create('one');
  await refused('409 of what is there', 409, 'AlreadyExists', () => create('one'));
  const merge = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch);
  await core.patchNamespacedConfigMap({ namespace: name, name: 'one', body: { data: { b: '2' } } }, merge);
  await refused('409 of what has changed', 409, 'Conflict', () => core.replaceNamespacedConfigMap({ namespace: name, name: 'one', body: stale }));
  await refused('422', 422, 'Invalid', () => create('Not_A_Name'));
  const eviction = { metadata: { name: 'guarded', namespace: name } };
  await refused('429', 429, 'TooManyRequests', () => core.createNamespacedPodEviction({ namespace: name, name: 'guarded', body: eviction }));
  if (restricted) {
    const nobody = load(restricted).makeApiClient(k8s.CoreV1Api);
    await refused('403', 403, 'Forbidden', () => nobody.listNamespacedSecret({ namespace: name }));
  }

  const applying = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.ServerSideApply);
  const apply = (fieldManager, value, force) =>
    core.patchNamespacedConfigMap({ namespace: name, name: 'applied', body: map('applied', value), fieldManager, force }, applying);
  check('an apply', (await apply('first', '1')).data.a === '1');
  await refused('409 of an apply', 409, 'Conflict', () => apply('second', '2'));
  check('an apply by force', (await apply('second', '2', true)).data.a === '2');
}

/** A watch from revision 1 ends with an error or an ERROR event of 410. */
function late() {
  return new Promise((resolve) => {
    const seen = [];
    const options = { resourceVersion: '1', timeoutSeconds: 5 };
    new k8s.Watch(config).watch(path, options, (type, object) => seen.push(type === 'ERROR' && object.code), (error) => {
      check('410', seen[0] === 410 || error?.statusCode === 410 || `${seen.length} events, ${error}`);
      resolve();
    });
  });
}

async function follow() {
  informer = k8s.makeInformer(config, path, () => core.listNamespacedConfigMap({ namespace, labelSelector }), labelSelector);
  const put = (it) => say('put', it.metadata.name, it.metadata.resourceVersion);
  informer.on('add', put);
  informer.on('update', put);
  informer.on('delete', (it) => say('gone', it.metadata.name));
  // It does not go on by itself after an error other than 410: its documentation has the user start it again.
  informer.on('error', async () => {
    await sleep(PAUSE_MS);
    await informer.start();
  });
  await informer.start();
}

function held() {
  for (const it of informer.list(namespace)) say('held', it.metadata.name, it.metadata.resourceVersion);
}

const words = { answers, late, follow, held };
for await (const line of createInterface(process.stdin)) {
  await words[line]();
  say('done');
}
process.exit(0);
