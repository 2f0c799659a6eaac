import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../support/poll.ts';
import { type EngineCalls, LONG, sumOf } from './calls.ts';

export function underLoad({ get, chat, gauge, idle, url }: EngineCalls): void {
  describe('under load', () => {
    // Held here: an answer that nobody refers to is closed when its memory is reclaimed.
    const open: { caller: AbortController; response: Response }[] = [];
    const openStream = async () => {
      const caller = new AbortController();
      const held = { caller, response: await chat(LONG, { signal: caller.signal }) };
      open.push(held);
      return held;
    };
    const closeAll = async () => {
      for (const { caller } of open.splice(0)) caller.abort();
      await idle();
    };
    beforeEach(idle);
    afterEach(closeAll);

    it('runs two, lets two wait with their heads already sent, refuses the fifth with 503', async () => {
      for (const at of [1, 2, 3, 4]) {
        const { response } = await openStream();
        expect(response.status, `request ${at}`).toBe(200);
        expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
      }
      const { response: refused } = await openStream();
      expect(refused.status).toBe(503);
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
      await until(async () => (await gauge('num_requests_running')) === 2, 'two run');
      await until(async () => (await gauge('num_requests_waiting')) === 2, 'two wait');
      await until(async () => (await gauge('kv_cache_usage_perc')) > 0, 'the KV cache is in use');
      expect((await get('/health')).status).toBe(200);
    });

    it('counts every choice of a request against the limit', async () => {
      const response = await chat({ n: 5, max_tokens: 1 });
      expect(response.status).toBe(503);
    });

    it('stops generating when the caller of a stream hangs up, and counts no abort', async () => {
      const { caller, response } = await openStream();
      await response.body!.getReader().read();
      await until(async () => (await gauge('num_requests_running')) === 1, 'it runs');
      caller.abort();
      await idle();
      const page = await (await get('/metrics')).text();
      expect(sumOf(page, 'request_success_total', 'finished_reason="abort"')).toBe(0);
    });

    it('stops generating when the caller of an answer in one piece hangs up', async () => {
      const generated = await gauge('generation_tokens_total');
      const caller = new AbortController();
      const pending = chat({ ...LONG, stream: false }, { signal: caller.signal }).catch(
        (error: Error) => error.name,
      );
      await until(async () => (await gauge('num_requests_running')) === 1, 'it runs');
      caller.abort();
      expect(await pending).toBe('AbortError');
      await idle();
      expect((await gauge('generation_tokens_total')) - generated).toBeLessThan(2000);
    });

    it('stops generating when the caller closes its half of the connection', async () => {
      const { hostname, port } = new URL(url());
      const generated = await gauge('generation_tokens_total');
      const body = JSON.stringify(LONG);
      const socket = connect(Number(port), hostname);
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: engine\r\ncontent-type: application/json\r\n` +
          `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      );
      await new Promise((resolve) => socket.once('data', resolve));
      await until(async () => (await gauge('num_requests_running')) === 1, 'it runs');
      socket.end();
      await idle();
      expect((await gauge('generation_tokens_total')) - generated).toBeLessThan(2000);
      socket.destroy();
    });

    it('frees the place of a waiting caller who hangs up', async () => {
      await until(async () => {
        await closeAll();
        await openStream();
        await openStream();
        const third = await openStream();
        await until(async () => (await gauge('num_requests_waiting')) === 1, 'one waits');
        third.caller.abort();
        await until(async () => (await gauge('num_requests_waiting')) === 0, 'none waits');
        // Once more if the others were through before anybody looked.
        return (await gauge('num_requests_running')) === 2;
      }, 'none waits while the others run on');
    });
  });
}
