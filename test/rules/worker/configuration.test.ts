import { hostname } from 'node:os';
import { expect, test } from 'vitest';
import { readWorkerConfiguration } from '../../../src/worker/configuration.ts';
import { withQueueDefaults } from '../../../src/worker/variables.ts';

const GOOD = { CASOLA_WS_URL: 'wss://queue.example/', CASOLA_CONFIG_ID: 'my-model', VLLM_MODEL: 'a/b' };

function problemOf(env: NodeJS.ProcessEnv): string {
  try {
    readWorkerConfiguration(env);
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}

test('three variables suffice, everything else has its default', () => {
  expect(readWorkerConfiguration(GOOD)).toMatchObject({
    wsUrl: 'wss://queue.example',
    queueId: 'vllm-queue',
    configId: 'my-model',
    instanceId: hostname(),
    apiUrl: undefined,
    token: undefined,
    heartbeatIntervalSeconds: 60,
    capacity: 1,
    leaseSeconds: 30,
    renewAfterSeconds: 24,
    graceSeconds: 5,
    backpressure: { checkIntervalSeconds: 5, pauseAboveWaiting: 1, resumeAtWaiting: 0 },
    streamInterval: { minMs: 0, maxMs: 20, rampEvents: 16, manyStreams: 128 },
    payloadHosts: null,
    engine: { url: 'http://127.0.0.1:8000', model: 'a/b', startupTimeoutMs: 120_000 },
  });
});

test('blanks around an address or a switch, as a file of variables may hold them, mean nothing', () => {
  const addresses = { CASOLA_WS_URL: ' wss://queue.example ', CASOLA_API_URL: 'https://api.example\t' };
  const given = { ...GOOD, ...addresses, ENGINE_URL: 'http://10.0.0.1:8000 ', RAW_OPENAI_OUTPUT: '0 ' };
  expect(readWorkerConfiguration(given)).toMatchObject({
    wsUrl: 'wss://queue.example',
    apiUrl: 'https://api.example',
    runpod: { isRawOpenAI: false },
    engine: { url: 'http://10.0.0.1:8000' },
  });
});

test.each(['CASOLA_API_URL', 'CASOLA_LOGS_URL', 'CASOLA_METRICS_URL', 'ENGINE_URL'])(
  '%s has no user name and password, and they are not shown',
  (name) => {
    const problem = problemOf({ ...GOOD, [name]: 'https://me:hush-hush@host.example/x' });
    expect(problem).toContain(
      `${name}="https://(secret)@host.example/…": expected no user name and password`,
    );
    expect(problem).not.toContain('hush-hush');
  },
);

test('an address of the queue may have them, and they are not shown either where it is wrong', () => {
  const address = 'wss://me:hush-hush@queue.example';
  expect(readWorkerConfiguration({ ...GOOD, CASOLA_WS_URL: address })).toMatchObject({ wsUrl: address });
  expect(problemOf({ ...GOOD, CASOLA_WS_URL: address.replace('wss', 'https') })).not.toContain('hush-hush');
});

test('every fault is named at once, with what was given and what is expected, and no secret', () => {
  const problem = problemOf({
    CASOLA_WS_URL: 'https://queue.example',
    CASOLA_MAX_JOBS: 'many',
    CASOLA_LEASE_SECONDS: '10',
    CASOLA_RENEW_LEASE_AFTER: '10',
    CASOLA_API_URL: 'queue.example',
    CASOLA_API_TOKEN: 'hush-hush',
    VLLM_PORT: '99999',
    CASOLA_BACKPRESSURE_PAUSE_THRESHOLD: '2',
    CASOLA_BACKPRESSURE_RESUME_THRESHOLD: '3',
    WORKER_PAYLOAD_HOSTS: 'https://files.example',
  });
  expect(problem).toMatch(
    /CASOLA_WS_URL="https:\/\/queue.example": expected a URL starting with ws:\/\/ or wss:\/\//,
  );
  expect(problem).toMatch(/CASOLA_CONFIG_ID is not set/);
  expect(problem).toMatch(/CASOLA_MAX_JOBS="many": expected a whole number from 1 to 100000, or auto/);
  expect(problem).toMatch(/CASOLA_RENEW_LEASE_AFTER="10": expected fewer seconds than CASOLA_LEASE_SECONDS/);
  expect(problem).toMatch(/CASOLA_API_URL="queue.example": expected a URL/);
  expect(problem).toMatch(/VLLM_PORT="99999": expected a port/);
  expect(problem).toMatch(/ENGINE_URL is not set/);
  expect(problem).toMatch(/RESUME_THRESHOLD="3": expected no more than CASOLA_BACKPRESSURE_PAUSE_THRESHOLD/);
  expect(problem).toMatch(/WORKER_PAYLOAD_HOSTS="https:\/\/files.example": expected host names/);
  expect(problem).not.toContain('hush');
});

test('a running engine needs no model', () => {
  const { engine } = readWorkerConfiguration({ ...GOOD, VLLM_MODEL: '', ENGINE_URL: 'http://engine:11434' });
  expect(engine.url).toContain('http://engine:11434');
});

test('capacity has two names; the deployed worker uses CASOLA_CAPACITY, and so does this one, with a warning', () => {
  const read = (more: object) => {
    const { capacity, warnings } = readWorkerConfiguration({ ...GOOD, ...more });
    return [capacity, warnings.length];
  };
  expect(read({ CASOLA_CAPACITY: '4' })).toEqual([4, 0]);
  expect(read({ CASOLA_CAPACITY: '4', CASOLA_MAX_JOBS: '4' })).toEqual([4, 0]);
  expect(read({ CASOLA_CAPACITY: '4', CASOLA_MAX_JOBS: '5' })).toEqual([4, 1]);
});

test.each([
  [{}, 256],
  [{ VLLM_EXTRA_ARGS: '--max-num-seqs 32' }, 32],
  [{ VLLM_EXTRA_ARGS: '--max_num_seqs=32 --data-parallel-size 4 --max-num-seqs 16' }, 64],
  [{ VLLM_EXTRA_ARGS: '--max-num-seqs many' }, 256],
  [{ ENGINE: 'fastdeploy' }, 8],
  [{ ENGINE: 'fastdeploy', VLLM_EXTRA_ARGS: '--max-num-seqs 64' }, 64],
  [{ ENGINE_URL: 'http://127.0.0.1:11434' }, 8],
])('CASOLA_MAX_JOBS=auto with %o is %i', (more, slots) => {
  const auto = readWorkerConfiguration({ ...GOOD, ...more, CASOLA_MAX_JOBS: 'auto' });
  expect([auto.capacity, auto.engineRequests, auto.warnings]).toEqual([slots, slots, []]);
  expect(auto.backpressure?.pauseAboveWaiting).toBe(Math.ceil(slots / 4));
});

test('what the supervisor knows of its engine goes before what the variables say', () => {
  const given = { ...GOOD, CASOLA_CAPACITY: 'auto', VLLM_EXTRA_ARGS: '--max-num-seqs 32' };
  const started = { requests: 48, adapters: 1, revision: null };
  expect(readWorkerConfiguration(given, started).capacity).toBe(48);
  expect(
    readWorkerConfiguration({ ...given, CASOLA_BACKPRESSURE_RESUME_THRESHOLD: '12' }, started),
  ).toMatchObject({
    backpressure: { pauseAboveWaiting: 12, resumeAtWaiting: 12 },
  });
});

test('one job at a time for want of CASOLA_MAX_JOBS is said, with what the engine could run', () => {
  const { warnings, capacity } = readWorkerConfiguration({ ...GOOD, VLLM_EXTRA_ARGS: '--max-num-seqs 32' });
  expect(capacity).toBe(1);
  expect(warnings).toEqual([
    expect.stringMatching(/one job at a time.*32 side by side.*CASOLA_MAX_JOBS=auto/),
  ]);
  expect(readWorkerConfiguration({ ...GOOD, CASOLA_MAX_JOBS: '1' }).warnings).toEqual([]);
});

test('a lease shorter than the default is renewed after four fifths of it', () => {
  expect(readWorkerConfiguration({ ...GOOD, CASOLA_LEASE_SECONDS: '10' }).renewAfterSeconds).toBe(8);
});

test.each([
  [{ CASOLA_INSTANCE_ID: 'mine', RUNPOD_POD_ID: 'p', CONTAINER_ID: 'c' }, 'mine'],
  [{ RUNPOD_POD_ID: 'p', CONTAINER_ID: 'c' }, 'runpod-p'],
  [{ CONTAINER_ID: 'c' }, 'vast-c'],
])('%o make the id %s', (env, id) => {
  expect(readWorkerConfiguration({ ...GOOD, ...env }).instanceId).toBe(id);
});

test('backpressure can be switched off, and hosts be listed', () => {
  const given = {
    ...GOOD,
    CASOLA_BACKPRESSURE_CHECK_INTERVAL: '0',
    WORKER_PAYLOAD_HOSTS: 'a.example, *.b.example,minio:9000',
  };
  expect(readWorkerConfiguration(given)).toMatchObject({
    backpressure: null,
    payloadHosts: ['a.example', '*.b.example', 'minio:9000'],
  });
});

test('a quarter of the slots may wait in the engine, unless a threshold is given', () => {
  const thresholds = (more: object) => {
    const { pauseAboveWaiting, resumeAtWaiting } = readWorkerConfiguration({ ...GOOD, ...more })
      .backpressure!;
    return [pauseAboveWaiting, resumeAtWaiting];
  };
  expect(thresholds({ CASOLA_MAX_JOBS: '16' })).toEqual([4, 2]);
  expect(thresholds({})).toEqual([1, 0]);
  expect(thresholds({ CASOLA_MAX_JOBS: '16', CASOLA_BACKPRESSURE_PAUSE_THRESHOLD: '0' })).toEqual([0, 0]);
  expect(thresholds({ CASOLA_MAX_JOBS: '16', CASOLA_BACKPRESSURE_RESUME_THRESHOLD: '4' })).toEqual([4, 4]);
  expect(problemOf({ ...GOOD, CASOLA_MAX_JOBS: '16', CASOLA_BACKPRESSURE_RESUME_THRESHOLD: '5' })).toMatch(
    /RESUME_THRESHOLD="5": expected no more than CASOLA_BACKPRESSURE_PAUSE_THRESHOLD/,
  );
});

test('workers of different ids or queues never share a spool folder', () => {
  const folder = (more: object) =>
    readWorkerConfiguration({ ...GOOD, CASOLA_INSTANCE_ID: 'w', WORKER_SPOOL_DIR: '/spool', ...more })
      .spoolFolder;
  const folders = [
    {},
    { CASOLA_INSTANCE_ID: 'W' },
    { CASOLA_INSTANCE_ID: '../w' },
    { CASOLA_INSTANCE_ID: '.._w' },
    { CASOLA_QUEUE_ID: 'other' },
    { CASOLA_WS_URL: 'wss://other.example' },
  ].map(folder);
  expect(new Set(folders.map((name) => name.toLowerCase())).size).toBe(folders.length);
  for (const name of folders) expect(name).toMatch(/^\/spool\/[\w.-]+\/[\w.-]+$/);
  expect(folder({ WORKER_SPOOL_DIR: undefined, XDG_STATE_HOME: '/state' })).toMatch(
    /^\/state\/worker-vllm\/spool\/queue\.example_vllm-queue-\w+\/w-\w+$/,
  );
});

test('the batches of RunPod’s jobs are those of its variables, and its defaults otherwise', () => {
  const given = { ...GOOD, DEFAULT_BATCH_SIZE: '30', DEFAULT_BATCH_SIZE_GROWTH_FACTOR: '2' };
  expect(readWorkerConfiguration(given).runpod.batching).toEqual({
    maxSize: 30,
    minSize: 1,
    growthFactor: 2,
  });
});

test('pieces of streams are joined as the base worker is told to', () => {
  const intervalOf = (env: NodeJS.ProcessEnv) => readWorkerConfiguration({ ...GOOD, ...env }).streamInterval;
  expect(intervalOf({ CASOLA_STREAM_INTERVAL_MS: '50' })).toMatchObject({ minMs: 50, maxMs: 50 });
  expect(intervalOf({ CASOLA_STREAM_INTERVAL_MAX_MS: '0' })).toMatchObject({ minMs: 0, maxMs: 0 });
  expect(
    problemOf({ ...GOOD, CASOLA_STREAM_INTERVAL_MS: '50', CASOLA_STREAM_INTERVAL_MAX_MS: '20' }),
  ).toMatch(/CASOLA_STREAM_INTERVAL_MAX_MS="20": expected no less than CASOLA_STREAM_INTERVAL_MS/);
});

test('a result waits longer for an acknowledgement by POST than on a socket before it costs the disk a file', () => {
  const at = (path: string) => `https://api.example/v2/e/${path}/$ID`;
  const platform = {
    RUNPOD_WEBHOOK_GET_JOB: at('job-take'),
    RUNPOD_WEBHOOK_POST_OUTPUT: at('job-done'),
    RUNPOD_WEBHOOK_POST_STREAM: at('job-stream'),
  };
  const given = withQueueDefaults({ VLLM_MODEL: 'a/b', ...platform });
  expect(readWorkerConfiguration(given)).toMatchObject({ capacity: 30, ackWaitMs: 1000 });
  expect(readWorkerConfiguration(GOOD).ackWaitMs).toBeUndefined();
});
