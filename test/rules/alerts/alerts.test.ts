import { beforeEach, describe, expect, it } from 'vitest';
import type { Alerts, News } from '../../../src/features/alerts/object/alerts.ts';
import { rulesOf } from '../../../src/features/alerts/receivers/receivers.ts';
import { slackPosts } from '../../../src/features/alerts/receivers/slack.ts';
import { type AlertReceiver, alertReceivers } from '../../../src/settings/alert-receivers.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';

/** The rules say what a receiver is told of the attention list, and what somebody has acknowledged or muted. */
let fleet: FleetHarness;
let alerts: Alerts;

beforeEach(() => {
  fleet = new FleetHarness();
  alerts = fleet.alerts;
});

const [SLACK] = alertReceivers({ alerts: '', alert_url: 'http://receiver/' }) as [
  Extract<AlertReceiver, { kind: 'slack' }>,
];
const MANY = JSON.stringify([
  { name: 'pager', kind: 'pagerduty', routing_key: 'k'.repeat(32), severity: 'error', repeat_after: '1h' },
  { name: 'manager', kind: 'alertmanager', url: 'http://manager/' },
]);
const [PAGER, MANAGER] = alertReceivers({ alerts: MANY, alert_url: '' }) as [AlertReceiver, AlertReceiver];

const failed = (id: string, message = 'no GPU') =>
  fleet.heartbeat(id, { status: 'fatal', error_message: message, interval_seconds: 3600 });
