import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  blockProblems,
  criuSettings,
  withBlock,
  withoutBlock,
} from '../../src/criu/default-conf.js';

const settings = criuSettings('/opt/kfd');

test('our lines come first and say what CRIU needs', () => {
  const lines = withBlock('ghost-limit 2M\n', settings).split('\n');
  assert.equal(lines[1], 'libdir /opt/kfd/criu');
  assert.equal(lines[2], 'action-script /opt/kfd/hooks/criu-action');
  assert.equal(lines[4], 'ghost-limit 2M');
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
    const configured = withBlock(text, settings);
    assert.ok(configured.endsWith(text));
    assert.equal(withoutBlock(configured), text);
    assert.equal(withBlock(configured, settings), configured);
    assert.deepEqual(blockProblems(configured, settings), []);
  }
});

test('a block that was moved stays where it is and is renewed', () => {
  const old = withBlock('', criuSettings('/old'));
  const text = `before 1\n${old}after 2\n`;
  assert.deepEqual(blockProblems(text, settings), ['our lines are not those of this version']);
  assert.equal(withBlock(text, settings), `before 1\n${withBlock('', settings)}after 2\n`);
  assert.equal(withoutBlock(text), 'before 1\nafter 2\n');
});

test("somebody else's libdir or action-script is a conflict, however it is spelt", () => {
  const lines = [
    'libdir /usr/lib/criu',
    '  libdir=/x',
    'action-script /a',
    'libd /x',
    'act /x',
    'libdir /x # c',
  ];
  for (const line of lines) {
    assert.throws(
      () => withBlock(`x\n${line}\n`, settings),
      { code: 'E_CONFIG', message: /already set/ },
      line,
    );
    assert.match(
      blockProblems(`${withBlock('', settings)}${line}\n`, settings).join(),
      /another line/,
    );
  }
  for (const line of ['# libdir /x', 'link-remap', 'tcp-established # libdir', '']) {
    assert.equal(withBlock(`${line}\n`, settings), `${withBlock('', settings)}${line}\n`);
  }
});

test('damaged marks are never guessed at', () => {
  const block = withBlock('', settings);
  const [head = '', ...rest] = block.split('\n');
  for (const text of [`${head}\nlibdir /x\n`, rest.join('\n'), block + block]) {
    assert.throws(() => withBlock(text, settings), { code: 'E_CONFIG', message: /damaged/ });
    assert.throws(() => withoutBlock(text), { code: 'E_CONFIG' });
    assert.match(blockProblems(text, settings).join(), /damaged/);
  }
});

test('no configuration at all is a missing block', () => {
  assert.deepEqual(blockProblems('', settings), ['our lines are missing']);
});
