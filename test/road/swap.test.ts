import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeEnvFile } from '../support/env-file.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import type { Child } from '../support/processes.ts';
import {
  cli,
  engineRunning,
  processesWith,
  type QueueProcess,
  readyWorker,
  startQueue,
  stateFolder,
  tearDown,
  untilReady,
  workers,
} from '../support/road.ts';

/** Two models on one GPU, of which one is awake at a time (docs/swapping.md). */
let queue: QueueProcess;
let swap: Child;
let memory: string;
/** The most engines that had their weights in memory at one moment, as far as was looked. */
let most = 0;
let looking: NodeJS.Timeout;

const MODELS = ['llama', 'qwen'];
/** Of their engines. */
const ports: number[] = [];

beforeAll(async () => {
  queue = await startQueue();
  const folder = stateFolder();
  memory = stateFolder();
  const files: string[] = [];
  for (const model of MODELS) {
    const port = await freePort();
    ports.push(port);
    const variables = {
      ENGINE: 'simulator',
      VLLM_MODEL: model,
      VLLM_PORT: port,
      VLLM_EXTRA_ARGS: "'--inter-token-latency-ms 10'",
      CASOLA_CONFIG_ID: `pool-${model}`,
      CASOLA_INSTANCE_ID: model,
    };
    files.push(writeEnvFile(folder, model, variables));
  }
  swap = cli(['swap', ...files], {
    CASOLA_WS_URL: queue.url.replace(/^http/, 'ws'),
    CASOLA_API_URL: queue.url,
    CASOLA_MAX_JOBS: '8',
    CASOLA_SHUTDOWN_GRACE_PERIOD: '60',
    ENGINE_AWAKE_SECONDS: '1',
    SIMULATOR_MEMORY_FILE: join(memory, 'weights'),
  });
  looking = setInterval(() => {
    most = Math.max(most, readdirSync(memory).length);
  }, 5);
  for (const model of MODELS) await untilReady(queue.url, model);
});
afterAll(async () => {
  clearInterval(looking);
  await tearDown();
});

async function ask(model: string, maxTokens = 5, at = queue.url): Promise<string> {
  const answer = await fetch(`${at}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, prompt: 'a', max_tokens: maxTokens, ignore_eos: true }),
  });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { model: string }).model;
}

describe('two models on one GPU', () => {
  it('are both there for callers, and take turns', async () => {
    for (const model of [...MODELS, ...MODELS]) expect(await ask(model)).toBe(model);
  });

  it('answer all that is asked of both at once, and neither is kept waiting by the other', async () => {
    // Of the first there is always something to do, for some turns.
    let isOver = false;
    const busy = Promise.all(
      [1, 2].map(async () => {
        while (!isOver) await ask('llama', 30);
      }),
    );
    for (let n = 0; n < 3; n++) expect(await ask('qwen', 30)).toBe('qwen');
    isOver = true;
    await busy;
  });

  it('tell the fleet which of them is awake', async () => {
    const asleep = async () => {
      const answer = await fetch(`${queue.url}/api/fleet`);
      const { workers } = (await answer.json()) as {
        workers: { worker_id: string; engine_asleep: boolean | null }[];
      };
      return workers.filter(({ engine_asleep }) => engine_asleep).map(({ worker_id }) => worker_id);
    };
    for (const [model, other] of [MODELS, MODELS.toReversed()] as [string, string][]) {
      await ask(model);
      await until(async () => (await asleep()).join() === other, `${other} alone is told to be asleep`);
    }
  });

  it('leave requests to a worker elsewhere that is awake', async () => {
    const env = { VLLM_MODEL: 'qwen', CASOLA_CONFIG_ID: 'pool-qwen' };
    const elsewhere = await readyWorker(queue.url, 'elsewhere', { env });
    await ask('llama');
    const woken = () => swap.output().split('engine: wake_up').length;
    const before = woken();
    await Promise.all(Array.from({ length: 8 }, () => ask('qwen')));
    await ask('llama');
    expect(woken()).toBe(before);
    elsewhere.process.kill('SIGTERM');
    await elsewhere.process.exited;
    expect(await ask('qwen')).toBe('qwen');
  });

  it('never have their weights in memory at the same time', () => {
    expect(most).toBe(1);
  });

  it('end in order', async () => {
    const engines = async () =>
      (await Promise.all(ports.map((port) => processesWith(`--port\0${port}`)))).flat();
    expect(await engines()).toHaveLength(MODELS.length);
    // What waits for its turn has it when the other one is gone.
    const runs = ask('llama', 300);
    await until(async () => (await engineRunning(`http://127.0.0.1:${ports[0]}`)) > 0, 'an answer runs');
    const waits = ask('qwen', 100);
    await until(async () => {
      const qwen = (await workers(queue.url)).find(({ worker_id }) => worker_id === 'qwen');
      return (qwen?.running ?? 0) > 0;
    }, 'a request waits');
    swap.kill('SIGTERM');
    expect(await Promise.all([runs, waits])).toEqual(MODELS);
    expect((await swap.exited).code).toBe(0);
    await until(async () => (await engines()).length === 0, 'no engine is left');
  });
});

