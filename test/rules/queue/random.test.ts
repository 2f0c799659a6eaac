import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { isSettled, type JobView } from '../../../src/protocol/index.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

/** A run that failed is repeated with the seed that it printed: RANDOM_SEED=… vitest run test/rules/queue/random.test.ts */
const seed = Number(process.env.RANDOM_SEED ?? Date.now() % 2 ** 31);

beforeEach(({ onTestFailed }) => {
  // Also where the time limit of the test is what failed it, of which fast-check knows nothing.
  onTestFailed(() => console.error(`repeat it with RANDOM_SEED=${seed}`));
});

type Pushed = { job_id: string; fence_token: number };
const JOBS = ['j0', 'j1', 'j2', 'j3'];
const WORKERS = ['a', 'b'];
const CAPACITY = 2;
const MAX_ATTEMPTS = 2;

/** Two workers of one pool and the queue between them; the workers keep to the protocol, what is said need not. */
class Bench {
  readonly queue = new QueueHarness({ retention_seconds: 100_000 });
  readonly sockets = new Map<string, FakeConnection>();
  readonly held = new Map<string, Map<string, number>>(WORKERS.map((id) => [id, new Map()]));
  readonly everPushed: (Pushed & { by: string })[] = [];
  readonly settled = new Map<string, JobView>();
  #read = new Map<FakeConnection, number>();
  #boot = 0;

  register(id: string, keepsProcess: boolean): void {
    const older = this.sockets.get(id);
    if (older) this.queue.drop(older);
    if (!keepsProcess) this.#boot += 1;
    const held = this.held.get(id)!;
    if (!keepsProcess) held.clear();
    const jobs = [...held].map(([job_id, fence_token]) => ({ job_id, fence_token }));
    const boot_id = keepsProcess ? `${id}-boot` : `${id}-boot-${this.#boot}`;
    const socket = this.queue.worker(id, { capacity: CAPACITY, jobs, instance: { boot_id } });
    this.sockets.set(id, socket);
  }

  say(worker: string, frame: object): void {
    const socket = this.sockets.get(worker);
    if (socket) this.queue.say(socket, frame);
  }

  restart(): void {
    this.sockets.clear();
    this.queue.restart();
  }

  /** The workers read what was sent to them. */
  deliver(): void {
    for (const [id, socket] of this.sockets) {
      const held = this.held.get(id)!;
      for (const frame of socket.sent.slice(this.#read.get(socket) ?? 0)) {
        if (frame.type === 'job') {
          const job = frame as unknown as Pushed;
          held.set(job.job_id, job.fence_token);
          this.everPushed.push({ job_id: job.job_id, fence_token: job.fence_token, by: id });
        }
        if (frame.type === 'job_revoked' || frame.type === 'ack') held.delete(String(frame.job_id));
        if (frame.type === 'registered') {
          for (const { job_id } of frame.revoked as Pushed[]) held.delete(job_id);
        }
      }
      this.#read.set(socket, socket.sent.length);
      if (socket.closed) this.sockets.delete(id);
    }
  }

  check(): void {
    const fences = this.everPushed.map((job) => job.fence_token);
    expect(new Set(fences).size).toBe(fences.length);
    for (const worker of this.queue.queue.read('sessions')) {
      expect(worker.running, `${worker.worker_id} runs more than it can`).toBeLessThanOrEqual(CAPACITY);
    }
    for (const id of JOBS) this.#checkJob(id, this.queue.queue.read('get', id, null));
    const pending = this.queue.database
      .prepare(`SELECT count(*) AS n FROM jobs WHERE state = 'pending'`)
      .get();
    expect(this.queue.queue.read('status').pending).toBe((pending as { n: number }).n);
  }

  #checkJob(id: string, view: JobView | null): void {
    if (!view) return;
    expect(view.attempts).toBeLessThanOrEqual(MAX_ATTEMPTS);
    const charged = new Set(view.attempt_errors.map(({ fence_token }) => fence_token));
    expect(view.attempt_errors).toHaveLength(charged.size);
    // Its worker's attempt counts too, charged before as one whose lease ran out or not.
    const isMade = view.state !== 'pending' && view.worker_id !== null;
    expect(view.attempts).toBe((isMade ? charged.add(view.fence_token) : charged).size);
    const newest = Math.max(
      0,
      ...this.everPushed.filter((job) => job.job_id === id).map((job) => job.fence_token),
    );
    expect(view.fence_token).toBeGreaterThanOrEqual(newest);
    const before = this.settled.get(id);
    if (before) expect(view, `${id} changed after it was settled`).toEqual(before);
    else if (isSettled(view.state)) this.settled.set(id, view);
    const steps = this.queue.queue.read('ledger', id, null)?.steps.map(({ step }) => step) ?? [];
    const ends = steps.filter((step) => ['settled', 'cancelled', 'expired'].includes(step));
    expect(ends).toHaveLength(isSettled(view.state) ? 1 : 0);
    const dispatches = this.everPushed.filter((job) => job.job_id === id).length;
    expect(steps.filter((step) => step === 'dispatched').length).toBeGreaterThanOrEqual(
      Math.min(1, dispatches),
    );
  }
}

