import { describe, expect, it } from 'vitest';
import { whyWaiting } from '../../../src/fleet/view/why-waiting.ts';
import type {
  LaunchRow,
  PoolRow,
  PoolScaling,
  ScalingSummary,
  Waiting,
  WorkerRow,
} from '../../../src/protocol/index.ts';

/** The one answer to what work waits for, case by case. */

const NOW = Date.UTC(2026, 0, 5, 12);
const MINUTE = 60_000;
const LATER = new Date(NOW + MINUTE).toISOString();

function worker(state: WorkerRow['state'], more: Partial<WorkerRow> = {}): WorkerRow {
  const given = { worker_id: 'w', state, models: ['tiny'], start: {}, error: null, progress: null, ...more };
  return { expected_start_ms: null, engine_asleep: null, engine_waiting: null, ...given } as WorkerRow;
}

const SCALING = {
  max: 3,
  ready: 0,
  starting: 0,
  control: 'automatic',
  breaker: null,
  rollout: null,
  spot: null,
  versions: [],
  batch_wait: null,
  decision: null,
} as unknown as PoolScaling;
const HEARD = { launcher_id: 'l', host: null, drivers: ['process'], seen_at: NOW };
const FLEET = {
  budget_reached: null,
  providers: [{ name: 'here', driver: 'process' }],
  launchers: [HEARD],
} as unknown as ScalingSummary;
const LAUNCH = {
  state: 'requested',
  provider: 'here',
  intended_at: NOW - MINUTE,
  ready_expected_at: NOW + MINUTE,
  loading: null,
} as unknown as LaunchRow;
const RATES = { submitted: 60, succeeded: 30, failed: 0, cancelled: 0, expired: 0 } as PoolRow['now'];

interface Given {
  /** Busy slots of ten. */
  busy?: number;
  workers?: WorkerRow[];
  launches?: LaunchRow[];
  scaling?: Partial<PoolScaling>;
  fleet?: Partial<ScalingSummary>;
  model?: string;
  is_batch?: boolean;
}

function why({ busy = 0, workers = [], launches = [], scaling, fleet = {}, ...asking }: Given): Waiting {
  const ready_workers = workers.filter(({ state }) => state === 'ready' || state === 'running').length;
  return whyWaiting(
    { config_id: 'chat', ready_workers, busy_slots: busy, slots: 10, now: RATES },
    {
      workers,
      launches,
      scaling: scaling ? { ...SCALING, ...scaling } : null,
      fleet: scaling ? { ...FLEET, ...fleet } : null,
    },
    { model: asking.model ?? null, is_batch: asking.is_batch ?? false },
    NOW,
  );
}

const LAUNCHES = '"worker-vllm fleet launch chat" starts';
const READY = [worker('ready')];

