import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placeAsIs } from '../../src/gpu/compare.js';
import type { Host } from '../../src/gpu/host.js';
import { placeWhenFree } from '../../src/gpu/wait-vram.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';

const wait = { pollMs: 1, idleMs: 40, longestMs: 20_000 };

/** GPUs of the sample in their places, the first with this much free VRAM. */
const withFree = (free: number): Host =>
  hostWith({ render_minor: 128, free }, { render_minor: 129 });

/** Looks at a host whose VRAM changes with each look; the last stays. */
function looker(...free: readonly number[]) {
  let looks = 0;
  const look = async () => withFree(free[Math.min(looks++, free.length - 1)] as number);
  return { look, looks: () => looks };
}

const manifest = sampleManifest();
const place = (host: Host) => placeAsIs(manifest, host);
const needed = manifest.buffers
  .filter(({ kind, gpu }) => kind === 'vram' && gpu === 0)
  .reduce((sum, { size }) => sum + size, 0);

test('VRAM that becomes free a moment later is waited for', async () => {
  const { look, looks } = looker(0, 0, 1, 2, needed);
  const { placement, host } = await placeWhenFree(look, place, { ...wait, idleMs: 10_000 });
  assert.deepEqual(placement.mismatches, []);
  assert.equal(host.gpus[0]?.vramFreeBytes, needed);
  assert.equal(looks(), 5);
});

test('a GPU that stays full is refused soon', async () => {
  const began = performance.now();
  const { placement } = await placeWhenFree(looker(0, 1).look, place, wait);
  assert.deepEqual(
    placement.mismatches.map(({ code }) => code),
    ['E_VRAM'],
  );
  const took = performance.now() - began;
  assert.ok(took >= 40 && took < 10_000, `${took} ms`);
});

test('VRAM that becomes free too slowly is not waited for without end', async () => {
  let free = 0;
  const look = async () => withFree(free++);
  const { placement } = await placeWhenFree(look, place, { ...wait, longestMs: 60 });
  assert.equal(placement.mismatches[0]?.code, 'E_VRAM');
});

test('another reason against a restore is told at once', async () => {
  const { look, looks } = looker(0);
  const other = { ...manifest, host: { ...manifest.host, kernel_release: '5.0' } };
  const { placement } = await placeWhenFree(look, (host) => placeAsIs(other, host), wait);
  assert.equal(placement.mismatches.length, 2);
  assert.equal(looks(), 1);
});

test('a number of an SDMA queue that a process gives back is waited for, one that it keeps is not', async () => {
  const wants = new Map([[0, [{ link: 'pcie', id: 1 } as const]]]);
  const user = { pid: 71, queues: 1, slots: wants.get(0) ?? [] };
  const hosts = [[user], [user], []].map((sdma) =>
    hostWith({ render_minor: 128, sdma }, { render_minor: 129, sdma }),
  );
  let looks = 0;
  const look = async () => hosts[Math.min(looks++, 2)] as Host;
  const placed = (host: Host) => placeAsIs(manifest, host, {}, wants);
  const { placement } = await placeWhenFree(look, placed, { ...wait, idleMs: 10_000 });
  assert.deepEqual([placement.mismatches, looks], [[], 3]);
  const kept = await placeWhenFree(async () => hosts[0] as Host, placed, wait);
  assert.deepEqual(
    kept.placement.mismatches.map(({ code }) => code),
    ['E_SDMA_SLOT'],
  );
});
