/** Documents that come from elsewhere: of image layouts, and of the other host of a migration. */

import assert from 'node:assert/strict';
import { containerdImage, documentsOf } from '../../src/archive/containerd-image.js';
import { entryIn, layersIn } from '../../src/archive/oci-layout.js';
import { compare, type Moving } from '../../src/migrate/question/compare.js';
import { factsOf, questionOf } from '../../src/migrate/question/documents.js';
import { factsOfHost, hostOfFacts } from '../../src/migrate/question/host-facts.js';
import { bytesField, numberField } from '../../src/protobuf.js';
import { sampleManifest } from '../unit/manifest-sample.js';
import { json, type Parser, texts, unlessRefused, unlessSyntax } from './parser.js';

const descriptor = {
  mediaType: 'application/vnd.oci.image.manifest.v1+json',
  digest: `sha256:${'ab'.repeat(32)}`,
  size: 400,
  annotations: { 'org.opencontainers.image.ref.name': 'job:1' },
};
const layer = { ...descriptor, mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip' };

const containerd = 'application/vnd.containerd.container';
const ofContainerd = {
  manifests: [
    { ...descriptor, mediaType: `${containerd}.criu.checkpoint.criu.tar` },
    { ...descriptor, mediaType: `${containerd}.checkpoint.config.v1+proto` },
  ],
  annotations: { 'io.containerd.checkpoint.runtime': 'io.containerd.runc.v2' },
};

const imageLayout: Parser = {
  name: 'image-layout',
  seeds: texts(
    JSON.stringify({ schemaVersion: 2, manifests: [descriptor] }),
    JSON.stringify({ schemaVersion: 2, config: descriptor, layers: [layer, layer] }),
    JSON.stringify(ofContainerd),
  ),
  tokens: [...json, '"manifests":', '"layers":', '"digest":', 'sha256:', '../', '/', '9e15'],
  run(input) {
    const refusals = ['E_IMAGE_CORRUPT', 'E_IMAGE_MISSING', 'E_NOT_FOUND', 'E_USAGE'] as const;
    for (const find of [
      () => [entryIn(input, undefined, 'x').blob],
      () => [entryIn(input, 'job:1', 'x').blob],
      () => {
        const { checkpoint, spec } = containerdImage(input, 'y', 'x');
        return [checkpoint, ...(spec ? [spec] : [])];
      },
      () => {
        const { checkpoint, stores } = layersIn(input, 'y', 'x');
        return [checkpoint, ...stores];
      },
    ]) {
      for (const blob of unlessRefused(refusals, find) ?? []) {
        assert.match(blob.name, /^blobs\/sha256\/[0-9a-f]{64}$/);
        assert.ok(Number.isSafeInteger(blob.bytes) && blob.bytes >= 0);
      }
    }
  },
};

const specType = 'types.containerd.io/opencontainers/runtime-spec/1/Spec';

/** The container's spec in an image of containerd. */
const containerdSpec: Parser = {
  name: 'containerd-spec',
  seeds: [
    Buffer.concat([bytesField(1, specType), bytesField(2, '{"linux":{"devices":[]}}')]),
    Buffer.concat([bytesField(2, '{}'), numberField(3, 1), bytesField(1, `/${specType}`)]),
  ],
  tokens: [specType, '\x0a', '\x12', '\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01'],
  run(input) {
    const image = containerdImage(Buffer.from(JSON.stringify(ofContainerd)), 'y', 'x');
    const made = unlessRefused(['E_IMAGE_CORRUPT'], () => documentsOf(image, input, 'x'));
    if (made === undefined) return;
    assert.ok((made['spec.dump']?.length ?? input.length) < input.length);
    assert.ok(input.includes('runtime-spec/'));
  },
};

const image_id = 'ab'.repeat(32);
const question = {
  engine: 'podman',
  container: 'job',
  image: 'job:1',
  image_id,
  folders: ['/srv'],
};
const facts = {
  release: '1.0',
  host: {
    ...sampleManifest().host,
    cpu: { model: 'a CPU', flags: ['avx2'], xsave_bytes: 2440 },
    kfd_device: { major: 234, minor: 0 },
    gpus: sampleManifest().gpus.map((record) => ({
      record,
      render_device: { major: 226, minor: record.render_minor },
      vram_free_bytes: 1,
      sdma_users: [{ pid: 1, queues: 2 }],
    })),
  },
  tools: { criu: '4.1', podman: '5.4.2', crun: '1.21' },
  failures: [{ name: 'hook', message: 'missing', hint: 'configure' }],
  name_taken: true,
  image_id,
  missing_folders: ['/srv'],
  memory_free_bytes: 1,
  store: { path: '/var/tmp', free_bytes: 1 },
};

/** What the other host of a migration says. */
const migrationDocuments: Parser = {
  name: 'migration-documents',
  seeds: texts(JSON.stringify(question), JSON.stringify(facts)),
  tokens: [...json, '"gpus":', '"record":', '"folders":', '"host":', '-', '/'],
  run(input) {
    const value = unlessSyntax(() => JSON.parse(input.toString()) as unknown);
    const asked = unlessRefused(['E_PROTOCOL'], () => questionOf(value));
    assert.ok(asked === undefined || !/^-/.test(asked.container + asked.image));
    const said = unlessRefused(['E_PROTOCOL'], () => factsOf(value));
    if (said === undefined) return;
    const moving: Moving = {
      question: questionOf(question),
      release: '1.0',
      tools: { criu: '4.1' },
      runtime: 'crun',
      hasCrunMasks: true,
      containerId: '0'.repeat(64),
      obstacles: [],
      manifest: sampleManifest(),
      memoryBytes: 2,
      rounds: 1,
      sendsMemory: true,
      rooms: [],
      contentBytes: 2,
      changedBytes: 0,
    };
    for (const { message, hint } of compare(moving, said).reasons)
      assert.ok(message !== '' && hint !== undefined);
    assert.deepEqual(factsOfHost(hostOfFacts(said.host)), said.host);
  },
};

export const foreignParsers: readonly Parser[] = [imageLayout, containerdSpec, migrationDocuments];
