import { describe, expect, it } from 'vitest';
import {
  type EngineAnswer,
  type EngineCall,
  readPieces,
  readText,
} from '../../../src/engine/client/types.ts';
import { ChatAlone } from '../../../src/features/responses/worker/chat-alone.ts';

/** An engine that has chat alone answers `/v1/responses` all the same. */

type Answer = [status: number, body: string, type?: string];

/** An engine that answers by path, and notes what it was asked. */
class ScriptedEngine {
  readonly asked: EngineCall[] = [];
  readonly answers: Record<string, (call: EngineCall) => Answer>;
  constructor(answers: Record<string, (call: EngineCall) => Answer>) {
    this.answers = answers;
  }
  isHealthy = async () => true;
  request = async (call: EngineCall): Promise<EngineAnswer> => {
    this.asked.push(call);
    const [status, body, type = 'application/json'] = this.answers[call.path]?.(call) ?? MISSING;
    // Pieces cut events anywhere.
    const bytes = Buffer.from(body);
    const pieces = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, at) =>
      bytes.subarray(at * 7, at * 7 + 7),
    );
    async function* each() {
      yield* pieces;
    }
    return { status, headers: { 'content-type': type, 'content-length': '1' }, body: each() };
  };
  get paths(): string[] {
    return this.asked.map(({ path }) => path);
  }
}

const MISSING: Answer = [404, '{"detail":"Not Found"}'];
const NO_MODEL: Answer = [404, '{"error":{"message":"The model `x` does not exist.","code":404}}'];
const SAYS = (text: string): Answer => [
  200,
  JSON.stringify({
    model: 'own',
    choices: [{ message: { content: text }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 2 },
  }),
];
const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
const piece = (content: string) => data({ model: 'own', choices: [{ delta: { content } }] });
const stream = (...events: string[]): Answer => [200, events.join(''), 'text/event-stream'];

const signal = new AbortController().signal;
function respond(engine: ScriptedEngine, layer: ChatAlone, body: object): Promise<EngineAnswer> {
  const fields = { model: 'tiny', input: 'hi', ...body };
  return layer.over(engine).request({
    method: 'POST',
    path: '/v1/responses',
    body: JSON.stringify(fields),
    contentType: 'application/json',
    requestId: 'r',
    signal,
  });
}

async function whole(answer: EngineAnswer): Promise<[number, Record<string, unknown>]> {
  return [answer.status, JSON.parse(await readText(answer.body))];
}

/** The types of a stream's events, and the data of the last one. */
async function streamed(answer: EngineAnswer): Promise<[string[], Record<string, unknown> | undefined]> {
  expect(answer.headers['content-type']).toMatch(/^text\/event-stream/);
  const text = await readText(answer.body);
  const events = text.split('\n\n').filter((event) => event !== '');
  const last = events.at(-1)?.split('data: ')[1];
  return [
    events.map((event) => /^event: response\.(.*)$/m.exec(event)![1]!),
    last === undefined ? undefined : JSON.parse(last),
  ];
}

describe('an engine that is known to have chat alone', () => {
  it('is asked for a chat, and its answer is a response', async () => {
    const engine = new ScriptedEngine({ '/v1/chat/completions': () => SAYS('Hello') });
    const [status, response] = await whole(
      await respond(engine, new ChatAlone(true), { max_output_tokens: 4 }),
    );
    expect([status, response]).toMatchObject([
      200,
      {
        object: 'response',
        status: 'completed',
        model: 'own',
        output: [{ type: 'message', content: [{ type: 'output_text', text: 'Hello' }] }],
        usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
      },
    ]);
    expect(engine.asked).toMatchObject([
      {
        path: '/v1/chat/completions',
        method: 'POST',
        requestId: 'r',
        signal,
        contentType: 'application/json',
      },
    ]);
    expect(JSON.parse(String(engine.asked[0]!.body))).toEqual({
      model: 'tiny',
      messages: [{ role: 'user', content: 'hi' }],
      max_tokens: 4,
    });
  });

  it('streams the events of a response', async () => {
    const done = data({ choices: [{ delta: {}, finish_reason: 'stop' }] });
    const usage = data({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } });
    for (const end of [`${done}${usage}data: [DONE]\n\n`, `${done}${usage}`, `${done}${usage.trimEnd()}`]) {
      const engine = new ScriptedEngine({
        '/v1/chat/completions': () => stream(piece('Hel'), piece('lo ü'), end),
      });
      const [types, last] = await streamed(await respond(engine, new ChatAlone(true), { stream: true }));
      expect(types).toEqual([
        'created',
        'in_progress',
        'output_item.added',
        'content_part.added',
        'output_text.delta',
        'output_text.delta',
        'output_text.done',
        'content_part.done',
        'output_item.done',
        'completed',
      ]);
      expect(last).toMatchObject({
        sequence_number: 9,
        response: { output: [{ content: [{ text: 'Hello ü' }] }], usage: { output_tokens: 2 } },
      });
    }
  });

  it('ends a stream as the engine ends it: cut off, failed or given up', async () => {
    const streamOf = async (...events: string[]) => {
      const engine = new ScriptedEngine({ '/v1/chat/completions': () => stream(piece('Hel'), ...events) });
      return await streamed(await respond(engine, new ChatAlone(true), { stream: true }));
    };
    expect((await streamOf())[0].at(-1)).toBe('output_text.delta');
    const failed = await streamOf(
      data({ error: { message: 'out of memory', code: 500 } }),
      'data: [DONE]\n\n',
    );
    expect([failed[0].at(-1), failed[1]]).toMatchObject([
      'failed',
      { response: { status: 'failed', error: { code: 'server_error', message: 'out of memory' } } },
    ]);
    const aborted = await streamOf(
      data({ choices: [{ delta: {}, finish_reason: 'abort' }] }),
      'data: [DONE]\n\n',
    );
    expect(aborted[0].at(-1)).toBe('failed');
  });

  it('may answer a request for a stream in one piece', async () => {
    const engine = new ScriptedEngine({ '/v1/chat/completions': () => SAYS('Hello') });
    const [types] = await streamed(await respond(engine, new ChatAlone(true), { stream: true }));
    expect(types.at(-1)).toBe('completed');
  });

  it('is not asked for what no chat can say', async () => {
    const engine = new ScriptedEngine({});
    const [status, body] = await whole(
      await respond(engine, new ChatAlone(true), { tools: [{ type: 'web_search' }] }),
    );
    expect([status, body]).toMatchObject([
      400,
      {
        error: {
          type: 'invalid_request_error',
          param: 'tools[0]',
          message: expect.stringMatching(/web_search.*vLLM/),
        },
      },
    ]);
    expect(engine.asked).toEqual([]);
  });

  it('says itself what it refuses, and any other route is its own', async () => {
    const engine = new ScriptedEngine({ '/v1/chat/completions': () => NO_MODEL });
    const layer = new ChatAlone(true);
    expect(await whole(await respond(engine, layer, {}))).toEqual([404, JSON.parse(NO_MODEL[1])]);
    await layer.over(engine).request({ method: 'POST', path: '/v1/responses/render', signal });
    await layer.over(engine).request({ method: 'GET', path: '/v1/responses', signal });
    expect(engine.paths).toEqual(['/v1/chat/completions', '/v1/responses/render', '/v1/responses']);
  });

  it('stops when nobody reads on', async () => {
    const engine = new ScriptedEngine({
      '/v1/chat/completions': () => stream(piece('a'), piece('b'), piece('c')),
    });
    let pieces = 0;
    await readPieces((await respond(engine, new ChatAlone(true), { stream: true })).body, () => {
      pieces += 1;
      return false;
    });
    expect(pieces).toBe(1);
  });
});

