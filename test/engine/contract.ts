import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';

/** An engine to be held against the contract: serves `tiny` and `alias`, 2,048 tokens, 2 at a time. */
export interface ContractEngine {
  url: string;
  stop(): Promise<void>;
}

/** Arguments of `vllm serve`, and of the simulator, that make such an engine. */
export const CONTRACT_ARGS = [
  ...['--served-model-name', 'tiny', 'alias', '--max-model-len', '2048'],
  ...['--max-num-seqs', '2', '--max-num-queued-reqs', '4'],
];

type Json = Record<string, unknown>;

const MESSAGES = [{ role: 'user', content: 'hello there' }];
/** A request that runs for as long as the engine lets it. */
const LONG = { messages: MESSAGES, ignore_eos: true, max_tokens: 2000, stream: true };

/**
 * What the road relies on in an engine, run over the simulator and over real vLLM alike,
 * so that the one cannot drift from the other.
 */
export function engineContract(start: () => Promise<ContractEngine>): void {
  let engine: ContractEngine;

  beforeAll(async () => {
    engine = await start();
  });
  afterAll(async () => {
    await engine?.stop();
  });

  const get = (path: string) => fetch(engine.url + path);
  const post = (path: string, body: unknown, init: RequestInit = {}) =>
    fetch(engine.url + path, {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
      ...init,
      headers: { 'content-type': 'application/json', ...init.headers },
    });
  const chat = (body: Json, init?: RequestInit) =>
    post('/v1/chat/completions', { messages: MESSAGES, ...body }, init);
  const chatStream = async (body: Json, init?: RequestInit) =>
    readEvents(await chat({ stream: true, ignore_eos: true, ...body }, init));
  const gauge = async (name: string) => sumOf(await (await get('/metrics')).text(), name);
  const idle = () =>
    until(
      async () => (await gauge('num_requests_running')) === 0 && (await gauge('num_requests_waiting')) === 0,
      'the engine is idle',
    );

  describe('beside the answers', () => {
    it('says that it is healthy with an empty 200', async () => {
      const response = await get('/health');
      expect(response.status).toBe(200);
      expect(await response.text()).toBe('');
    });

    it('lists its names and the length they take', async () => {
      const list = (await (await get('/v1/models')).json()) as { object: string; data: Json[] };
      expect(list.object).toBe('list');
      expect(list.data.map(({ id }) => id)).toEqual(['tiny', 'alias']);
      expect(list.data[0]).toMatchObject({
        object: 'model',
        owned_by: 'vllm',
        parent: null,
        max_model_len: 2048,
      });
      expect(typeof list.data[0]?.root).toBe('string');
    });

    it('tells its version and its load', async () => {
      expect(await (await get('/version')).json()).toEqual({ version: expect.any(String) });
      expect(await (await get('/load')).json()).toEqual({ server_load: 0 });
    });

    it.each([
      ['GET', '/v1/nothing', 404, { detail: 'Not Found' }],
      ['GET', '/v1/chat/completions', 405, { detail: 'Method Not Allowed' }],
    ])('answers %s %s with %i', async (method, path, status, body) => {
      const response = await fetch(engine.url + path, { method });
      expect(response.status).toBe(status);
      expect(await response.json()).toEqual(body);
    });

    it('keeps the counters and histograms that the road and its dashboards read', async () => {
      const before = await (await get('/metrics')).text();
      const answer = (await (await chat({ max_tokens: 7, ignore_eos: true })).json()) as { usage: Json };
      const prompt = answer.usage.prompt_tokens as number;
      const growth = async (name: string, only = '') =>
        sumOf(await (await get('/metrics')).text(), name, only) - sumOf(before, name, only);

      await until(async () => (await growth('generation_tokens_total')) === 7, 'seven tokens are counted');
      await until(async () => (await growth('request_success_total')) === 1, 'the request is counted');
      expect(await growth('prompt_tokens_total')).toBe(prompt);
      expect(await growth('request_success_total', 'finished_reason="length"')).toBe(1);
      expect(await growth('time_to_first_token_seconds_count')).toBe(1);
      expect(await growth('inter_token_latency_seconds_count')).toBe(6);
      expect(await growth('e2e_request_latency_seconds_count')).toBe(1);
      expect(await growth('request_queue_time_seconds_count')).toBe(1);
      expect(await growth('iteration_tokens_total_count')).toBeGreaterThan(0);
      for (const name of ['kv_cache_usage_perc', 'num_preemptions_total', 'prefix_cache_hits_total']) {
        expect(before).toContain(`vllm:${name}{`);
      }
      expect(before).toMatch(/vllm:e2e_request_latency_seconds_bucket\{[^}]*le="\+Inf"/);
    });
  });

  describe('a chat completion', () => {
    it('has every field, the nulls included', async () => {
      const response = await chat({ max_tokens: 3, ignore_eos: true, model: 'tiny' });
      expect(response.status).toBe(200);
      expect(response.headers.get('content-type')).toBe('application/json');
      const body = await response.json();
      expect(body).toEqual({
        id: expect.stringMatching(/^chatcmpl-[0-9a-f]{16}$/),
        object: 'chat.completion',
        created: expect.any(Number),
        model: 'tiny',
        choices: [
          {
            index: 0,
            message: {
              role: 'assistant',
              content: expect.any(String),
              refusal: null,
              annotations: null,
              audio: null,
              function_call: null,
              reasoning: null,
            },
            logprobs: null,
            finish_reason: 'length',
            stop_reason: null,
            token_ids: null,
            routed_experts: null,
          },
        ],
        service_tier: null,
        system_fingerprint: expect.stringMatching(/^vllm-/),
        usage: {
          prompt_tokens: expect.any(Number),
          total_tokens: expect.any(Number),
          completion_tokens: 3,
          prompt_tokens_details: null,
          completion_tokens_details: null,
        },
        prompt_logprobs: null,
        prompt_token_ids: null,
        prompt_text: null,
        kv_transfer_params: null,
        ec_transfer_params: null,
        metrics: null,
      });
      const { usage } = body as { usage: { prompt_tokens: number; total_tokens: number } };
      expect(usage.total_tokens).toBe(usage.prompt_tokens + 3);
    });

    it('takes its id from X-Request-Id, before the one in the body', async () => {
      const init = { headers: { 'x-request-id': 'job-42' } };
      const body = (await (await chat({ max_tokens: 1, request_id: 'other' }, init)).json()) as Json;
      expect(body.id).toBe('chatcmpl-job-42');
      const fromBody = (await (await chat({ max_tokens: 1, request_id: 'other' })).json()) as Json;
      expect(fromBody.id).toBe('chatcmpl-other');
    });

    it('answers under its first name, whichever name was asked for', async () => {
      for (const model of ['tiny', 'alias', undefined]) {
        expect(await (await chat({ max_tokens: 1, model })).json()).toMatchObject({ model: 'tiny' });
      }
    });

    it('is the same for the same request and seed', async () => {
      const text = async (seed: number) => {
        const body = (await (await chat({ max_tokens: 20, ignore_eos: true, seed })).json()) as Completion;
        return body.choices[0]!.message!.content;
      };
      expect(await text(7)).toBe(await text(7));
      expect(await text(7)).not.toBe(await text(8));
    });

    it('ignores fields that it does not know', async () => {
      expect((await chat({ max_tokens: 1, guided_choice: ['a'], some_field: { deep: true } })).status).toBe(
        200,
      );
    });

    it('prefers max_completion_tokens, and takes numbers in strings', async () => {
      const asked = { max_tokens: '9', max_completion_tokens: 2, ignore_eos: true };
      expect(await (await chat(asked)).json()).toMatchObject({ usage: { completion_tokens: 2 } });
    });

    it('ends at the model length when more tokens are asked for than fit', async () => {
      const body = (await (await chat({ max_tokens: 2048, ignore_eos: true })).json()) as Completion;
      expect(body.usage.total_tokens).toBe(2048);
      expect(body.choices[0]?.finish_reason).toBe('length');
    });

    it('makes at least min_tokens', async () => {
      const body = (await (await chat({ min_tokens: 200, max_tokens: 250 })).json()) as Completion;
      expect(body.usage.completion_tokens).toBeGreaterThanOrEqual(200);
    });

    it('has as many choices as asked for', async () => {
      const body = (await (await chat({ n: 2, max_tokens: 3, ignore_eos: true })).json()) as Completion;
      expect(body.choices.map(({ index }) => index)).toEqual([0, 1]);
      expect(body.usage.completion_tokens).toBe(6);
    });

    it('stops before the stop string and says which it was, or keeps it where asked to', async () => {
      const asked = { stop: ['e', 'zzz'], max_tokens: 2000, ignore_eos: true, seed: 3 };
      const cut = ((await (await chat(asked)).json()) as Completion).choices[0]!;
      expect(cut).toMatchObject({ finish_reason: 'stop', stop_reason: 'e' });
      expect(cut.message!.content).not.toContain('e');
      const whole = await chat({ ...asked, include_stop_str_in_output: true });
      const kept = ((await whole.json()) as Completion).choices[0]!;
      expect(kept.message!.content).toBe(`${cut.message!.content}e`);
    });
  });

  describe('a streamed chat completion', () => {
    it('opens with the role, carries the finish on its last text, and ends with [DONE]', async () => {
      const { response, events, done } = await chatStream({ max_tokens: 3 });
      expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
      expect(response.headers.get('transfer-encoding')).toBe('chunked');
      expect(done).toBe(true);
      const head = {
        id: expect.stringMatching(/^chatcmpl-/),
        object: 'chat.completion.chunk',
        created: expect.any(Number),
        model: 'tiny',
      };
      expect(events[0]).toEqual({
        ...head,
        choices: [
          { index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null },
        ],
        prompt_token_ids: null,
        prompt_text: null,
      });
      expect(events[1]).toEqual({
        ...head,
        choices: [
          {
            index: 0,
            delta: { content: expect.any(String) },
            logprobs: null,
            finish_reason: null,
            token_ids: null,
          },
        ],
      });
      expect(events.at(-1)).toEqual({
        ...head,
        choices: [
          {
            index: 0,
            delta: { content: expect.any(String) },
            logprobs: null,
            finish_reason: 'length',
            stop_reason: null,
            token_ids: null,
          },
        ],
        system_fingerprint: expect.stringMatching(/^vllm-/),
      });
      expect(new Set(events.map(({ id }) => id)).size).toBe(1);
    });

    it('adds an event with the usage and no choices where include_usage asks for it', async () => {
      const { events, done } = await chatStream({ max_tokens: 3, stream_options: { include_usage: true } });
      const last = events.at(-1)!;
      const prompt = (last.usage as Json).prompt_tokens as number;
      expect(last.choices).toEqual([]);
      expect(last.usage).toEqual({ prompt_tokens: prompt, total_tokens: prompt + 3, completion_tokens: 3 });
      expect(last.system_fingerprint).toMatch(/^vllm-/);
      expect(events.at(-2)).not.toHaveProperty('system_fingerprint');
      expect(events.slice(0, -1).every((event) => !('usage' in event))).toBe(true);
      expect(done).toBe(true);
    });

    it('counts along where continuous_usage_stats asks for it', async () => {
      const options = { include_usage: true, continuous_usage_stats: true };
      const { events } = await chatStream({ max_tokens: 4, stream_options: options });
      const counts = events.map(({ usage }) => (usage as Json).completion_tokens as number);
      expect(counts[0]).toBe(0);
      expect(counts).toEqual(counts.toSorted((one, other) => one - other));
      expect(counts.at(-1)).toBe(4);
    });

    it('says the same as the answer in one piece', async () => {
      const asked = { max_tokens: 60, ignore_eos: true, seed: 11 };
      const whole = (await (await chat(asked)).json()) as Completion;
      const { events } = await chatStream(asked);
      expect(textOf(events, 0)).toBe(whole.choices[0]!.message!.content);
    });

    it('opens each choice and ends each with its own finish', async () => {
      const { events } = await chatStream({ n: 2, max_tokens: 3, stream_options: { include_usage: true } });
      const choices = events.flatMap((event) => event.choices as ChunkChoice[]);
      expect(choices.filter(({ delta }) => delta?.role === 'assistant').map(({ index }) => index)).toEqual([
        0, 1,
      ]);
      const finished = choices.filter(({ finish_reason }) => finish_reason !== null);
      expect(finished.map(({ index }) => index).toSorted()).toEqual([0, 1]);
      expect((events.at(-1)!.usage as Json).completion_tokens).toBe(6);
    });

    it('never lets a part of the stop string out', async () => {
      const asked = { max_tokens: 100, seed: 5 };
      const unstopped = textOf((await chatStream(asked)).events, 0);
      const stop = unstopped.slice(12, 15);
      const { events } = await chatStream({ ...asked, stop });
      expect(textOf(events, 0)).toBe(unstopped.slice(0, unstopped.indexOf(stop)));
      const last = (events.at(-1)!.choices as ChunkChoice[])[0]!;
      expect(last).toMatchObject({ finish_reason: 'stop', stop_reason: stop });
    });

    it('is errorless under many readers at once', async () => {
      await idle();
      const streams = await Promise.all([1, 2, 3, 4].map((seed) => chatStream({ max_tokens: 100, seed })));
      for (const { events, done } of streams) {
        expect(done).toBe(true);
        expect((events.at(-1)!.choices as ChunkChoice[])[0]!.finish_reason).toBe('length');
      }
    });
  });

  describe('a text completion', () => {
    it('has every field, the nulls included', async () => {
      const init = { headers: { 'x-request-id': 'job-7' } };
      const response = await post(
        '/v1/completions',
        { prompt: 'hello', max_tokens: 3, ignore_eos: true },
        init,
      );
      expect(await response.json()).toEqual({
        id: 'cmpl-job-7',
        object: 'text_completion',
        created: expect.any(Number),
        model: 'tiny',
        choices: [
          {
            index: 0,
            text: expect.any(String),
            logprobs: null,
            finish_reason: 'length',
            stop_reason: null,
            token_ids: null,
            prompt_logprobs: null,
            prompt_token_ids: null,
            routed_experts: null,
          },
        ],
        service_tier: null,
        system_fingerprint: expect.stringMatching(/^vllm-/),
        usage: {
          prompt_tokens: expect.any(Number),
          total_tokens: expect.any(Number),
          completion_tokens: 3,
          prompt_tokens_details: null,
          completion_tokens_details: null,
        },
        kv_transfer_params: null,
        ec_transfer_params: null,
        metrics: null,
      });
    });

    it('makes 16 tokens when no number is given', async () => {
      const response = await post('/v1/completions', { prompt: 'hello', ignore_eos: true });
      expect(await response.json()).toMatchObject({ usage: { completion_tokens: 16 } });
    });

    it('streams texts without an opening', async () => {
      const body = { prompt: 'hello', max_tokens: 3, ignore_eos: true, stream: true };
      const usage = { stream_options: { include_usage: true } };
      const { events, done } = await readEvents(await post('/v1/completions', { ...body, ...usage }));
      expect(events[0]).toEqual({
        id: expect.stringMatching(/^cmpl-/),
        object: 'text_completion',
        created: expect.any(Number),
        model: 'tiny',
        choices: [
          {
            index: 0,
            text: expect.any(String),
            logprobs: null,
            finish_reason: null,
            stop_reason: null,
            prompt_token_ids: null,
            token_ids: null,
          },
        ],
      });
      expect(events.at(-2)!.choices).toMatchObject([{ finish_reason: 'length', stop_reason: null }]);
      expect(events.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 3 } });
      expect(done).toBe(true);
    });

    it('takes several prompts, and token ids', async () => {
      const two = await post('/v1/completions', {
        prompt: ['hello', 'there'],
        max_tokens: 2,
        ignore_eos: true,
      });
      const body = (await two.json()) as Completion;
      expect(body.choices.map(({ index }) => index)).toEqual([0, 1]);
      expect(body.usage.completion_tokens).toBe(4);
      const ids = await post('/v1/completions', { prompt: [5, 6, 7], max_tokens: 2 });
      expect(await ids.json()).toMatchObject({ usage: { prompt_tokens: 3 } });
    });

    it('repeats the prompt where echo asks for it', async () => {
      const response = await post('/v1/completions', { prompt: 'hello', max_tokens: 2, echo: true });
      const body = (await response.json()) as Completion;
      expect(body.choices[0]?.text).toMatch(/^hello./s);
    });
  });

  describe('a bad request', () => {
    const rejects = async (path: string, body: unknown, status: number, error: Json) => {
      for (const stream of typeof body === 'string' ? [false] : [false, true]) {
        const sent = typeof body === 'string' ? body : { ...(body as Json), ...(stream && { stream }) };
        const response = await post(path, sent);
        expect(response.status, `stream: ${stream}`).toBe(status);
        expect(response.headers.get('content-type')).toBe('application/json');
        expect(await response.json()).toEqual({ error: { ...error, code: status } });
      }
    };
    const badValue = (message: RegExp, param: string | null) => ({
      message: expect.stringMatching(message),
      type: 'BadRequestError',
      param,
    });
    const badForm = (message: RegExp, param: string | null) => ({
      message: expect.stringMatching(message),
      type: 'Bad Request',
      param,
    });

    it('for an unknown model is answered 404, streamed or not', async () => {
      const error = {
        message: expect.stringMatching(/`nosuch` does not exist/),
        type: 'NotFoundError',
        param: 'model',
      };
      await rejects('/v1/chat/completions', { messages: MESSAGES, model: 'nosuch' }, 404, error);
      await rejects('/v1/completions', { prompt: 'x', model: 'nosuch' }, 404, error);
    });

    it('with a value out of range is answered 400 with the field named', async () => {
      const cases: [Json, RegExp, string | null][] = [
        [{ max_tokens: 0 }, /^max_tokens must be at least 1, got 0\./, 'max_tokens'],
        [{ max_tokens: 2049 }, /cannot be greater than max_model_len=2048/, 'max_tokens'],
        [{ temperature: -1 }, /^temperature must be non-negative, got -1\.0/, 'temperature'],
        [{ temperature: 3 }, /^temperature must be in \[0, 2\]/, 'temperature'],
        [{ top_p: 2 }, /^top_p must be in \(0, 1\]/, 'top_p'],
        [{ frequency_penalty: 5 }, /^frequency_penalty must be in \[-2, 2\]/, null],
        [{ n: 0 }, /^n must be at least 1/, null],
        [{ n: 2, temperature: 0 }, /greedy sampling/, null],
        [{ max_tokens: 2, min_tokens: 5 }, /^min_tokens must be less than or equal to max_tokens=2/, null],
        [{ messages: [] }, /empty conversation/, null],
      ];
      for (const [field, message, param] of cases) {
        await rejects(
          '/v1/chat/completions',
          { messages: MESSAGES, ...field },
          400,
          badValue(message, param),
        );
      }
    });

    it('with stream options but no stream is answered 400', async () => {
      const response = await chat({ stream_options: { include_usage: true } });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { param: 'stream_options' } });
    });

    it('with a wrong type or a missing field is answered 400 with the place in the body', async () => {
      const at = '/v1/chat/completions';
      const type = badForm(/valid integer/, 'body.max_tokens');
      await rejects(at, { messages: MESSAGES, max_tokens: 'many' }, 400, type);
      await rejects(at, { model: 'tiny' }, 400, badForm(/Field required/, 'body.messages'));
      await rejects(at, { messages: 'hi' }, 400, badForm(/valid list/, 'body.messages'));
      await rejects('/v1/completions', { model: 'tiny' }, 400, badValue(/prompt/, 'prompt'));
    });

    it('that is no JSON, no object or not said to be JSON is answered 400', async () => {
      const at = '/v1/chat/completions';
      await rejects(at, '{nope', 400, badForm(/JSON decode error/, 'body.1'));
      await rejects(at, '[1]', 400, badForm(/valid dictionary/, 'body'));
      const response = await chat({}, { headers: { 'content-type': 'text/plain' } });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { type: 'Bad Request', param: null } });
    });

    it('with a prompt longer than the model is answered 400, the limit named', async () => {
      const error = {
        message: expect.stringMatching(/maximum context length is 2048 tokens/),
        type: 'BadRequestError',
        param: expect.stringMatching(/^input_/),
      };
      const content = 'word '.repeat(6000);
      await rejects('/v1/chat/completions', { messages: [{ role: 'user', content }] }, 400, error);
    });
  });

  describe('under load', () => {
    // Held here: an answer that nobody refers to is closed when its memory is reclaimed.
    const open: { caller: AbortController; response: Response }[] = [];
    const openStream = async () => {
      const caller = new AbortController();
      const held = { caller, response: await chat(LONG, { signal: caller.signal }) };
      open.push(held);
      return held;
    };
    beforeEach(idle);
    afterEach(async () => {
      for (const { caller } of open.splice(0)) caller.abort();
      await idle();
    });

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
      const { hostname, port } = new URL(engine.url);
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
      await openStream();
      await openStream();
      const third = await openStream();
      await until(async () => (await gauge('num_requests_waiting')) === 1, 'one waits');
      third.caller.abort();
      await until(async () => (await gauge('num_requests_waiting')) === 0, 'none waits');
      await until(async () => (await gauge('num_requests_running')) === 2, 'the others run on');
    });
  });
}

