import { describe, expect, test } from 'vitest';
import {
  type EngineAnswer,
  type EngineCall,
  EngineGone,
  readText,
} from '../../../src/engine/client/types.ts';
import { Prefills } from '../../../src/worker/prefill/prefills.ts';
import { prefillable, readPrefill } from '../../../src/worker/prefill/request.ts';
import { FakeEngine } from '../../support/fake-engine.ts';
import { settled, VirtualClock } from '../../support/virtual-clock.ts';

const LONG = 'river '.repeat(1000);
const CHAT = '/v1/chat/completions';
const TEXT = '/v1/completions';
const IDS = [5, 6, 7];
const PARAMS = {
  do_remote_prefill: true,
  do_remote_decode: false,
  remote_block_ids: [[1]],
  remote_engine_id: 'e',
  remote_request_id: 'r',
  remote_host: 'h',
  remote_port: 1,
  remote_num_tokens: 3,
};
const ROLE = { choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] };
const TOKEN = { choices: [{ index: 0, delta: { content: 'a' }, finish_reason: null }] };

function call(path: string, fields: object, signal = new AbortController().signal): EngineCall {
  return { method: 'POST', path, body: JSON.stringify(fields), signal };
}

function chat(more: object = {}): object {
  return { messages: [{ role: 'user', content: LONG }], max_tokens: 8, ...more };
}

const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;

describe('a request whose prompt another engine prefills', () => {
  const picture = { type: 'image_url', image_url: { url: LONG } };
  const parts = [{ role: 'user', content: [{ type: 'text', text: LONG }] }];
  test.each<[string, string, object]>([
    ['a chat', CHAT, chat()],
    ['one whose text comes in parts', CHAT, { messages: parts }],
    [
      'one with long tools',
      CHAT,
      { messages: [{ role: 'user', content: 'x' }], tools: [{ description: LONG }] },
    ],
    ['one of one choice', CHAT, chat({ n: 1, logprobs: true, seed: 1, kv_transfer_params: null })],
    ['a text', TEXT, { prompt: LONG }],
    ['a list of ids', TEXT, { prompt: Array.from({ length: 1024 }, () => 9999) }],
  ])('is %s', (_, path, fields) => {
    expect(prefillable(call(path, fields))).not.toBeNull();
  });

  test.each<[string, string, object]>([
    ['a short one', CHAT, { messages: [{ role: 'user', content: 'hello' }], user: LONG }],
    ['one with an image', CHAT, { messages: [{ role: 'user', content: [picture] }] }],
    ['of several choices', CHAT, chat({ n: 2 })],
    ['of one token', CHAT, chat({ max_tokens: 1 })],
    ['that goes on from ids', CHAT, chat({ kv_transfer_params: { prompt_token_ids: [1] } })],
    ['with the logprobs of its prompt', CHAT, chat({ prompt_logprobs: 1 })],
    ['of several texts', TEXT, { prompt: [LONG, LONG] }],
    ['of several lists', TEXT, { prompt: [Array.from({ length: 2000 }, () => 9)] }],
    ['that is echoed', TEXT, { prompt: LONG, echo: true }],
    ['that is best of some', TEXT, { prompt: LONG, best_of: 2 }],
    ['of another route', '/v1/embeddings', { input: LONG }],
  ])('is none %s', (_, path, fields) => {
    expect(prefillable(call(path, fields))).toBeNull();
  });

  test('is none that cannot be read', () => {
    expect(prefillable({ ...call(CHAT, {}), body: `{"messages": [${LONG}` })).toBeNull();
    expect(prefillable({ ...call(CHAT, chat()), method: 'GET' })).toBeNull();
  });
});

describe('what a prefill answers', () => {
  test.each([
    ['no blocks', { kv_transfer_params: null, prompt_token_ids: IDS }],
    [
      'blocks of a shorter prompt',
      { kv_transfer_params: { ...PARAMS, remote_num_tokens: 2 }, prompt_token_ids: IDS },
    ],
    ['no ids', { kv_transfer_params: PARAMS, prompt_token_ids: null }],
    [
      'nothing to read',
      { kv_transfer_params: { ...PARAMS, do_remote_prefill: false }, prompt_token_ids: IDS },
    ],
  ])('is of no use with %s', (_, answer) => {
    expect(readPrefill(JSON.stringify(answer))).toBeNull();
  });

  test('is of no use where it is no JSON', () => expect(readPrefill('<html>')).toBeNull());
});

