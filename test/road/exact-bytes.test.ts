import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { OddEngine, plain } from '../support/odd-engine.ts';
import { until } from '../support/poll.ts';
import { cli, startQueue, tearDown, untilReady } from '../support/road.ts';

/** What a caller writes reaches the engine as it was written, and no text that nobody wrote, on every road. */
const engine = new OddEngine();
let url: string;
/** Bodies that reached the engine, in UTF-8. */
const bodies: string[] = [];

beforeAll(async () => {
  const engineUrl = await engine.listen();
  url = (await startQueue()).url;
  cli(['work'], {
    ENGINE_URL: engineUrl,
    CASOLA_WS_URL: url.replace(/^http/, 'ws'),
    CASOLA_CONFIG_ID: 'cfg',
    CASOLA_INSTANCE_ID: 'exact',
    CASOLA_MAX_JOBS: '8',
  });
  await untilReady(url, 'exact');
});
afterAll(async () => {
  await tearDown();
  engine.close();
});
beforeEach(() => {
  bodies.length = 0;
  engine.answer = (socket, request) => {
    bodies.push(Buffer.from(request.split('\r\n\r\n').slice(1).join('\r\n\r\n'), 'latin1').toString());
    socket.write(plain(request.startsWith('POST /v1/embeddings ') ? EMBEDDINGS : ANSWER));
  };
});

