import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../support/poll.ts';
import { type Begun, readThrough, seenAtWork } from '../../support/seen-at-work.ts';
import { type EngineCalls, LONG, sumOf } from './calls.ts';

export function underLoad({ get, chat, gauge, idle, url }: EngineCalls): void {
  describe('under load', () => {
    const open: AbortController[] = [];
    const openStream = async () => {
      const caller = new AbortController();
      open.push(caller);
      const response = await chat(LONG, { signal: caller.signal });
      return { caller, response };
    };
    const openRead = async () => {
      const { caller, response } = await openStream();
      if (response.status !== 200) throw new Error(`refused: ${response.status} ${await response.text()}`);
      expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
      return { caller, ...readThrough(response.body!) };
    };
    const closeAll = async () => {
      for (const caller of open.splice(0)) caller.abort();
      await idle();
    };
    /** How the first of them ended that is over. */
    const anyOver = (streams: Begun[]) => async () =>
      (await Promise.all(streams.map((stream) => stream.howOver()))).find((over) => over !== null) ?? null;
    const runsAndWaits = async (running: number, waiting: number) => {
      const page = await (await get('/metrics')).text();
      return (
        sumOf(page, 'num_requests_running') === running && sumOf(page, 'num_requests_waiting') === waiting
      );
    };
    const runs = () => runsAndWaits(1, 0);
    /** What is generated before the engine learns that the caller is gone may be all of an answer: then again. */
    const stopsEarly = (hangUpOnOne: () => Promise<void>) =>
      until(async () => {
        const generated = await gauge('generation_tokens_total');
        await hangUpOnOne();
        await idle();
        return (await gauge('generation_tokens_total')) - generated < LONG.max_tokens;
      }, 'an answer is stopped before its end');
    beforeEach(idle);
    afterEach(closeAll);

    it('runs two, lets two wait with their heads already sent, refuses the fifth with 503', async () => {
      const { refused } = await seenAtWork(
        async () => {
          await closeAll();
          const streams: Begun[] = [];
          for (let at = 0; at < 4; at += 1) streams.push(await openRead());
          return { howOver: anyOver(streams), refused: (await openStream()).response };
        },
        async ({ refused }) => refused.status === 503 && (await runsAndWaits(2, 2)),
        'two run, two wait and one is refused',
      );
      expect(refused.headers.get('retry-after')).toBeNull();
      expect(await refused.json()).toEqual({
        error: {
          message: expect.stringMatching(/^The engine is currently busy/),
          type: 'Service Unavailable',
          param: null,
          code: 503,
        },
      });
      expect(await gauge('admission_rejections_total')).toBeGreaterThan(0);
    });

    it('is healthy with the KV cache in use', async () => {
      await seenAtWork(
        openRead,
        async () => (await gauge('kv_cache_usage_perc')) > 0,
        'the KV cache is in use',
      );
      expect((await get('/health')).status).toBe(200);
    });

    it('counts every choice of a request against the limit', async () => {
      const response = await chat({ n: 5, max_tokens: 1 });
      expect(response.status).toBe(503);
    });

    it('stops generating when the caller of a stream hangs up, and counts no abort', async () => {
      await stopsEarly(async () => {
        const stream = await seenAtWork(
          openRead,
          async ({ pieces }) => pieces() > 0 && (await runs()),
          'it runs',
        );
        stream.caller.abort();
      });
      const page = await (await get('/metrics')).text();
      expect(sumOf(page, 'request_success_total', 'finished_reason="abort"')).toBe(0);
    });

    it('stops generating when the caller of an answer in one piece hangs up', async () => {
      await stopsEarly(async () => {
        const begin = async () => {
          const caller = new AbortController();
          let over: string | null = null;
          const ended = chat({ ...LONG, stream: false }, { signal: caller.signal })
            .then((response) => response.text())
            .catch((error: Error) => error.name)
            .then((how) => {
              over = how;
            });
          return { caller, ended, howOver: () => over };
        };
        const { caller, ended, howOver } = await seenAtWork(begin, runs, 'it runs');
        caller.abort();
        await ended;
        expect(howOver()).toBe('AbortError');
      });
    });

    it('stops generating when the caller closes its half of the connection', async () => {
      const { hostname, port } = new URL(url());
      const body = JSON.stringify(LONG);
      const head =
        `POST /v1/chat/completions HTTP/1.1\r\nhost: engine\r\ncontent-type: application/json\r\n` +
        `content-length: ${Buffer.byteLength(body)}\r\n\r\n`;
      await stopsEarly(async () => {
        const begin = async () => {
          const socket = connect(Number(port), hostname);
          let heard = '';
          let isClosed = false;
          socket.on('data', (piece) => {
            heard += piece;
          });
          socket.on('error', (error) => {
            heard += error;
          });
          socket.on('close', () => {
            isClosed = true;
          });
          socket.write(head + body);
          const isOver = () => isClosed || heard.includes('[DONE]');
          await until(() => heard || isClosed, 'the first bytes have come');
          if (!heard.startsWith('HTTP/1.1 200 ')) throw new Error(`refused: ${heard}`);
          return { socket, howOver: () => (isOver() ? heard.slice(-200) : null) };
        };
        const { socket } = await seenAtWork(begin, runs, 'it runs');
        socket.end();
        await idle();
        socket.destroy();
      });
    });

    it('frees the place of a waiting caller who hangs up', async () => {
      await until(async () => {
        const { third } = await seenAtWork(
          async () => {
            await closeAll();
            const streams = [await openRead(), await openRead()];
            return { howOver: anyOver(streams), third: await openRead() };
          },
          () => runsAndWaits(2, 1),
          'two run and one waits',
        );
        third.caller.abort();
        await until(async () => (await gauge('num_requests_waiting')) === 0, 'none waits');
        // Once more if the others were through before anybody looked.
        return await runsAndWaits(2, 0);
      }, 'none waits while the others run on');
    });
  });
}
