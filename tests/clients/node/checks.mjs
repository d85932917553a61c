// checks.mjs KUBECONFIG: the official client `@kubernetes/client-node`, one line for each check, exit status 1 when one fails.
import { setTimeout as sleep } from 'node:timers/promises';
import * as k8s from '@kubernetes/client-node';

const namespace = 'default';
const path = `/api/v1/namespaces/${namespace}/configmaps`;
const config = new k8s.KubeConfig();
config.loadFromFile(process.argv[2]);
const core = config.makeApiClient(k8s.CoreV1Api);
let failed = false;

function check(name, held) {
  console.log(held === true ? `ok: node: ${name}` : `FAILED: node: ${name}: ${JSON.stringify(held)}`);
  failed ||= held !== true;
}

async function until(question) {
  for (let tries = 0; tries < 200; tries++) {
    const answer = await question();
    if (answer === true) return true;
    await sleep(100);
  }
  return question();
}

const map = (name, data = {}) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data });
const create = (name, data) => core.createNamespacedConfigMap({ namespace, body: map(name, data) });
const remove = (name) => core.deleteNamespacedConfigMap({ namespace, name });
const patch = (name, body, kind) =>
  core.patchNamespacedConfigMap({ namespace, name, body }, k8s.setHeaderOptions('Content-Type', kind));

/** What a watch from a revision shows until `wanted` events have come or it ends: [types, last revision, error]. */
function watch(revision, wanted, timeoutSeconds = 20) {
  return new Promise((resolve, reject) => {
    const types = [];
    let last = revision;
    let controller;
    const options = { resourceVersion: revision, timeoutSeconds, fieldSelector: 'metadata.name=watched' };
    new k8s.Watch(config)
      .watch(
        path,
        options,
        (type, object) => {
          types.push(type === 'ERROR' ? object.code : type);
          last = object.metadata?.resourceVersion ?? last;
          if (types.length === wanted) controller?.abort();
        },
        (error) => resolve([types, last, error]),
      )
      .then((started) => (controller = started), reject);
  });
}

async function objects() {
  await create('node', { a: '1' });
  const patches = [
    [k8s.PatchStrategy.JsonPatch, [{ op: 'add', path: '/data/json', value: 'json' }], 'json'],
    [k8s.PatchStrategy.MergePatch, { data: { merge: 'merge' } }, 'merge'],
    [k8s.PatchStrategy.StrategicMergePatch, { data: { strategic: 'strategic' } }, 'strategic'],
  ];
  for (const [kind, body, key] of patches) check(`patch (${kind})`, (await patch('node', body, kind)).data[key] === key);
  const names = async () => (await core.listNamespacedConfigMap({ namespace })).items.map((it) => it.metadata.name);
  check('a list', (await names()).includes('node'));
  const made = await create('node').catch((error) => error);
  check('409 of what is there', made.code === 409);
  await remove('node');
  check('delete', !(await names()).includes('node'));
}

async function watches() {
  const listed = await core.listNamespacedConfigMap({ namespace });
  await create('watched');
  const [first, revision] = await watch(listed.metadata.resourceVersion, 1);
  check('a watch', first.join() === 'ADDED');
  await patch('watched', { data: { a: 'b' } }, k8s.PatchStrategy.MergePatch);
  await remove('watched');
  const [second] = await watch(revision, 2);
  check('a watch resumes', second.join() === 'MODIFIED,DELETED');
  const [late, , error] = await watch('1', 1, 5);
  check('410 of a watch that comes too late', late[0] === 410 || error?.statusCode === 410 || `${late} ${error}`);
}

async function informer() {
  const seen = [];
  const informer = k8s.makeInformer(config, path, () => core.listNamespacedConfigMap({ namespace }));
  for (const event of ['add', 'update', 'delete']) {
    informer.on(event, (it) => it.metadata.name === 'informed' && seen.push(event));
  }
  informer.on('error', (error) => seen.push(`${error}`));
  await informer.start();
  await create('informed');
  check("an informer's addition", await until(() => seen.includes('add') || seen));
  await patch('informed', { data: { a: 'b' } }, k8s.PatchStrategy.MergePatch);
  check("an informer's cache", await until(() => informer.get('informed', namespace)?.data?.a === 'b'));
  await remove('informed');
  check("an informer's events", await until(() => seen.join() === 'add,update,delete' || seen));
  await informer.stop();
}

async function custom() {
  const group = 'node.example';
  const schema = { type: 'object', x_kubernetes_preserve_unknown_fields: true };
  const version = { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema }, subresources: { status: {} } };
  const names = { plural: 'things', singular: 'thing', kind: 'Thing' };
  const spec = { group, scope: 'Namespaced', names, versions: [version] };
  const body = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name: `things.${group}` }, spec };
  await config.makeApiClient(k8s.ApiextensionsV1Api).createCustomResourceDefinition({ body });
  const resources = config.makeApiClient(k8s.CustomObjectsApi);
  const place = { group, version: 'v1', namespace, plural: 'things' };
  const thing = { apiVersion: `${group}/v1`, kind: 'Thing', metadata: { name: 'node' }, spec: { size: 1 } };
  check('a custom resource', await until(() => resources.createNamespacedCustomObject({ ...place, body: thing }).then(() => true, (error) => error.code)));
  const merge = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch);
  const patched = await resources.patchNamespacedCustomObject({ ...place, name: 'node', body: { spec: { size: 2 } } }, merge);
  check('a patch of it', patched.spec.size === 2);
  await resources.deleteNamespacedCustomObject({ ...place, name: 'node' });
  check('its list', (await resources.listNamespacedCustomObject(place)).items.length === 0);
}

check('the version', (await config.makeApiClient(k8s.VersionApi).getCode()).minor === '36');
await objects();
await watches();
await informer();
await custom();
process.exit(failed ? 1 : 0);
