/** Documents: the manifest, the engine's JSON, configurations, and words of the command line. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cdiNames } from '../../src/archive/cdi-names.js';
import { containerFacts } from '../../src/archive/container.js';
import { rewriteConfig, rewriteSpec } from '../../src/archive/device-rules.js';
import { parseConfig } from '../../src/config.js';
import { blockProblems, withBlock, withoutBlock } from '../../src/criu/default-conf.js';
import { decodeParentFile } from '../../src/criu/parent-folder.js';
import type { DeviceMove } from '../../src/gpu/device-numbers.js';
import { parseGpuMap } from '../../src/gpu/gpu-map.js';
import { parseDifferences } from '../../src/gpu/ignorable.js';
import type { GpuPair } from '../../src/gpu/pair.js';
import { decodeManifest, encodeManifest } from '../../src/manifest/codec.js';
import { sealOf } from '../../src/manifest/seal.js';
import { parseContainerdConfig, runtimeText } from '../../src/runtime/containerd-config.js';
import { withMember } from '../../src/runtime/json-text.js';
import { parseCrun } from '../../src/runtime/versions.js';
import { amdCdi } from '../unit/cdi-specs.js';
import { documentChanges } from '../unit/device-moves.js';
import { hostWith } from '../unit/host-builder.js';
import { fixtures } from '../unit/paths.js';
import { json, type Parser, texts, unlessRefused, unlessSyntax } from './parser.js';

const manifests = join(fixtures, 'manifest-v1');
const manifestSeeds = readdirSync(manifests).map((name) => readFileSync(join(manifests, name)));

/** With the seal that fits, as a forger would: what is behind it is reached. */
function resealed(text: string): string {
  const document = unlessSyntax(() => JSON.parse(text) as unknown);
  if (document === null || typeof document !== 'object' || Array.isArray(document)) return text;
  const { seal: _, ...rest } = document as Record<string, unknown>;
  return JSON.stringify({ ...rest, seal: sealOf(rest) });
}

const manifest: Parser = {
  name: 'manifest',
  seeds: manifestSeeds,
  tokens: [
    ...json,
    '"gpus":',
    '"buffers":',
    '"processes":',
    '"files":',
    '"size":',
    '9007199254740993',
  ],
  run(input) {
    for (const bytes of [input, Buffer.from(resealed(input.toString()))]) {
      const found = unlessRefused(['E_IMAGE_CORRUPT', 'E_IMAGE_VERSION'], () =>
        decodeManifest(bytes),
      );
      if (found === undefined) continue;
      assert.deepEqual(decodeManifest(Buffer.from(encodeManifest(found))), found);
    }
  },
};

const moves: readonly DeviceMove[] = [
  { what: '/dev/kfd', from: { major: 244, minor: 0 }, to: { major: 511, minor: 0 } },
  { what: 'gpu 0', gpu: 0, from: { major: 226, minor: 128 }, to: { major: 226, minor: 200 } },
];
const annotations = { 'io.kfd-checkpoint.kfd-device': '511:0' };
const host = hostWith({ render_minor: 128 }, { render_minor: 129 });
const second = { recorded: host.gpus[0]?.record, present: host.gpus[1] } as GpuPair;
const cdi = amdCdi([128, 129].map((render) => ({ card: render - 128, render })));
const changes = { ...documentChanges(moves, annotations), cdi: cdiNames([second], cdi, host) };
const spec = `{"annotations":{"cdi.k8s.io/x":"amd.com/gpu=0",
"io.kfd-checkpoint.kfd-device":"244:0","io.container.manager":"libpod"},
"mounts":[{"destination":"/data","type":"bind","source":"/srv/data"}],"big":18446744073709551615,
"linux":{"cgroupsPath":"a","devices":[{"path":"/dev/kfd","type":"c","major":244,"minor":0},
{"path":"/dev/dri/renderD128","type":"c","major":226,"minor":128}],
"resources":{"devices":[{"allow":true,"type":"c","major":226,"minor":128,"access":"rwm"}]}}}`;
const config = `{"id":"x","name":"n","runtime":"crun","spec":${spec},"device_host_src":[{"path":"/dev/kfd"}],
"cdiDevices":["amd.com/gpu=0","vendor.com/nic=1"]}`;