const ANSWER = JSON.stringify({
  ...{ id: 'a', object: 'chat.completion', created: 1, model: 'tiny' },
  choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

const EMBEDDINGS = '{"data":[{"index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":1,"total_tokens":1}}';

/** Members that a parser and a writer would change, and that no road has a reason to. */
const EXACT = [
  '"seed": 9007199254740993',
  '"stop_seed":-9223372036854775807',
  '"structured":{"schema":{"10":{},"9":{},"b":{"minimum":1.0,"maximum":1e400}}}',
  '"note":"Gr\\u00fc\\u00DFe \\/ ü"',
];
const MESSAGES = '"messages":[{"content":"hi","role":"user","10":1,"9":-0.0}]';
const FIELDS = [MESSAGES, ...EXACT].join(',');
const WHOLE = `{${FIELDS} }`;

/** Each of them stands in the one body that the engine got. */
async function expectExact(fragments: readonly string[]): Promise<void> {
  await until(async () => bodies.length > 0, 'the engine is asked');
  for (const fragment of fragments) expect(bodies[0]).toContain(fragment);
  JSON.parse(bodies[0]!);
}

const post = (path: string, body: string | Uint8Array<ArrayBuffer>, type = 'application/json') =>
  fetch(`${url}${path}`, { method: 'POST', headers: { 'content-type': type }, body });

const chatJob = (id: string) =>
  `{"id":"${id}","job_type":"chat_completion","config_id":"cfg","payload":${WHOLE}}`;

describe('a payload is written to the engine as its caller wrote it', () => {
  it.each([
    ['a job', chatJob('one'), undefined],
    ['a job among others', `[ ${chatJob('many')} ]`, undefined],
    ['a line of jobs', `${chatJob('line')}\n`, 'application/x-ndjson'],
  ])('%s of POST /api/jobs', async (_, body, type) => {
    expect((await post('/api/jobs', body, type)).ok).toBe(true);
    await expectExact([MESSAGES, ...EXACT]);
    expect(bodies[0]).toContain('"temperature":0.7');
  });

  it('a payload too large for a frame', async () => {
    const long = `"long":"${'x'.repeat(2 ** 21)}"`;
    const body = `{"job_type":"chat_completion","config_id":"cfg","payload":{${FIELDS},${long}}}`;
    expect((await post('/api/jobs', body)).status).toBe(201);
    await expectExact([MESSAGES, ...EXACT, long]);
  });

  it.each([
    ['openai/embeddings', `{"input":["a"],${EXACT.join(',')}}`, ['"input":["a"]', ...EXACT]],
    ['openai/audio-speech', `{"input":"a",${EXACT.join(',')}}`, ['"input":"a"', '"speed":1', ...EXACT]],
  ])('a task of the base protocol: %s', async (task, payload, fragments) => {
    const body = `{"job_type":"${task}","config_id":"cfg","payload":${payload}}`;
    expect((await post('/api/jobs', body)).status).toBe(201);
    await expectExact(fragments);
  });

  it('a job over the socket', async () => {
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/jobs/socket`);
    await new Promise((done) => socket.addEventListener('open', done));
    socket.send(`{"type":"submit","jobs":[${chatJob('socket')}]}`);
    await expectExact([MESSAGES, ...EXACT]);
    socket.close();
  });

  it.each([
    ['openai_input', `{"openai_route":"/v1/chat/completions","openai_input":${WHOLE}}`],
    [
      'openai_input as text',
      `{"openai_route":"/v1/chat/completions","openai_input":${JSON.stringify(WHOLE)}}`,
    ],
    ['route and body', `{"route":"/v1/chat/completions","body":${WHOLE}}`],
    ['sampling_params', `{${MESSAGES},"sampling_params":{${EXACT.join(',')}}}`],
  ])("RunPod's form: %s", async (_, input) => {
    const answer = await post('/v2/cfg/runsync', `{"input":${input}}`);
    expect(await answer.json()).toMatchObject({ status: 'COMPLETED' });
    const isPassed = !input.includes('sampling_params');
    // The shorthand writes members of its own, so it has its own blanks.
    const fragments = isPassed ? EXACT : EXACT.map((text) => text.replace('"seed": ', '"seed":'));
    await expectExact([MESSAGES, ...fragments]);
  });

  it('the model by which an alias is replaced leaves the rest alone', async () => {
    const job = `{"job_type":"engine_request","config_id":"cfg","payload":{"path":"/v1/chat/completions","body":${JSON.stringify(`{"model":"default",${FIELDS}}`)}}}`;
    expect((await post('/api/jobs', job)).status).toBe(201);
    await expectExact(['"model":"tiny"', MESSAGES, ...EXACT]);
  });
});

const LATIN1 = (text: string) => new Uint8Array(Buffer.from(text, 'latin1'));
const UTF16 = (text: string) => new Uint8Array(Buffer.from(text, 'utf16le'));

describe('bytes that are no UTF-8 are refused, with their offset', () => {
  const job =
    '{"job_type":"chat_completion","config_id":"cfg","payload":{"messages":[{"role":"user","content":"Grüße"}]}}';
  const runpod = '{"input":{"prompt":"Grüße"}}';

  it.each([
    ['/api/jobs', job, 'application/json'],
    ['/api/jobs', `[${job}]`, 'application/json'],
    ['/v2/cfg/run', runpod, 'application/json'],
    ['/v2/cfg/runsync', runpod, 'application/json'],
  ])('POST %s', async (path, text, type) => {
    const wrong = await post(path, LATIN1(text), type);
    expect(wrong.status).toBe(400);
    expect(await wrong.text()).toContain(`0xfc at offset ${text.indexOf('ü')}`);
    const wide = await post(path, UTF16(text), type);
    expect(wide.status).toBe(400);
    expect(await wide.text()).toContain('UTF-16');
    expect(bodies).toEqual([]);
  });

  it('a line of jobs, which holds up no other', async () => {
    const body = Buffer.concat([Buffer.from(`${chatJob('utf8')}\n`), LATIN1(job), Buffer.from('\n')]);
    const lines = (await (await post('/api/jobs', new Uint8Array(body), 'application/x-ndjson')).text())
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines).toMatchObject([
      { line: 1, job: { id: 'utf8' } },
      { line: 2, error: { status: 400, code: 'invalid_utf8', message: expect.stringContaining('0xfc') } },
    ]);
    await expectExact(EXACT);
  });
});

describe('a byte order mark is taken and goes no further', () => {
  it.each(['/api/jobs', '/v1/chat/completions'])('at the start of a body: %s', async (path) => {
    const body = path === '/api/jobs' ? chatJob('marked') : `{"model":"tiny",${FIELDS}}`;
    expect((await post(path, `\ufeff${body}`)).ok).toBe(true);
    await expectExact(EXACT);
    expect(bodies[0]!.startsWith('{')).toBe(true);
  });
});
