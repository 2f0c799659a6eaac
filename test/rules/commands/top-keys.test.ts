import { stripVTControlCharacters } from 'node:util';
import { describe, expect, it } from 'vitest';
import { FIRST_STATE, keysIn, matches, pressed, type TopState } from '../../../src/commands/top/keys.ts';
import { courseLines, requestLines, topLines } from '../../../src/commands/top/screen.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { ended } from '../../support/request-records.ts';

const SCREEN = { columns: 120, rows: 20, hasColours: false };

function after(keys: string, from: TopState = FIRST_STATE, rows = 3): TopState | null {
  let state: TopState | null = from;
  for (const key of keysIn(keys)) state = state && pressed(state, key, { rows, orders: 4 });
  return state;
}

describe('keys of top', () => {
  it.each([
    ['r', { view: 'requests', selected: 0 }],
    ['rjj', { selected: 2 }],
    ['rjjjjj', { selected: 2 }],
    ['r\x1b[B\x1b[B\x1b[A', { selected: 1 }],
    ['rj\r', { view: 'request', selected: 1 }],
    ['rj\r\x1b', { view: 'requests', selected: 1 }],
    ['jj', { view: 'fleet', selected: 0 }],
    ['?', { view: 'help' }],
    ['??', { view: 'fleet' }],
    ['ssss', { sort: 0 }],
    ['sr', { sort: 0 }],
    ['/llama\r', { filter: 'llama', isTyping: false }],
    ['/q\x7fx', { filter: 'x', isTyping: true }],
    ['/llama\x1b', { filter: '', isTyping: false }],
    ['/a\r\x1b', { filter: '' }],
    ['/a\x1b[Ab', { filter: 'ab' }],
  ])('%j', (keys, state) => {
    expect(after(keys)).toMatchObject(state);
  });

  it('quit, also by Ctrl-C while a filter is typed', () => {
    expect(after('q')).toBeNull();
    expect(after('/q')).not.toBeNull();
    expect(after('/q\x03')).toBeNull();
  });

  it('open no request where there is none', () => {
    expect(after('r\r', FIRST_STATE, 0)).toMatchObject({ view: 'requests' });
  });

  it('filter by any name of a row', () => {
    expect(matches('LLAMA', ['w', null, 'llama-8b'])).toBe(true);
    expect(matches('x', ['w', null])).toBe(false);
    expect(matches('', ['w'])).toBe(true);
  });
});

describe('what top draws for them', () => {
  it('keeps the request that is chosen in view', () => {
    const many = Array.from({ length: 50 }, (_, n) => ended(`r-${n}`));
    for (const selected of [0, 25, 49]) {
      const lines = requestLines(many, selected, 5000, { ...SCREEN, rows: 10 });
      expect(lines).toHaveLength(10);
      expect(lines.filter((line) => line.startsWith('▶'))).toEqual([
        expect.stringContaining(`r-${selected} `),
      ]);
    }
    expect(requestLines([], 0, 0, SCREEN)[0]).toContain('No request');
  });

  it('has the worker that needs somebody before those that work', () => {
    const fleet = new FleetHarness();
    fleet.heartbeat('a-fine-one', { config_id: 'cfg' });
    fleet.heartbeat('failing', { config_id: 'cfg', status: 'error', error_message: 'no GPU' });
    const shown = { view: fleet.view(), now: fleet.nowMs, connection: 'live', requests: null, course: null };
    const lines = topLines({ ...shown, state: FIRST_STATE }, SCREEN);
    const names = lines.flatMap((line) => /^\S+ +\S+ +(a-fine-one|failing)/.exec(line)?.[1] ?? []);
    expect(names).toEqual(['failing', 'a-fine-one']);
  });

  it('draws the course of a request, attempt by attempt', () => {
    const at = (ms: number) => new Date(ms).toISOString();
    const step = (ms: number, name: string, attempt: number, worker: string | null, detail = '') => ({
      ...{ at: at(ms), step: name, attempt, worker_id: worker, fence_token: attempt, detail },
    });
    const steps = [
      step(0, 'submitted', 0, null),
      step(400, 'dispatched', 1, 'w-1'),
      step(600, 'released', 1, 'w-1', 'drain'),
      step(600, 'dispatched', 2, 'w-2'),
      step(700, 'first_token', 2, 'w-2'),
      step(1000, 'settled', 2, 'w-2'),
    ] as never;
    const lines = courseLines(ended('a\x1b[31m'), steps, 5000, SCREEN);
    expect(lines.join('\n')).not.toContain('\x1b');
    const bars = lines.filter((line) => /attempt \d w/.test(line) && !line.includes('fence'));
    expect(bars).toEqual([
      expect.stringMatching(/^·{20}█{10} +attempt 1 w-1: released$/),
      expect.stringMatching(/^ {30}▒{5}█{15} +attempt 2 w-2: settled$/),
    ]);
    expect(courseLines(ended('a'), 'it is gone', 0, SCREEN).at(-1)).toBe('it is gone');
  });

  it.each([40, 80, 160])('fits a terminal of %d columns in every view', (columns) => {
    const fleet = new FleetHarness();
    for (let n = 0; n < 60; n += 1) fleet.heartbeat(`worker-${n}`, { config_id: 'cfg' });
    const requests = Array.from({ length: 50 }, (_, n) => ended(`r-${n}`, { error: 'x'.repeat(300) }));
    const course = { request: requests[0]!, steps: null };
    for (const view of ['fleet', 'requests', 'request', 'help'] as const) {
      const state = { ...FIRST_STATE, view, filter: view === 'fleet' ? 'worker-5' : '' };
      const shown = { view: fleet.view(), now: fleet.nowMs, connection: 'live', state, requests, course };
      const lines = topLines(shown, { columns, rows: 12, hasColours: true });
      expect(lines).toHaveLength(12);
      expect(Math.max(...lines.map((line) => stripVTControlCharacters(line).length))).toBeLessThanOrEqual(
        columns,
      );
      expect(stripVTControlCharacters(lines.at(-1)!)).toContain('q quit');
      if (view === 'fleet') expect(lines.join('\n')).not.toContain('worker-4');
    }
  });
});
