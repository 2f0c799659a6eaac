import type { Socket } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { withoutComments } from '../support/comments.ts';
import { OddEngine, plain, rawAnswer, roadTo } from '../support/odd-engine.ts';
import { until } from '../support/poll.ts';
import { recordedStream } from '../support/recorded-streams/index.ts';
import { settled, submit, tearDown } from '../support/road.ts';

/** What engines of other kinds write at the end of an answer, by every road that a user takes. */
const engine = new OddEngine();
const CHAT = '/v1/chat/completions';
const HEAD = ['HTTP/1.1 200 OK', 'content-type: text/event-stream'];
const ASKED = { model: 'tiny', messages: [{ role: 'user', content: 'hi' }] };
let url: string;

beforeAll(async () => {
  url = await roadTo(engine);
});
afterAll(async () => {
  await tearDown();
  engine.close();
});
beforeEach(() => {
  engine.asked.length = 0;
});

const recorded = (name: string) => {
  const stream = recordedStream(name);
  engine.answer = (socket) => void socket.end(rawAnswer(HEAD, stream));
  return stream.toString();
};
const post = (path: string, body: object) =>
  fetch(`${url}${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
    // A status in any case: the response begins only after that.
    headers: { 'x-queue-wait': '5' },
  });
const live = async () =>
  (await (await post(CHAT, { ...ASKED, stream: true })).text()).replace(/^: .*\n\n/gm, '');
/** The connection breaks before the end that its head announces. */
const breakBehind = (socket: Socket, stream: string) => {
  socket.write(rawAnswer([...HEAD, 'content-length: 900000'], stream), () => {
    setTimeout(() => socket.resetAndDestroy(), 50);
  });
};
const USAGE = /data: \{[^\n]*"choices":\[\],"usage":[^\n]*\n\n/;

describe('a caller of a stream', () => {
  it.each(['tgi-chat', 'ik-llama-chat', 'mlc-chat', 'empty-reasons', 'openrouter-chat'])(
    'gets what the engine wrote where that is whole: %s',
    async (name) => {
      const stream = withoutComments(recorded(name));
      expect([stream, stream.replace(USAGE, '')]).toContain(await live());
    },
  );

  it('gets nothing behind the end of a stream whose connection breaks there', async () => {
    const stream = recordedStream('vllm-chat').toString();
    engine.answer = (socket) => breakBehind(socket, stream);
    expect([stream, stream.replace(USAGE, '')]).toContain(await live());
    const finished = stream.slice(0, stream.indexOf('data: [DONE]'));
    engine.answer = (socket) => breakBehind(socket, finished);
    expect(await live()).toMatch(/"error":.*broke off in the middle/);
  });

  it.each([
    ['vllm-old-error', 400, /the prompt is too long/],
    ['llama-cpp-error-before-2025', 500, /slot unavailable/],
    ['ollama-error', 500, /llama runner process has terminated/],
    ['openrouter-error-in-choice', 502, /Provider disconnected/],
    ['reason-error-alone', 500, /does not say why/],
  ])(
    'gets an error that its client sees, in place of one that it does not: %s',
    async (name, status, said) => {
      recorded(name);
      const events = (await live()).trimEnd().split('\n\n');
      expect(events.filter((event) => /"object":"error"|^error:|^\{|"error"\}/.test(event))).toEqual([]);
      expect(events.at(-1)).toBe('data: [DONE]');
      const { error } = JSON.parse(events.at(-2)!.slice('data: '.length)) as {
        error: Record<string, unknown>;
      };
      expect(error).toMatchObject({ status, message: expect.stringMatching(said) });
    },
  );

  it.each(['tgi-error', 'openrouter-error', 'sglang-error'])(
    'gets the engine’s own error: %s',
    async (name) => {
      const stream = withoutComments(recorded(name));
      expect(await live()).toBe(stream);
    },
  );

  it('is told of a stream that is cut', async () => {
    const stream = recorded('tgi-cut');
    expect((await live()).replace(stream, '')).toMatch(/^data: \{"error":.*ended without its finish/);
  });

  it.each([
    ['\\r at the ends of lines', (text: string) => text.replaceAll('\n', '\r')],
    ['a byte order mark', (text: string) => `\ufeff${text}`],
  ])('gets a stream that all clients can read: %s', async (_what, form) => {
    const stream = recordedStream('tgi-chat').toString();
    engine.answer = (socket) => void socket.end(rawAnswer(HEAD, form(stream)));
    expect([stream, stream.replace(USAGE, '')]).toContain(await live());
    const failed = recordedStream('vllm-old-error').toString();
    engine.answer = (socket) => void socket.end(rawAnswer(HEAD, form(failed)));
    expect(await live()).toMatch(/"error":.*the prompt is too long/);
  });

  it.each([[], ['content-type: text/plain'], ['content-type: application/json']])(
    'gets a stream where its engine calls it something else: %s',
    async (...head) => {
      const cut = recordedStream('tgi-cut').toString();
      engine.answer = (socket) => void socket.end(rawAnswer(['HTTP/1.1 200 OK', ...head], cut));
      const response = await post(CHAT, { ...ASKED, stream: true });
      expect(response.headers.get('content-type')).toContain('text/event-stream');
      expect(await response.text()).toMatch(/ended without its finish/);
    },
  );

  it.each([
    ['its name and a comment', 'event: error\n: out of memory\n\n'],
    ['a name with a blank', 'event: error \ndata: {"message":"out of memory"}\n\n'],
    ['a detail', 'data: {"detail":"out of memory"}\n\n'],
  ])('gets an error in a form that no client knows: %s', async (_what, event) => {
    engine.answer = (socket) => void socket.end(rawAnswer(HEAD, `${event}data: [DONE]\n\n`));
    const response = await post(CHAT, { ...ASKED, stream: true });
    expect([response.status, await response.text()]).toEqual([
      500,
      expect.stringMatching(/"error":.*out of memory/),
    ]);
  });

  it('gets each event as it comes, also of an engine that writes a reason into each', async () => {
    const events = recordedStream('empty-reasons')
      .toString()
      .split(/(?<=\n\n)/);
    let next = () => {};
    engine.answer = (socket) => {
      socket.write(rawAnswer(HEAD, ''));
      // What ends the choice waits for the event behind it.
      next = () => void (events.length > 2 ? socket.write(events.shift()!) : socket.end(events.join('')));
      next();
    };
    const response = await post(CHAT, { ...ASKED, stream: true });
    let got = '';
    for await (const piece of response.body!) {
      const text = Buffer.from(piece).toString();
      got += text;
      // The next one is written only then.
      if (text.includes('data: ')) next();
    }
    expect(got.match(/^data: /gm)).toHaveLength(4);
  });
});

describe('a job of which the engine streams the answer', () => {
  const job = async () => {
    const body = JSON.stringify({ ...ASKED, stream: true });
    const { id } = await submit(url, {
      job_type: 'engine_request',
      config_id: 'cfg',
      payload: { path: CHAT, body, content_type: 'application/json' },
    });
    return await settled(url, id);
  };
  const runpod = async () => {
    const input = { openai_route: CHAT, openai_input: { ...ASKED, stream: true } };
    const response = await post('/v2/cfg/runsync', { input });
    return (await response.json()) as { status: string; error?: string };
  };

  it('succeeds where every choice has finished', async () => {
    recorded('tgi-chat');
    expect((await job()).state).toBe('succeeded');
    expect((await runpod()).status).toBe('COMPLETED');
    expect(engine.asked).toHaveLength(2);
  });

  it('succeeds where the connection breaks behind the end', async () => {
    const stream = recordedStream('vllm-chat').toString();
    engine.answer = (socket) => breakBehind(socket, stream);
    expect((await job()).state).toBe('succeeded');
    expect((await runpod()).status).toBe('COMPLETED');
    expect(engine.asked).toHaveLength(2);
  });

  it('gives RunPod its last event too where the blank line behind it is missing', async () => {
    engine.answer = (socket) => void socket.end(rawAnswer(HEAD, recordedStream('last-without-blank-line')));
    expect(JSON.stringify(await runpod())).toContain('"finish_reason\\":\\"stop');
  });

  it.each([
    ['vllm-old-error', /the prompt is too long/],
    ['sglang-error', /longer than the model/],
    ['fastdeploy-error', /request too long/],
  ])('fails with the engine’s error: %s', async (name, said) => {
    recorded(name);
    const { state, error } = await job();
    expect([state, error?.message, error?.http_status]).toEqual(['failed', expect.stringMatching(said), 400]);
    expect(await runpod()).toMatchObject({ status: 'FAILED', error: expect.stringMatching(said) });
    expect(engine.asked).toHaveLength(2);
  });
});

it('the line of a batch that is answered with an error under a status of 200 stands among the errors', async () => {
  engine.answer = (socket) => void socket.end(plain('{"object":"error","message":"too long","code":400}'));
  const form = new FormData();
  const line = { custom_id: 'a', method: 'POST', url: CHAT, body: ASKED };
  form.set('purpose', 'batch');
  form.set('file', new Blob([JSON.stringify(line)]), 'lines.jsonl');
  const { id } = (await (await fetch(`${url}/v1/files`, { method: 'POST', body: form })).json()) as {
    id: string;
  };
  const made = await post('/v1/batches', { input_file_id: id, endpoint: CHAT, completion_window: '24h' });
  const batch = ((await made.json()) as { id: string }).id;
  const ended = await until(async () => {
    const now = (await (await fetch(`${url}/v1/batches/${batch}`)).json()) as Batch;
    return now.status === 'completed' ? now : null;
  }, 'the batch is over');
  expect(ended.request_counts).toEqual({ total: 1, completed: 0, failed: 1 });
  const errors = await (await fetch(`${url}/v1/files/${ended.error_file_id}/content`)).text();
  expect(JSON.parse(errors)).toMatchObject({
    response: { status_code: 400, body: { error: { message: 'too long' } } },
  });
});

interface Batch {
  status: string;
  request_counts: object;
  error_file_id: string;
}

describe('what comes in place of an answer in one piece', () => {
  const EMBEDDINGS = '/v1/embeddings';
  const SPEECH = '/v1/audio/speech';
  const typed = (type: string | null, body: string, status = '200 OK') =>
    rawAnswer([`HTTP/1.1 ${status}`, ...(type === null ? [] : [`content-type: ${type}`])], body);

  it.each([
    ['a page', CHAT, 'text/html', '<!DOCTYPE html><html>sign in</html>'],
    ['a page that is called JSON', EMBEDDINGS, 'application/json', '<html>sign in</html>'],
    ['a page in place of sound', SPEECH, 'text/html', '<html>sign in</html>'],
    ['a page at any route', '/v1/rerank', 'text/html', '<html>sign in</html>'],
    ['nothing', CHAT, null, ''],
    ['no sound', SPEECH, 'audio/mpeg', ''],
    ['a part of it', CHAT, 'application/json', '{"choices":[{"message":{"content":"sign in'],
    ['an error that is called text', CHAT, 'text/plain', '{"error":{"message":"sign in"}}'],
    ['an error that is called nothing', EMBEDDINGS, null, '{"error":{"message":"sign in"}}'],
    [
      'an error with a type of its own',
      SPEECH,
      'application/problem+json',
      '{"error":{"message":"sign in"}}',
    ],
    ['a detail', CHAT, 'application/json', '{"detail":"sign in"}'],
  ])('is an error for a caller and for jobs: %s', async (_what, path, type, body) => {
    engine.answer = (socket) => void socket.end(typed(type, body));
    const asked = { ...ASKED, input: 'x', query: 'x', documents: ['x'], voice: 'x' };
    const response = await post(path, asked);
    expect([response.status, await response.text()]).toEqual([
      500,
      expect.stringMatching(/"error":.*(?:sign in|its body is empty)/),
    ]);
    const tasks: Record<string, string> = {
      [EMBEDDINGS]: 'openai/embeddings',
      [SPEECH]: 'openai/audio-speech',
    };
    const job_type = path === CHAT ? 'chat_completion' : tasks[path];
    const jobs = [
      { job_type: 'engine_request', payload: { path, body: JSON.stringify(asked) } },
      ...(job_type === undefined ? [] : [{ job_type, payload: asked }]),
    ];
    for (const job of jobs) {
      const { id } = await submit(url, { ...job, config_id: 'cfg', max_attempts: 1 });
      const { state, error } = await settled(url, id);
      expect([state, error?.http_status]).toEqual(['failed', 500]);
    }
  });
});

describe('an answer in one piece that is an error', () => {
  it.each([
    ['an object', { object: 'error', message: 'too long', type: 'BadRequestError', code: 400 }],
    ['an error', { error: { message: 'too long', code: 400 } }],
    [
      'a choice',
      { id: 'x', choices: [{ index: 0, finish_reason: 'error', error: { message: 'too long', code: 400 } }] },
    ],
  ])('has its status for a caller, and fails a job: %s', async (_what, body) => {
    engine.answer = (socket) => void socket.end(plain(JSON.stringify(body)));
    const response = await post(CHAT, ASKED);
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('too long')]);
    const { id } = await submit(url, { job_type: 'chat_completion', config_id: 'cfg', payload: ASKED });
    const { state, error } = await settled(url, id);
    expect([state, error?.message]).toEqual(['failed', expect.stringContaining('too long')]);
    expect(engine.asked).toHaveLength(2);
  });
});