class Bench {
  readonly clock = new VirtualClock();
  readonly decoder = new FakeEngine();
  readonly prefiller = new FakeEngine();
  readonly warned: string[] = [];
  readonly abort = new AbortController();
  readonly prefills = new Prefills(this.prefiller, {
    clock: this.clock,
    log: { info: () => {}, warn: (_: object, text: string) => void this.warned.push(text) },
  });
  readonly engine = this.prefills.before(this.decoder);
  answer: EngineAnswer | Error | null = null;

  async ask(path = CHAT, fields: object = chat({ stream: true })): Promise<void> {
    this.answer = null;
    void this.engine.request(call(path, fields, this.abort.signal)).then(
      (answer) => {
        this.answer = answer;
      },
      (error: Error) => {
        this.answer = error;
      },
    );
    await settled();
  }

  async prefilled(answer: object = { kv_transfer_params: PARAMS, prompt_token_ids: IDS }, status = 200) {
    this.prefiller.last.json(status, answer);
    await settled();
    await settled();
  }

  /** What the caller gets, whole. */
  async text(): Promise<string> {
    await settled();
    if (this.answer === null || this.answer instanceof Error) throw this.answer ?? new Error('no answer yet');
    return await readText(this.answer.body);
  }

  /** The whole request runs after all. */
  async expectWhole(result: string, asked = 1): Promise<void> {
    await settled();
    await settled();
    expect(this.decoder.exchanges).toHaveLength(asked);
    expect(this.decoder.last.body.kv_transfer_params).toBeUndefined();
    this.decoder.last.head(200, 'text/event-stream').write(event(TOKEN)).end();
    expect(await this.text()).toBe(event(TOKEN));
    expect(this.prefills.counts.results).toMatchObject({ done: 0, [result]: 1 });
  }
}

