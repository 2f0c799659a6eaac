import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureLlama } from '../../scripts/engines/setup.ts';
import { EXIT } from '../../src/process/index.ts';
import { until } from '../support/poll.ts';
import {
  beginJob,
  job,
  processesWith,
  readyWorker,
  settled,
  startQueue,
  startWorker,
  stateFolder,
  tearDown,
  untilReady,
  type WorkerProcess,
  workers,
} from '../support/road.ts';
import { readThrough, seenAtWork } from '../support/seen-at-work.ts';
import { slotsInUse } from './llama.ts';

/** A worker that starts llama.cpp's server itself: its flags, its watch, its failures. */
let url: string;
beforeAll(async () => {
  url = (await startQueue()).url;
});
afterAll(tearDown);

const messages = [{ role: 'user' as const, content: 'Say hello.' }];

function optionsOf(pool: string, env: NodeJS.ProcessEnv, model: string, server: string) {
  return {
    engineArgs: '--threads 1 --no-warmup',
    env: {
      ENGINE: 'llama-cpp',
      VLLM_SERVE_COMMAND: server,
      VLLM_MODEL: model,
      CASOLA_CONFIG_ID: pool,
      CASOLA_MAX_JOBS: 'auto',
      ...env,
    },
  };
}

/** A worker whose supervisor starts llama.cpp with the tiny model, ready. Its id is the name of its pool. */
async function started(pool: string, env: NodeJS.ProcessEnv = {}): Promise<WorkerProcess> {
  const { server, model } = await ensureLlama();
  return await readyWorker(url, pool, optionsOf(pool, env, model, server));
}

/**
 * The exit code and the output of a worker whose engine cannot start. llama.cpp may lose its last lines when it ends
 * (docs/engines.md): the worker then knows no cause, and is started again, as a platform would.
 */
async function failing(
  pool: string,
  env: NodeJS.ProcessEnv,
): Promise<{ code: number | null; output: string }> {
  const { server, model } = await ensureLlama();
  return await until(async () => {
    const { process } = await startWorker(url, pool, optionsOf(pool, env, model, server));
    const { code } = await process.exited;
    const output = process.output();
    if (code === EXIT.engineFailedToStart) throw new Error(output);
    return { code, output };
  }, 'llama.cpp says why it does not start');
}

const client = () => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });

/** The process of a worker's engine: llama.cpp on the worker's port. */
async function engineOf({ enginePort }: WorkerProcess): Promise<number> {
  const found = await processesWith(`--port\0${enginePort}\0`);
  expect(found).toHaveLength(1);
  return found[0]!;
}

async function isReady(id: string): Promise<boolean> {
  return (await workers(url)).some(({ worker_id, state }) => worker_id === id && state === 'ready');
}

async function fleetRow(id: string): Promise<Record<string, unknown>> {
  const fleet = (await (await fetch(`${url}/api/fleet`)).json()) as { workers: Record<string, unknown>[] };
  return fleet.workers.find(({ worker_id }) => worker_id === id) ?? {};
}

