import { expect, test } from 'vitest';
import type { Heartbeat } from '../../../src/protocol/index.ts';
import { type Beat, Heartbeats, heartbeatPoster } from '../../../src/worker/telemetry/heartbeat.ts';
import { settled, VirtualClock } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

function heartbeats(post: (beat: Heartbeat) => Promise<void>) {
  const clock = new VirtualClock();
  const logged: string[] = [];
  const log = (_fields: object, message: string) => {
    logged.push(message);
  };
  const beat: Beat = { status: 'running' };
  const parts = {
    clock,
    log: { debug: log, info: log, warn: log, error: log },
    intervalSeconds: 60,
    complete: async (said: Beat) => ({ instance_id: 'w', ...said }),
    post,
    current: () => beat,
  };
  return { clock, logged, heartbeats: new Heartbeats(parts) };
}

test('a worker says starting with the phase, running once it takes jobs and each interval, stopping last', async () => {
  const bench = new WorkerBench();
  bench.worker.start();
  await settled();
  bench.worker.enginePhase({ phase: 'loading', atMs: bench.clock.now() });
  await settled();
  bench.queue.open();
  bench.worker.engineHealthy(['tiny']);
  bench.queue.grant();
  await bench.live(60_000);
  bench.worker.drain();
  await settled();
  expect(bench.beats.map(({ status, phase }) => (phase ? `${status} ${phase}` : status))).toEqual([
    'starting starting',
    'starting loading',
    'running',
    'running',
    'draining',
    'stopping',
  ]);
  expect(bench.beats[0]).toMatchObject({ instance_id: 'w', queue_id: 'vllm-queue', config_id: 'config' });
});

test('a worker whose socket is down or whose engine is unhealthy is silent', async () => {
  const bench = await new WorkerBench().ready();
  bench.worker.engineUnhealthy('refused');
  const before = bench.beats.length;
  await bench.clock.advance(30_000);
  bench.queue.close();
  await bench.clock.advance(90_000);
  expect(bench.beats).toHaveLength(before);
});

test('while one is on its way the newest waits and those between are left out', async () => {
  const arrived: string[] = [];
  const first = Promise.withResolvers<void>();
  const { heartbeats: beats } = heartbeats(async ({ status }) => {
    arrived.push(status);
    if (arrived.length === 1) await first.promise;
  });
  beats.say({ status: 'starting' });
  beats.say({ status: 'running' });
  beats.say({ status: 'stopping' });
  first.resolve();
  await beats.stop(1000);
  expect(arrived).toEqual(['starting', 'stopping']);
});

test('a failing address is warned of once, and once more when it works again', async () => {
  let works = false;
  const {
    clock,
    logged,
    heartbeats: beats,
  } = heartbeats(() => (works ? Promise.resolve() : Promise.reject(new Error('HTTP 500'))));
  beats.start();
  await clock.advance(300_000);
  works = true;
  await clock.advance(120_000);
  expect(logged).toEqual(['heartbeats do not arrive; jobs are not affected', 'heartbeats arrive again']);
  await beats.stop(1000);
  expect(clock.armed).toBe(0);
});

test('a beat is posted with the token, and one that gets no answer is given up', async () => {
  const clock = new VirtualClock();
  const requests: [string, RequestInit | undefined][] = [];
  const post = heartbeatPoster(
    {
      clock,
      fetch: (url, init) => {
        requests.push([url, init]);
        return new Promise((_resolve, reject) => {
          init?.signal?.addEventListener('abort', () => reject(init.signal?.reason));
        });
      },
    },
    'http://api',
    'secret',
  );
  const outcome = expect(post({ instance_id: 'w', status: 'running' })).rejects.toThrow(
    'no answer within 2 s',
  );
  await clock.advance(2000);
  await outcome;
  const [url, init] = requests[0]!;
  expect([url, init?.method]).toEqual(['http://api/api/heartbeats', 'POST']);
  expect(init?.headers).toMatchObject({ authorization: 'Bearer secret' });
  expect(JSON.parse(String(init?.body))).toEqual({ instance_id: 'w', status: 'running' });
});