const documents: Parser = {
  name: 'documents',
  seeds: texts(spec, config),
  tokens: [
    ...json,
    '"linux":',
    '"cdiDevices":',
    'amd.com/gpu=1',
    '"devices":',
    '"annotations":',
    '"major":',
    '"device_host_src":',
  ],
  run(input) {
    const text = input.toString();
    for (const rewrite of [rewriteSpec, rewriteConfig]) {
      const once = unlessRefused(['E_IMAGE_CORRUPT'], () => rewrite(text, changes));
      if (once === undefined) continue;
      JSON.parse(once);
      assert.equal(rewrite(once, changes), once, 'a second time changes nothing');
    }
    const facts = containerFacts(text, text);
    for (const { source } of facts?.hostFolders ?? []) assert.ok(source.startsWith('/'));
    const edited = unlessSyntax(() => withMember(text, 'annotations', annotations));
    if (edited !== undefined) {
      assert.deepEqual((JSON.parse(edited) as Record<string, unknown>)['annotations'], annotations);
    }
  },
};

const configuration: Parser = {
  name: 'configuration',
  seeds: texts(
    '{"compress":"zstd","staging_mib":64,"gpu_map":{"renderD128":"0000:03:00.0"},"log_dir":"/var/log"}',
    '{"parallel":false,"zstd_level":3,"engine":"cpu","ignore_mismatch":["kernel"]}',
  ),
  tokens: [...json, '"gpu_map":', '"gate_timeout_s":', '1e3', 'true'],
  run(input) {
    const found = unlessRefused(['E_CONFIG'], () => parseConfig(input.toString()));
    if (found === undefined) return;
    const { config } = found;
    assert.deepEqual(parseConfig(JSON.stringify(config)).config, config);
    assert.ok(config.staging_mib >= 8 && config.gate_timeout_s >= 1);
  },
};

const containerd: Parser = {
  name: 'containerd',
  seeds: texts(
    `version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n[plugins."io.containerd.grpc.v1.cri"]\nx = 1\n`,
    `version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd]\na = [1, 2]\nb = 1979-05-27\n`,
  ),
  tokens: [
    '[',
    ']',
    '[[',
    '"',
    "'",
    '=',
    '\n',
    '.',
    'imports',
    'plugins',
    '0x',
    '1e9',
    '{',
    '}',
    '#',
    '"""',
  ],
  run(input) {
    const found = unlessRefused(['E_CONFIG'], () => parseContainerdConfig(input.toString()));
    for (const major of found === undefined ? [] : [1, 2]) {
      const { dropIn, lines } = runtimeText(found as NonNullable<typeof found>, major, {
        prefix: '/opt/k',
      });
      parseContainerdConfig(dropIn ?? lines);
    }
  },
};

const defaultConf: Parser = {
  name: 'default-conf',
  seeds: texts(withBlock('tcp-established\n'), 'libdir /x\n', 'manage-cgroups ignore # libdir\n'),
  tokens: ['# BEGIN kfd-checkpoint', '# END kfd-checkpoint', '\n', 'libdir', 'lib', '#', ' ', '='],
  run(input) {
    const text = input.toString('latin1');
    const added = unlessRefused(['E_CONFIG'], () => withBlock(text));
    blockProblems(text);
    if (added === undefined) return;
    assert.deepEqual(blockProblems(added), []);
    assert.equal(withBlock(added), added);
    assert.equal(withoutBlock(added), withoutBlock(text));
  },
};

const words: Parser = {
  name: 'words',
  seeds: texts(
    'renderD128=0000:03:00.0,51966=renderD129',
    'kernel,cpu',
    'crun version 1.27\n+CRIU +SYSTEMD',
  ),
  tokens: ['=', ',', 'renderD', '0000:', '.', '+CRIU', '\n', '-'],
  run(input) {
    const text = input.toString();
    const map = unlessRefused(['E_USAGE'], () => parseGpuMap(text));
    if (map !== undefined) {
      const again = Object.entries(map).map((pair) => pair.join('='));
      assert.deepEqual(parseGpuMap(again.join(',')), map);
    }
    unlessRefused(['E_USAGE'], () => parseDifferences(text));
    const crun = parseCrun(text);
    assert.ok(crun === undefined || Number.isInteger(crun.major));
  },
};

const parentFile: Parser = {
  name: 'parent-file',
  seeds: texts('{"archive":"a.tar","files":["amdgpu-pages-0-0000.img"]}'),
  tokens: [...json, '"archive":', '..', '/', '"files":'],
  run(input) {
    let found: ReturnType<typeof decodeParentFile>;
    try {
      found = decodeParentFile(input.toString());
    } catch (error) {
      const { name } = error as Error;
      assert.ok(name === 'SyntaxError' || name === 'ValiError', name);
      return;
    }
    for (const name of [found.archive, ...found.files]) {
      assert.ok(!name.includes('/') && name !== '..' && name !== '.', name);
    }
  },
};

export const documentParsers: readonly Parser[] = [
  manifest,
  documents,
  configuration,
  containerd,
  defaultConf,
  words,
  parentFile,
];
