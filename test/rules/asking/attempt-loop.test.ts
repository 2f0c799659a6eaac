import { describe, expect, it } from 'vitest';

import {
  type AttemptLoopPorts,
  BROKEN_HEADER,
  GONE,
  HangUp,
  type Opened,
  openedResponse,
  runAttempts,
} from '../../../src/asking/attempt-loop.ts';

import { type BrokenReason, bounds } from '../../../src/protocol/index.ts';
import type { RequestAnswer, WaitingRequest } from '../../../src/queue/rpc.ts';

const CALL: WaitingRequest = {
  job_id: 'job-1',
  job_type: 'engine_request',
  payload: '{}',
  model: 'tiny',
  priority: 0,
  wait_for_worker_ms: 0,
  wait_for_slot_ms: 5000,
};

const STREAM: RequestAnswer = { kind: 'stream', stream_id: 7, fence_token: 1, worker_id: 'w' };

/** A queue and a relay that follow a script, one entry for each call; the last entry repeats. */
function script(answers: (RequestAnswer | Error)[], streams: (Response | Error)[] = []) {
  const seen = {
    calls: [] as WaitingRequest[],
    cancelled: [] as string[],
    opened: [] as string[],
    waited: 0,
  };
  let now = 0;
  const background: Promise<unknown>[] = [];
  const next = async <T>(list: (T | Error)[], count: number): Promise<T> => {
    const entry = list[Math.min(count, list.length - 1)];
    if (entry instanceof Error) throw entry;
    return entry as T;
  };
  const ports: AttemptLoopPorts<Response> = {
    queue: {
      request: (call) => {
        seen.calls.push(call);
        return next(answers, seen.calls.length - 1);
      },
      cancel: async (id) => {
        seen.cancelled.push(id);
      },
    },
    openStream: async (stream, { worker_id }) => {
      seen.opened.push(`${worker_id} ${stream}`);
      const response = await next(streams, seen.opened.length - 1);
      return openedResponse(response.clone());
    },
    waitUntil: (promise) => background.push(promise),
    now: () => now,
    sleep: async (ms) => {
      now += ms;
      seen.waited += ms;
    },
  };
  return { ports, seen, background };
}

function broken(reason: BrokenReason): Response {
  return new Response(null, { status: 502, headers: { [BROKEN_HEADER]: JSON.stringify(reason) } });
}

const DIED = broken({ message: 'the engine died', code: 'engine_died', retryable: true });
const REFUSED = broken({
  message: 'no such thing',
  code: 'engine_refused',
  retryable: false,
  http_status: 400,
});
const DRAINING = broken({ message: 'the worker leaves', code: 'draining', retryable: true });

const alive = () => new HangUp();

