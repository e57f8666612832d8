/**
 * `main.js [SUBJECT...]` runs the hostile inputs of all subjects, or of some, as tests of node:test. The option
 * --test-name-pattern of node picks single inputs.
 */

import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import { describe, it } from 'node:test';
import { run } from './run.js';
import { subjects } from './subjects.js';
import { complaints } from './suite.js';

const asked = process.argv.slice(2);
for (const name of asked) assert.ok(Object.hasOwn(subjects, name), `no subject ${name}`);
for (const [subject, inputs] of Object.entries(subjects)) {
  if (asked.length > 0 && !asked.includes(subject)) continue;
  const names = inputs.map(({ verb, name }) => `${verb}: ${name}`);
  assert.equal(new Set(names).size, names.length, `${subject}: an input is there twice`);
  describe(subject, { concurrency: availableParallelism() }, () => {
    for (const input of inputs) {
      it(`${input.verb}: ${input.name}`, async () => {
        const outcome = await run(input);
        const found = complaints(input, outcome);
        const { stdout, stderr } = outcome;
        assert.ok(found.length === 0, `${found.join('; ')}\n${stdout.slice(-500)}${stderr}`);
      });
    }
  });
}
