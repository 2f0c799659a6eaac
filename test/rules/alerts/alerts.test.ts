import { beforeEach, describe, expect, it } from 'vitest';
import type { Alerts } from '../../../src/features/alerts/object/alerts.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';

/** What of the attention list is told, and what somebody has acknowledged. */
let fleet: FleetHarness;
let alerts: Alerts;

beforeEach(() => {
  fleet = new FleetHarness();
  alerts = fleet.alerts;
});

const failed = (id: string, message = 'no GPU') =>
  fleet.heartbeat(id, { status: 'fatal', error_message: message, interval_seconds: 3600 });
const works = (id: string) => fleet.heartbeat(id, { status: 'running', interval_seconds: 3600 });
/** Looks now and again. @returns what is to be told then */
function after(seconds: number): string | null {
  fleet.advance(seconds);
  fleet.view();
  return alerts.message(null, fleet.nowMs)?.text ?? null;
}
/** The same, which is taken. */
function toldAfter(seconds: number): string | null {
  const text = after(seconds);
  const message = alerts.message(null, fleet.nowMs);
  if (message) alerts.told(message);
  return text;
}
const idOf = (worker: string) =>
  fleet.view().attention.find(({ worker_id }) => worker_id === worker)?.id ?? 'none';

describe('alerts', () => {
  it('tell a problem once it has stood for a while, once, and its end', () => {
    failed('w');
    expect(after(0)).toBeNull();
    expect(after(10)).toBeNull();
    const came = toldAfter(5);
    expect(came).toMatch(/^\*Error\*: w failed: no GPU\. \S/);
    failed('w', 'still no GPU');
    expect(toldAfter(60)).toBeNull();
    works('w');
    expect(after(0)).toBeNull();
    expect(toldAfter(15)).toBe('*Over* after 1 min: w failed: still no GPU.');
    expect(after(60)).toBeNull();
    expect(fleet.database.prepare('SELECT * FROM attention').all()).toEqual([]);
  });

  it('tell nothing of a caller that mistypes the name of a model, which the list shows', () => {
    fleet.choose('nameless');
    expect(after(0)).toBeNull();
    expect(after(60)).toBeNull();
    expect(fleet.view().attention).toMatchObject([{ code: 'unknown_model', severity: 'info' }]);
    expect(after(600)).toBeNull();
    expect(fleet.view().attention).toEqual([]);
  });

  it('tell nothing of a problem that comes and goes', () => {
    failed('w');
    after(0);
    works('w');
    after(5);
    failed('w');
    expect(toldAfter(9)).toBeNull();
    expect(toldAfter(20)).toContain('w failed');
    works('w');
    expect(after(14)).toBeNull();
    failed('w');
    expect(after(1)).toBeNull();
    expect(after(60)).toBeNull();
  });

  it('do not tell what somebody has acknowledged, until it has gone and come back', () => {
    failed('w');
    fleet.view();
    expect(alerts.acknowledge(idOf('w'), 'ops', fleet.nowMs)).toMatchObject({
      worker_id: 'w',
      acknowledged: { by: 'ops', at: fleet.nowMs },
    });
    const at = fleet.nowMs;
    expect(after(60)).toBeNull();
    // Who came first sees to it.
    alerts.acknowledge(idOf('w'), 'other', fleet.nowMs);
    expect(fleet.view().attention).toMatchObject([{ acknowledged: { by: 'ops', at } }]);
    works('w');
    expect(after(0)).toBeNull();
    expect(after(15)).toBeNull();
    failed('w');
    expect(after(0)).toBeNull();
    expect(fleet.view().attention).toMatchObject([{ acknowledged: null }]);
    expect(after(15)).toContain('w failed');
  });

  it('tell the end of what was told before it was acknowledged', () => {
    failed('w');
    after(0);
    expect(toldAfter(15)).toContain('w failed');
    alerts.acknowledge(idOf('w'), null, fleet.nowMs);
    works('w');
    after(0);
    expect(toldAfter(15)).toMatch(/^\*Over\*/);
  });

  it('tell what is not taken as things stand later', () => {
    failed('w');
    after(0);
    expect(after(15)).toContain('w failed');
    failed('v');
    after(0);
    expect(after(15)?.split('\n')).toEqual([
      expect.stringContaining('w failed'),
      expect.stringContaining('v failed'),
    ]);
    works('w');
    after(0);
    expect(after(15)?.split('\n')).toEqual([expect.stringContaining('v failed')]);
  });

  it('tell as new what came back before its end could be told', () => {
    failed('w');
    after(0);
    toldAfter(15);
    works('w');
    after(0);
    expect(after(15)).toMatch(/^\*Over\*/);
    failed('w');
    after(0);
    expect(after(15)).toMatch(/^\*Error\*/);
  });

  it('are remembered after a restart, told and acknowledged', () => {
    failed('told');
    failed('seen');
    after(0);
    alerts.acknowledge(idOf('seen'), 'ops', fleet.nowMs);
    expect(toldAfter(15)).not.toContain('seen');
    fleet.rules.save();
    fleet.restart();
    alerts = fleet.alerts;
    expect(after(60)).toBeNull();
    expect(fleet.view().attention).toMatchObject([
      { worker_id: 'seen', acknowledged: { by: 'ops' } },
      { worker_id: 'told', acknowledged: null },
    ]);
    works('told');
    after(0);
    expect(toldAfter(15)).toMatch(/^\*Over\*/);
  });

  it('acknowledge nothing that is not in the list', () => {
    expect(alerts.acknowledge('worker_error/w', 'ops', fleet.nowMs)).toBeNull();
    failed('w');
    const id = idOf('w');
    works('w');
    fleet.view();
    expect(alerts.acknowledge(id, 'ops', fleet.nowMs)).toBeNull();
  });

  it('let workers neither call a channel nor make links', () => {
    failed('w', '<!channel> @here <https://evil.example|mend it> & more');
    after(0);
    const text = after(15);
    expect(text).toContain('&lt;!channel&gt; @\u200bhere');
    expect(text).not.toMatch(/[<>]|@here/);
  });

  it('keep a message short, and queues apart', () => {
    for (let n = 0; n < 30; n += 1) failed(`w${n}`);
    after(0);
    fleet.advance(15);
    fleet.view();
    const { text, came } = alerts.message('team-a', fleet.nowMs)!;
    const lines = text.split('\n');
    expect([lines.length, came.length]).toEqual([21, 30]);
    expect(lines[0]).toMatch(/^team-a: \*Error\*/);
    expect(lines[20]).toBe('… and 10 more');
  });
});
