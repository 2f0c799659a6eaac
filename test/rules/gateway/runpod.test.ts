import { describe, expect, test } from 'vitest';
import { permissionsOf } from '../../../src/gateway/auth/permissions.ts';
import { HttpError } from '../../../src/gateway/errors.ts';
import type { ModelView, WorkerView } from '../../../src/gateway/fleet-views.ts';
import {
  poolOfEndpoint,
  readRunpodSubmission,
  runpodWorkers,
  shownJob,
} from '../../../src/gateway/runpod.ts';
import { dialectOf, errorBody, type JobView } from '../../../src/protocol/index.ts';

const T0 = Date.UTC(2026, 0, 1);
const at = (ms: number) => new Date(T0 + ms).toISOString();

const PENDING: JobView = {
  ...{ id: 'j-u1', job_type: 'runpod', config_id: 'cfg', state: 'pending', priority: 0, attempts: 0 },
  ...{
    max_attempts: 3,
    stream: false,
    fence_token: 0,
    worker_id: null,
    progress: null,
    status_message: null,
  },
  ...{ created_at: at(0), deadline_at: null, leased_at: null, started_at: null, first_token_at: null },
  ...{ settled_at: null, tenant: null, trace_id: null, result: null, error: null, attempt_errors: [] },
};
const LEASED: JobView = { ...PENDING, state: 'leased', attempts: 1, worker_id: 'w', leased_at: at(200) };
const OVER = { ...LEASED, settled_at: at(1000) };
const failed = (code: string) => ({ message: 'it broke', code, retryable: false });

describe('a job as RunPod shows it', () => {
  const ran = { delayTime: 200, executionTime: 800, workerId: 'w', retries: 0 };
  test.each<[string, JobView, object]>([
    ['IN_QUEUE', PENDING, {}],
    ['IN_QUEUE', { ...PENDING, attempts: 1, leased_at: at(1) }, {}],
    ['IN_PROGRESS', LEASED, { delayTime: 200, workerId: 'w', retries: 0 }],
    ['COMPLETED', { ...OVER, state: 'succeeded', result: { output: [1, 2] } }, { ...ran, output: [1, 2] }],
    [
      'COMPLETED',
      { ...OVER, state: 'succeeded', attempts: 2, result: {} },
      { ...ran, output: [], retries: 1 },
    ],
    [
      'FAILED',
      { ...OVER, state: 'failed', attempts: 3, error: failed('x') },
      { ...ran, error: 'it broke', retries: 2 },
    ],
    [
      'TIMED_OUT',
      { ...OVER, state: 'failed', attempts: 1, error: failed('deadline') },
      { ...ran, error: 'it broke' },
    ],
    [
      'CANCELLED',
      { ...OVER, state: 'cancelled', attempts: 2, error: failed('cancelled') },
      { ...ran, error: 'it broke', retries: 1 },
    ],
    [
      'CANCELLED',
      { ...OVER, state: 'cancelled', attempts: 2, worker_id: null, error: failed('cancelled') },
      { error: 'it broke', retries: 2 },
    ],
    ['TIMED_OUT', { ...PENDING, state: 'expired', error: failed('deadline') }, { error: 'it broke' }],
    ['CANCELLED', { ...PENDING, state: 'cancelled', error: failed('cancelled') }, { error: 'it broke' }],
  ])('%s', (status, job, fields) => {
    expect(shownJob(job)).toMatchObject({ id: 'j-u1', status, ...fields });
    if (job.leased_at === null) expect(shownJob(job)).not.toHaveProperty('delayTime');
  });
});