describe('a long prompt', () => {
  test('is prefilled by one engine and decoded by the other, by its ids', async () => {
    const bench = new Bench();
    await bench.ask(CHAT, chat({ stream: true, stream_options: { include_usage: true }, min_tokens: 4 }));
    expect(bench.decoder.exchanges).toHaveLength(0);
    expect(bench.prefiller.last.body).toMatchObject({
      messages: [{ content: LONG }],
      max_tokens: 1,
      min_tokens: 0,
      stream: false,
      stream_options: null,
      kv_transfer_params: { do_remote_decode: true, remote_host: null },
    });
    await bench.prefilled();
    expect(bench.decoder.last.body).toMatchObject({
      max_tokens: 8,
      stream: true,
      kv_transfer_params: { ...PARAMS, prompt_token_ids: IDS },
    });
    bench.decoder.last.head(200, 'text/event-stream').write(event(ROLE));
    await settled();
    expect(bench.answer).toBeNull();
    bench.decoder.last.write(event(TOKEN)).end();
    expect(await bench.text()).toBe(event(ROLE) + event(TOKEN));
    expect(bench.prefills.counts).toMatchObject({ results: { done: 1 }, tokens: 3 });
  });

  test('of a text completion too', async () => {
    const bench = new Bench();
    await bench.ask(TEXT, { prompt: LONG, max_tokens: 8 });
    await bench.prefilled({ choices: [{ prompt_token_ids: IDS }], kv_transfer_params: PARAMS });
    expect(bench.decoder.last.body).toMatchObject({ prompt: IDS, kv_transfer_params: PARAMS });
    bench.decoder.last.json(200, { text: 'x' });
    expect(await bench.text()).toBe('{"text":"x"}');
  });

  test.each<[string, { served?: string[]; ids?: number[] }]>([
    ['serves another model', { served: ['other'] }],
    ['has another tokenizer', { ids: [1, 2, 4] }],
  ])('goes whole to its engine where the prefill engine %s', async (_, { served, ids }) => {
    const bench = new Bench();
    bench.decoder.tokens = [1, 2, 3];
    bench.prefiller.tokens = ids ?? [1, 2, 3];
    if (served) bench.prefiller.served = served;
    await bench.ask(CHAT, chat({ stream: true }));
    expect(bench.prefiller.exchanges).toHaveLength(0);
    await bench.expectWhole('other_model');
  });

  test.each(['prefiller', 'decoder'] as const)('is prefilled though the %s tells no ids', async (which) => {
    const bench = new Bench();
    bench[which === 'decoder' ? 'prefiller' : 'decoder'].tokens = [1, 2, 3];
    await bench.ask();
    expect([bench.prefiller.exchanges.length, bench.decoder.exchanges.length]).toEqual([1, 0]);
  });

  test('that is short goes to the engine itself', async () => {
    const bench = new Bench();
    await bench.ask(CHAT, { messages: [{ role: 'user', content: 'hi' }] });
    expect([bench.prefiller.exchanges.length, bench.decoder.exchanges.length]).toEqual([0, 1]);
  });

  test.each<[string, string, (bench: Bench) => void]>([
    ['nobody listens', 'unreachable', ({ prefiller }) => void prefiller.last.refuse()],
    [
      'it breaks off',
      'unreachable',
      ({ prefiller }) => void prefiller.last.head(200, 'application/json').die(),
    ],
    ['it fails', 'unreachable', ({ prefiller }) => void prefiller.last.json(503, {})],
    ['it refuses', 'refused', ({ prefiller }) => void prefiller.last.json(404, {})],
    ['it has no connector', 'unusable', ({ prefiller }) => void prefiller.last.complete()],
  ])('runs whole where %s', async (_, result, fault) => {
    const bench = new Bench();
    await bench.ask();
    fault(bench);
    await bench.expectWhole(result);
  });

  test('runs whole where the prefill takes longer than its length allows', async () => {
    const bench = new Bench();
    await bench.ask();
    await bench.clock.advance(6400);
    expect(bench.decoder.exchanges).toHaveLength(0);
    await bench.clock.advance(200);
    expect(bench.prefiller.last.isAborted).toBe(true);
    await bench.expectWhole('slow');
  });

  test.each<[string, (bench: Bench) => void]>([
    ['answers an error', ({ decoder }) => void decoder.last.json(500, { error: {} })],
    [
      'fails behind the role',
      ({ decoder }) =>
        void decoder.last
          .head(200, 'text/event-stream')
          .write(`: keep-alive\n\n${event(ROLE)}`)
          .write(event({ error: { message: 'Internal server error' } })),
    ],
    [
      'breaks off',
      ({ decoder }) => void decoder.last.head(200, 'text/event-stream').write(event(ROLE)).die(),
    ],
    ['says nothing', ({ decoder }) => void decoder.last.head(200, 'text/event-stream').end()],
  ])('runs whole where the engine that decodes %s before the first token', async (_, fault) => {
    const bench = new Bench();
    await bench.ask();
    await bench.prefilled();
    fault(bench);
    await bench.expectWhole('not_decoded', 2);
  });

  test('runs whole where the first token does not come in time', async () => {
    const bench = new Bench();
    await bench.ask();
    await bench.prefilled();
    const first = bench.decoder.last;
    first.head(200, 'text/event-stream').write(event(ROLE));
    await bench.clock.advance(20_100);
    expect(first.isAborted).toBe(true);
    await bench.expectWhole('not_decoded', 2);
  });

  test('that has its first token is not asked for again', async () => {
    const bench = new Bench();
    await bench.ask();
    await bench.prefilled();
    bench.decoder.last.head(200, 'text/event-stream').write(event(TOKEN));
    await settled();
    await bench.clock.advance(60_000);
    bench.decoder.last.die();
    await expect(bench.text()).rejects.toThrow(EngineGone);
    expect(bench.decoder.exchanges).toHaveLength(1);
  });

  test('leaves a prefill engine alone that failed, and comes back to it', async () => {
    const bench = new Bench();
    await bench.ask();
    bench.prefiller.last.refuse();
    await bench.expectWhole('unreachable');
    await bench.ask();
    await bench.expectWhole('resting', 2);
    expect(bench.prefiller.exchanges).toHaveLength(1);
    await bench.clock.advance(10_000);
    await bench.ask();
    expect(bench.prefiller.exchanges).toHaveLength(2);
    expect(bench.warned).toHaveLength(1);
  });

  test.each(['the prefill runs', 'the blocks are read'])(
    'whose caller goes while %s is dropped',
    async (when) => {
      const bench = new Bench();
      await bench.ask();
      if (when === 'the blocks are read') await bench.prefilled();
      bench.abort.abort();
      await settled();
      await settled();
      expect(bench.prefiller.last.isAborted && bench.answer).toMatchObject({ name: 'AbortError' });
      expect(bench.decoder.exchanges.filter(({ isAborted }) => !isAborted)).toEqual([]);
      expect(Object.values(bench.prefills.counts.results).every((count) => count === 0)).toBe(true);
    },
  );
});