describe('the attempts of a request', () => {
  it('hands on the answer of the relay the job was dispatched to', async () => {
    const { ports, seen } = script([STREAM], [new Response('hello', { status: 418 })]);
    const outcome = await runAttempts(CALL, alive(), ports);
    if (outcome.kind !== 'answer') throw new Error(outcome.kind);
    expect(outcome.answer.status).toBe(418);
    expect(await outcome.answer.text()).toBe('hello');
    expect(seen.opened).toEqual(['w 7']);
  });

  it('asks again under the same id when an attempt broke before it gave anything', async () => {
    const { ports, seen } = script([STREAM], [DIED, DIED, new Response('third time')]);
    const outcome = await runAttempts(CALL, alive(), ports);
    expect(outcome.kind).toBe('answer');
    expect(seen.calls.map((call) => call.job_id)).toEqual(['job-1', 'job-1', 'job-1']);
  });

  it('asks again at once, and tells where attempts failed, not where the request was released', async () => {
    const at = (worker_id: string): RequestAnswer => ({ ...STREAM, worker_id });
    const failure = { message: 'it broke', code: 'worker_error', retryable: true } as const;
    const base: RequestAnswer = { kind: 'error', failure, worker_id: 'base' };
    const { ports, seen } = script(
      [at('a'), at('b'), base, at('c')],
      [DIED, DRAINING, new Response('at last')],
    );
    const outcome = await runAttempts(CALL, alive(), ports);
    expect(outcome.kind).toBe('answer');
    expect(seen.calls.map(({ earlier }) => earlier?.failed_at)).toEqual([
      undefined,
      ['a'],
      ['a'],
      ['a', 'base'],
    ]);
    const failedAtOnce = script([at('a')], [DIED]);
    await runAttempts(CALL, alive(), failedAtOnce.ports);
    expect(failedAtOnce.seen.waited).toBe(0);
  });

  it('gives up after the last attempt and says why and how many there were', async () => {
    const { ports, seen } = script([STREAM], [DIED]);
    const outcome = await runAttempts(CALL, alive(), ports);
    expect(outcome).toMatchObject({
      kind: 'failed',
      attempts: bounds.CALL_ATTEMPTS,
      failure: { code: 'engine_died', message: 'the engine died' },
    });
    expect(seen.calls).toHaveLength(bounds.CALL_ATTEMPTS);
  });

  it('does not repeat what would fail again', async () => {
    const { ports, seen } = script([STREAM], [REFUSED]);
    const outcome = await runAttempts(CALL, alive(), ports);
    expect(outcome).toMatchObject({ kind: 'failed', attempts: 1, failure: { http_status: 400 } });
    expect(seen.calls).toHaveLength(1);
  });

  it('does not count a job that workers released', async () => {
    const streams = [DRAINING, DRAINING, DRAINING, DRAINING, DIED, DIED, new Response('at last')];
    const { ports, seen } = script([STREAM], streams);
    const outcome = await runAttempts(CALL, alive(), ports);
    expect(outcome.kind).toBe('answer');
    expect(seen.calls).toHaveLength(7);
  });

  it('ends with the time a caller waits for a slot when workers only hand the job back', async () => {
    const { ports, seen } = script([STREAM], [DRAINING]);
    const outcome = await runAttempts(CALL, alive(), ports);
    expect(outcome).toMatchObject({ kind: 'failed', attempts: 0, failure: { code: 'draining' } });
    expect(seen.waited).toBeGreaterThanOrEqual(CALL.wait_for_slot_ms);
    expect(seen.waited).toBeLessThan(CALL.wait_for_slot_ms + 1001);
  });

  it('gives each attempt what is left of the deadline, and ends with it', async () => {
    const { ports, seen } = script([STREAM], [DRAINING]);
    const outcome = await runAttempts({ ...CALL, deadline_ms: 700 }, alive(), ports);
    expect(outcome).toMatchObject({ kind: 'failed', failure: { code: 'deadline', retryable: false } });
    const left = seen.calls.map((call) => call.deadline_ms as number);
    expect(left[0]).toBe(700);
    expect(left).toEqual(left.toSorted((one, other) => other - one));
    expect(left.at(-1)).toBeGreaterThan(0);
  });

  it('asks again after a worker could not meet the deadline, not after the deadline has passed', async () => {
    const refused = broken({ message: 'too busy', code: 'deadline', retryable: true });
    const passed = broken({ message: 'too late', code: 'deadline', retryable: false });
    const { ports, seen } = script([STREAM], [refused, passed]);
    expect(await runAttempts(CALL, alive(), ports)).toMatchObject({ kind: 'failed', attempts: 1 });
    expect(seen.calls).toHaveLength(2);
  });

  it('hands on a result, a refusal and a final error as they are', async () => {
    const result: RequestAnswer = { kind: 'result', result: { status: 'success' }, worker_id: 'base' };
    expect(await runAttempts(CALL, alive(), script([result]).ports)).toEqual(result);

    const refused: RequestAnswer = {
      kind: 'refused',
      reason: 'no_worker',
      message: 'gone',
      retry_after_seconds: 5,
    };
    expect(await runAttempts(CALL, alive(), script([refused]).ports)).toEqual(refused);

    const failure = { message: 'Error code: 400 - bad', code: 'worker_error', retryable: false };
    const failed = script([{ kind: 'error', failure, worker_id: 'base' }]);
    expect(await runAttempts(CALL, alive(), failed.ports)).toMatchObject({
      kind: 'failed',
      failure,
      attempts: 1,
    });
  });

  it('treats a relay that fails like an attempt that broke', async () => {
    const { ports, seen } = script([STREAM], [new Error('relay is gone'), new Response('fine')]);
    const outcome = await runAttempts(CALL, alive(), ports);
    expect(outcome.kind).toBe('answer');
    expect(seen.calls).toHaveLength(2);
  });

  it('lets a failure of the queue through', async () => {
    const { ports } = script([new Error('the queue is broken')]);
    await expect(runAttempts(CALL, alive(), ports)).rejects.toThrow('the queue is broken');
  });

  it('cancels the job of a caller who hangs up while it waits for a worker', async () => {
    const { ports, seen, background } = script([STREAM]);
    ports.queue.request = () => new Promise(() => {});
    const caller = new HangUp();
    const attempted = runAttempts(CALL, caller, ports);
    caller.happen();
    expect(await attempted).toEqual({ kind: 'gone' });
    expect(seen.cancelled).toEqual(['job-1']);
    expect(background).toHaveLength(2);
  });

  it('cancels once more when the call came to the queue after the cancellation', async () => {
    const { ports, seen, background } = script([STREAM]);
    const called = Promise.withResolvers<RequestAnswer>();
    ports.queue.request = () => called.promise;
    const caller = new HangUp();
    const attempted = runAttempts(CALL, caller, ports);
    caller.happen();
    await attempted;
    called.resolve(STREAM);
    await Promise.all(background);
    expect(seen.cancelled).toEqual(['job-1', 'job-1']);
  });

  it('cancels the job of a caller who hangs up while the answer is awaited', async () => {
    const { ports, seen } = script([STREAM]);
    const caller = new HangUp();
    ports.openStream = () => {
      caller.happen();
      return new Promise(() => {});
    };
    expect(await runAttempts(CALL, caller, ports)).toEqual({ kind: 'gone' });
    expect(seen.cancelled).toEqual(['job-1']);
  });

  it('cancels an answer that opens after its caller has hung up', async () => {
    const { ports } = script([STREAM]);
    const caller = new HangUp();
    const opening = Promise.withResolvers<Opened<Response>>();
    ports.openStream = () => {
      caller.happen();
      return opening.promise;
    };
    await runAttempts(CALL, caller, ports);
    const left = Promise.withResolvers<void>();
    opening.resolve(openedResponse(new Response(new ReadableStream({ cancel: () => left.resolve() }))));
    await left.promise;
  });
});

it('a hang-up is one promise, however often it is asked for', async () => {
  const hangUp = new HangUp();
  expect(hangUp.whenHappened).toBe(hangUp.whenHappened);
  hangUp.happen();
  expect(await hangUp.whenHappened).toBe(GONE);
  expect(await new HangUp().or(Promise.resolve(1))).toBe(1);
});
