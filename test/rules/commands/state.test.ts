import { expect, it } from 'vitest';
import { stateText } from '../../../src/commands/state.ts';
import type { DatabaseReport } from '../../../src/state/check.ts';

const report = (name: string, more: Partial<DatabaseReport> = {}): DatabaseReport => ({
  path: `/state/data/team-a/${name}.sqlite`,
  owner: 'team-a',
  bytes: 76 * 1024,
  problem: null,
  jobs: { pending: 2, succeeded: 40 },
  ...more,
});

it('says of a state in order how many jobs it holds', () => {
  expect(stateText('/state', [report('a')])).toBe(
    [
      '/state:',
      '  data/team-a/a.sqlite (76 KiB) is in order; jobs: 2 pending, 40 succeeded',
      'A queue can start on it.',
    ].join('\n'),
  );
});

it('says how to move a damaged database aside, and what of it can be saved', () => {
  const damaged = { kind: 'damaged', text: 'is damaged (database disk image is malformed)' } as const;
  const text = stateText('/state', [report('a'), report('b', { problem: damaged })]);
  expect(text).toContain('b.sqlite (76 KiB) is damaged (database disk image is malformed); jobs: 2 pending');
  expect(text).toContain('No queue starts on it.');
  expect(text).toContain('mv /state/data/team-a/b.sqlite* /state/damaged/');
  expect(text).toMatch(
    /sqlite3 \/state\/damaged\/b\.sqlite \.dump .*sqlite3 \/state\/data\/team-a\/b\.sqlite/,
  );
});

it('has nothing repaired that another version wrote', () => {
  const version = { kind: 'version', text: 'was written by another version of worker-vllm' } as const;
  const text = stateText('/state', [report('a', { problem: version, jobs: null })]);
  expect(text).toContain('Start the version that wrote it');
  expect(text).not.toContain('mv ');
});

it('says of a folder without state that it begins anew', () => {
  expect(stateText('/state', [])).toContain('begins anew');
});
