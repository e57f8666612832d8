/** Annotations of a pod, which reach its sandbox and each of its containers. */

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readBundleSpec, restoreImage } from '../../shim/intercept/bundle-spec.js';
import { bytesField } from '../../src/protobuf.js';
import { field, id, refusal, world } from './intercept-world.js';
import { temporaryFolder } from './paths.js';

const restore = 'io.kfd-checkpoint.restore-from';
const type = 'io.kubernetes.cri.container-type';
const name = 'io.kubernetes.cri.container-name';

test('the sandbox of a pod is not restored, and the log says so; its container is', async (t) => {
  const one = await world(t, { help: () => refusal });
  const image = join(one.folder, 'image');
  await mkdir(image);
  await writeFile(join(image, 'kfd-manifest.json'), '');
  const create = async (kind: string) => {
    const annotations = { [restore]: image, [type]: kind };
    await writeFile(join(one.bundle, 'config.json'), JSON.stringify({ annotations }));
    return one.call('Create', id, bytesField(2, one.bundle));
  };
  assert.equal((await create('sandbox')).code, 0);
  assert.equal(field(one.seen[0]?.payload ?? Buffer.alloc(0), 8), '', 'nothing to restore from');
  assert.deepEqual(one.asked, []);
  await one.call('Start', id);
  assert.notEqual(one.seen.at(-1)?.timeoutNs, 0n, 'a Start that restores has no deadline');
  assert.match(
    String(one.troubles),
    /^one: io\.kfd-checkpoint\.restore-from of the pod is ignored for its sandbox$/,
  );
  assert.equal((await create('container')).code, 9, 'it is looked into');
  assert.deepEqual([one.asked, one.troubles.length], [[['preflight', 'move']], 1]);
});

test('one container of a pod is named behind a slash, and has precedence', async (t) => {
  const bundle = await temporaryFolder(t);
  for (const [annotations, image] of [
    [{}, undefined],
    [{ [restore]: '/all' }, '/all'],
    [{ [restore]: '/all', [type]: 'container' }, '/all'],
    [{ [restore]: '', [type]: 'container' }, undefined],
    [{ [restore]: 7 }, undefined],
    [{ [restore]: '/all', [`${restore}/job`]: '/job', [name]: 'job' }, '/job'],
    [{ [restore]: '/all', [`${restore}/job`]: '/job', [name]: 'other' }, '/all'],
    [{ [`${restore}/job`]: '/job', [name]: 'other' }, undefined],
    [{ [`${restore}/job`]: '/job', [name]: 'job', [type]: 'sandbox' }, undefined],
    [{ [`${restore}/`]: '/none', [name]: '' }, undefined],
    // An empty value is one, too: this container of the pod starts anew.
    [{ [restore]: '/all', [`${restore}/job`]: '', [name]: 'job' }, undefined],
  ] as const) {
    await writeFile(join(bundle, 'config.json'), JSON.stringify({ annotations }));
    assert.equal(restoreImage(readBundleSpec(bundle)), image, JSON.stringify(annotations));
  }
});