interface Completion {
  choices: {
    index: number;
    text?: string;
    message?: { content: string };
    finish_reason: string | null;
    stop_reason: string | null;
  }[];
  usage: { prompt_tokens: number; total_tokens: number; completion_tokens: number };
}

interface ChunkChoice {
  index: number;
  delta?: { role?: string; content?: string };
  finish_reason: string | null;
  stop_reason?: string | null;
}

/** Reads a stream to its end; every event must be one `data: ` line and a blank one. */
export async function readEvents(
  response: Response,
): Promise<{ response: Response; events: Json[]; done: boolean }> {
  const events: Json[] = [];
  let done = false;
  for (const event of (await response.text()).split('\n\n').slice(0, -1)) {
    expect(event).toMatch(/^data: [^\n]+$/);
    expect(done).toBe(false);
    const data = event.slice('data: '.length);
    if (data === '[DONE]') done = true;
    else events.push(JSON.parse(data) as Json);
  }
  return { response, events, done };
}

function textOf(events: Json[], index: number): string {
  return events
    .flatMap((event) => event.choices as ChunkChoice[])
    .filter((choice) => choice.index === index)
    .map(({ delta }) => delta?.content ?? '')
    .join('');
}

/** The sum of a metric over its label sets, or over those that contain `only`. */
export function sumOf(page: string, name: string, only = ''): number {
  const lines = page.split('\n').filter((line) => line.startsWith(`vllm:${name}{`) && line.includes(only));
  if (lines.length === 0) throw new Error(`no metric vllm:${name}`);
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}
