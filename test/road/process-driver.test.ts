import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { workerEnvironment } from '../../src/launcher/provider.ts';
import { EXIT } from '../../src/process/index.ts';
import type { Driver } from '../../src/providers/driver.ts';
import { ProcessDriver } from '../../src/providers/process/driver.ts';
import { until } from '../support/poll.ts';
import { type QueueProcess, startQueue, stateFolder, tearDown, workers } from '../support/road.ts';

/** The driver `process` with real supervisors, workers and simulators, as a launcher starts them. */
const PREFIX = 'wv-abc123-';
/** A start is three processes, maybe on a busy machine. */
const LIMIT = { timeoutMs: 120_000 };
let queue: QueueProcess;
const stateDir = stateFolder();

beforeAll(async () => {
  queue = await startQueue();
}, 180_000);
afterAll(async () => {
  const driver = launcher();
  for (const machine of await driver.list(PREFIX)) await driver.terminate(machine);
  await tearDown();
});

/** What a launcher has; another one is what there is after its restart. */
function launcher(): Driver {
  const log = () => {};
  const ports = {
    env: process.env,
    clock: {
      now: () => Date.now(),
      setTimeout,
      clearTimeout: (timer: unknown) => clearTimeout(timer as NodeJS.Timeout),
    },
    fetch,
    random: Math.random,
    stateDir,
    log: { debug: log, info: log, warn: log, error: log },
  };
  return new ProcessDriver({ driver: 'process' }, ports);
}

async function launch(id: string, env: Record<string, string> = {}, url = queue.url): Promise<string> {
  const name = `${PREFIX}small-${id}`;
  const machine = { instance_type: 'local', gpus: 0, disk_gb: null, price_per_hour: null };
  const order: Parameters<typeof workerEnvironment>[0] = {
    kind: 'launch',
    launch_id: id,
    order: 1,
    provider: 'here',
    name,
    may_exist: false,
    machine,
    config_id: 'small',
    pool: { engine: 'simulator', model: 'tiny', env, secrets: [], slots: 2, adapters: [], image: undefined },
    token: 'none-is-asked-for',
  };
  const road = { url, queueId: 'vllm-queue' };
  const outcome = await launcher().launch({
    ...machine,
    name,
    may_exist: false,
    image: null,
    env: workerEnvironment(order, road, {}, Date.now()),
  });
  expect(outcome).toMatchObject({ kind: 'launched' });
  return name;
}

async function ready(name: string) {
  const find = async () =>
    (await workers(queue.url)).find(({ worker_id, state }) => worker_id === name && state === 'ready');
  return await until(find, `${name} is ready`, LIMIT);
}

async function ended(name: string) {
  const find = async () => (await launcher().list(name))[0];
  return await until(
    async () => {
      const machine = await find();
      return machine?.state === 'ended' && machine.exit_code !== null ? machine : null;
    },
    `${name} has ended`,
    LIMIT,
  );
}

describe('workers as processes', { timeout: 300_000 }, () => {
  it('take jobs under the name of their launch, and leave nothing behind', async () => {
    const name = await launch('1');
    const other = await launch('2');
    expect(await ready(name)).toMatchObject({ config_id: 'small' });
    await ready(other);
    expect(await launcher().list(PREFIX)).toMatchObject([{ state: 'running' }, { state: 'running' }]);
    expect(await launcher().terminate({ name, external_id: null })).toEqual({ kind: 'terminated' });
    expect(await launcher().list(PREFIX)).toMatchObject([{ name: other }]);
    // It said goodbye: it was not killed.
    await until(
      async () => {
        const worker = (await workers(queue.url)).find(({ worker_id }) => worker_id === name);
        return worker?.state === 'disconnected' && worker.status === 'stopping';
      },
      'the queue knows that it stopped',
      LIMIT,
    );
  });

  it('tell by their exit code and last lines why they ended', async () => {
    const name = await launch('3', { VLLM_EXTRA_ARGS: '--no-such-flag' });
    const machine = await ended(name);
    expect(machine).toMatchObject({
      exit_code: EXIT.configuration,
      detail: expect.stringContaining('no-such-flag'),
    });
    expect(await launcher().terminate({ name, external_id: null })).toEqual({ kind: 'terminated' });
  });

  it('end by themselves when their queue is gone for long', async () => {
    const name = await launch('4', { WORKER_QUEUE_LOST_SECONDS: '2' }, 'http://127.0.0.1:9');
    expect(await ended(name)).toMatchObject({
      exit_code: EXIT.queueLost,
      detail: expect.stringContaining('the queue could not be reached for 2 s'),
    });
  });
});