describe('llama.cpp that the supervisor starts', () => {
  it('has the slots and the context that vLLM’s variables say, and answers to its model’s name', async () => {
    const worker = await started('flags', { MAX_NUM_SEQS: '3', MAX_MODEL_LEN: '2K' });
    const { model } = await ensureLlama();
    expect(await untilReady(url, 'flags')).toMatchObject({ capacity: 3, engine_requests: 3 });
    const slots = (await (await fetch(`${worker.engineUrl}/slots`)).json()) as { n_ctx: number }[];
    expect(slots.map(({ n_ctx }) => n_ctx)).toEqual([2048, 2048, 2048]);
    const answer = await client().chat.completions.create({ model: 'flags', messages, max_tokens: 5 });
    expect([answer.model, answer.usage?.completion_tokens]).toEqual([model, 5]);
    await worker.process.waitForLine(/engine: loading/);
    await worker.process.stop();
  });

  it('streams, is seen by its own gauges, and is not taken for hung while it works', async () => {
    const worker = await started('gauges', {
      VLLM_SERVED_MODEL_NAME: 'tiny',
      ENGINE_HANG_SECONDS: '1',
      CASOLA_HEARTBEAT_INTERVAL: '1',
      MAX_NUM_SEQS: '2',
    });
    let used = 0;
    const begin = async () => {
      const stream = await client().chat.completions.create({
        ...{ model: 'tiny', messages, max_tokens: 4000, stream_options: { include_usage: true } },
        stream: true,
      });
      return readThrough(stream, (chunk) => {
        used = chunk.usage?.completion_tokens ?? used;
      });
    };
    const { howOver } = await seenAtWork(
      begin,
      async () => (await fleetRow('gauges')).engine_running === 1,
      'its gauge counts the request',
    );
    expect(await fleetRow('gauges')).toMatchObject({ engine_waiting: 0 });
    expect(await until(howOver, 'the stream is over')).toBe('succeeded');
    expect(used).toBe(4000);
    expect(worker.process.output()).not.toMatch(/hang/);
    await worker.process.stop();
  });

  it('is started again in place when it is killed, and what it ran is run again', async () => {
    const worker = await started('killed', { ENGINE_RESTARTS: '1' });
    const engine = await engineOf(worker);
    const payload = { messages, max_tokens: 3000 };
    const stored = await seenAtWork(
      () => beginJob(url, { job_type: 'chat_completion', config_id: 'killed', payload }),
      async () => (await slotsInUse(worker.engineUrl)) === 1,
      'the engine runs it',
    );
    process.kill(engine, 'SIGKILL');
    await worker.process.waitForLine(/starting the engine again in 1 s \(1 of 1\)/);
    expect(await settled(url, stored.id)).toMatchObject({ state: 'succeeded', worker_id: 'killed' });
    expect((await job(url, stored.id)).attempts).toBe(2);
    await worker.process.stop();
  });

  it('is found to hang when its process stands still, and started again', async () => {
    const worker = await started('hangs', { ENGINE_RESTARTS: '1', ENGINE_HANG_SECONDS: '2' });
    const before = await engineOf(worker);
    process.kill(before, 'SIGSTOP');
    await worker.process.waitForLine(/starting the engine again in 1 s \(1 of 1\)/);
    await until(
      async () => (await isReady('hangs')) && (await engineOf(worker)) !== before,
      'another one runs',
    );
    await worker.process.stop();
  });

  it('finishes its stream when the worker is drained, and is gone with it', async () => {
    const worker = await started('drained', { CASOLA_SHUTDOWN_GRACE_PERIOD: '60' });
    const stream = await client().chat.completions.create({
      ...{ model: 'drained', messages, max_tokens: 4000, stream: true },
    });
    let finish: string | null = null;
    let pieces = 0;
    for await (const chunk of stream) {
      if (pieces++ === 3) worker.process.kill('SIGTERM');
      finish = chunk.choices[0]?.finish_reason ?? finish;
    }
    expect(finish).toBe('length');
    expect(pieces).toBeGreaterThan(3500);
    expect((await worker.process.exited).code).toBe(EXIT.ok);
    expect(await processesWith(`--port\0${worker.enginePort}\0`)).toEqual([]);
  });

  it('asks for the key of LLAMA_API_KEY, which its worker sends', async () => {
    const worker = await started('locked', { LLAMA_API_KEY: 'hush' });
    const direct = await fetch(`${worker.engineUrl}/v1/completions`, { method: 'POST', body: '{}' });
    expect(direct.status).toBe(401);
    const answer = await client().chat.completions.create({ model: 'locked', messages, max_tokens: 3 });
    expect(answer.usage?.completion_tokens).toBe(3);
    await worker.process.stop();
  });
});

/** With these, the cache of the tiny model takes 8 KB a token: half a terabyte for four slots of 16M tokens. */
const WIDE = { CACHE_TYPE_K: 'f32', CACHE_TYPE_V: 'f32' };

describe('llama.cpp that cannot start', () => {
  it.each([
    [
      'no-file',
      { VLLM_MODEL: '/nowhere/m.gguf' },
      EXIT.badModel,
      /the file \/nowhere\/m.gguf cannot be opened: No such/,
    ],
    [
      'unknown',
      { VLLM_EXTRA_ARGS: '--frobnicate' },
      EXIT.configuration,
      /does not know the argument --frobnicate/,
    ],
    [
      'value',
      { FLASH_ATTN: 'maybe' },
      EXIT.configuration,
      /does not accept FLASH_ATTN \(--flash-attn\): unknown value/,
    ],
    [
      'number',
      { MAX_MODEL_LEN: 'abc' },
      EXIT.configuration,
      /MAX_MODEL_LEN="abc": expected a number of tokens/,
    ],
    [
      'memory',
      { VLLM_EXTRA_ARGS: '--fit off', MAX_MODEL_LEN: '16M', ...WIDE },
      EXIT.outOfMemory,
      /memory does not suffice/,
    ],
  ])('says why in one line and by its exit code: %s', async (pool, env, code, words) => {
    const ended = await failing(pool, env);
    expect(ended.output).toMatch(words);
    expect(ended.code).toBe(code);
  });

  it('because its model is damaged', async () => {
    const { model } = await ensureLlama();
    const cut = join(stateFolder(), 'cut.gguf');
    writeFileSync(cut, readFileSync(model).subarray(0, 5000));
    const damaged = await failing('damaged', { VLLM_MODEL: cut });
    expect(damaged.output).toMatch(/the model is no GGUF file, or a damaged one/);
    expect(damaged.code).toBe(EXIT.badModel);
  });
});
