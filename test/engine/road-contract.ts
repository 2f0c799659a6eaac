import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEngineClient } from '../../src/engine/client/client.ts';
import { askCanary } from '../../src/engine/client/hang.ts';
import type { EngineClient } from '../../src/engine/client/types.ts';
import { describeEngine } from '../../src/engine/kinds/index.ts';
import type { EngineName } from '../../src/protocol/index.ts';
import { engineRefusal } from '../../src/worker/failure.ts';
import { CompletionWatch } from '../../src/worker/run/completion-watch.ts';
import { until } from '../support/poll.ts';
import { readThrough, seenAtWork } from '../support/seen-at-work.ts';

/** An engine that serves `tiny`, slowly enough for a request of 1,500 tokens to be seen at work. */
export interface RunningEngine {
  url: string;
  stop(): Promise<void>;
}

/** What an engine of this kind is not asked for. */
export interface Lacks {
  /** It has no page of metrics. */
  metrics?: true;
}

const CHAT = '/v1/chat/completions';
const messages = [{ role: 'user', content: 'hello there' }];

/**
 * What the road needs of any engine, seen through its description as the road sees it: less than the engine
 * contract, which holds the simulator to vLLM byte for byte. To be run for every engine there is.
 */
export function roadContract(name: EngineName, start: () => Promise<RunningEngine>, lacks: Lacks = {}): void {
  let engine: RunningEngine;
  let client: EngineClient;

  beforeAll(async () => {
    engine = await start();
    client = createEngineClient({ baseUrl: engine.url, engine: describeEngine(name) });
  });
  afterAll(async () => {
    await client?.close();
    await engine?.stop();
  });

  const send = (body: object, signal = AbortSignal.timeout(60_000)) =>
    client.request({ method: 'POST', path: CHAT, body: JSON.stringify(body), signal });
  const textOf = async (body: AsyncIterable<Uint8Array>) => {
    const pieces: Uint8Array[] = [];
    for await (const piece of body) pieces.push(piece);
    return Buffer.concat(pieces).toString();
  };

  describe('as the road needs it', () => {
    it('is healthy by one of its routes', async () => {
      expect(await client.probe(60_000)).toBe('healthy');
    });

    it('tells what it serves', async () => {
      expect(await client.models()).toContain('tiny');
    });

    it('answers a chat completion in one piece, with text, finish and usage', async () => {
      const answer = await send({ model: 'tiny', messages, max_tokens: 5 });
      const body = JSON.parse(await textOf(answer.body));
      expect(answer.status).toBe(200);
      expect(body.choices[0]).toMatchObject({
        message: { content: expect.any(String) },
        finish_reason: expect.stringMatching(/^(stop|length)$/),
      });
      expect(body.usage).toMatchObject({ completion_tokens: expect.any(Number) });
    });

    it('streams events that end with a finish and [DONE]', async () => {
      const answer = await send({ model: 'tiny', messages, max_tokens: 5, stream: true });
      expect(answer.headers['content-type']).toMatch(/^text\/event-stream/);
      const watch = new CompletionWatch();
      let text = '';
      for await (const piece of answer.body) {
        watch.see(piece);
        text += Buffer.from(piece).toString();
      }
      expect([watch.isDone, watch.isGivenUp, watch.failure]).toEqual([true, false, null]);
      expect(text).toMatch(/"finish_reason": ?"(stop|length)"/);
    });

    it('gives one token to a canary', async () => {
      expect(await askCanary(client, 'tiny', 30_000)).toBe('alive');
    });

    it('says in words why it refuses a request', async () => {
      const answer = await send({ model: 'tiny', messages, max_tokens: 'many' });
      expect(answer.status).toBeGreaterThanOrEqual(400);
      const { message } = engineRefusal(answer.status, JSON.parse(await textOf(answer.body)));
      expect(message).toMatch(/integer|number|max_tokens/);
      expect(message).not.toMatch(/[{}]"/);
    });

    it.skipIf(!!lacks.metrics)(
      'counts what it runs and what it makes, and stops when the caller hangs up',
      async () => {
        const before = (await client.gauges())?.progress;
        expect(before).toBeTypeOf('number');
        const begin = async () => {
          const caller = new AbortController();
          const answer = await send(
            { model: 'tiny', messages, max_tokens: 1500, ignore_eos: true, stream: true },
            caller.signal,
          );
          if (answer.status !== 200)
            throw new Error(`refused: ${answer.status} ${await textOf(answer.body)}`);
          return { caller, ...readThrough(answer.body) };
        };
        const { caller } = await seenAtWork(
          begin,
          async ({ pieces }) => pieces() > 0 && (await client.gauges())?.running === 1,
          'it runs one',
        );
        await until(async () => ((await client.gauges())?.progress ?? 0) > (before as number), 'it counts');
        caller.abort();
        await until(async () => (await client.gauges())?.running === 0, 'it runs none');
      },
    );

    it.runIf(!!lacks.metrics)('has no gauges, and nobody minds', async () => {
      expect(await client.gauges()).toBeNull();
    });
  });
}