const worker = fc.constantFrom(...WORKERS);
/** Mostly whoever was given the job that is spoken of. */
const speaker = fc.constantFrom('its worker', 'its worker', 'its worker', ...WORKERS);
/** Counted back from the newest push: mostly something that runs. */
const which = fc.oneof({ arbitrary: fc.nat(2), weight: 3 }, { arbitrary: fc.nat(30), weight: 1 });
/** What may happen; a push that is spoken of may be old or another worker's. */
const event = fc.oneof(
  fc.record({
    kind: fc.constant('submit' as const),
    job: fc.constantFrom(...JOBS),
    deadline: fc.option(fc.integer({ min: 1, max: 60 })),
  }),
  fc.record({
    kind: fc.constantFrom('result' as const, 'renew' as const, 'progress' as const),
    worker: speaker,
    which,
  }),
  fc.record({ kind: fc.constant('error' as const), worker: speaker, which, retryable: fc.boolean() }),
  fc.record({
    kind: fc.constant('release' as const),
    worker: speaker,
    which,
    reason: fc.constantFrom('draining', 'overloaded', 'deadline', 'not_started'),
  }),
  fc.record({ kind: fc.constant('load' as const), worker, free: fc.nat(3) }),
  fc.record({ kind: fc.constantFrom('pause' as const, 'resume' as const, 'drop' as const), worker }),
  fc.record({ kind: fc.constant('register' as const), worker, keepsProcess: fc.boolean() }),
  fc.record({ kind: fc.constant('cancel' as const), job: fc.constantFrom(...JOBS) }),
  fc.record({ kind: fc.constant('advance' as const), seconds: fc.constantFrom(0.5, 2, 11, 31) }),
  fc.record({ kind: fc.constantFrom('restart' as const, 'hibernate' as const) }),
);
type Event = typeof event extends fc.Arbitrary<infer T> ? T : never;

function play(bench: Bench, event: Event): void {
  const { queue } = bench;
  const pushed = 'which' in event ? bench.everPushed.at(-1 - event.which) : undefined;
  switch (event.kind) {
    case 'submit':
      queue.submit({
        id: event.job,
        max_attempts: MAX_ATTEMPTS,
        deadline_seconds: event.deadline ?? undefined,
      });
      return;
    case 'register':
      return bench.register(event.worker, event.keepsProcess);
    case 'drop': {
      const socket = bench.sockets.get(event.worker);
      bench.sockets.delete(event.worker);
      if (socket) queue.drop(socket);
      return;
    }
    case 'cancel':
      queue.queue.do('cancel', event.job, 'cancelled', null);
      return;
    case 'advance':
      return queue.advance(event.seconds);
    case 'restart':
      return bench.restart();
    case 'hibernate':
      return queue.hibernate();
    case 'pause':
    case 'resume':
      return bench.say(event.worker, { type: event.kind });
    case 'load':
      return bench.say(event.worker, {
        type: 'load',
        running: 0,
        waiting: 0,
        kv_cache_usage: 0,
        slots_free: event.free,
      });
  }
  if (!pushed) return;
  const { by, ...job } = pushed;
  const speaker = event.worker === 'its worker' ? by : event.worker;
  if (event.kind === 'result')
    return bench.say(speaker, { type: 'job_result', ...job, result: { by: speaker } });
  if (event.kind === 'renew') return bench.say(speaker, { type: 'renew', jobs: [job] });
  if (event.kind === 'progress') return bench.say(speaker, { type: 'job_progress', ...job, progress: 0.5 });
  if (event.kind === 'release') {
    bench.say(speaker, { type: 'job_release', ...job, reason: event.reason });
    // What it released it does not claim to hold when it registers again.
    const held = bench.held.get(speaker)!;
    if (held.get(job.job_id) === job.fence_token) held.delete(job.job_id);
    return;
  }
  if (event.kind === 'error')
    bench.say(speaker, { type: 'job_error', ...job, error: 'broke', retryable: event.retryable });
}