describe('a submission', () => {
  const read = (body: unknown) => readRunpodSubmission(body, 'j', 'tiny', permissionsOf(null, {}));

  test('becomes a stored job of the endpoint', () => {
    const job = read({ input: { prompt: 'Hi' } });
    const common = { id: 'j', job_type: 'runpod', endpoint: 'tiny', priority: 0, stream: false };
    expect(job).toMatchObject({ ...common, model: 'tiny' });
    // For the worker, since the body names no model.
    expect(JSON.parse(job.payload)).toEqual({ input: { prompt: 'Hi' }, model: 'tiny' });
    const named = read({ input: { openai_input: { model: 'adapter' } } });
    expect(named).toMatchObject({ ...common, model: 'adapter' });
    expect(JSON.parse(named.payload)).toEqual({ input: { openai_input: { model: 'adapter' } } });
    expect(job).not.toHaveProperty('deadline_seconds');
  });

  test.each([
    { prompt: 'Hi', stream: true },
    { openai_route: '/v1/completions', openai_input: { stream: true } },
    { route: '/v1/completions', body: { stream: true } },
  ])('that asks for pieces streams: %j', (input) => {
    expect(read({ input }).stream).toBe(true);
  });

  test('has its policy: ttl from now on, executionTimeout for the worker, lowPriority behind others', () => {
    const policy = { ttl: 60_000, executionTimeout: 5000, lowPriority: true };
    const job = read({ input: {}, policy });
    expect(job).toMatchObject({ deadline_seconds: 60, priority: -1 });
    expect(JSON.parse(job.payload).policy).toEqual(policy);
    expect(read({ input: {}, policy: {}, webhook: null, s3Config: '' })).toMatchObject({ priority: 0 });
  });

  test('has its webhook, which the queue may allow', () => {
    const webhook = 'https://hooks.example.com/done';
    expect(read({ input: {}, webhook })).toMatchObject({ webhook });
    expect(read({ input: {}, webhook: '' })).not.toHaveProperty('webhook');
  });

  test.each([
    [[], /expected names with values, not \[\]/],
    [{ prompt: 'Hi' }, /^input: expected an object/],
    [{ input: 'Hi' }, /^input: expected an object/],
    [{ input: {}, webhook: 5 }, /^webhook: /],
    [{ input: {}, s3Config: {} }, /^s3Config: is not supported/],
    [{ input: {}, policy: { ttl: 9999 } }, /^policy.ttl: expected milliseconds from 10000 to 604800000/],
    [
      { input: {}, policy: { executionTimeout: 1 } },
      /^policy.executionTimeout: expected milliseconds from 5000/,
    ],
    [{ input: {}, policy: { lowPriority: 1 } }, /^policy.lowPriority: expected true or false/],
  ])('%j is refused by name', (body, problem) => {
    expect(() => read(body)).toThrow(problem);
  });
});

describe('an endpoint', () => {
  const model = (id: string, config_id: string, available = true): ModelView => ({
    ...{ id, config_id, available, first_seen_ms: 0, card: null, start: null },
    state: available ? 'ready' : 'gone',
  });
  const MODELS = [model('org/a', 'one'), model('adapter', 'one'), model('org/b', 'two', false)];

  test.each([
    ['one', 'one'],
    ['adapter', 'one'],
    ['org/b', 'two'],
    ['default', 'one'],
  ])('%s stands for the pool %s', (endpoint, pool) => {
    expect(poolOfEndpoint(endpoint, MODELS)).toBe(pool);
  });

  test.each([
    ['three', MODELS, 'There is no endpoint "three". Endpoints there are: one.'],
    [
      'default',
      [...MODELS, model('c', 'three')],
      /There is no endpoint "default". Endpoints there are: one, three/,
    ],
    ['default', [], 'There is no endpoint "default". No worker is known here.'],
  ])('%s is unknown where it could be none or several', (endpoint, models, message) => {
    expect(() => poolOfEndpoint(endpoint, models)).toThrow(message);
  });

  test('has its workers counted by what they do', () => {
    const worker = (more: Partial<WorkerView>) =>
      ({ config_id: 'one', status: null, running: 0, ...more }) as WorkerView;
    const workers = [
      worker({ state: 'ready' }),
      worker({ state: 'ready', running: 2 }),
      worker({ state: 'paused', running: 1 }),
      worker({ state: 'disconnected', status: 'starting' }),
      worker({ state: 'disconnected', status: 'error' }),
      worker({ state: 'disconnected', status: 'stopped' }),
      worker({ state: 'ready', config_id: 'two' }),
    ];
    expect(runpodWorkers('one', workers)).toEqual({
      ...{ idle: 1, initializing: 1, ready: 2, running: 2, throttled: 1, unhealthy: 1 },
    });
  });
});

test.each([
  ['/v2/e/run', 'runpod'],
  ['/v2/org%2Fm/runsync', 'runpod'],
  ['/v2/e/status/j?x=1', 'runpod'],
  ['/v2/e/stream/j', 'runpod'],
  ['/v2/e/cancel/j', 'runpod'],
  ['/v2/e/retry/j', 'runpod'],
  ['/v2/e/purge-queue', 'runpod'],
  ['/v2/e/health', 'runpod'],
  ['/v2/rerank', 'openai'],
  ['/v2/e/openai/v1/chat/completions', 'openai'],
  ['/v2/e/openai/v1/messages', 'anthropic'],
])('errors of %s are %s’s', (path, dialect) => {
  expect(dialectOf(path)).toBe(dialect);
});

test('an error of RunPod’s endpoints is one text', () => {
  expect(errorBody(new HttpError(404, 'There is none.', 'code'), 'runpod')).toEqual({
    error: 'There is none.',
  });
});
