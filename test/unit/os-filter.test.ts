import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ProgramFilter } from '../../src/os/filter.js';

async function through(filter: ProgramFilter, chunks: readonly Buffer[]): Promise<Buffer> {
  const out: Buffer[] = [];
  await pipeline(
    Readable.from(chunks),
    filter,
    new Writable({
      write(chunk: Buffer, _, done) {
        out.push(chunk);
        done();
      },
    }),
  );
  return Buffer.concat(out);
}

test('what goes in comes out, more than pipes hold', async () => {
  const chunks = Array.from({ length: 40 }, (_, i) => Buffer.alloc(100_000, i));
  assert.deepEqual(await through(new ProgramFilter('cat', []), chunks), Buffer.concat(chunks));
});

test('a reader that is slow stops the program, not the memory', async () => {
  const filter = new ProgramFilter('cat', []);
  let taken = 0;
  const source = new Readable({
    read() {
      taken += 1;
      this.push(taken > 400 ? null : Buffer.alloc(100_000));
    },
  });
  source.pipe(filter);
  await delay(700);
  // Nobody has read yet: pipes and two streams hold all that was taken.
  assert.ok(taken < 40, `${taken} chunks were taken`);
  let bytes = 0;
  filter.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  await once(filter, 'end');
  assert.equal(bytes, 400 * 100_000);
});

test('a program that fails is E_IO with its status, also when it has read nothing', async () => {
  const failing = () => new ProgramFilter('sh', ['-c', 'exit 3']);
  const error = { code: 'E_IO', message: 'sh: ended with status 3' };
  await assert.rejects(through(failing(), [Buffer.from('x')]), error);
  await assert.rejects(through(failing(), Array(50).fill(Buffer.alloc(100_000))), error);
});

test('a program that does not want all input is E_IO', async () => {
  const filter = new ProgramFilter('true', []);
  const source = new Readable({ read() {} });
  source.push('x');
  await assert.rejects(
    pipeline(source, filter, new Writable({ write: (_c, _e, done) => done() })),
    {
      code: 'E_IO',
      message: 'true: ended before its input did',
    },
  );
});

test('a program that is missing is E_HOST', async () => {
  await assert.rejects(through(new ProgramFilter('/nonexistent/zstd', []), [Buffer.from('x')]), {
    code: 'E_HOST',
  });
});

test('a filter that is destroyed takes its program along', async () => {
  const filter = new ProgramFilter('sh', ['-c', 'echo $$; exec cat >/dev/null']);
  const [chunk] = (await once(filter, 'data')) as [Buffer];
  const pid = Number(chunk.toString());
  filter.destroy();
  for (let tries = 0; tries < 100; tries++) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await delay(50);
  }
  assert.fail('the program is still there');
});