describe('an engine of which nothing is known', () => {
  it('is asked by chat once it says that it lacks the route, until it may be another', async () => {
    const engine = new ScriptedEngine({ '/v1/chat/completions': () => SAYS('Hello') });
    const layer = new ChatAlone(false);
    for (const _ of [1, 2]) expect((await whole(await respond(engine, layer, {})))[0]).toBe(200);
    const first = ['/v1/responses', '/v1/responses', '/v1/chat/completions'];
    expect(engine.paths).toEqual([...first, '/v1/chat/completions']);
    layer.engineIs([{ id: 'tiny' }]);
    await respond(engine, layer, {});
    expect(engine.paths.slice(4)).toEqual(first);
    layer.engineIs([{ id: 'tiny', owned_by: 'llamacpp' }]);
    await respond(engine, layer, {});
    expect(engine.paths.slice(7)).toEqual(['/v1/chat/completions']);
  });

  it('is asked for responses if it has the route, also if it does not know the model', async () => {
    const engine = new ScriptedEngine({
      '/v1/responses': ({ body }) => (body === '{}' ? [400, '{}'] : NO_MODEL),
      '/v1/chat/completions': () => SAYS('Hello'),
    });
    const layer = new ChatAlone(false);
    for (const _ of [1, 2])
      expect(await whole(await respond(engine, layer, {}))).toEqual([404, JSON.parse(NO_MODEL[1])]);
    expect(engine.paths).toEqual(['/v1/responses', '/v1/responses', '/v1/responses']);
  });
});
