import { describe, expect, it } from 'vitest';
import { costOf, Share, ShareHeap } from '../../../src/admission/fair-line.ts';
import { WARM_SLACK } from '../../../src/queue/dispatch/fair-order.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

type Sent = { job_id: string; fence_token: number };

const INPUT = 100;
/** Of the longest answer, tokens. */
const LONGEST = 500;
const SLOTS = 4;

/** A pool that serves tenants which are given work by the test, and what each was served. */
class Pool {
  readonly queue = new QueueHarness();
  readonly worker: FakeConnection;
  readonly served: Record<string, number> = {};
  readonly #tenantOf = new Map<string, string>();
  #seed = 7;
  #next = 0;

  constructor(capacity = SLOTS) {
    this.worker = this.queue.worker('w', { capacity });
  }

  /** A job that a caller waits for, or one that is stored. */
  give(tenant: string, kind: 'waiting' | 'stored' = 'waiting', more: object = {}): string {
    const id = `${tenant}-${++this.#next}`;
    this.#tenantOf.set(id, tenant);
    const prefix = { session: 0, bytes: INPUT * 4, hashes: [] };
    if (kind === 'stored') this.queue.job({ id, tenant, prefix, ...more });
    else this.queue.request({ job_id: id, tenant, prefix, wait_for_slot_ms: 1e9, ...more });
    return id;
  }

