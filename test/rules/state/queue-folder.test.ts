import { expect, it } from 'vitest';
import { queueFolder } from '../../../src/state/folder.ts';

it('names the folder of a queue after it', () => {
  expect(queueFolder('vllm-queue')).toBe('vllm-queue');
  expect(queueFolder('Team A')).toBe('%54eam%20%41');
});

it('never leads out of the folder of data, whatever the id', () => {
  for (const id of [
    '..',
    '.',
    '../../etc',
    '/etc',
    'a/b',
    'a\\b',
    '\0',
    '~',
    'ü'.repeat(256),
    'x'.repeat(256),
  ])
    expect(queueFolder(id)).toMatch(/^(?:[a-z\d_%-]{1,200}|~[\da-f]{64})$/);
});

it('gives no two ids one folder, also where capitals are not told apart', () => {
  const ids = ['a', 'A', '%41', 'a.', 'a%2e', 'é', 'e\u0301', '\ud800', '\ud801', '\ufffd'];
  ids.push('x'.repeat(255), 'x'.repeat(256), `${'x'.repeat(255)}X`);
  expect(new Set(ids.map((id) => queueFolder(id).toLowerCase())).size).toBe(ids.length);
});