describe('three models, of which the last is never started', () => {
  it('end in order: what waits has its turn when the one that starts is gone', async () => {
    const own = await startQueue();
    const folder = stateFolder();
    const files = await Promise.all(
      ['first', 'starting', 'never'].map(async (name) =>
        writeEnvFile(folder, name, {
          ENGINE: 'simulator',
          VLLM_MODEL: name,
          VLLM_PORT: await freePort(),
          CASOLA_CONFIG_ID: `pool-${name}`,
          CASOLA_INSTANCE_ID: name,
          ...(name === 'starting' ? { VLLM_EXTRA_ARGS: "'--startup-seconds 600'" } : {}),
        }),
      ),
    );
    const three = cli(['swap', ...files], {
      CASOLA_WS_URL: own.url.replace(/^http/, 'ws'),
      CASOLA_API_URL: own.url,
      CASOLA_SHUTDOWN_GRACE_PERIOD: '600',
    });
    await until(() => three.output().includes('engine: sleep'), 'the first sleeps');
    await untilReady(own.url, 'first');
    const waits = ask('first', 5, own.url);
    const running = async () =>
      (await workers(own.url)).find(({ worker_id }) => worker_id === 'first')?.running ?? 0;
    await until(async () => (await running()) > 0, 'a request waits');
    three.kill('SIGTERM');
    expect(await waits).toBe('first');
    expect((await three.exited).code).toBe(0);
  });
});

describe('what goes wrong', () => {
  it('with an engine that runs already is told before anything starts', async () => {
    const folder = stateFolder();
    const variables = { ENGINE_URL: 'http://127.0.0.1:1', VLLM_MODEL: 'tiny' };
    const files = ['a', 'b'].map((name) => writeEnvFile(folder, name, variables));
    const refused = cli(['swap', ...files]);
    expect((await refused.exited).code).toBe(2);
    expect(refused.output()).toContain('a.env: ENGINE_URL=http://127.0.0.1:1 is an engine that runs already');
  });

  it('in two files together is told before anything starts', async () => {
    const folder = stateFolder();
    const variables = { ENGINE: 'simulator', CASOLA_INSTANCE_ID: 'same', VLLM_MODEL: 'tiny' };
    const files = ['a', 'b'].map((name) => writeEnvFile(folder, name, variables));
    const refused = cli(['swap', ...files]);
    expect((await refused.exited).code).toBe(2);
    expect(refused.output()).toContain('have the same CASOLA_INSTANCE_ID, same');
  });

  it.each(['fastdeploy', 'external', 'vlm'])('ENGINE=%s is refused: it cannot sleep', async (engine) => {
    const folder = stateFolder();
    const files = ['simulator', engine].map((name) =>
      writeEnvFile(folder, name, { ENGINE: name, VLLM_MODEL: 'tiny' }),
    );
    const refused = cli(['swap', ...files]);
    expect((await refused.exited).code).toBe(2);
    expect(refused.output()).toContain(`${engine}.env: ENGINE=${engine} cannot sleep; vllm can`);
  });
});
