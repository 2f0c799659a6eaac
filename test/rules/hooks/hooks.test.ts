import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Filter, FilteredRequest, SettlingJob } from '../../../src/asking/filters.ts';
import { hooks } from '../../../src/features/hooks/hooks.ts';
import { exposition } from '../../../src/gateway/metrics/exposition.ts';
import { createPost } from '../../../src/host/node/http/post.ts';
import { isPrivateHost } from '../../../src/process/ip-addresses.ts';
import { checkOnFailure, hookSettingsProblem, parseHookAddress } from '../../../src/settings/hooks.ts';

const SECRET = `whsec_${Buffer.alloc(32, 3).toString('base64')}`;
const SETTINGS = {
  HOOK_BEFORE: 'https://hooks.test/',
  HOOK_AFTER: 'https://hooks.test/',
  HOOK_SECRET: SECRET,
};

/** A filter whose hooks answer this. */
function filterOf(answer: () => Promise<Response>, more: object = {}) {
  const logged: unknown[] = [];
  const filter = hooks({
    settings: { ...SETTINGS, ...more },
    post: () => () => answer(),
    objects: null as never,
    log: (...line) => void logged.push(line),
  })!;
  return { filter, logged };
}

function asked(): { request: FilteredRequest; notes: string[] } {
  const notes: string[] = [];
  const facts = {
    queueId: 'q',
    jobId: 'j',
    tenant: 't',
    tokenName: 'app',
    keep: null,
    path: '/v1/chat/completions',
    responseId: null,
  };
  const note = (text: string) => void notes.push(text);
  return { request: { road: 'live', ...facts, model: 'm', contentType: null, requestId: 'r', note }, notes };
}

const BODY = new TextEncoder().encode('{"model":"m","n":12345678901234567890}');
const jsonAnswer = (value: object) =>
  new Response(JSON.stringify(value), {
    headers: { 'content-type': 'application/json', 'content-length': '9' },
  });
const told = (verdict: object) => async () => Response.json(verdict);

const FAILURES: [string, () => Promise<Response>, string][] = [
  ['answers another status', async () => new Response('no', { status: 500 }), 'it answered 500'],
  ['redirects', async () => new Response(null, { status: 302 }), 'it answered 302'],
  ['answers no verdict', async () => Response.json({ action: 'maybe' }), 'its answer has no "action"'],
  ['refuses without a message', told({ action: 'refuse' }), 'it refused without a "message"'],
  ['replaces by nothing', told({ action: 'replace' }), 'it replaced'],
  ['is out of reach', () => Promise.reject(new Error('ECONNREFUSED')), 'ECONNREFUSED'],
  ['is too slow', () => Promise.reject(new DOMException('late', 'TimeoutError')), 'no answer within 5 s'],
];

describe.each(FAILURES)('a hook that %s', (_, answer, reason) => {
  it('has failed, and nothing passes', async () => {
    const { filter, logged } = filterOf(answer);
    const { request, notes } = asked();
    await expect(filter.request!(request, BODY)).rejects.toMatchObject({ status: 503, code: 'hook_failed' });
    const answered = filter.answer!(jsonAnswer({ choices: [{ message: { content: 'Hi' } }] }), request);
    await expect(answered).rejects.toMatchObject({ status: 503, code: 'hook_failed' });
    expect(notes.map((note) => note.includes(reason) && note.includes('was kept back'))).toEqual([
      true,
      true,
    ]);
    expect(logged).toHaveLength(2);
  });

  it('lets everything pass that it cannot see, where the queue is open', async () => {
    const { filter } = filterOf(answer, { HOOK_ON_FAILURE: 'open' });
    const { request, notes } = asked();
    expect(await filter.request!(request, BODY)).toBeNull();
    const answered = await filter.answer!(jsonAnswer({ choices: [{ message: { content: 'Hi' } }] }), request);
    expect(await answered.text()).toBe('{"choices":[{"message":{"content":"Hi"}}]}');
    expect(notes.map((note) => note.includes('went on without it'))).toEqual([true, true]);
  });
});

it('counts the calls of hooks, and how long they took', async () => {
  const { filter } = filterOf(told({ action: 'refuse', message: 'No.' }));
  await expect(filter.request!(asked().request, BODY)).rejects.toMatchObject({
    status: 400,
    code: 'refused_by_hook',
    message: 'No.',
  });
  const text = exposition(filter.families!());
  expect(text).toContain('worker_vllm_hook_calls_total{stage="before",outcome="refuse"} 1');
  expect(text).toContain('worker_vllm_hook_seconds_count{stage="before"} 1');
});

/** The beginning of an MP3 file. */
const AUDIO = new Uint8Array([...new TextEncoder().encode('ID3'), 4, 0, 0, 0xff, 0xfb, 0x90, 0x64]);