const works = (id: string) => fleet.heartbeat(id, { status: 'running', interval_seconds: 3600 });
/** The text of news, as Slack's receiver has it. */
function textOf(news: readonly News[], prefix = ''): string | null {
  if (news.length === 0) return null;
  const [post] = slackPosts(SLACK, news, { queueId: 'q', prefix, now: fleet.nowMs });
  return JSON.parse((post as { body: string }).body).text;
}
/** Looks now and again. @returns what is to be told then */
function newsAfter(seconds: number, receiver: AlertReceiver = SLACK): News[] {
  fleet.advance(seconds);
  fleet.view();
  return alerts.news(rulesOf(receiver), fleet.nowMs);
}
const after = (seconds: number, receiver?: AlertReceiver) => textOf(newsAfter(seconds, receiver));
/** The same, which is taken. */
function toldAfter(seconds: number, receiver: AlertReceiver = SLACK): string | null {
  const news = newsAfter(seconds, receiver);
  alerts.told(receiver.name, news, fleet.nowMs);
  return textOf(news);
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
    // The person who acknowledged first sees to the problem.
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
    const news = alerts.news(rulesOf(SLACK), fleet.nowMs);
    const lines = textOf(news, 'team-a: ')!.split('\n');
    expect([lines.length, news.length]).toEqual([21, 30]);
    expect(lines[0]).toMatch(/^team-a: \*Error\*/);
    expect(lines[20]).toBe('… and 10 more');
  });

  it('are told to each receiver by its own rules, and a receiver that is down holds up no other', () => {
    failed('w');
    after(0);
    expect(toldAfter(15)).toContain('w failed');
    // The pager does not answer, and its news waits.
    expect(after(60, PAGER)).toContain('w failed');
    works('w');
    after(0);
    expect(toldAfter(15)).toMatch(/^\*Over\*/);
    // The receiver never learnt of the problem, so there is no end to tell.
    expect(after(0, PAGER)).toBeNull();
  });

  it('go to a receiver by least severity, pool and kind', () => {
    const rules = (more: object) => {
      const given = [{ name: 'pager', kind: 'slack', url: 'http://x/', ...more }];
      return alertReceivers({ alerts: JSON.stringify(given), alert_url: '' })[0]!;
    };
    fleet.heartbeat('w', {
      status: 'fatal',
      error_message: 'no GPU',
      interval_seconds: 3600,
      config_id: 'llama-8b',
    });
    fleet.rules.incidents.refused({ why: 'its token is not known here', advice: 'Make one.' }, fleet.nowMs);
    after(0);
    fleet.advance(15);
    fleet.view();
    const told = (more: object) => after(0, rules(more))?.split('\n').length ?? 0;
    expect(told({})).toBe(2);
    expect(told({ severity: 'error' })).toBe(1);
    expect(told({ pools: ['llama-*'] })).toBe(1);
    expect(told({ pools: ['qwen'] })).toBe(0);
    expect(told({ kinds: ['token_refused'] })).toBe(1);
    expect(told({ kinds: ['token_refused'], severity: 'error' })).toBe(0);
  });

  it('repeat what stands, after the time of the receiver, unless somebody has acknowledged it', () => {
    failed('w');
    after(0);
    expect(toldAfter(15, PAGER)).toContain('w failed');
    expect(toldAfter(15)).toContain('w failed');
    expect(after(3000, PAGER)).toBeNull();
    expect(toldAfter(600, PAGER)).toMatch(/^\*Still\* for 1 h.*: w failed/);
    expect(after(600, PAGER)).toBeNull();
    // Slack's receiver has no such time.
    expect(after(0)).toBeNull();
    alerts.acknowledge(idOf('w'), 'ops', fleet.nowMs);
    expect(after(7200, PAGER)).toBeNull();
  });

  it('go to Alertmanager again each minute, acknowledged or not, since it takes the rest for over', () => {
    failed('w');
    after(0);
    expect(toldAfter(15, MANAGER)).toContain('w failed');
    expect(after(45, MANAGER)).toBeNull();
    expect(toldAfter(15, MANAGER)).toContain('w failed');
    alerts.acknowledge(idOf('w'), 'ops', fleet.nowMs);
    expect(toldAfter(60, MANAGER)).toContain('w failed');
    works('w');
    after(0);
    expect(toldAfter(15, MANAGER)).toMatch(/^\*Over\*/);
    expect(after(600, MANAGER)).toBeNull();
  });

  it('tell what gets worse to those who know of it, and to those who are told of errors alone', () => {
    fleet.heartbeat('w', { status: 'starting', error_message: 'no licence', interval_seconds: 3600 });
    after(0);
    expect(toldAfter(15)).toMatch(/^\*Warning\*/);
    expect(after(0, PAGER)).toBeNull();
    failed('w', 'no licence');
    fleet.view();
    expect(toldAfter(15)).toMatch(/^\*Error\*: w failed/);
    expect(toldAfter(0, PAGER)).toMatch(/^\*Error\*/);
    expect(after(60)).toBeNull();
  });

  it('tell nothing of what is muted, and afterwards what still stands and what has ended', () => {
    failed('before');
    after(0);
    expect(toldAfter(15)).toContain('before failed');
    fleet.mutes.make({ kind: 'worker_error', for: 3600, why: 'a move' }, 'ops', 'm1', fleet.nowMs);
    failed('during');
    failed('short');
    works('before');
    after(0);
    expect(fleet.view().attention).toMatchObject([
      { worker_id: 'during', muted_until: fleet.nowMs + 3_600_000 },
      { worker_id: 'short', muted_until: fleet.nowMs + 3_600_000 },
    ]);
    expect(after(1800)).toBeNull();
    works('short');
    expect(after(60)).toBeNull();
    fleet.rules.save();
    fleet.restart();
    alerts = fleet.alerts;
    expect(fleet.mutes.list(fleet.nowMs)).toMatchObject([{ id: 'm1', by: 'ops', why: 'a move' }]);
    expect(after(60)).toBeNull();
    expect(toldAfter(3600)?.split('\n')).toEqual([
      expect.stringMatching(/^\*Over\*.*before failed/),
      expect.stringMatching(/^\*Error\*: during failed/),
    ]);
    expect(after(60)).toBeNull();
  });

  it('are muted as the disk has it: a mute that cannot be written mutes nothing, nor does one end that stays', () => {
    fleet.mutes.make({ for: 600 }, null, 'm1', fleet.nowMs);
    for (const event of ['INSERT', 'DELETE'])
      fleet.sql.exec(
        `CREATE TRIGGER full_${event} BEFORE ${event} ON alert_mutes BEGIN SELECT RAISE(ABORT, 'full'); END`,
      );
    expect(() => fleet.mutes.make({ for: 600 }, null, 'm2', fleet.nowMs)).toThrow('full');
    expect(() => fleet.mutes.end('m1', fleet.nowMs)).toThrow('full');
    expect(fleet.mutes.list(fleet.nowMs).map(({ id }) => id)).toEqual(['m1']);
  });

  it('tell the end of a problem that a mute held back for days', () => {
    failed('w');
    after(0);
    expect(toldAfter(15)).toContain('w failed');
    fleet.mutes.make({ pool: 'other', for: 600 }, null, 'm1', fleet.nowMs);
    fleet.mutes.make({ for: 3 * 86_400 }, null, 'm2', fleet.nowMs);
    works('w');
    after(0);
    expect(after(2 * 86_400)).toBeNull();
    expect(fleet.mutes.end('m2', fleet.nowMs)).toMatchObject({ id: 'm2' });
    expect(fleet.mutes.end('m2', fleet.nowMs)).toBeNull();
    expect(after(0)).toMatch(/^\*Over\*/);
  });

  it('know what version 29 told to the one receiver that there was', () => {
    failed('w');
    after(0);
    expect(toldAfter(15)).toContain('w failed');
    const { entry } = fleet.sql.exec('SELECT entry FROM attention')[0]!;
    const { told: _, ...before } = JSON.parse(String(entry));
    fleet.sql.exec('UPDATE attention SET entry = ?', JSON.stringify({ ...before, is_told: true }));
    fleet.rules.save();
    fleet.restart();
    alerts = fleet.alerts;
    expect(after(60)).toBeNull();
    works('w');
    after(0);
    expect(after(15)).toMatch(/^\*Over\*/);
  });

  it('forget what a receiver was told that is gone from the settings', () => {
    failed('w');
    after(0);
    expect(toldAfter(15, PAGER)).toContain('w failed');
    expect(alerts.standing('pager')).toBe(1);
    fleet.rules.save();
    fleet.receivers = ['QUEUE_ALERT_URL'];
    fleet.restart();
    alerts = fleet.alerts;
    works('w');
    expect(after(600)).toBeNull();
    expect(alerts.isQuiet).toBe(true);
  });
});
