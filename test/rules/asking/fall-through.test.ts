import { describe, expect, it } from 'vitest';
import type { Alias, On } from '../../../src/aliases/alias.ts';
import { HangUp, type Opened, type Outcome, runAttempts } from '../../../src/asking/attempt-loop.ts';
import type { RequestAnswer, WaitingRequest } from '../../../src/queue/rpc.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

const STEPS = ['one', 'two', 'three'];
const TOO_LONG = `This model's maximum context length is 4096 tokens.`;
const BROKEN = { message: 'the engine died', code: 'engine_died', retryable: true } as const;

/** What one model's workers do with a request. */
type State = 'serves' | 'no_worker' | 'queue_full' | 'starting_over' | 'failed' | 'too_long';

/** The rules of a queue with an alias of three models, and the loop of the gateway before them. */
class Road {
  readonly queue = new QueueHarness({ max_waiting: 1 });
  readonly failing = new Set<string>();
  /** What the engines of these models answer in place of an answer. */
  readonly errors = new Map<string, { status: number; text: string }>();
  /** The models at which an answer was asked for, in order. */
  readonly opened: string[] = [];

  constructor(on: readonly On[], states: readonly State[]) {
    const alias: Alias = {
      split: { by: 'session' },
      to: [{ model: 'one', weight: 1 }],
      then: ['two', 'three'],
      on,
    };
    this.queue.queue.do('takeAliases', { name: alias });
    for (const [index, state] of states.entries()) this.#make(STEPS[index]!, state);
  }

  ask(more: Partial<WaitingRequest> = {}): Promise<Outcome<string>> {
    const call: WaitingRequest = {
      job_id: 'job',
      job_type: 'engine_request',
      payload: JSON.stringify({ method: 'POST', path: '/v1/completions', body: '{"model":"name"}' }),
      model: 'name',
      priority: 0,
      wait_for_worker_ms: 0,
      wait_for_slot_ms: 600_000,
      waits_for_start: true,
      ...more,
    };
    return runAttempts<string>(call, new HangUp(), {
      queue: {
        request: async (wanted) => {
          const answers = this.queue.request(wanted);
          for (let waited = 0; answers.length === 0 && waited < 600; waited++) this.queue.advance(1);
          return answers[0] as RequestAnswer;
        },
        cancel: async () => {},
      },
      openStream: async (_, { worker_id, call: { model } }) => this.#open(worker_id, model),
      look: (answer) => {
        const { status, text } = this.errors.get(answer.split('-')[0]!) ?? { status: 200, text: '' };
        return { status, text: async () => text };
      },
      waitUntil: () => {},
      now: () => this.queue.nowMs,
      sleep: async (ms) => this.queue.advance(ms / 1000),
    });
  }

  #open(workerId: string, model: string | null): Opened<string> {
    this.opened.push(workerId);
    expect(model).toBe(workerId.split('-')[0]);
    if (this.failing.has(model as string)) return { broken: BROKEN };
    return { answer: workerId, drop: () => {} };
  }

  #make(model: string, state: State): void {
    const { queue } = this;
    const config_id = `pool-${model}`;
    if (state === 'starting_over') {
      queue.queue.do('takeStarts', [
        {
          config_id,
          names: [model],
          state: 'starting',
          progress: null,
          text: 'starting a worker',
          wait_ms: 600_000,
          retry_after_seconds: 0,
          outdated: [],
        },
      ]);
    }
    if (state === 'no_worker' || state === 'starting_over') return;
    const workers = state === 'failed' ? 3 : 1;
    for (let index = 0; index < workers; index++)
      queue.worker(`${model}-${index}`, { config_id, capacity: 1, instance: { models: [model] } });
    if (state === 'failed') this.failing.add(model);
    if (state === 'too_long') this.errors.set(model, { status: 400, text: TOO_LONG });
    // One request runs and one waits: there is no room for another.
    if (state === 'queue_full') for (const _ of [1, 2]) queue.request({ model });
  }
}

const CAUSES = ['no_worker', 'queue_full', 'starting_over', 'failed', 'too_long'] as const;
const onOf = (cause: (typeof CAUSES)[number]): On =>
  cause === 'starting_over' ? { starting_over: 30 } : cause;

/** How a request ends that cannot go on: what the engine says of it is its answer. */
const endOf = (cause: string, answer: string) =>
  cause === 'too_long' ? { kind: 'answer', answer } : { kind: expect.stringMatching(/refused|failed/) };

describe.each(CAUSES)('%s', (cause) => {
  it('lets a request go on from the first step', async () => {
    const road = new Road([onOf(cause)], [cause, 'serves', 'serves']);
    expect(await road.ask()).toEqual({ kind: 'answer', answer: 'two-0' });
  });

  it('lets a request go on from the second step', async () => {
    const road = new Road([onOf(cause), 'no_worker'], ['no_worker', cause, 'serves']);
    expect(await road.ask()).toEqual({ kind: 'answer', answer: 'three-0' });
  });

  it('ends at the last step', async () => {
    const road = new Road([onOf(cause), 'no_worker'], ['no_worker', 'no_worker', cause]);
    expect(await road.ask({ wait_for_slot_ms: 60_000 })).toMatchObject(endOf(cause, 'three-0'));
  });

  it('changes nothing where the alias does not name it', async () => {
    // A start that is not done in time leaves its caller without a worker.
    const isNamed = (other: string) =>
      other === cause || (cause === 'starting_over' && other === 'no_worker');
    const others = CAUSES.filter((other) => !isNamed(other)).map(onOf);
    const road = new Road(others, [cause, 'serves', 'serves']);
    const outcome = await road.ask({ wait_for_slot_ms: 60_000, waits_for_start: false });
    expect(outcome).toMatchObject(endOf(cause, 'one-0'));
    expect(road.opened.filter((worker) => !worker.startsWith('one'))).toEqual([]);
  });
});

