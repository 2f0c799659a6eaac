import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import { freePort } from '../support/ports.ts';
import { cli, tearDown } from '../support/road.ts';

afterAll(tearDown);

/** The moments of a start, ms after it: before the engine is started, meanwhile, and behind it. */
const MOMENTS = Array.from({ length: 12 }, (_, index) => 100 + 40 * index);

it('a signal at any moment of a start ends it, though the engine takes long', async () => {
  for (const moment of MOMENTS) {
    const container = cli(['supervise'], {
      ENGINE: 'simulator',
      VLLM_MODEL: 'tiny',
      VLLM_PORT: String(await freePort()),
      VLLM_EXTRA_ARGS: '--startup-seconds 600',
      CASOLA_CONFIG_ID: 'pool',
      CASOLA_INSTANCE_ID: 'early',
      CASOLA_WS_URL: 'ws://127.0.0.1:9',
      CASOLA_API_URL: 'http://127.0.0.1:9',
      CASOLA_SHUTDOWN_GRACE_PERIOD: '600',
    });
    await sleep(moment);
    container.kill('SIGTERM');
    // 0 once it listens; before that the signal itself ends it.
    const { code } = await container.exited;
    expect([0, 143, null], `${moment} ms`).toContain(code);
  }
});
