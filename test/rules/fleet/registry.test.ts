import { describe, expect, it } from 'vitest';
import { bounds } from '../../../src/protocol/index.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';

const names = (fleet: FleetHarness) => fleet.rules.models.all().map(({ id }) => id);
const ids = (fleet: FleetHarness) => fleet.workers().map(({ worker_id }) => worker_id);
const DAY_S = 86_400;

describe('heartbeats', () => {
  it('of a loop gone mad are stored once, the newest, and are seen before that', () => {
    const fleet = new FleetHarness();
    const before = fleet.writes;
    for (let n = 0; n < 1000; n++) fleet.heartbeat('mad', { running: n });
    expect(fleet.workers()).toMatchObject([{ worker_id: 'mad', heartbeat: { running: 999 } }]);
    expect(fleet.writes).toBe(before);
    fleet.rules.save();
    const stored = fleet.database.prepare(`SELECT heartbeat FROM workers`).all();
    expect(stored.map((row) => JSON.parse(String(row.heartbeat)).running)).toEqual([999]);
  });

  it('of a worker that is gone keep its last words, also over a restart', () => {
    const fleet = new FleetHarness();
    fleet.registered('w');
    fleet.heartbeat('w', { status: 'fatal', phase: 'load', error_message: 'no GPU' });
    fleet.disconnected('w');
    fleet.rules.save();
    fleet.restart();
    expect(fleet.workers()).toMatchObject([
      {
        worker_id: 'w',
        config_id: 'cfg',
        instance: { models: ['tiny'] },
        heartbeat: { status: 'fatal', phase: 'load', error_message: 'no GPU' },
        disconnected: { reason: 'the connection closed' },
      },
    ]);
  });

  it('under any number of names leave a bounded number of workers, the newest', () => {
    const fleet = new FleetHarness();
    for (let n = 0; n < bounds.KNOWN_WORKERS * 2; n++) {
      fleet.nowMs += 1;
      fleet.heartbeat(`junk-${n}`);
    }
    fleet.rules.save();
    expect(ids(fleet)).toHaveLength(bounds.KNOWN_WORKERS);
    expect(ids(fleet)).toContain(`junk-${bounds.KNOWN_WORKERS * 2 - 1}`);
  });
});

describe('workers', () => {
  it('are forgotten when nothing is heard of them for the retention time', () => {
    const fleet = new FleetHarness({ retention_seconds: 3600 });
    fleet.registered('gone');
    fleet.registered('connected');
    fleet.heartbeat('beats only');
    fleet.rules.save();
    fleet.disconnected('gone');
    fleet.advance(1800);
    fleet.rules.record([
      { kind: 'connected', worker_id: 'connected', config_id: 'cfg', models: ['tiny'], at: fleet.nowMs },
    ]);
    expect(ids(fleet)).toEqual(['beats only', 'connected', 'gone']);
    fleet.advance(1801);
    expect(ids(fleet)).toEqual(['connected']);
    fleet.advance(1800);
    expect([ids(fleet), names(fleet)]).toEqual([[], ['tiny']]);
  });

  it('that are back are no longer told to have left', () => {
    const fleet = new FleetHarness();
    fleet.registered('w');
    fleet.disconnected('w');
    fleet.registered('w', ['other']);
    expect(fleet.workers()).toMatchObject([{ disconnected: null, instance: { models: ['other'] } }]);
  });
});

describe('models', () => {
  it('are known for a day after their last worker left, over a restart too, and then forgotten', () => {
    const fleet = new FleetHarness();
    fleet.registered('w');
    fleet.advance(DAY_S - 10);
    fleet.disconnected('w');
    fleet.restart();
    fleet.advance(DAY_S - 10);
    expect(fleet.choose('tiny')).toEqual({ kind: 'pool', config_id: 'cfg' });
    fleet.advance(10);
    expect(fleet.choose('tiny')).toEqual({ kind: 'unknown', models: '', pools: '' });
    expect(fleet.alarmAt).not.toBeNull();
    fleet.advance(6 * DAY_S);
    expect([ids(fleet), fleet.alarmAt]).toEqual([[], null]);
  });

  it('of one worker are bounded, however often it registers and under whatever names', () => {
    const fleet = new FleetHarness();
    fleet.registered('good', ['tiny']);
    for (let n = 0; n < 20; n++) {
      fleet.advance(1);
      fleet.registered(
        'bad',
        Array.from({ length: 64 }, (_, at) => `junk-${n}-${at}`),
      );
    }
    expect(names(fleet)).toHaveLength(1 + bounds.KNOWN_MODELS_PER_WORKER);
    expect(names(fleet)).toContain('tiny');
  });

  it('of all workers are bounded, the longest unseen go first', () => {
    const fleet = new FleetHarness();
    fleet.registered('old', ['old']);
    fleet.advance(1);
    for (let n = 0; n < 20; n++)
      fleet.registered(
        `bad-${n}`,
        Array.from({ length: 64 }, (_, at) => `${n}-${at}`),
      );
    expect(names(fleet)).toHaveLength(bounds.KNOWN_MODELS);
    expect(names(fleet)).not.toContain('old');
  });

  it('lead to the pool that served them last; "default" is a question while several are known', () => {
    const fleet = new FleetHarness();
    fleet.registered('a', ['tiny'], 'cfg-a');
    fleet.advance(1);
    fleet.registered('b', ['tiny'], 'cfg-b');
    expect(fleet.choose('tiny')).toEqual({ kind: 'pool', config_id: 'cfg-b' });
    expect(fleet.choose('cfg-a')).toEqual({ kind: 'pool', config_id: 'cfg-a' });
    expect(fleet.choose('default')).toMatchObject({
      kind: 'ambiguous',
      pools: 'cfg-b, cfg-a',
    });
    fleet.advance(1);
    fleet.disconnected('b', ['tiny'], 'cfg-b');
    fleet.advance(DAY_S - 1);
    expect(fleet.choose(null)).toEqual({ kind: 'pool', config_id: 'cfg-b' });
  });

  it('lead to a pool that is called "default" itself, beside others', () => {
    const fleet = new FleetHarness();
    fleet.registered('a', ['tiny'], 'default');
    fleet.registered('b', ['large'], 'cfg-b');
    expect(fleet.choose('default')).toEqual({ kind: 'pool', config_id: 'default' });
    expect(fleet.choose(null)).toMatchObject({ kind: 'ambiguous' });
  });
});