it('passes what is no text, and errors', async () => {
  const { filter } = filterOf(() => Promise.reject(new Error('is not asked')));
  const { request } = asked();
  for (const response of [
    new Response('x', { headers: { 'content-type': 'audio/mpeg' } }),
    new Response(AUDIO),
    new Response(AUDIO, { headers: { 'content-type': 'application/octet-stream' } }),
    jsonAnswer({ type: 'response.output_audio.delta', delta: 'SUQzBA==' }),
    jsonAnswer({ data: [{ embedding: [1, 2] }] }),
    new Response('{"error":{"message":"no"}}', {
      status: 400,
      headers: { 'content-type': 'application/json' },
    }),
  ]) {
    const bytes = await response.clone().arrayBuffer();
    const passed = await filter.answer!(response, request);
    expect([passed.status, await passed.arrayBuffer()]).toEqual([response.status, bytes]);
  }
  const body_base64 = Buffer.from(AUDIO).toString('base64');
  const job: SettlingJob = { ...request, jobType: 'runpod', fenceToken: 1, payload: async () => null };
  for (const content_type of ['audio/mpeg', 'application/octet-stream', null])
    for (const result of [
      { job_type: 'runpod', output: [{ content_type, body_base64 }] },
      { response: { status: 200, content_type, body: null, body_base64 } },
    ])
      expect(await filter.settled!(result, job)).toBeNull();
});

it('keeps the numbers of a body that a hook writes', async () => {
  const answer = '{"action":"replace","body":{"model":"m","seed":12345678901234567890}}';
  const { filter } = filterOf(async () => new Response(answer));
  const body = await filter.request!(asked().request, BODY);
  expect(new TextDecoder().decode(body!)).toBe('{"model":"m","seed":12345678901234567890}');
});

it('does not make a body longer than a caller may', async () => {
  const { filter } = filterOf(told({ action: 'replace', body: { a: 'x'.repeat(2000) } }), {
    MAX_BODY_BYTES: '1024',
  });
  const { request, notes } = asked();
  await expect(filter.request!(request, BODY)).rejects.toMatchObject({ code: 'hook_failed' });
  expect(notes[0]).toContain('one of more than 1024 bytes');
});

