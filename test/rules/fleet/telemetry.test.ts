import { describe, expect, it } from 'vitest';
import type { TelemetryKind, TelemetryQuery } from '../../../src/fleet/rpc.ts';
import type { LogLine } from '../../../src/protocol/index.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';

const line = (message: string): LogLine => ({ timestamp: 1, level: 'info', source: 'worker', message });

function log(fleet: FleetHarness, workerId: string, ...messages: string[]): boolean {
  const { telemetry } = fleet.rules;
  telemetry.add({ worker_id: workerId, kind: 'logs' }, messages.map(line));
  return telemetry.isFull;
}

function read(fleet: FleetHarness, query: Partial<TelemetryQuery> = {}, kind: TelemetryKind = 'logs') {
  const { items, has_more } = fleet.rules.telemetry.read({ worker_id: 'w', kind }, { limit: 1000, ...query });
  return { items: items as (LogLine & { number: number })[], has_more };
}

const messages = (fleet: FleetHarness, query: Partial<TelemetryQuery> = {}) =>
  read(fleet, query).items.map(({ message }) => message);
const rows = (fleet: FleetHarness) =>
  fleet.database.prepare(`SELECT worker_id, first, count, length(items) AS length FROM telemetry`).all();

describe('log lines and samples', () => {
  it('are seen at once, stored together, and still there after a restart', () => {
    const fleet = new FleetHarness();
    const before = fleet.writes;
    for (let n = 0; n < 100; n++) log(fleet, 'w', `line ${n}`);
    expect(messages(fleet, { limit: 2 })).toEqual(['line 98', 'line 99']);
    expect(fleet.writes).toBe(before);
    fleet.rules.save();
    log(fleet, 'w', 'next');
    fleet.rules.save();
    expect(rows(fleet)).toMatchObject([{ worker_id: 'w', first: 0, count: 101 }]);
    fleet.restart();
    log(fleet, 'w', 'last');
    expect(read(fleet, { limit: 3 })).toMatchObject({
      items: [
        { number: 99, message: 'line 99' },
        { number: 100, message: 'next' },
        { number: 101, message: 'last' },
      ],
      has_more: true,
    });
  });

  it('are numbered, so that pages neither miss nor repeat any while more come', () => {
    const fleet = new FleetHarness();
    const seen: string[] = [];
    for (let n = 0; n < 700; n++) {
      log(fleet, 'w', `${n}`);
      if (n % 50 === 0) fleet.rules.save();
      if (n % 7 === 0) {
        const { items } = read(fleet, { after: seen.length - 1, limit: 6 });
        seen.push(...items.map(({ message }) => message));
      }
    }
    for (let page = read(fleet, { after: seen.length - 1, limit: 50 }); ; ) {
      seen.push(...page.items.map(({ message }) => message));
      if (!page.has_more) break;
      page = read(fleet, { after: seen.length - 1, limit: 50 });
    }
    expect(seen).toEqual(Array.from({ length: 700 }, (_, n) => `${n}`));
    expect(messages(fleet, { before: 3 })).toEqual(['0', '1', '2']);
    expect(read(fleet, { before: 3, limit: 3 }).has_more).toBe(false);
  });

  it('of each kind and worker are kept apart', () => {
    const fleet = new FleetHarness();
    log(fleet, 'w', 'mine');
    log(fleet, 'other', 'not mine');
    const items = [{ timestamp: 1, vllm_running_requests: 3 }];
    fleet.rules.telemetry.add({ worker_id: 'w', kind: 'metrics' }, items);
    fleet.rules.save();
    expect(messages(fleet)).toEqual(['mine']);
    expect(read(fleet, {}, 'metrics').items).toEqual([{ number: 0, timestamp: 1, vllm_running_requests: 3 }]);
  });

  it.each([
    ['many short', 'x', 2000],
    ['long', 'x'.repeat(4000), 120],
  ])('of a worker that sends without end are the newest: %s ones', (_, text, least) => {
    const fleet = new FleetHarness();
    for (let n = 0; n < 50; n++) {
      log(fleet, 'w', ...Array.from({ length: 200 }, (_unused, index) => `${n * 200 + index} ${text}`));
      if (n % 3 === 0) fleet.rules.save();
    }
    fleet.rules.save();
    const kept = rows(fleet);
    const count = kept.reduce((sum, row) => sum + Number(row.count), 0);
    expect(count).toBeGreaterThanOrEqual(least);
    expect(count).toBeLessThan(2400);
    expect(kept.reduce((sum, row) => sum + Number(row.length), 0)).toBeLessThan(600_000);
    expect(messages(fleet, { limit: 1 })[0]).toMatch(/^9999 x/);
  });

  it('of any number of workers are bounded in memory and on disk, the newest kept', () => {
    const fleet = new FleetHarness();
    const text = 'x'.repeat(4000);
    let saves = 0;
    for (let n = 0; n < 200; n++) {
      fleet.nowMs += 1000;
      if (log(fleet, `w-${n}`, ...Array.from({ length: 125 }, () => text))) {
        saves += 1;
        fleet.rules.save();
      }
    }
    expect(saves).toBeGreaterThan(10);
    fleet.rules.save();
    const kept = rows(fleet);
    expect(kept.reduce((sum, row) => sum + Number(row.length), 0)).toBeLessThan(70e6);
    const workers = new Set(kept.map(({ worker_id }) => worker_id));
    expect([workers.has('w-199'), workers.has('w-0')]).toEqual([true, false]);
  });

  it('are forgotten after the retention time, without anything else happening', () => {
    const fleet = new FleetHarness({ retention_seconds: 3600 });
    log(fleet, 'w', 'old');
    fleet.rules.save();
    fleet.advance(1800);
    expect(messages(fleet)).toEqual(['old']);
    fleet.advance(1900);
    expect(rows(fleet)).toEqual([]);
  });
});