/** Runs the loop before a queue that answers a request each time like this. */
async function endingWith(answer: RequestAnswer) {
  let asked = 0;
  const call: WaitingRequest = {
    job_id: 'j',
    job_type: 'engine_request',
    payload: '{}',
    model: 'name',
    priority: 0,
    wait_for_worker_ms: 0,
    wait_for_slot_ms: 0,
  };
  const outcome = await runAttempts<string>(call, new HangUp(), {
    queue: {
      request: async () => {
        asked += 1;
        return answer;
      },
      cancel: async () => {},
    },
    openStream: async () => ({ answer: '', drop: () => {} }),
    waitUntil: () => {},
    now: () => 0,
    sleep: async () => {},
  });
  return { outcome, asked };
}

describe('a request for an alias', () => {
  it('is tried elsewhere with the same model first', async () => {
    const road = new Road(['failed'], ['failed', 'serves']);
    await road.ask();
    expect(road.opened).toEqual(['one-0', 'one-1', 'one-2', 'two-0']);
  });

  it('goes on after an error of its engine, once its other workers have answered with one too', async () => {
    const road = new Road(['failed'], ['failed', 'serves']);
    road.failing.clear();
    road.errors.set('one', { status: 500, text: 'broken' });
    expect(await road.ask()).toEqual({ kind: 'answer', answer: 'two-0' });
    expect(road.opened).toEqual(['one-0', 'one-1', 'one-2', 'two-0']);
  });

  it.each([
    "This model's maximum context length is 4096 tokens.",
    'The decoder prompt (length 5000) is longer than the maximum model length of 4096.',
    'the request exceeds the available context size, try increasing it',
    'prompt is too long: 210000 tokens > 200000 maximum',
  ])('goes on where an engine finds it too long: %s', async (text) => {
    const road = new Road(['too_long'], ['too_long', 'serves']);
    road.errors.set('one', { status: 400, text });
    expect(await road.ask()).toEqual({ kind: 'answer', answer: 'two-0' });
  });

  it.each([400, 404, 413, 422, 429])(
    'is given what its engine says with %d of the request itself',
    async (status) => {
      const road = new Road([...CAUSES].map(onOf), ['serves', 'serves']);
      road.errors.set('one', { status, text: 'model: no such thing' });
      expect(await road.ask()).toEqual({ kind: 'answer', answer: 'one-0' });
    },
  );

  it.each([
    ['queue_full', ['queue_full', 'no_worker'], { kind: 'refused', reason: 'queue_full' }],
    ['failed', ['failed', 'no_worker'], { kind: 'failed', failure: BROKEN, attempts: 3 }],
    [
      'too_long',
      ['too_long', 'no_worker'],
      { kind: 'failed', failure: { code: 'too_long', http_status: 400, body: TOO_LONG } },
    ],
  ] as const)('is told of %s where nobody serves its fall-backs', async (_, states, end) => {
    const road = new Road([...CAUSES].map(onOf), states);
    expect(await road.ask()).toMatchObject(end);
  });

  it('is told of a worker that is away, not of a fall-back that nobody knows', async () => {
    const road = new Road([...CAUSES].map(onOf), ['serves', 'no_worker', 'no_worker']);
    for (const connection of road.queue.connections) road.queue.drop(connection);
    road.queue.advance(20);
    expect(await road.ask({ waits_for_start: false })).toMatchObject({
      kind: 'refused',
      reason: 'no_worker',
      message: expect.stringContaining('"one"'),
    });
  });

  it('waits for a start no longer than its alias says', async () => {
    const road = new Road([{ starting_over: 30 }], ['starting_over', 'serves']);
    const began = road.queue.nowMs;
    await road.ask();
    const waited = (road.queue.nowMs - began) / 1000;
    expect(waited).toBeGreaterThanOrEqual(30);
    expect(waited).toBeLessThan(35);
  });

  it('ends with its deadline, whichever step it is at', async () => {
    const road = new Road([{ starting_over: 30 }], ['starting_over', 'serves']);
    expect(await road.ask({ deadline_ms: 10_000 })).toMatchObject({
      kind: 'failed',
      failure: { code: 'deadline' },
    });
    expect(road.opened).toEqual([]);
  });

  it.each([
    [
      'a request that the engine refuses',
      { message: 'no', code: 'engine_refused', retryable: false, http_status: 400 },
    ],
    ['a failure that no repetition mends', { message: 'no', code: 'invalid_request', retryable: false }],
  ] as const)('does not go on after %s', async (_, failure) => {
    const step = { index: 0, model: 'one', causes: CAUSES };
    const { outcome, asked } = await endingWith({ kind: 'error', failure, worker_id: 'w', step });
    expect(outcome).toMatchObject({ kind: 'failed', failure });
    expect(asked).toBe(1);
  });

  it.each(['over_limit', 'cancelled', 'ambiguous_model'] as const)(
    'does not go on after a refusal for %s',
    async (reason) => {
      const step = { index: 0, model: 'one', causes: CAUSES };
      const refused = { kind: 'refused', reason, message: 'no', retry_after_seconds: 0, step } as const;
      const { outcome, asked } = await endingWith(refused);
      expect(outcome).toEqual(refused);
      expect(asked).toBe(1);
    },
  );
});
