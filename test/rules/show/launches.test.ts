import { expect, it } from 'vitest';
import type { LaunchRow } from '../../../src/protocol/scaling.ts';
import { keepLaunches, stepStates } from '../../../src/show/launches.ts';

const MOST = 2;
let made = 0;

function launch(id: string, state: LaunchRow['state']): LaunchRow {
  made += 1;
  return { id, state, intended_at: made } as LaunchRow;
}

const ids = (launches: LaunchRow[]) => launches.map(({ id }) => id).join(' ');

it('shows launches that are under way first, and the newest others in what room is left', () => {
  const launches = [launch('old', 'gone'), launch('starts', 'accepted'), launch('works', 'ready')];
  expect(ids(keepLaunches([], launches, MOST))).toBe('starts works');
  expect(ids(keepLaunches([], [...launches, launch('ends', 'draining')], MOST))).toBe('starts ends');
});

it('moves no launch that is shown, whatever comes', () => {
  const before = [launch('first', 'accepted')];
  const launches = [...before, launch('second', 'registered')];
  const shown = keepLaunches(before, launches, MOST);
  expect(ids(shown)).toBe('first second');
  expect(ids(keepLaunches(shown, [...launches, launch('third', 'registered')], MOST))).toBe('first second');
});

it('tells of one what it is now, and gives its place away once it is over and another needs it', () => {
  const before = [launch('over', 'accepted'), launch('works', 'accepted')];
  const now = before.map((one): LaunchRow => ({ ...one, state: one.id === 'over' ? 'failed' : 'ready' }));
  expect(keepLaunches(before, now, MOST)).toEqual(now);
  expect(ids(keepLaunches(before, [...now, launch('failed', 'failed')], MOST))).toBe('over works');
  expect(ids(keepLaunches(before, [...now, launch('next', 'intended')], MOST))).toBe('next works');
});

it.each<[string, Partial<LaunchRow>, string]>([
  ['that goes on', { state: 'accepted', accepted_at: 1, started_at: 2 }, 'done done now rest rest'],
  ['that is over', { state: 'ready', accepted_at: 1, ready_at: 9 }, 'done done done done done'],
  [
    'that failed while its engine loaded',
    { state: 'failed', cause: 'exited', accepted_at: 1, started_at: 2 },
    'done done failed rest rest',
  ],
  [
    'that failed while it ended',
    { state: 'terminating', cause: 'start_deadline' },
    'failed rest rest rest rest',
  ],
  ['that nobody needed any more', { state: 'gone', accepted_at: 1 }, 'done rest rest rest rest'],
])('tells the steps of a start %s', (_case, more, expected) => {
  const none = { accepted_at: null, started_at: null, registered_at: null, ready_at: null };
  const row = { ...none, loading: null, cause: null, ...more } as LaunchRow;
  expect(stepStates(row).join(' ')).toBe(expected);
});
