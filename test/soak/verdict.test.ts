import { describe, expect, it } from 'vitest';
import type { LedgerView } from '../../src/protocol/index.ts';
import { type AttemptError, bounds, type JobView } from '../../src/protocol/index.ts';
import { chatText, echoedTexts, modelOf } from './engine-text.ts';
import type { Fault, FaultKind } from './faults.ts';
import { JobBook } from './jobs.ts';
import { type Charge, isExplained, wrongCharges } from './verdict.ts';

const NOON = Date.UTC(2026, 0, 1, 12);
const at = (seconds: number) => NOON + seconds * 1000;

function fault(kind: FaultKind, worker: string | null, from: number, until = from): Fault {
  return { kind, worker, at: at(from), until: at(until), inFlight: 1 };
}

function charge(code: string, from: number, to: number): Charge {
  return { code, worker: 'w1', from: at(from), to: at(to) };
}

function job(
  attempts: number,
  charges: { fence: number; from: number; to: number }[],
): [JobView, LedgerView] {
  const attempt_errors = charges.map(
    ({ fence, to }): AttemptError => ({
      message: 'm',
      code: 'worker_died',
      retryable: true,
      attempt: 1,
      fence_token: fence,
      worker_id: 'w1',
      at: new Date(at(to)).toISOString(),
    }),
  );
  const steps = charges.map(({ fence, from }) => ({
    at: new Date(at(from)).toISOString(),
    step: 'dispatched',
    attempt: 1,
    fence_token: fence,
    worker_id: 'w1',
    detail: null,
  }));
  const view = { id: 'j', state: 'succeeded', fence_token: 3, attempts, attempt_errors };
  return [view as unknown as JobView, { job_id: 'j', steps }];
}

describe('a charged attempt', () => {
  it('is accounted for by a fault that can cause it, of its own worker, while it ran', () => {
    const killed = [fault('kill_worker', 'w1', 10, 14)];
    expect(isExplained(charge('worker_died', 8, 13), killed)).toBe(true);
    expect(isExplained(charge('lease_expired', 8, 20), killed)).toBe(true);
    expect(isExplained(charge('engine_error', 8, 13), killed)).toBe(false);
    expect(isExplained(charge('worker_died', 3, 8), killed)).toBe(false);
    expect(isExplained(charge('worker_died', 17, 19), killed)).toBe(false);
    expect(isExplained(charge('worker_died', 8, 13), [fault('kill_worker', 'w2', 10, 14)])).toBe(false);
  });

  it('is not accounted for by one cut, one drain or one restart of the queue, which cost nobody anything', () => {
    const alone = [fault('cut', 'w1', 5), fault('drain', 'w1', 5, 9), fault('kill_queue', null, 5, 7)];
    for (const one of alone) expect(isExplained(charge('lease_expired', 4, 12), [one])).toBe(false);
    expect(isExplained(charge('lease_expired', 4, 12), alone)).toBe(true);
    expect(isExplained(charge('lease_expired', 20, 32), alone)).toBe(false);
    // No lease is as short as this.
    expect(isExplained(charge('lease_expired', 4, 7), alone)).toBe(false);
  });

  it('may be caused by a restart of the queue for as long as workers take to dial again', () => {
    const cut = fault('cut', 'w1', 9);
    expect(isExplained(charge('lease_expired', 9, 18), [fault('kill_queue', null, 1, 7), cut])).toBe(true);
    expect(isExplained(charge('lease_expired', 9, 18), [fault('kill_queue', null, 1, 5), cut])).toBe(false);
  });

  it('is wrong when its fence was charged before, when the count differs, or when nobody was given it', () => {
    const killed = [fault('kill_worker', 'w1', 0, 4)];
    const [first, second] = [
      { fence: 1, from: -1, to: 1 },
      { fence: 2, from: 2, to: 3 },
    ];
    expect(wrongCharges(...job(3, [first, second]), killed)).toEqual([]);
    expect(wrongCharges(...job(2, [first, second]), killed)).toHaveLength(1);
    expect(wrongCharges(...job(2, [first, { ...second, fence: 1 }]), killed)).toHaveLength(1);
    // The lease of the attempt that succeeded had run out.
    expect(wrongCharges(...job(2, [first, { ...second, fence: 3 }]), killed)).toEqual([]);
    expect(wrongCharges(...job(2, [first]), [])).toHaveLength(1);
    const [view, ledger] = job(2, [first]);
    expect(wrongCharges(view, { ...ledger, steps: [] }, killed)).toHaveLength(1);
  });
});

/** The fewest tokens that a job asks for, since the book's random source gives 0. */
const TOKENS = 10;

describe('a result', () => {
  const book = new JobBook(50, 'run', 'http://127.0.0.1:1', () => 0);
  const chatView = (model: string, change = (text: string) => text): JobView => {
    const messages = [{ role: 'user' as const, content: 'Job 1 of run. ' }];
    const content = change(chatText(messages, TOKENS, model));
    const result = { completion: { choices: [{ message: { content } }] } };
    return { id: 'run-1', worker_id: 'w1', result } as unknown as JobView;
  };
  const largeView = (change = (texts: string[]) => texts): JobView => {
    const prompt = `Job 12 of run. ${'Consider this well. '.repeat(15_000).slice(0, 33_000)}`;
    const texts = echoedTexts(prompt, 10, TOKENS, modelOf('w1'));
    const choices = change(texts).map((text) => ({ text }));
    return {
      id: 'run-12',
      worker_id: 'w1',
      result: { response: { body: { choices } } },
    } as unknown as JobView;
  };

  it('is right when it is the text of the engine of the worker that settled the job, or from which it moved', () => {
    expect(book.isRight(chatView(modelOf('w1')))).toBe(true);
    expect(book.isRight(chatView(modelOf('w2')))).toBe(false);
    expect(book.isRight(chatView(modelOf('w1'), (text) => text.slice(1)))).toBe(false);
    expect(book.isRight(chatView(modelOf('w2')), ['w2'])).toBe(true);
    expect(
      book.isRight(
        chatView(modelOf('w2'), (text) => text.slice(1)),
        ['w2'],
      ),
    ).toBe(false);
    expect(book.isRight({ ...chatView(modelOf('w1')), id: 'run-2' })).toBe(false);
    expect(book.isRight({ ...chatView(modelOf('w1')), result: null })).toBe(false);
  });

  it('is larger than a frame takes in one job of fifty, and right with every choice in its place', () => {
    expect(book.countOf('large_result')).toBe(1);
    expect(book.isLargeResult('run-12')).toBe(true);
    const view = largeView();
    expect(JSON.stringify(view.result).length).toBeGreaterThan(bounds.INLINE_BYTES);
    expect(book.isRight(view)).toBe(true);
    expect(book.isRight(largeView((texts) => texts.slice(1)))).toBe(false);
    expect(book.isRight(largeView((texts) => texts.toReversed()))).toBe(false);
    expect(book.isRight(largeView((texts) => texts.with(9, texts[9]!.slice(0, -1))))).toBe(false);
  });
});
