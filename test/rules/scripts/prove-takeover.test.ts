import { describe, expect, it } from 'vitest';
import { check, PROMISES } from '../../../scripts/prove-takeover/check.ts';
import type { FinalJob, FinalState, Limits } from '../../../scripts/prove-takeover/final-state.ts';
import { FAULT_NAMES, faultsOf, inTurn } from '../../../scripts/prove-takeover/nemesis.ts';
import {
  type Call,
  type Line,
  type Outcome,
  operationsOf,
} from '../../../scripts/prove-takeover/operations.ts';
import { MODEL } from '../../../scripts/prove-takeover/promises/lookups.ts';
import { chatText } from '../../soak/engine-text.ts';
import { Random } from '../../support/random.ts';

/** The checker of scripts/prove-takeover.ts must find what it is there for. */

const LIMITS: Limits = { running: 2, tokensPerMinute: 1000 };

/** Operations as a client would note them. */
class Log {
  readonly lines: Line[] = [];
  #ops = 0;

  add(from: number, to: number, call: Call, outcome: Outcome): this {
    this.#ops += 1;
    this.lines.push({ op: this.#ops, at: from, type: 'invoke', ...call });
    this.lines.push({ op: this.#ops, at: to, ...outcome });
    return this;
  }

  submit(at: number, id: string, outcome: Outcome = { type: 'ok', id }): this {
    return this.add(at, at + 10, { kind: 'submit', id, prompt: id, tokens: 3 }, outcome);
  }

  /** A submission that leaves the id to the queue. */
  submitNameless(at: number, outcome: Outcome): this {
    return this.add(at, at + 10, { kind: 'submit', id: null, prompt: 'nameless', tokens: 3 }, outcome);
  }

  read(at: number, id: string, job: FinalJob): this {
    return this.add(at, at + 10, { kind: 'read', id }, { type: 'ok', job });
  }

  cancel(at: number, id: string, job: FinalJob): this {
    return this.add(at, at + 10, { kind: 'cancel', id }, { type: 'ok', job });
  }

  chat(
    from: number,
    to: number,
    totalTokens = 10,
    more: Partial<{ text: string; type: 'ok' | 'unknown' }> = {},
  ): this {
    const chat = { text: more.text ?? textOf('chat'), firstAt: from + 10, lastAt: to - 10, totalTokens };
    const outcome: Outcome =
      more.type === 'unknown' ? { type: 'unknown', why: 'terminated', chat } : { type: 'ok', chat };
    return this.add(from, to, { kind: 'chat', token: 'limited', prompt: 'chat', tokens: 3 }, outcome);
  }

  usage(at: number, requests: number): this {
    return this.add(at, at + 10, { kind: 'usage' }, { type: 'ok', usage: { requests, output: 0 } });
  }
}

function textOf(prompt: string): string {
  return chatText([{ role: 'user', content: prompt }], 3, MODEL);
}

/** A job that one attempt has settled. */
function succeeded(id: string, fence: number, more: Partial<FinalJob> = {}): FinalJob {
  const steps = [
    { step: 'submitted', fence: 0 },
    { step: 'dispatched', fence },
    { step: 'settled', fence },
  ];
  return { state: 'succeeded', fence, text: textOf(id), settledAt: 'then', steps, ...more };
}

/** What is there at the end of a run of which nothing is wrong, but for what is given. */
function finalOf(jobs: Record<string, FinalJob | null>, more: Partial<FinalState> = {}): FinalState {
  const known = Object.values(jobs).filter((job) => job?.state === 'succeeded');
  return {
    jobs: new Map(Object.entries(jobs)),
    usage: { jobs: { requests: known.length, output: 3 * known.length }, chats: { requests: 0, output: 0 } },
    journal: [
      { seq: 7, epoch: 1 },
      { seq: 8, epoch: 2 },
    ],
    differences: [],
    ...more,
  };
}

function chatsOf(count: number): Pick<FinalState, 'usage'> {
  return { usage: { jobs: { requests: 0, output: 0 }, chats: { requests: count, output: 3 * count } } };
}

/** Returns the promises that were broken. */
function brokenBy(log: Log, final: FinalState): string[] {
  const verdict = check(log.lines, final, LIMITS);
  expect(Object.keys(verdict)).toEqual([...PROMISES]);
  return Object.entries(verdict)
    .filter(([, found]) => found.length > 0)
    .map(([promise]) => promise);
}

describe('the checker', () => {
  it('finds nothing in a run that keeps every promise', () => {
    const lost: Outcome = { type: 'unknown', why: 'terminated' };
    const refused: Outcome = { type: 'fail', why: '503 not_owner' };
    const cancelled: FinalJob = {
      ...succeeded('c', 0, { state: 'cancelled', text: null, steps: [{ step: 'cancelled', fence: 0 }] }),
    };
    const twice = succeeded('b', 9, {
      steps: [
        { step: 'submitted', fence: 0 },
        { step: 'dispatched', fence: 3 },
        { step: 'lease_expired', fence: 3 },
        { step: 'dispatched', fence: 9 },
        { step: 'settled', fence: 9 },
      ],
    });
    const log = new Log()
      .submit(0, 'a')
      .read(20, 'a', succeeded('a', 1))
      .submit(100, 'b', lost)
      .submit(200, 'b')
      .submit(300, 'c')
      .cancel(400, 'c', cancelled)
      .submit(500, 'nowhere', refused)
      .submit(600, 'unheard', lost)
      .submitNameless(700, { type: 'ok', id: 'given' })
      .usage(800, 2);
    const jobs = { a: succeeded('a', 1), b: twice, c: cancelled, nowhere: null, unheard: null };
    const final = finalOf({ ...jobs, given: succeeded('nameless', 10) });
    final.usage.jobs.requests += 1;
    expect(brokenBy(log, final)).toEqual([]);
  });

  it('finds a job that was acknowledged and is gone, has failed, or was cancelled by nobody', () => {
    const log = new Log().submit(0, 'a').submit(1, 'b');
    expect(brokenBy(log, finalOf({ a: null, b: succeeded('b', 1) }))).toEqual([PROMISES[0]]);
    const failed = succeeded('a', 1, { state: 'failed', text: null });
    const final = finalOf({ a: failed, b: succeeded('b', 2) });
    final.usage.jobs.requests += 1;
    expect(brokenBy(log, final)).toEqual([PROMISES[0]]);
    final.jobs = new Map([...final.jobs, ['a', { ...failed, state: 'cancelled' }]]);
    expect(brokenBy(log, final)).toEqual([PROMISES[0]]);
  });

  it('finds an acknowledged job that was not known for a while', () => {
    const log = new Log()
      .submit(0, 'a')
      .add(20, 30, { kind: 'read', id: 'a' }, { type: 'fail', why: '404 none' });
    expect(brokenBy(log, finalOf({ a: succeeded('a', 1) }))).toEqual(['acknowledged jobs that are lost']);
  });

  it('finds a cancel that was answered and did not last', () => {
    const cancelled = succeeded('a', 0, { state: 'cancelled', text: null });
    const log = new Log().submit(0, 'a').cancel(100, 'a', cancelled);
    const broken = brokenBy(log, finalOf({ a: succeeded('a', 1) }));
    expect(broken).toEqual(['acknowledged jobs that are lost', 'jobs that changed after their end']);
  });

  it('finds a job whose submissions were all refused', () => {
    const refused: Outcome = { type: 'fail', why: '503 queue_away' };
    const log = new Log().submit(0, 'a', refused).submit(50, 'a', refused);
    expect(brokenBy(log, finalOf({ a: succeeded('a', 1) }))).toEqual(['refused jobs that are there']);
  });

  it('finds another answer than the engine gives, and a stream that is not its beginning', () => {
    const other = succeeded('a', 1, { text: textOf('b') });
    expect(brokenBy(new Log().submit(0, 'a'), finalOf({ a: other }))).toEqual(['wrong answers']);
    const whole = textOf('chat');
    for (const [type, text] of [
      ['ok', whole.slice(0, -1)],
      ['ok', whole + whole],
      ['unknown', whole.slice(1)],
    ] as const) {
      const broken = brokenBy(new Log().chat(0, 100, 10, { type, text }), finalOf({}, chatsOf(1)));
      expect(broken).toContain('wrong answers');
    }
  });

  it('finds an answer that broke off after it had begun, unless a gateway was killed', () => {
    const log = new Log().chat(1000, 2000, 10, { type: 'unknown', text: textOf('chat').slice(0, 5) });
    const final = finalOf({}, chatsOf(1));
    expect(brokenBy(log, final)).toEqual(['begun answers that broke off']);
    log.lines.push({ at: 1500, type: 'fault', name: 'kill-gateways' });
    expect(brokenBy(log, final)).toEqual([]);
    log.lines.push({ at: 1600, type: 'healed', name: 'kill-gateways' });
    expect(brokenBy(log, final)).toEqual(['begun answers that broke off']);
  });

  it('finds a job that was settled twice', () => {
    const steps = [...succeeded('a', 1).steps, { step: 'settled', fence: 1 }];
    expect(brokenBy(new Log().submit(0, 'a'), finalOf({ a: succeeded('a', 1, { steps }) }))).toEqual([
      'jobs settled twice',
    ]);
  });

  it('finds a job that changed after its end', () => {
    const log = new Log().submit(0, 'a').read(100, 'a', succeeded('a', 1));
    const failed = finalOf({ a: succeeded('a', 1, { state: 'failed' }) });
    failed.usage.jobs.requests += 1;
    expect(brokenBy(log, failed)).toContain('jobs that changed after their end');
    // When its clock is set back, the queue moves the times that it knows.
    expect(brokenBy(log, finalOf({ a: succeeded('a', 1, { settledAt: 'earlier' }) }))).toEqual([]);
    const pending = succeeded('a', 1, { state: 'pending', text: null, settledAt: null });
    log.read(200, 'a', pending);
    expect(brokenBy(log, finalOf({ a: succeeded('a', 1) }))).toEqual(['jobs that changed after their end']);
  });

  it('finds a fence that falls within a job, from job to job, and in what was read', () => {
    const fences = (...given: number[]) => [
      ...given.map((fence) => ({ step: 'dispatched', fence })),
      { step: 'settled', fence: given.at(-1)! },
    ];
    const log = new Log().submit(0, 'a');
    const falling = succeeded('a', 3, { steps: fences(5, 3) });
    expect(brokenBy(log, finalOf({ a: falling }))).toEqual(['fences that do not rise']);
    const stale = [
      { step: 'dispatched', fence: 2 },
      { step: 'dispatched', fence: 4 },
      { step: 'settled', fence: 2 },
    ];
    expect(brokenBy(log, finalOf({ a: succeeded('a', 2, { steps: stale }) }))).toEqual([
      'fences that do not rise',
    ]);

    const later = new Log().submit(0, 'a').read(20, 'a', succeeded('a', 8)).submit(50, 'b');
    const lower = finalOf({ a: succeeded('a', 8), b: succeeded('b', 7) });
    expect(brokenBy(later, lower)).toEqual(['fences that do not rise']);

    const leased = (fence: number) => succeeded('a', fence, { state: 'leased', text: null, settledAt: null });
    const read = new Log().submit(0, 'a').read(20, 'a', leased(6)).read(40, 'a', leased(5));
    expect(brokenBy(read, finalOf({ a: succeeded('a', 7) }))).toEqual(['fences that do not rise']);
  });

  it('finds a fence that two jobs were given', () => {
    const log = new Log().submit(0, 'a').submit(1, 'b');
    const final = finalOf({ a: succeeded('a', 4), b: succeeded('b', 4) });
    expect(brokenBy(log, final)).toEqual(['fences that do not rise']);
  });

  it('finds an id that was given twice', () => {
    const log = new Log()
      .submitNameless(0, { type: 'ok', id: 'x' })
      .submitNameless(20, { type: 'ok', id: 'x' });
    expect(brokenBy(log, finalOf({ x: succeeded('nameless', 1) }))).toEqual(['ids given twice']);
  });

  it('finds more answers at a time than a token may have, and not those that only touch', () => {
    const three = new Log().chat(0, 5000).chat(100, 5000).chat(4000, 9000);
    expect(brokenBy(three, finalOf({}, chatsOf(3)))).toEqual(['limits exceeded']);
    const inTurn = new Log().chat(0, 5000).chat(100, 5000).chat(4900, 9000);
    expect(brokenBy(inTurn, finalOf({}, chatsOf(3)))).toEqual([]);
  });

  it('finds more tokens in any minute than a token may use', () => {
    const log = new Log().chat(30_000, 32_000, 600).chat(80_000, 82_000, 600);
    expect(brokenBy(log, finalOf({}, chatsOf(2)))).toEqual(['limits exceeded']);
    log.lines.push({ at: 50_000, type: 'fault', name: 'clock-owner' });
    expect(brokenBy(log, finalOf({}, chatsOf(2)))).toEqual([]);
    const apart = new Log().chat(30_000, 32_000, 600).chat(90_000, 92_000, 600);
    expect(brokenBy(apart, finalOf({}, chatsOf(2)))).toEqual([]);
  });

  it('finds usage that is not the sum of what has ended', () => {
    const log = new Log().submit(0, 'a').submit(1, 'b');
    const jobs = { a: succeeded('a', 1), b: succeeded('b', 2) };
    for (const [requests, output] of [
      [1, 6],
      [3, 6],
      [2, 3],
      [2, 9],
    ] as const) {
      const usage = { jobs: { requests, output }, chats: { requests: 0, output: 0 } };
      expect(brokenBy(log, finalOf(jobs, { usage }))).toEqual(['usage wrong']);
    }
    expect(brokenBy(new Log().chat(0, 100), finalOf({}, chatsOf(0)))).toEqual(['usage wrong']);
    expect(brokenBy(new Log().chat(0, 100), finalOf({}, chatsOf(2)))).toEqual(['usage wrong']);
  });

  it('finds usage that lacks what had ended when it was asked for', () => {
    const log = new Log().submit(0, 'a').read(20, 'a', succeeded('a', 1)).usage(100, 0);
    expect(brokenBy(log, finalOf({ a: succeeded('a', 1) }))).toEqual(['usage wrong']);
  });

  it('finds a journal with a gap, or whose epoch falls', () => {
    for (const second of [
      { seq: 9, epoch: 1 },
      { seq: 8, epoch: 0 },
    ]) {
      const journal = [{ seq: 7, epoch: 1 }, second];
      expect(brokenBy(new Log(), finalOf({}, { journal }))).toEqual(['journal out of order']);
    }
  });

  it('finds files of owner and follower that differ', () => {
    const differences = ['default/queue.sqlite'];
    expect(brokenBy(new Log(), finalOf({}, { differences }))).toEqual(['owner and follower differ']);
  });

  it('refuses a log in which a call ends twice', () => {
    const log = new Log().submit(0, 'a');
    expect(() => operationsOf([...log.lines, log.lines[1]!])).toThrow('without its call');
  });
});

describe('the faults of a run', () => {
  it('are chosen by their names or by the words before their dash', () => {
    expect(faultsOf(['kill-owner', 'clock'])).toEqual([
      'kill-owner',
      'clock-owner',
      'clock-follower',
      'clock-journal',
    ]);
    expect(faultsOf(['kill-own'])).toEqual([]);
  });

  it('come all in turn, in an order that follows from the seed', () => {
    const order = (seed: number) => {
      const turns = inTurn(FAULT_NAMES, new Random(seed, 'nemesis'));
      return FAULT_NAMES.map(() => turns.next().value);
    };
    expect(order(1)).toEqual(order(1));
    expect(order(1)).not.toEqual(order(2));
    expect(order(1).sort()).toEqual([...FAULT_NAMES].sort());
  });
});
