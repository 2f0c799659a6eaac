import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, describe, expect, it } from 'vitest';
import type { AuditAction, NewToken } from '../../src/protocol/index.ts';
import { callsOf, job, ROOT } from '../support/audit-road.ts';
import { until } from '../support/poll.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';
import { killQueue, startQueue, tearDown } from '../support/road.ts';

/** What the audit tells of a queue that was killed while people did things. */
afterAll(async () => {
  closeRawWorkers();
  await tearDown();
});

const LONG = { timeout: 240_000 };

/** The table itself, read while the queue writes it. */
function auditOnDisk(stateDir: string) {
  const files = readdirSync(stateDir, { recursive: true }).map((name) => join(stateDir, String(name)));
  const databases = files
    .filter((path) => path.endsWith('.sqlite'))
    .map((path) => new DatabaseSync(path, { readOnly: true, timeout: 1000 }));
  const found = databases.find((one) =>
    one.prepare(`SELECT 1 FROM sqlite_schema WHERE name = 'audit'`).get(),
  );
  const rows = found!.prepare('SELECT outcome FROM audit WHERE action = ?');
  return {
    all: (action: AuditAction) => rows.all(action),
    close: () => {
      for (const one of databases) one.close();
    },
  };
}

/**
 * A queue that was killed in the middle of a purge and runs again, with the last entry of its audit. A purge may be over
 * before this process has killed the queue: then once more.
 */
async function killedInPurge() {
  let queue = await startQueue({ env: ROOT });
  const { call, audit } = callsOf(queue);
  for (let round = 0; ; round += 1) {
    await new RawWorker(queue.url, 'root-secret')
      .connect()
      .then((worker) => worker.register('w', { capacity: 0 }));
    const thousand = (from: number) =>
      Array.from({ length: 1000 }, (_, n) => job(`job-${round}-${from + n}`));
    for (let from = 0; from < 8000; from += 1000)
      expect((await call('POST', '/api/jobs', thousand(from))).status).toBe(200);
    const onDisk = auditOnDisk(queue.stateDir);
    const isBegun = async () => onDisk.all('queue.purge').length > round;
    let purge: Promise<unknown> = Promise.resolve();
    await killQueue(queue, () => {
      purge = call('POST', '/v2/cfg/purge-queue').catch(() => {});
      // Whoever purges keeps the queue from being asked.
      return until(isBegun, 'it is written before it is done', { everyMs: 1 });
    });
    await purge;
    onDisk.close();
    closeRawWorkers();
    queue = await startQueue({ port: queue.port, stateDir: queue.stateDir, env: ROOT });
    const [entry] = await audit('&action=queue.purge');
    if (entry?.outcome === 'begun') return { call, entry };
  }
}

describe('the audit of a queue that was killed', () => {
  it('shows what had not ended as begun', LONG, async () => {
    const { call, entry } = await killedInPurge();
    expect(entry).toMatchObject({ actor: 'QUEUE_TOKENS 1', target: 'cfg', ended_at: null, after: null });
    // It was written before: the purge itself had not come to its end.
    const { jobs } = (await call('GET', '/api/jobs?state=pending&limit=1')).body;
    expect(jobs).toHaveLength(1);
  });

  it('knows of all that was done', LONG, async () => {
    const queue = await startQueue({ env: ROOT });
    const { call, audit } = callsOf(queue);
    const names = Array.from({ length: 40 }, (_, n) => `t-${n}`);
    await Promise.all(names.map((name) => call('POST', '/api/tokens', { name, scopes: ['read'] })));
    const answered: string[] = [];
    const revoke = async (name: string) => {
      const answer = await call('DELETE', `/api/tokens/${name}`).catch(() => null);
      if (answer?.status === 200) answered.push(name);
    };
    let all: Promise<unknown> = Promise.resolve();
    await killQueue(queue, () => {
      const revokes = names.map(revoke);
      all = Promise.all(revokes);
      return Promise.race(revokes);
    });
    await all;
    await startQueue({ port: queue.port, stateDir: queue.stateDir, env: ROOT });
    const left = (await call('GET', '/api/tokens')).body.tokens as NewToken[];
    const gone = names.filter((name) => !left.some((token) => token.name === name));
    const entries = await audit('&action=token.revoke');
    const outcomes = new Map(entries.map(({ target, outcome }) => [target, outcome]));
    expect(gone.filter((name) => !outcomes.has(name))).toEqual([]);
    expect(answered.filter((name) => outcomes.get(name) !== 'done')).toEqual([]);
    const done = entries.filter(({ outcome }) => outcome === 'done');
    expect(done.filter(({ target }) => !gone.includes(target))).toEqual([]);
  });
});
