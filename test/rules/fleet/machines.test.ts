import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, it } from 'vitest';
import { createTables, type Row, type SqlValue } from '../../../src/durable/ports.ts';
import { Machines } from '../../../src/fleet/machines.ts';
import { FLEET_TABLES } from '../../../src/fleet/tables.ts';
import type { Heartbeat } from '../../../src/protocol/index.ts';
import { type LaunchRecord, newLaunch, newOrphan } from '../../../src/scheduler/launch.ts';

const database = () => {
  const opened = new DatabaseSync(':memory:');
  return {
    exec: (query: string, ...bindings: SqlValue[]): Row[] =>
      opened.prepare(query).all(...bindings) as unknown as Row[],
  };
};

const beat = (more: Partial<Heartbeat> = {}): Heartbeat => ({
  instance_id: 'wv-x-chat-1',
  status: 'starting',
  ...more,
});

function launch(id = '1'): LaunchRecord {
  const machine = { instance_type: 'gpu', gpus: 1, disk_gb: null, price_per_hour: null };
  const of = { id, name: 'wv-x-chat-1', config_id: 'chat', provider: 'here', machine, price_per_hour: 1 };
  return newLaunch(
    { ...of, replaces: null, is_spot: false, is_stand_in: false, reason: '', inputs: '', version: null },
    1000,
  );
}

function orphan(id: string): LaunchRecord {
  const seen = { id, name: 'wv-x-chat-1', config_id: 'chat', provider: 'here', host: null, external_id: id };
  return newOrphan(seen, 1000);
}

describe('the map of machines', () => {
  let sql = database();
  let machines: Machines;
  beforeEach(() => {
    sql = database();
    createTables(sql, FLEET_TABLES);
    machines = new Machines(sql);
  });
  const known = () => machines.byName.get('wv-x-chat-1');

  it('joins a launch, its orphans and the heartbeats of its worker by the name', () => {
    machines.attach(launch());
    machines.attach(orphan('o'));
    machines.heartbeat(beat(), 2000);
    expect(known()).toMatchObject({ launch: { id: '1' }, orphans: [{ id: 'o' }], heard_at: 2000 });
    machines.attach({ ...orphan('o'), order: 1 });
    expect(known()?.orphans).toMatchObject([{ id: 'o', order: 1 }]);
    machines.detach(orphan('o'));
    expect(known()).toMatchObject({ launch: { id: '1' }, orphans: [] });
  });

  it('counts a machine as a worker only once it was heard of', () => {
    machines.attach(launch());
    const event = { worker_id: 'wv-x-chat-1', config_id: 'chat', models: [], at: 1500 };
    machines.record({ ...event, kind: 'connected' });
    machines.record({ ...event, kind: 'disconnected', reason: 'gone' });
    expect(machines.workerCount).toBe(0);
    expect(machines.list()).toEqual([]);
    expect(machines.forget('wv-x-chat-1')).toBe('unknown');
    machines.heartbeat(beat(), 2000);
    machines.heartbeat(beat(), 3000);
    expect(machines.workerCount).toBe(1);
    expect(machines.longestUnheard()).toBe(3000);
  });

  it('keeps the launch of a worker that is forgotten, and forgets a name of which nothing is known', () => {
    machines.attach(launch());
    machines.heartbeat(beat(), 2000);
    expect(machines.bound(2000, 10)).toEqual(['wv-x-chat-1']);
    expect(known()).toMatchObject({ launch: { id: '1' }, heartbeat: null, heard_at: null });
    // A launch that another has followed under the name does not take that one along.
    machines.detach(launch('0'));
    expect(known()?.launch?.id).toBe('1');
    machines.detach(launch());
    expect(known()).toBeUndefined();
  });

  it('knows since when a start has not advanced, also after a restart', () => {
    machines.heartbeat(beat({ phase: 'loading', progress: 0.5 }), 1000);
    machines.heartbeat(beat({ phase: 'loading', progress: 0.25 }), 2000);
    machines.heartbeat(beat({ phase: 'loading', progress: 0.5 }), 3000);
    expect(known()?.progress?.at).toBe(1000);
    machines.heartbeat(beat({ phase: 'loading', progress: 0.75 }), 4000);
    expect(known()?.progress?.at).toBe(4000);
    machines.heartbeat(beat({ phase: 'compiling' }), 5000);
    machines.save();
    machines = new Machines(sql);
    expect(known()?.progress).toEqual({ phase: 'compiling', share: 0, at: 5000 });
  });
});