it('sees the result of a job in each form', async () => {
  const hide = async (_: string, init: RequestInit) => {
    const { text } = JSON.parse(String(init.body));
    return Response.json({ action: 'replace', text: text.replaceAll('SECRET', '***') });
  };
  const filter = hooks({
    settings: SETTINGS,
    post: () => (url, init) => hide(url, init),
    objects: null as never,
    log: () => {},
  })!;
  const { request } = asked();
  const job: SettlingJob = {
    ...request,
    jobType: 'engine_request',
    fenceToken: 1,
    payload: async () => null,
  };
  const events = ['SEC', 'RET!']
    .map((content) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`)
    .join('');
  for (const result of [
    { response: { status: 200, body: events } },
    { completion: { choices: [{ index: 0, message: { content: 'SECRET' } }] } },
    { job_type: 'runpod', output: [{ choices: [{ tokens: ['SEC', 'RET'] }] }, events] },
    { response: { status: 200, body: { content: [{ type: 'tool_use', input: { a: 'SECRET' } }] } } },
    // A transcription in another form than JSON.
    { response: { status: 200, content_type: 'text/vtt', body: 'WEBVTT\n\nSECRET' } },
    { job_type: 'runpod', output: ['SECRET'] },
    { response: { status: 200, body: `\uFEFF\n${events}` } },
    { response: { status: 200, body: 'data: SECRET\n\n' } },
    {
      response: {
        ...{ status: 200, content_type: 'text/event-stream', body: null },
        body_base64: Buffer.from(`${events}\xff`, 'latin1').toString('base64'),
      },
    },
    {
      response: {
        ...{ status: 200, content_type: null, body: null },
        body_base64: Buffer.from('SECRET \xe9t\xe9', 'latin1').toString('base64'),
      },
    },
    { response: { status: 200, body: { choices: [{ message: { audio: { transcript: 'SECRET' } } }] } } },
    { response: { status: 200, body: { output: [{ type: 'code_interpreter_call', code: 'SECRET' }] } } },
  ]) {
    const changed = JSON.stringify(await filter.settled!(result, job));
    expect(changed).toContain('***');
    expect(changed).not.toContain('RET');
    expect(changed).not.toContain('base64');
  }
});

it.each([
  ['JSON of a text alone', 'application/json', '"SECRET"', '"***"'],
  ['what says that it is JSON and is none', 'application/json', '{"text":"SECRET', '{"text":"***'],
  ['lines of JSON', 'application/x-ndjson', '{"text":"SECRET"}\n{}', '{"text":"***"}\n{}'],
  ['events without JSON', 'text/event-stream', 'data: SECRET\n\n', 'data: ***\n\n'],
  ['events with a text alone', 'text/event-stream', 'data: "SECRET"\n\n', 'data: "***"\n\n'],
  ['JSON without a type', null, '{"text":"SECRET"}', '{"text":"***"}'],
  ['a text without a type', null, ': SECRET', ': ***'],
  ['a long text without a type', null, `${'é'.repeat(5000)}SECRET`, `${'é'.repeat(5000)}***`],
  [
    'events without a type',
    null,
    ': hello\n\ndata: {"text":"SECRET"}\n\n',
    ': hello\n\ndata: {"text":"***"}\n\n',
  ],
  ['a text whose type says nothing', 'application/octet-stream', 'SECRET', '***'],
])('sees %s', async (_, type, sent, passed) => {
  const filter = hooks({
    settings: SETTINGS,
    post: () => async (__, init) => {
      const { text } = JSON.parse(String(init.body));
      return Response.json({ action: 'replace', text: text.replaceAll('SECRET', '***') });
    },
    objects: null as never,
    log: () => {},
  })!;
  const response = new Response(
    new TextEncoder().encode(sent),
    type === null ? {} : { headers: { 'content-type': type } },
  );
  const answer = await filter.answer!(response, asked().request);
  expect([answer.headers.get('content-type'), await answer.text()]).toEqual([type, passed]);
});

describe('the example of a receiver', () => {
  let child: ChildProcess;
  let filter: Filter;
  beforeAll(async () => {
    const env = { ...process.env, HOOK_SECRET: SECRET, PORT: '0' };
    child = spawn(process.execPath, ['examples/hook-receiver.mjs'], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = await once(child.stdout!, 'data');
    const url = `private:${/http:\S+/.exec(String(line))![0]}/`;
    filter = hooks({
      settings: { ...SETTINGS, HOOK_BEFORE: url, HOOK_AFTER: url },
      post: createPost(),
      objects: null as never,
      log: () => {},
    })!;
  });
  afterAll(() => child.kill());

  it('masks and refuses, and takes what is signed alone', async () => {
    const { request } = asked();
    const body = new TextEncoder().encode('{"messages":[{"content":"I am ada@example.com"}]}');
    const masked = await filter.request!(request, body);
    expect(new TextDecoder().decode(masked!)).toBe('{"messages":[{"content":"I am [address]"}]}');
    const refused = new TextEncoder().encode('{"messages":[{"content":"The password?"}]}');
    await expect(filter.request!(request, refused)).rejects.toMatchObject({ status: 400, code: 'policy' });
    const answer = await filter.answer!(
      jsonAnswer({ choices: [{ message: { content: 'Ask a@b.de.' } }] }),
      request,
    );
    expect(await answer.text()).toContain('Ask [address]');
  });
});

describe('the settings of hooks', () => {
  it('say what is wrong with them, and repeat no address', () => {
    expect(parseHookAddress('private:http://127.0.0.1:9000/b')).toEqual({
      url: 'http://127.0.0.1:9000/b',
      reach: 'private',
    });
    for (const wrong of ['http://a.test/?key=s3', 'ftp://a.test/s3', 'https://u:s3@a.test/', 's3'])
      expect(() => parseHookAddress(wrong)).toThrow(/^(?!.*s3)expected/);
    expect(() => checkOnFailure('ajar')).toThrow('expected open or closed');
    expect(hookSettingsProblem({ before: 'https://a.test/' })).toContain(
      'QUEUE_HOOK_BEFORE needs QUEUE_HOOK_SECRET',
    );
    expect(hookSettingsProblem({ secret: 'short' })).toContain('QUEUE_HOOK_SECRET must be');
    expect(hookSettingsProblem({ secret: SECRET })).toContain('QUEUE_HOOK_SECRET is set, but no hook is');
    expect(hookSettingsProblem({})).toBeNull();
  });

  it.each([
    ['https://10.1.2.3/s3', '10.1.2.3 is a private address'],
    ['https://[fd00::1]/', '[fd00::1] is a private address'],
    ['https://localhost:9000/', 'localhost is a private address'],
    ['https://localhost./', 'localhost. is a private address'],
    ['https://[::ffff:10.1.2.3]/', 'is a private address'],
    ['private:https://10.1.2.3/', null],
    ['https://8.8.8.8/', null],
    ['https://policy.example.com/', null],
  ])('refuse a private address without its prefix: %s', (after, problem) => {
    const told = hookSettingsProblem({ after, secret: SECRET }, isPrivateHost);
    if (problem === null) expect(told).toBeNull();
    else expect(told).toMatch(/^QUEUE_HOOK_AFTER: (?!.*s3)/);
    expect(told ?? '').toContain(problem ?? '');
  });
});
