import { DatabaseSync } from 'node:sqlite';
import { expect, it } from 'vitest';
import type { ObjectHost } from '../../../src/durable/host.ts';
import type { Row, SqlValue } from '../../../src/durable/ports.ts';
import { KeptRequestsObject, type KeptSettings } from '../../../src/features/kept-requests/object/object.ts';
import { isKept } from '../../../src/features/kept-requests/settings.ts';

/** The object of kept requests over SQLite in memory, with a clock that the test moves. */
class Kept {
  nowMs = Date.UTC(2026, 0, 1);
  alarmAt: number | null = null;
  /** The most characters of lines that one query has returned. */
  mostRead = 0;
  readonly object: KeptRequestsObject;

  constructor(settings: KeptSettings) {
    const database = new DatabaseSync(':memory:');
    const sql = {
      exec: (query: string, ...bindings: SqlValue[]) => {
        const rows = database.prepare(query).all(...bindings) as unknown as Row[];
        const read = rows.reduce((sum, { line = '' }) => sum + String(line).length, 0);
        this.mostRead = Math.max(this.mostRead, read);
        return rows;
      },
    };
    const alarm = {
      get: () => this.alarmAt,
      set: (at: number) => {
        this.alarmAt = at;
      },
      clear: () => {
        this.alarmAt = null;
      },
    };
    const host = { sql, alarm, now: () => this.nowMs, gathered: async () => {} };
    this.object = new KeptRequestsObject(host as unknown as ObjectHost, settings);
  }

  async add(id: string, line = id): Promise<void> {
    const at = { started_at: this.nowMs, ended_at: this.nowMs };
    const whose = { request_id: id, response_id: null, tenant: 'team', token_name: 'app' };
    await this.object.add({ job_id: id, ...whose, ...at, line });
  }

  /** Moves the clock, and lets the alarm ring if it is due. */
  async pass(ms: number): Promise<void> {
    this.nowMs += ms;
    if (this.alarmAt === null || this.alarmAt > this.nowMs) return;
    this.alarmAt = null;
    await this.object.alarm();
  }

  async lines(): Promise<string[]> {
    return (await this.object.page({ since: null, until: null, tenant: null, after: 0 })).lines;
  }
}

const HOUR = 3_600_000;
const MIB = 1024 * 1024;

it('a record is deleted when its time is over, and no sooner', async () => {
  const kept = new Kept({ retentionMs: 2 * HOUR, mostBytes: 1000 });
  await kept.add('first');
  await kept.pass(HOUR);
  await kept.add('second');
  await kept.pass(HOUR);
  expect(await kept.lines()).toEqual(['first', 'second']);
  await kept.pass(1);
  expect(await kept.lines()).toEqual(['second']);
  await kept.pass(HOUR);
  expect(await kept.lines()).toEqual([]);
  expect(await kept.object.summary()).toEqual({ hours: [], records: 0, bytes: 0 });
  expect(kept.alarmAt).toBeNull();
});

it('the oldest records go where all have more bytes than they may', async () => {
  const kept = new Kept({ retentionMs: HOUR, mostBytes: 30 });
  // A line has its end too: 10 bytes.
  for (const id of ['record-01', 'record-02', 'record-03']) await kept.add(id);
  expect(await kept.lines()).toHaveLength(3);
  await kept.add('record-04');
  expect(await kept.lines()).toEqual(['record-02', 'record-03', 'record-04']);
  await kept.add('large', 'x'.repeat(19));
  expect(await kept.lines()).toEqual(['record-04', 'x'.repeat(19)]);
  // A record that takes the place of another counts once.
  await kept.add('large', 'y'.repeat(19));
  expect(await kept.object.summary()).toMatchObject({ records: 2, bytes: 30 });
  await kept.add('huge', 'z'.repeat(30));
  expect(await kept.lines()).toEqual([]);
});

it('a share keeps about that share of ids, decides the same each time, and a token decides before it', () => {
  const ids = Array.from({ length: 20_000 }, (_, number) => `req_q_${number.toString(36)}`);
  const isKeptId = (jobId: string, share: number) => isKept({ jobId, keep: null }, share);
  const kept = ids.filter((id) => isKeptId(id, 0.05));
  expect(kept.length / ids.length).toBeCloseTo(0.05, 2);
  expect(ids.filter((id) => isKeptId(id, 0.05))).toEqual(kept);
  // A larger share keeps those of a smaller one too.
  expect(kept.filter((id) => !isKeptId(id, 0.2))).toEqual([]);
  expect(ids.every((id) => isKeptId(id, 1) && !isKeptId(id, 0))).toBe(true);
  const job = { jobId: 'a' };
  expect([isKept({ ...job, keep: true }, 0), isKept({ ...job, keep: false }, 1)]).toEqual([true, false]);
});

it('keeps the records of two tenants whose jobs have the same id, and replaces that of the same tenant', async () => {
  const kept = new Kept({ retentionMs: 1e9, mostBytes: 1e9 });
  const at = { request_id: 'r', response_id: null, token_name: 'app', started_at: 1, ended_at: kept.nowMs };
  for (const [tenant, line] of [
    ['one', 'first'],
    ['two', 'second'],
    ['one', 'third'],
    [null, 'fourth'],
    [null, 'fifth'],
  ] as const)
    await kept.object.add({ ...at, job_id: 'same', tenant, line });
  const { lines } = await kept.object.page({ since: null, until: null, tenant: null, after: 0 });
  expect(lines).toEqual(['second', 'third', 'fifth']);
  expect((await kept.object.summary()).bytes).toBe('secondthirdfifth'.length + 3);
});

it('reads no more lines at once than go into a page, however long they are', async () => {
  const kept = new Kept({ retentionMs: HOUR, mostBytes: 100 * MIB });
  const lines = Array.from({ length: 12 }, (_, index) => String(index % 10).repeat(MIB / 2));
  for (const [index, line] of lines.entries()) await kept.add(`record-${index}`, line);
  const read: string[] = [];
  let pages = 0;
  for (let after: number | null = 0; after !== null; pages += 1) {
    const page = await kept.object.page({ since: null, until: null, tenant: null, after });
    read.push(...page.lines);
    after = page.next;
  }
  expect(read).toEqual(lines);
  expect(pages).toBe(6);
  expect(kept.mostRead).toBe(MIB);
});