describe('whatever happens in whatever order', () => {
  it('a job settles once, fences grow, no worker has more than its capacity, no attempt is one too many', () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60, size: 'max' }), (events) => {
        const bench = new Bench();
        for (const id of WORKERS) bench.register(id, false);
        for (const one of events) {
          play(bench, one);
          bench.deliver();
          bench.check();
        }
      }),
      { numRuns: 60, seed },
    );
  });
});

describe('whatever a worker sends', () => {
  it('is answered without a throw, and changes no job of another worker and none it was not given', () => {
    /** Fences are handed out in the same order in every queue. */
    const held: Pushed[] = [
      { job_id: 'held', fence_token: 1 },
      { job_id: 'waiting caller', fence_token: 2 },
    ];
    const target = fc.oneof(
      fc.constantFrom(...held),
      fc.record({ job_id: fc.constant('elsewhere'), fence_token: fc.nat(2) }),
    );
    const valid = target.chain((job) =>
      fc.constantFrom<object>(
        { type: 'job_result', ...job, result: {} },
        { type: 'job_result_ref', ...job },
        { type: 'job_error', ...job, error: 'x', retryable: false },
        { type: 'job_progress', ...job, progress: 1 },
        { type: 'job_release', ...job, reason: 'deadline' },
        { type: 'job_release', ...job, reason: 'draining' },
        { type: 'renew', jobs: [job] },
        { type: 'load', running: 0, waiting: 0, kv_cache_usage: 0, slots_free: 1 },
        { type: 'register', worker_id: 'thief', config_id: 'none', capacity: 1, protocol: 1, jobs: [job] },
        { type: 'register', worker_id: 'thief', config_id: 'none', capacity: 1 },
        { type: 'drain' },
      ),
    );
    const mutated = fc
      .tuple(
        valid,
        fc.constantFrom('type', 'job_id', 'fence_token', 'result', 'reason', 'jobs', 'protocol'),
        fc.jsonValue(),
      )
      // Another worker's name in `register` takes over its connection: that is what its token allows.
      .map(([frame, field, value]) => ({ ...frame, [field]: value }));
    const text = fc.oneof(
      valid.map((frame) => JSON.stringify(frame)),
      mutated.map((frame) => JSON.stringify(frame)),
      fc.tuple(valid, fc.nat(80)).map(([frame, at]) => JSON.stringify(frame).slice(0, at)),
      fc.json(),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 10 }), fc.boolean(), (texts, extended) => {
        const queue = new QueueHarness();
        const holder = queue.worker('holder', { capacity: 3 });
        queue.submit({ id: 'held' }, { id: 'elsewhere', config_id: 'other' });
        queue.request({ job_id: 'waiting caller' });
        expect(holder.frames('job')).toMatchObject(held);
        const look = () => ({
          jobs: ['held', 'elsewhere'].map((id) => queue.queue.read('get', id, null)),
          running: queue.queue.read('sessions').find((one) => one.worker_id === 'holder')?.running,
          pending: queue.queue.read('status').pending,
        });
        const before = look();
        const thief = queue.connect();
        const more = extended ? { protocol: 1 } : {};
        queue.say(thief, { type: 'register', worker_id: 'thief', config_id: 'none', capacity: 1, ...more });
        for (const one of texts) queue.say(thief, one);
        queue.drop(thief);
        expect(look()).toEqual(before);
        expect(holder.sent.filter(({ type }) => type !== 'job' && type !== 'registered')).toEqual([]);
        queue.say(holder, { type: 'job_result', ...held[0], result: {} });
        expect(holder.frames('ack').map((ack) => ack.outcome)).toEqual(['accepted']);
        expect(queue.queue.do('cancel', 'waiting caller', 'caller_gone', null)).toMatchObject({
          state: 'cancelled',
        });
        expect(holder.frames('job_revoked')).toMatchObject([{ job_id: 'waiting caller' }]);
        expect(queue.state('held')).toBe('succeeded');
      }),
      { numRuns: 150, seed },
    );
  });
});
