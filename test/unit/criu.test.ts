import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blockProblems, withBlock, withoutBlock } from '../../src/criu/default-conf.js';

test('our lines come first and say what CRIU needs', () => {
  const lines = withBlock('ghost-limit 2M\n').split('\n');
  assert.equal(lines[1], 'libdir /var/lib/kfd-checkpoint/criu');
  assert.equal(lines[3], 'ghost-limit 2M');
});

test('configure and undo give back every byte', () => {
  const texts = [
    '',
    '\n',
    'a 1',
    'a 1\n',
    '\r\n# x\r\nb\r\n',
    '\xff\xfe\x00\n',
    '# libdir /x\n',
    '\n\n\n',
  ];
  for (const text of texts) {
    const configured = withBlock(text);
    assert.ok(configured.endsWith(text));
    assert.equal(withoutBlock(configured), text);
    assert.equal(withBlock(configured), configured);
    assert.deepEqual(blockProblems(configured), []);
  }
});

test('a block that was moved stays where it is and is renewed', () => {
  const old = withBlock('').replace(/^libdir .*$/m, 'libdir /old');
  const text = `before 1\n${old}after 2\n`;
  assert.deepEqual(blockProblems(text), ['our lines are not from this version']);
  assert.equal(withBlock(text), `before 1\n${withBlock('')}after 2\n`);
  assert.equal(withoutBlock(text), 'before 1\nafter 2\n');
});

test("somebody else's libdir is a conflict, however it is spelt", () => {
  const lines = ['libdir /usr/lib/criu', '  libdir=/x', 'libd /x', 'libdir /x # c'];
  for (const line of lines) {
    assert.throws(
      () => withBlock(`x\n${line}\n`),
      { code: 'E_CONFIG', message: /already set/ },
      line,
    );
    assert.match(blockProblems(`${withBlock('')}${line}\n`).join(), /another line/);
  }
  for (const line of [
    '# libdir /x',
    'action-script /a',
    'link-remap',
    'tcp-established # libdir',
    '',
  ]) {
    assert.equal(withBlock(`${line}\n`), `${withBlock('')}${line}\n`);
  }
});

test('damaged marks are never guessed at', () => {
  const block = withBlock('');
  const [head = '', ...rest] = block.split('\n');
  for (const text of [`${head}\nlibdir /x\n`, rest.join('\n'), block + block]) {
    assert.throws(() => withBlock(text), { code: 'E_CONFIG', message: /damaged/ });
    assert.throws(() => withoutBlock(text), { code: 'E_CONFIG' });
    assert.match(blockProblems(text).join(), /damaged/);
  }
});

test('no configuration at all is a missing block', () => {
  assert.deepEqual(blockProblems(''), ['our lines are missing']);
});