describe('what work waits for', () => {
  it.each<[string, Given, Partial<Waiting>]>([
    [
      'a free slot',
      { workers: READY, busy: 10 },
      {
        code: 'busy',
        for: 'all 10 slots are busy: 1.0/s come, 0.5/s end',
        advice: 'Another worker with CASOLA_CONFIG_ID=chat takes its share.',
      },
    ],
    [
      'a free slot of a pool that may have more workers',
      { workers: READY, busy: 10, scaling: { ready: 1 } },
      { code: 'busy', advice: `${LAUNCHES} one more now.` },
    ],
    [
      'a free slot of a pool that has all its workers',
      { workers: READY, busy: 10, scaling: { ready: 3 } },
      { code: 'busy', advice: null },
    ],
    [
      'a slot that batch work may have',
      { workers: READY, busy: 9, is_batch: true },
      {
        code: 'batch_room',
        for: 'batch work leaves 1 of 10 slots free for requests, and the others are busy',
      },
    ],
    ['its turn', { workers: READY, busy: 9 }, { code: 'turn', advice: null }],
    [
      'another model than its pool serves',
      { workers: READY, model: 'big' },
      {
        code: 'unserved_model',
        for: 'the workers of the pool "chat" serve tiny, and not "big"',
        advice: 'Start a worker for it, or cancel what waits and name a model that is served.',
      },
    ],
    [
      'a model to which its pool is being changed',
      {
        workers: READY,
        model: 'big',
        scaling: { ready: 1 },
        launches: [
          { ...LAUNCH, state: 'ready' },
          { ...LAUNCH, state: 'accepted', ready_expected_at: null },
        ],
      },
      {
        for: 'the workers of the pool "chat" serve tiny, and not "big"; another worker is being started: its container starts',
        advice: null,
      },
    ],
    [
      'a model to which its pool cannot be changed by itself',
      {
        workers: READY,
        model: 'big',
        scaling: {
          rollout: {
            state: 'rolling',
            from: null,
            to: 'b',
            since: 0,
            text: 'max is 1.',
            next: null,
            is_stuck: true,
          },
        },
        launches: [{ ...LAUNCH, state: 'ready' }],
      },
      { code: 'unserved_model', advice: expect.stringMatching(/"worker-vllm fleet drain chat"/) },
    ],
    [
      'a worker of its pool that serves its model',
      {
        workers: [...READY, worker('running', { models: ['big'], running: 5, slots: 5 })],
        busy: 5,
        model: 'big',
      },
      { code: 'busy', for: 'all workers that serve "big" are busy' },
    ],
    ['its pool by name', { workers: READY, model: 'chat' }, { code: 'turn' }],
    [
      'a paused worker',
      { workers: [...READY, worker('paused', { engine_waiting: 3, kv_cache_usage: 0.9 })] },
      {
        code: 'paused',
        for: 'w takes no jobs for now: 3 requests wait in its engine, its KV cache is 90 % full',
      },
    ],
    ['an engine that sleeps', { workers: [worker('ready', { engine_asleep: true })] }, { code: 'asleep' }],
    [
      'a worker that drains',
      { workers: [worker('draining')] },
      {
        code: 'draining',
        for: 'its only worker drains',
        advice: 'Start a worker with CASOLA_CONFIG_ID=chat.',
      },
    ],
    [
      'a worker whose machine goes',
      { workers: [worker('draining', { preempted: true })] },
      { code: 'draining', for: 'its only worker drains, since its machine is being taken away' },
    ],
    [
      'a worker that loads',
      {
        workers: [
          worker('loading', {
            progress: 0.5,
            start: { created_ms: NOW - MINUTE },
            expected_start_ms: 2 * MINUTE,
          }),
        ],
      },
      { code: 'start', for: 'its only worker loads, 50 %, usually 2 min', until: LATER, advice: null },
    ],
    [
      'a worker that failed',
      {
        workers: [worker('error', { error: { message: 'no GPU', advice: 'Look at nvidia-smi.', at: NOW } })],
      },
      { code: 'no_worker', for: 'its only worker failed: no GPU', advice: 'Look at nvidia-smi.' },
    ],
    [
      'a worker, where nothing starts one',
      {},
      { code: 'no_worker', for: 'it has no worker', advice: 'Start a worker with CASOLA_CONFIG_ID=chat.' },
    ],
    [
      'a launch',
      { scaling: {}, launches: [LAUNCH] },
      {
        code: 'launch',
        for: 'a worker is being started: waiting for a machine, usually 2 min',
        until: LATER,
        advice: null,
      },
    ],
    [
      'a launcher',
      { scaling: {}, launches: [LAUNCH], fleet: { launchers: [] } },
      {
        code: 'no_launcher',
        for: 'a machine is ordered, and no launcher with the driver process is connected that makes it',
        advice: 'Start one where the machines, or the keys of the provider, are: worker-vllm launcher.',
      },
    ],
    [
      'an operator who paused the pool',
      { scaling: { control: 'paused', batch_wait: { lines: 9, until: NOW + MINUTE } } },
      {
        code: 'held_back',
        for: 'it has no worker, and none is started: an operator has paused it',
        advice: 'Mend the cause, then "worker-vllm fleet resume chat" starts workers again.',
      },
    ],
    [
      'starts that failed',
      { scaling: { breaker: { text: '5 starts in a row failed', until: NOW + MINUTE } } },
      {
        code: 'held_back',
        for: 'it has no worker, and none is started: 5 starts in a row failed',
        until: LATER,
      },
    ],
    [
      'a budget',
      { scaling: {}, fleet: { budget_reached: 'the budget of $2 an hour is used up' } },
      {
        code: 'held_back',
        for: 'it has no worker, and none is started: the budget of $2 an hour is used up',
        advice: "Raise the budget in the fleet's file, or drain what costs most.",
      },
    ],
    [
      'a max of 0',
      { scaling: { max: 0 } },
      {
        code: 'held_back',
        for: 'it has no worker, and none is started: its max is 0',
        advice: "Raise its max in the fleet's file.",
      },
    ],
    [
      'more lines of batches, or their last moment',
      { scaling: { batch_wait: { lines: 900, until: NOW + MINUTE } }, is_batch: true },
      {
        code: 'batch_start',
        for: '900 lines of batches are too little work to start a worker for: one is started when more waits, and in time for their window',
        until: LATER,
        advice: `${LAUNCHES} a worker now.`,
      },
    ],
    [
      'a decision',
      {
        scaling: {
          wanted: 1,
          decision: { at: NOW, text: '1 worker wanted. None can be launched: sold out.' },
        },
      },
      {
        code: 'launch',
        for: 'it has no worker yet: 1 worker wanted. None can be launched: sold out',
        advice: null,
      },
    ],
    [
      'the rule, which wants no worker',
      { scaling: { wanted: 0, decision: { at: NOW, text: '0 workers wanted.' } } },
      { code: 'launch', for: 'it has no worker yet: 0 workers wanted', advice: `${LAUNCHES} a worker now.` },
    ],
    [
      'any launcher',
      { scaling: { wanted: 1 }, fleet: { launchers: [{ ...HEARD, seen_at: NOW - 2 * MINUTE }] } },
      { code: 'no_launcher', for: 'it has no worker, and no launcher is connected that starts one' },
    ],
    ['the first decision', { scaling: {} }, { code: 'launch', for: 'it has no worker yet' }],
  ])('is %s', (_, given, expected) => {
    expect(why(given)).toMatchObject({ until: null, ...expected });
  });
});
