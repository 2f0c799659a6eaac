import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ensureVllm, TINY_MODEL_VARIABLES, type VllmInstall } from '../../scripts/vllm/setup.ts';
import { EXIT } from '../../src/process/index.ts';
import { freePort } from '../support/ports.ts';
import { type Child, startProcess, stopAllProcesses } from '../support/processes.ts';
import { START_SECONDS } from './worker.ts';

const CLI = fileURLToPath(new URL('../../bin/worker-vllm.js', import.meta.url));
let vllm: VllmInstall;
let folder: string;
beforeAll(async () => {
  vllm = await ensureVllm();
  folder = mkdtempSync(join(tmpdir(), 'worker-vllm-flags-'));
});
afterEach(stopAllProcesses);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** That they reach the engine is seen in road.test.ts. */
describe('variables over real vLLM', () => {
  it('are shown as its flags by --print-command, each of the kind that its help tells', async () => {
    const process = await supervise(
      { ...TINY_MODEL_VARIABLES, MAX_MODEL_LEN: '1024', ENABLE_PREFIX_CACHING: '0' },
      ['--print-command'],
    );
    expect((await process.exited).code).toBe(EXIT.ok);
    const shown = process.output().replace(/ +/g, ' ');
    for (const part of [
      'serve # the program',
      `${vllm.modelDir} # MODEL_NAME`,
      '--enforce-eager # ENFORCE_EAGER',
      '--no-enable-prefix-caching # ENABLE_PREFIX_CACHING',
      '--max-model-len 1024 # MAX_MODEL_LEN',
    ]) {
      expect(shown).toContain(part);
    }
  });

  it.each([
    [{ MAX_MODEL_LEN: 'abc' }, /does not accept MAX_MODEL_LEN \(--max-model-len\): invalid .*'abc'/],
    [{ MAX_NUM_SEQS: '0' }, /does not accept MAX_NUM_SEQS .*: Input should be greater/],
  ])(
    'end with their name and the code of a bad configuration when vLLM refuses them: %o',
    async (env, message) => {
      const process = await supervise({ ...TINY_MODEL_VARIABLES, ...env });
      expect((await process.exited).code).toBe(EXIT.configuration);
      expect(process.output()).toMatch(message);
    },
  );
});

/** Nobody is at the queue's address: the worker keeps dialling. */
async function supervise(env: NodeJS.ProcessEnv, args: string[] = []): Promise<Child> {
  return startProcess(process.execPath, [CLI, 'supervise', ...args], {
    name: 'supervisor',
    cwd: folder,
    env: {
      ...process.env,
      ...vllm.env,
      XDG_CACHE_HOME: folder,
      ENGINE: 'vllm',
      MODEL_NAME: vllm.modelDir,
      VLLM_SERVE_COMMAND: vllm.vllmCommand,
      VLLM_PORT: String(await freePort()),
      VLLM_STARTUP_TIMEOUT: String(START_SECONDS),
      CASOLA_WS_URL: `ws://127.0.0.1:${await freePort()}`,
      CASOLA_CONFIG_ID: 'flags',
      WORKER_SPOOL_DIR: folder,
      ...env,
    },
  });
}
