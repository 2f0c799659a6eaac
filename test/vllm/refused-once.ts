import { beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { cli, startQueue, untilReady } from '../support/road.ts';
import type { Served } from './worker.ts';

/** What vLLM refuses of a worker's first stream, it is asked for once: its version says that it takes what is added. */
export function refusedOnce(served: () => Served): void {
  describe('the first stream of a worker', () => {
    let url: string;

    beforeAll(async () => {
      url = (await startQueue()).url;
      cli(['work'], {
        ENGINE_URL: served().url,
        CASOLA_WS_URL: url.replace(/^http/, 'ws'),
        CASOLA_CONFIG_ID: 'cfg',
        CASOLA_INSTANCE_ID: 'w',
      });
      await untilReady(url, 'w');
    });

    it('with a prompt that is too long is refused with its status', async () => {
      const refusals = () =>
        served()
          .output()
          .match(/"POST \/v1\/chat\/completions HTTP\/1.1" 400/g)?.length ?? 0;
      const before = refusals();
      const messages = [{ role: 'user', content: 'word '.repeat(20_000) }];
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'x-queue-wait': '5' },
        body: JSON.stringify({ model: 'tiny', stream: true, messages }),
      });
      expect([response.status, await response.text()]).toEqual([
        400,
        expect.stringContaining('context length'),
      ]);
      await until(() => refusals() > before, 'vLLM has logged it');
      expect(refusals()).toBe(before + 1);
    });
  });
}
