import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { bundle } from '../support/bundles.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { startProcess, stopAllProcesses } from '../support/processes.ts';

const CLI = fileURLToPath(new URL('../../bin/worker-vllm.js', import.meta.url));
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'worker-vllm-flags-'));
});
afterEach(stopAllProcesses);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('serves what the familiar variables say', async () => {
  const { url } = await supervise({
    MODEL_NAME: 'org/m',
    MAX_MODEL_LENGTH: '1024',
    SERVED_MODEL_NAME: 'a,b',
  });
  const models = await until(async () => {
    const answer = await fetch(`${url}/v1/models`).catch(() => null);
    return answer?.ok ? ((await answer.json()) as { data: { id: string; max_model_len: number }[] }) : null;
  }, 'the engine tells its models');
  expect(models.data.map(({ id, max_model_len }) => [id, max_model_len])).toEqual([
    ['a', 1024],
    ['b', 1024],
  ]);
});

it('ends with the variable’s name and the code of a bad configuration when the engine refuses its value', async () => {
  const { process } = await supervise({ VLLM_MODEL: 'm', MAX_MODEL_LEN: 'abc' });
  expect((await process.exited).code).toBe(EXIT.configuration);
  expect(process.output()).toContain('the engine does not accept MAX_MODEL_LEN (--max-model-len): invalid');
  expect(process.output()).toContain('Correct MAX_MODEL_LEN.');
});

it('refuses a switch that is neither on nor off before anything starts', async () => {
  const { process } = await supervise({ VLLM_MODEL: 'm', ENABLE_PREFIX_CACHING: 'maybe' });
  expect((await process.exited).code).toBe(EXIT.configuration);
  expect(process.output()).toContain('ENABLE_PREFIX_CACHING="maybe": expected true, false, 1 or 0');
});

it('prints the command with the source of each argument and no secret, and starts nothing', async () => {
  const baked = join(folder, 'local_model_args.json');
  writeFileSync(baked, JSON.stringify({ MODEL_NAME: '/models/m', MAX_NUM_SEQS: 7 }));
  const { process, port } = await supervise(
    {
      ...{ LOCAL_MODEL_ARGS: baked, MAX_MODEL_LEN: '2048', SWAP_SPACE: '4', MAX_NUM_SEQ: '8' },
      ...{ CUDA_VISIBLE_DEVICES: '0,1', BASE_PATH: '/data', VLLM_EXTRA_ARGS: '--seed 1 --api-key hidden' },
    },
    ['--print-command'],
  );
  expect((await process.exited).code).toBe(EXIT.ok);
  const lines = process.output().split('\n');
  const shown = lines.map((line) => line.trim().replace(/ +/g, ' '));
  for (const line of [
    'HF_HOME=/data/huggingface-cache # BASE_PATH',
    `/models/m # MODEL_NAME in ${baked}`,
    `--port ${port} # VLLM_PORT`,
    '--tensor-parallel-size 2 # 2 visible GPUs',
    '--max-model-len 2048 # MAX_MODEL_LEN',
    `--max-num-seqs 7 # MAX_NUM_SEQS in ${baked}`,
    '--seed 1 # VLLM_EXTRA_ARGS',
    "--api-key '(secret)' # VLLM_EXTRA_ARGS",
  ]) {
    expect(shown).toContain(line);
  }
  expect(process.output()).toMatch(/warning: SWAP_SPACE is ignored/);
  expect(process.output()).toMatch(/warning: MAX_NUM_SEQ is ignored.*MAX_NUM_SEQS/);
  expect(process.output()).not.toMatch(/hidden|starting simulator/);
});

it('gives no flag twice: of what it sets itself, the environment is told no and VLLM_EXTRA_ARGS win', async () => {
  const { process: shown } = await supervise(
    {
      ...{ ENGINE: 'fastdeploy', VLLM_MODEL: 'm', VLLM_SERVED_MODEL_NAME: 'a', SERVED_MODEL_NAME: 'b' },
      ...{ METRICS_PORT: '9001', VLLM_EXTRA_ARGS: '--cache-queue-port 9002' },
      VLLM_SERVE_COMMAND: `${process.execPath} ${bundle('simulator')} --dialect fastdeploy`,
    },
    ['--print-command'],
  );
  expect((await shown.exited).code).toBe(EXIT.ok);
  const flags = [...shown.output().matchAll(/^ +(--[\w-]+)/gm)].map((match) => match[1]);
  expect(flags).toEqual([...new Set(flags)]);
  expect(shown.output()).toMatch(/--served-model-name a +# VLLM_SERVED_MODEL_NAME/);
  expect(shown.output()).toMatch(/--cache-queue-port 9002 +# VLLM_EXTRA_ARGS/);
  expect(shown.output()).toContain(
    'SERVED_MODEL_NAME is ignored: VLLM_SERVED_MODEL_NAME sets --served-model-name',
  );
  expect(shown.output()).toContain('METRICS_PORT is ignored: worker-vllm sets --metrics-port');
});

it('asks the engine for its flags once, and not at all without a variable that may be one', async () => {
  const cache = join(folder, 'own-cache');
  mkdirSync(cache);
  const print = async (env: Record<string, string>) => {
    const { process } = await supervise({ VLLM_MODEL: 'm', XDG_CACHE_HOME: cache, ...env }, [
      '--print-command',
    ]);
    expect((await process.exited).code).toBe(EXIT.ok);
    return process.output();
  };
  expect(await print({})).not.toContain('asking the engine');
  expect(readdirSync(cache)).toEqual([]);
  expect(await print({ MAX_MODEL_LEN: '1' })).toContain('asking the engine');
  expect(await print({ MAX_MODEL_LEN: '2' })).toMatch(
    /^(?![\s\S]*asking the engine)[\s\S]*--max-model-len 2 /,
  );
});

it('ends in order, and the engine with it, when it is told to while it asks for the flags', async () => {
  const engine = join(folder, 'slow-engine');
  writeFileSync(engine, '#!/bin/sh\necho $$ > "$HOME/asked"\nexec sleep 60\n', { mode: 0o755 });
  const { process: supervisor } = await supervise({
    ...{ ENGINE: 'vllm', VLLM_MODEL: 'm', MAX_MODEL_LEN: '1', VLLM_SERVE_COMMAND: engine },
  });
  const asked = await until(
    () => Number(existsSync(join(folder, 'asked')) && readFileSync(join(folder, 'asked'), 'utf8')) || null,
    'the engine is asked',
  );
  supervisor.kill('SIGTERM');
  expect((await supervisor.exited).code).toBe(EXIT.ok);
  await until(() => !existsSync(`/proc/${asked}`), 'the engine has ended');
});

/** Nobody is at the queue's address: the worker keeps dialling. */
async function supervise(env: Record<string, string>, args: string[] = []) {
  const port = await freePort();
  const child = startProcess(process.execPath, [CLI, 'supervise', ...args], {
    name: 'supervisor',
    // Away from the .env of a developer.
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      HOME: folder,
      XDG_CACHE_HOME: join(folder, 'cache'),
      ENGINE: 'simulator',
      VLLM_PORT: String(port),
      CASOLA_WS_URL: `ws://127.0.0.1:${await freePort()}`,
      CASOLA_CONFIG_ID: 'sim',
      ...env,
    },
  });
  return { process: child, port, url: `http://127.0.0.1:${port}` };
}
