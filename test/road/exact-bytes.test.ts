import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { OddEngine, plain } from '../support/odd-engine.ts';
import { until } from '../support/poll.ts';
import { cli, startQueue, stateFolder, tearDown, untilReady } from '../support/road.ts';

/** What a caller writes reaches the engine as it was written, and no text that nobody wrote, on every road. */
const engine = new OddEngine();
let url: string;
/** Bodies that reached the engine, in UTF-8. */
const bodies: string[] = [];

const engineUrl = engine.listen();

beforeAll(async () => {
  url = (await startQueue()).url;
  cli(['work'], {
    ENGINE_URL: await engineUrl,
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

/** An answer of an engine that a parser and a writer would change, on several lines. */
const EXACT_ANSWER = `{"id": "a", "object":"chat.completion","created":1,"model":"tiny",
 "choices":[{"finish_reason":"stop","index":0,"message":{"content":"x","role":"assistant","10":1.0,"9":9007199254740993},"stop_reason":1e400}],
 "usage":{"total_tokens":2,"prompt_tokens":1,"completion_tokens":1}, "seed":-9223372036854775807}`;
const ON_ONE_LINE = EXACT_ANSWER.replaceAll('\n', ' ');
const CHOICES = /"choices":(\[.*?\]),\n/.exec(EXACT_ANSWER)![1]!;

describe('an answer reaches its caller as the engine wrote it', () => {
  const answers = (json: string) => {
    engine.answer = (socket) => void socket.write(plain(json));
  };
  const textOf = async (path: string) => (await fetch(`${url}${path}`)).text();
  const engineJob = (id: string) =>
    `{"id":"${id}","job_type":"engine_request","config_id":"cfg","payload":{"path":"/v1/chat/completions","body":"{}"}}`;

  it('as the result of a job, also of one that is submitted again', async () => {
    answers(EXACT_ANSWER);
    await post('/api/jobs', engineJob('result'));
    expect(await textOf('/api/jobs/result?wait=60')).toContain(`"body":${EXACT_ANSWER}`);
    const again = await post('/api/jobs', engineJob('result'));
    expect(await again.text()).toContain(`"body":${EXACT_ANSWER}`);
    const lines = await post('/api/jobs', `${engineJob('result')}\n`, 'application/x-ndjson');
    expect(await lines.text()).toContain(`"body":${ON_ONE_LINE}`);
  });

  it('as a result too large for a frame', async () => {
    const long = EXACT_ANSWER.replace('"x"', `"${'x'.repeat(2 ** 21)}"`);
    answers(long);
    await post('/api/jobs', engineJob('large'));
    const text = await textOf('/api/jobs/large?wait=60');
    expect(text.includes(`"body":${long}`)).toBe(true);
  });

  it('as the choices of a chat job', async () => {
    answers(EXACT_ANSWER);
    await post('/api/jobs', chatJob('choices'));
    expect(await textOf('/api/jobs/choices?wait=60')).toContain(`"choices":${CHOICES}`);
  });

  it("in RunPod's form, at once and later", async () => {
    answers(EXACT_ANSWER);
    const input = `{"openai_route":"/v1/chat/completions","openai_input":${WHOLE}}`;
    const text = await (await post('/v2/cfg/runsync', `{"input":${input}}`)).text();
    expect(text).toContain(`"output":[${EXACT_ANSWER}]`);
    expect(await textOf(`/v2/cfg/status/${JSON.parse(text).id}`)).toContain(`"output":[${EXACT_ANSWER}]`);
    expect(await textOf(`/v2/cfg/stream/${JSON.parse(text).id}`)).toContain(`[{"output":${EXACT_ANSWER}}]`);
  });

  it('over the socket of jobs', async () => {
    answers(EXACT_ANSWER);
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/jobs/socket`);
    await new Promise((done) => socket.addEventListener('open', done));
    const settled = new Promise<string>((done) => {
      socket.addEventListener(
        'message',
        ({ data }) => String(data).includes('"settled"') && done(String(data)),
      );
    });
    socket.send(`{"type":"submit","jobs":[${engineJob('heard')}]}`);
    expect(await settled).toContain(`"body":${EXACT_ANSWER}`);
    socket.close();
  });
});

/** A file of one batch line, run to its end. @returns the lines of its output and error files */
async function batchOf(line: string | Uint8Array): Promise<string> {
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', new Blob([line as Uint8Array<ArrayBuffer>]), 'in.jsonl');
  const file = (await (await fetch(`${url}/v1/files`, { method: 'POST', body: form })).json()) as {
    id: string;
  };
  const asked = { input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' };
  const { id } = (await (await post('/v1/batches', JSON.stringify(asked))).json()) as { id: string };
  const batch = await until(async () => {
    const seen = (await (await fetch(`${url}/v1/batches/${id}`)).json()) as Record<string, unknown>;
    return ['completed', 'failed'].includes(String(seen.status)) ? seen : null;
  }, 'the batch ends');
  const files = [batch.output_file_id, batch.error_file_id].filter(Boolean);
  const texts = await Promise.all(
    files.map(async (id) => (await fetch(`${url}/v1/files/${id}/content`)).text()),
  );
  return texts.join('') || JSON.stringify(batch.errors);
}

const batchLine = (body: string) =>
  `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":${body}}\n`;

describe('a line of a batch', () => {
  it('goes to the engine and comes back byte for byte, behind a byte order mark too', async () => {
    const { answer } = engine;
    engine.answer = (socket, request) => {
      answer({ write() {} } as never, request);
      socket.write(plain(EXACT_ANSWER));
    };
    const output = await batchOf(`\ufeff${batchLine(`{"model":"tiny",${FIELDS}}`)}`);
    expect(output).toContain(`"body":${ON_ONE_LINE}`);
    expect(output.trim().split('\n')).toHaveLength(1);
    await expectExact([MESSAGES, ...EXACT]);
  });

  it('that is no UTF-8 fails the batch before it begins', async () => {
    const line = batchLine('{"model":"tiny","messages":[{"role":"user","content":"Grüße"}]}');
    expect(await batchOf(LATIN1(line))).toMatch(/"invalid_json_line".*0xfc at offset/);
    expect(bodies).toEqual([]);
  });
});

describe('an answer with NaN and Infinity, which JSON does not have', () => {
  const ODD = ANSWER.replace(
    '"index":0',
    '"index":0,"logprobs":{"a":NaN,"b":[-Infinity,Infinity],"c":"NaN"}',
  );
  const MENDED = '"logprobs":{"a":null,"b":[null,null],"c":"NaN"}';

  it('is the result of a job, of a chat and of a line of a batch, with null in their place', async () => {
    engine.answer = (socket) => void socket.write(plain(ODD));
    await post('/api/jobs', chatJob('nan'));
    const text = await (await fetch(`${url}/api/jobs/nan?wait=60`)).text();
    expect(text).toContain(MENDED);
    expect(JSON.parse(text)).toMatchObject({ state: 'succeeded', attempts: 1 });
    const [line] = (await batchOf(batchLine(`{"model":"tiny",${FIELDS}}`))).trim().split('\n');
    expect(JSON.parse(line!)).toMatchObject({
      response: { status_code: 200, body: { choices: [{ logprobs: { a: null } }] } },
    });
  });
});

it.each([
  ['openai_input', `{"openai_route":"/v1/chat/completions","openai_input":${WHOLE}}`],
  ['sampling_params', `{${MESSAGES},"sampling_params":{${EXACT.join(',')}}}`],
])("a worker of RunPod's own endpoint writes %s as it was given", async (name, input) => {
  const child = cli(['work'], {
    ENGINE_URL: await engineUrl,
    QUEUE: 'runpod',
    RUNPOD_TEST_INPUT: `{"input":${input}}`,
  });
  expect((await child.exited).code).toBe(0);
  const isPassed = name === 'openai_input';
  await expectExact([MESSAGES, ...EXACT.map((text) => (isPassed ? text : text.replace('": ', '":')))]);
});

describe('a command', () => {
  const folder = stateFolder();
  const fileOf = (name: string, bytes: string | Uint8Array) => {
    const path = join(folder, name);
    writeFileSync(path, bytes);
    return path;
  };
  const run = (...args: string[]) => cli([...args, '--url', url]);

  it('submit sends a payload as the file has it, and prints the result as the engine wrote it', async () => {
    const { answer } = engine;
    engine.answer = (socket, request) => {
      answer({ write() {} } as never, request);
      socket.write(plain(EXACT_ANSWER));
    };
    const child = run('submit', '--file', fileOf('one.json', `\ufeff${WHOLE}`), '--config-id', 'cfg');
    expect((await child.exited).code).toBe(0);
    await expectExact([MESSAGES, ...EXACT]);
    const printed = child.output().replaceAll(/(?<=[\n:,{[]) +|\n/g, '');
    expect(printed).toContain(CHOICES);
  });

  it.each(['submit', 'batch'])(
    '%s takes a file of lines that begins with a byte order mark',
    async (command) => {
      const isBatch = command === 'batch';
      const line = isBatch ? batchLine(`{"model":"tiny",${FIELDS}}`) : `${WHOLE}\n`;
      const file = fileOf(`${command}.jsonl`, `\ufeff${line}`);
      const child = isBatch ? run('batch', 'run', file) : run('submit', file, '--config-id', 'cfg');
      expect((await child.exited).code).toBe(0);
      await expectExact([MESSAGES, ...EXACT]);
    },
  );

  it.each([
    ['submit', (file: string) => ['submit', file]],
    ['submit --file', (file: string) => ['submit', '--file', file]],
    ['batch run', (file: string) => ['batch', 'run', file]],
  ])('%s refuses a file that is no UTF-8, and says where', async (name, args) => {
    const line = name === 'batch run' ? batchLine('{"x":"Grüße"}') : '{"messages":"Grüße"}';
    const latin1 = run(...args(fileOf(`${name}.latin1.jsonl`, LATIN1(line))));
    expect((await latin1.exited).code).toBe(2);
    expect(latin1.output()).toContain(`0xfc at offset ${line.indexOf('ü')}`);
    const utf16 = run(...args(fileOf(`${name}.utf16.jsonl`, UTF16(`\ufeff${line}`))));
    expect((await utf16.exited).code).toBe(2);
    expect(utf16.output()).toContain('UTF-16');
    expect(bodies).toEqual([]);
  });
});