  get running(): Sent[] {
    const ended = new Set(this.#ended);
    return (this.worker.frames('job') as unknown as Sent[]).filter(
      ({ fence_token }) => !ended.has(fence_token),
    );
  }
  readonly #ended: number[] = [];

  /** One of those that run ends, with an answer of some length. @returns whose it was */
  end(job = this.running[this.#random() % this.running.length], output = this.#random() % LONGEST): string {
    const { job_id, fence_token } = job!;
    this.#ended.push(fence_token);
    const tenant = this.#tenantOf.get(job_id)!;
    this.served[tenant] = (this.served[tenant] ?? 0) + costOf(INPUT, output);
    const usage = { prompt_tokens: INPUT, completion_tokens: output };
    this.queue.say(this.worker, { type: 'job_result', job_id, fence_token, result: { ok: true }, usage });
    return tenant;
  }

  tenantsRunning(): string[] {
    return this.running.map(({ job_id }) => this.#tenantOf.get(job_id)!);
  }

  #random(): number {
    this.#seed = (this.#seed * 48271) % 2147483647;
    return this.#seed;
  }
}

/** How far two tenants that always have work may come apart: twice what the slots hold, and the slack of warmth. */
const BOUND = 2 * SLOTS * costOf(INPUT, LONGEST) + WARM_SLACK;

describe('two tenants that always have work', () => {
  it.each(['waiting', 'stored'] as const)(
    'are served alike, however many jobs one of them has: %s',
    (kind) => {
      const pool = new Pool();
      for (let n = 0; n < 200; n++) pool.give('flood', kind);
      for (let n = 0; n < 5; n++) pool.give('small', kind);
      let apart = 0;
      const before = { flood: 0, small: 0 };
      for (let turn = 0; turn < 600; turn++) {
        pool.give(pool.end(), kind);
        if (turn === 100) Object.assign(before, pool.served);
        apart = Math.max(apart, Math.abs((pool.served.flood ?? 0) - (pool.served.small ?? 0)));
      }
      expect(apart).toBeLessThan(BOUND);
      const [flood, small] = [pool.served.flood! - before.flood, pool.served.small! - before.small];
      expect(flood / small).toBeGreaterThan(0.9);
      expect(flood / small).toBeLessThan(1.1);
    },
  );

  it('share by tokens, not by jobs: long answers go less often', () => {
    const pool = new Pool(1);
    for (let n = 0; n < 50; n++) for (const tenant of ['long', 'short']) pool.give(tenant);
    const ended: string[] = [];
    for (let turn = 0; turn < 80; turn++) {
      const [tenant] = pool.tenantsRunning();
      ended.push(pool.end(pool.running[0], tenant === 'long' ? 950 : 0));
      pool.give(tenant!);
    }
    const jobs = (name: string) => ended.slice(40).filter((tenant) => tenant === name).length;
    // 2,000 against 100.
    expect(jobs('short') / Math.max(1, jobs('long'))).toBeGreaterThan(10);
  });

  it('share by the weights of their tokens', () => {
    const pool = new Pool();
    const give = (tenant: string) => pool.give(tenant, 'waiting', { weight: tenant === 'heavy' ? 3 : 1 });
    for (let n = 0; n < 20; n++) for (const tenant of ['heavy', 'light']) give(tenant);
    for (let turn = 0; turn < 800; turn++) give(pool.end());
    const ratio = pool.served.heavy! / pool.served.light!;
    expect(ratio).toBeGreaterThan(2.6);
    expect(ratio).toBeLessThan(3.4);
  });

  it('share alike where one stores its jobs and the other waits for them, or sends a batch', () => {
    const pool = new Pool();
    for (let n = 0; n < 20; n++) {
      pool.give('program', 'stored');
      pool.give('person');
    }
    for (let turn = 0; turn < 400; turn++) {
      const tenant = pool.end();
      pool.give(tenant, tenant === 'program' ? 'stored' : 'waiting');
    }
    expect(Math.abs(pool.served.program! - pool.served.person!)).toBeLessThan(BOUND);
  });

  it('are charged for what a stream has generated before it ends', () => {
    const pool = new Pool(2);
    pool.give('talker');
    pool.give('other');
    for (const tenant of ['talker', 'other']) for (let n = 0; n < 4; n++) pool.give(tenant);
    const [talking, short] = pool.running;
    const generated = [[talking!.fence_token, 20_000]];
    pool.queue.say(pool.worker, {
      ...{ type: 'load', running: 2, waiting: 0, kv_cache_usage: 0, slots_free: 0 },
      generated,
    });
    pool.end(short, 10);
    for (let turn = 0; turn < 3; turn++) {
      expect(pool.tenantsRunning()).toEqual(['talker', 'other']);
      pool.end(pool.running[1], 10);
    }
  });
});

describe('a tenant', () => {
  it('that comes back has saved nothing up, and owes nothing', () => {
    const pool = new Pool(1);
    for (let n = 0; n < 100; n++) pool.give('busy');
    for (let turn = 0; turn < 50; turn++) pool.end();
    for (let n = 0; n < 20; n++) pool.give('new');
    pool.served.busy = 0;
    for (let turn = 0; turn < 30; turn++) pool.end();
    expect(Math.abs(pool.served.busy! - pool.served.new!)).toBeLessThan(BOUND);
    expect(Math.min(pool.served.busy!, pool.served.new!)).toBeGreaterThan(0);
  });

  it('is not held up by others that come for the first time, one after another', () => {
    const pool = new Pool(1);
    for (let n = 0; n < 3; n++) pool.give('patient');
    const mine = () => pool.tenantsRunning()[0] === 'patient';
    let turns = 0;
    for (let newcomer = 0; newcomer < 100 && turns < 3; newcomer++) {
      pool.give(`newcomer-${newcomer}`);
      if (mine()) turns += 1;
      pool.end();
    }
    expect(turns).toBe(3);
  });

  it('uses all slots while nobody else wants them', () => {
    const pool = new Pool();
    for (let n = 0; n < 10; n++) pool.give('alone');
    expect(pool.tenantsRunning()).toEqual(['alone', 'alone', 'alone', 'alone']);
    pool.give('guest');
    pool.end();
    expect(pool.tenantsRunning()).toContain('guest');
    pool.end(pool.running.at(-1));
    expect(pool.tenantsRunning()).toEqual(['alone', 'alone', 'alone', 'alone']);
  });

  it('of a higher priority goes before all, whatever it was served', () => {
    const pool = new Pool(1);
    for (let n = 0; n < 5; n++) pool.give('first', 'stored', { priority: 5 });
    for (let n = 0; n < 5; n++) pool.give('second', 'stored');
    for (let turn = 0; turn < 5; turn++) expect(pool.end()).toBe('first');
    expect(pool.end()).toBe('second');
  });

  it('whose worker dies is not charged for what it never got', () => {
    const pool = new Pool(1);
    for (const tenant of ['unlucky', 'other']) for (let n = 0; n < 3; n++) pool.give(tenant, 'stored');
    const lost = pool.worker.lastJob().job_id;
    pool.queue.drop(pool.worker);
    const second = pool.queue.worker('second');
    pool.queue.advance(60);
    const { job_id, fence_token } = second.lastJob();
    expect(job_id).toMatch(/^unlucky/);
    // It has had this one alone, as the other had none: they are even, and the one that came first goes first.
    pool.queue.say(second, { type: 'job_result', job_id, fence_token, result: {} });
    expect(second.lastJob().job_id).toBe(lost);
  });

  it('waits among stored jobs whose retry delay is over, and not for those that still have one', () => {
    const pool = new Pool(1);
    pool.give('retried', 'stored');
    const { job_id, fence_token } = pool.worker.lastJob();
    pool.give('other', 'stored');
    const error = { type: 'job_error', job_id, fence_token, error: 'again', retryable: true };
    pool.queue.say(pool.worker, error);
    expect(pool.worker.lastJob().job_id).toMatch(/^other/);
    pool.queue.advance(5);
    const last = pool.worker.lastJob();
    pool.queue.say(pool.worker, { ...last, type: 'job_result', result: {} });
    expect(pool.worker.lastJob().job_id).toBe(job_id);
  });
});

describe('a restart', () => {
  it('forgets what tenants were served, and goes on alternating between them', () => {
    const pool = new Pool(1);
    for (const tenant of ['a', 'b']) for (let n = 0; n < 10; n++) pool.give(tenant, 'stored');
    for (let turn = 0; turn < 5; turn++) pool.end();
    pool.queue.restart();
    const worker = pool.queue.worker('w2');
    pool.queue.advance(60);
    const order: string[] = [];
    for (let turn = 0; turn < 6; turn++) {
      const { job_id, fence_token } = worker.lastJob();
      order.push(job_id.slice(0, 1));
      const usage = { prompt_tokens: INPUT, completion_tokens: 50 };
      pool.queue.say(worker, { type: 'job_result', job_id, fence_token, result: {}, usage });
    }
    expect(order.filter((tenant) => tenant === 'a').length).toBe(3);
  });
});

describe('the heap of tenants', () => {
  it('gives them in the order of their counters, whatever changes', () => {
    const heap = new ShareHeap<never>();
    const shares = Array.from({ length: 50 }, (_, index) => {
      const share = new Share<never>(`t${index}`, (index * 37) % 50);
      share.since = index;
      return share;
    });
    for (const share of shares) heap.add(share);
    for (const share of shares.slice(0, 10)) heap.remove(share);
    for (const share of shares.slice(10, 30)) {
      share.counter = (share.counter * 13) % 50;
      heap.moved(share);
    }
    const expected = shares
      .slice(10)
      .sort((one, other) => one.counter - other.counter || one.since - other.since);
    expect([...heap.inOrder()].map(({ tenant }) => tenant)).toEqual(expected.map(({ tenant }) => tenant));
    expect(heap.first).toBe(expected[0]);
  });
});

it('tells who waits for whom, what each had of late, and who is next', () => {
  const pool = new Pool(1);
  const told = () => pool.queue.queue.read('sharing')[0];
  expect(told()).toBeUndefined();
  for (let n = 0; n < 3; n++) pool.give('flood', n === 0 ? 'waiting' : 'stored');
  pool.give('small');
  pool.give('held up', 'stored', { priority: -5 });
  pool.end(pool.running[0], 300);
  expect(told()).toEqual({
    config_id: 'cfg',
    next: 'flood',
    tokens: INPUT + 300,
    tenants: [
      { tenant: 'flood', waiting: 2, tokens: INPUT + 300 },
      { tenant: 'held up', waiting: 1, tokens: 0 },
    ],
  });
  pool.queue.advance(3600);
  expect(told()?.tokens).toBe(0);
});
