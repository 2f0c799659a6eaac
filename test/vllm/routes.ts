import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { TINY_MODEL_ARGS, type VllmInstall } from '../../scripts/vllm/setup.ts';
import { remainder } from '../../src/features/responses/remainder.ts';
import { type ResponseEvent, saidOf } from '../../src/features/responses/said.ts';
import { until } from '../support/poll.ts';
import { type Child, startProcess } from '../support/processes.ts';
import { cli, type QueueProcess, startQueue, stateFolder, untilReady } from '../support/road.ts';
import type { Served } from './worker.ts';

let engineUrl: string;
let queue: QueueProcess;
let runBatch: Child;
let folder: string;

async function ask(url: string, method: string, path: string, body?: object, headers = {}) {
  const response = await fetch(url + path, {
    method,
    headers: { ...(body && { 'content-type': 'application/json' }), ...headers },
    ...(body && { body: JSON.stringify({ model: 'tiny', ...body }) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    text,
    headers: response.headers,
  };
}

async function askBoth(method: string, path: string, body?: object) {
  const answerOf = async (url: string) => {
    const { status, type, text } = await ask(url, method, path, body);
    return { status, type, text: common(text) };
  };
  // One after the other: what an engine computes side by side may differ in the last digit.
  return { direct: await answerOf(engineUrl), through: await answerOf(queue.url) };
}

/** Without ids and times, which each answer has of its own, and the blanks before one that took long. */
function common(text: string): string {
  return text
    .replace(/^\n+/, '')
    .replace(/"(id|item_id)":\s*"[^"]*"/g, '"$1":"…"')
    .replace(/"(created|created_at)":\s*[\d.]+/g, '"$1":0')
    .replace(/\b(resp|msg|chatcmpl|cmpl)[-_][0-9a-f-]+/g, '$1');
}

const messages = [{ role: 'user', content: 'Say größer 🙂' }];
const few = { max_tokens: 6, temperature: 0, seed: 1 };

const PROMPTS = [
  'Say größer 🙂',
  'What is two times two?',
  'x',
  'Write a poem about the sea, and then another one.',
];
const LINES = [
  ...PROMPTS.map((content) => ({
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content },
    ],
  })),
  { messages, max_tokens: 24, stop: ['never said'] },
  { messages, temperature: -1 },
].map((body, n) => ({
  custom_id: `line-${n}`,
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'tiny', max_tokens: 12, temperature: 0, logprobs: true, top_logprobs: 2, ...body },
}));

/** What was said to each line, by its custom_id: tokens, how they ended, how many there were. */
async function said(...names: string[]): Promise<Map<string, object>> {
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
  const lines = texts.flatMap((text) =>
    text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
  );
  return new Map(
    lines.map(({ custom_id, response: { status_code, body } }) => {
      const answers = body?.choices?.map(({ message, finish_reason, logprobs }: Choice) => {
        const tokens = logprobs.content.map(({ token }) => token);
        return { content: message.content, finish_reason, tokens };
      });
      return [custom_id, { status_code, answers, usage: body?.usage }];
    }),
  );
}

interface Choice {
  message: { content: string };
  finish_reason: string;
  logprobs: { content: { token: string }[] };
}

/** vLLM's own command for a file of requests. It has an engine of its own, which starts while the other tests run. */
async function startRunBatch({ vllmCommand, modelDir, env }: VllmInstall): Promise<Child> {
  await writeFile(join(folder, 'in.jsonl'), LINES.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const files = ['-i', join(folder, 'in.jsonl'), '-o', join(folder, 'vllm.jsonl')];
  const model = ['--model', modelDir, '--served-model-name', 'tiny'];
  return startProcess(vllmCommand, ['run-batch', ...files, ...model, ...TINY_MODEL_ARGS], {
    env: { ...process.env, ...env },
    name: 'vllm run-batch',
  });
}

/** Routes of real vLLM, asked directly and by the road. Those that other models serve are its own 404s here. */
export function routesOverVllm(served: () => Served): void {
  describe('by the road and directly', () => {
    beforeAll(async () => {
      engineUrl = served().url;
      folder = stateFolder();
      runBatch = await startRunBatch(served().vllm);
      queue = await startQueue({ env: { QUEUE_MODEL_ALIASES: 'gpt-4o=tiny' } });
      cli(['work'], {
        ENGINE_URL: engineUrl,
        CASOLA_WS_URL: queue.url.replace(/^http/, 'ws'),
        CASOLA_API_URL: queue.url,
        CASOLA_CONFIG_ID: 'cfg',
        CASOLA_INSTANCE_ID: 'w',
        CASOLA_MAX_JOBS: '4',
      });
      await untilReady(queue.url, 'w');
    });

    it.each([
      ['GET', '/version', undefined],
      ['GET', '/ping', undefined],
      ['POST', '/ping', undefined],
      ['POST', '/tokenize', { prompt: 'größer 🙂', return_token_strs: true }],
      ['POST', '/tokenize', { messages }],
      ['POST', '/detokenize', { tokens: [40, 41, 42] }],
      ['POST', '/v1/messages/count_tokens', { messages }],
      ['POST', '/v1/chat/completions', { messages, ...few }],
      ['POST', '/v1/chat/completions', { messages, ...few, stream: true }],
      ['POST', '/v1/chat/completions/batch', { messages: [messages, messages], ...few }],
      ['POST', '/v1/completions', { prompt: 'hello', ...few }],
      ['POST', '/v1/messages', { messages, ...few }],
      ['POST', '/v1/messages', { messages, ...few, stream: true }],
      ['POST', '/invocations', { messages, ...few }],
      ['POST', '/generative_scoring', { query: 'a', items: ['b'], label_token_ids: [40, 41] }],
      ['POST', '/rerank', { query: 'a', documents: ['b'] }],
      ['POST', '/v1/score', { text_1: 'a', text_2: 'b' }],
      ['POST', '/pooling', { input: 'a' }],
      ['POST', '/classify', { input: 'a' }],
      ['POST', '/v1/embeddings', { input: 'a' }],
      ['POST', '/v2/embed', { texts: ['a'] }],
      ['POST', '/v1/audio/speech', { input: 'a' }],
      ['POST', '/tokenize', {}],
      ['POST', '/v1/chat/completions', { messages, temperature: -1 }],
    ] as const)('%s %s is the same: %j', async (method, path, body) => {
      let { direct, through } = await askBoth(method, path, body);
      // vLLM says two tokens in one event where it is late itself.
      for (let again = 0; again < 10 && through.text !== direct.text; again++) {
        ({ direct, through } = await askBoth(method, path, body));
      }
      expect(through).toEqual(direct);
    });

    it('the list of models is the same, with the pool beside it', async () => {
      const direct = JSON.parse((await ask(engineUrl, 'GET', '/v1/models')).text);
      const { data } = JSON.parse((await ask(queue.url, 'GET', '/v1/models')).text);
      const [own] = data;
      const alias = data.find(({ id }: { id: string }) => id === 'gpt-4o');
      const { pool, created: _at, permission: _theirs, ...rest } = own;
      const { created: _then, permission: _its, ...wanted } = direct.data[0];
      expect([rest, pool]).toEqual([wanted, { id: 'cfg', state: 'ready' }]);
      expect(alias).toMatchObject({ id: 'gpt-4o', root: wanted.root, max_model_len: wanted.max_model_len });
    });

    it('the id of a request and the load of the engine come back', async () => {
      const headers = { 'x-request-id': 'mine-1', 'endpoint-load-metrics-format': 'JSON' };
      // Where the engine takes seconds, the head goes to the caller before the engine's, and blanks after it.
      const answer = await until(async () => {
        const answer = await ask(queue.url, 'POST', '/v1/chat/completions', { messages, ...few }, headers);
        return answer.text.startsWith('\n') ? null : answer;
      }, 'an answer with the head of the engine');
      expect(JSON.parse(answer.text).id).toBe('chatcmpl-mine-1');
      const direct = await ask(engineUrl, 'POST', '/v1/chat/completions', { messages, ...few }, headers);
      expect(answer.headers.has('endpoint-load-metrics')).toBe(direct.headers.has('endpoint-load-metrics'));
    });

    it('a response is the same but for the fields of the queue', async () => {
      const body = { input: 'hello', max_output_tokens: 6, temperature: 0, store: false };
      const { direct, through } = await askBoth('POST', '/v1/responses', body);
      const own = { store: false, conversation: null, metadata: {}, error: null };
      expect([through.status, JSON.parse(through.text)]).toEqual([
        200,
        { ...JSON.parse(direct.text), ...own },
      ]);
    });

    it('a response is stored, found again, and gone on from', async () => {
      const make = async (more: object) => {
        const { text } = await ask(queue.url, 'POST', '/v1/responses', { max_output_tokens: 4, ...more });
        return JSON.parse(text);
      };
      const made = await make({ input: 'a' });
      const found = await ask(queue.url, 'GET', `/v1/responses/${made.id}`);
      expect([found.status, JSON.parse(found.text).id]).toEqual([200, made.id]);
      const next = await make({ input: 'b', previous_response_id: made.id });
      expect(next).toMatchObject({ previous_response_id: made.id });
      expect(next.usage.input_tokens).toBeGreaterThan(made.usage.total_tokens);
    });

    it('a response whose stream was cut anywhere has the rest made from its end', async () => {
      const body = { input: 'a', max_output_tokens: 6, temperature: 0, stream: true };
      const { text } = await ask(engineUrl, 'POST', '/v1/responses', body);
      const events = text
        .split('\n')
        .filter((line) => line.startsWith('data: {'))
        .map((line) => JSON.parse(line.slice(6)) as ResponseEvent);
      const last = events.at(-1)!;
      const final = { ...(last.response as Record<string, unknown>), status: 'completed' };
      const types = (list: readonly ResponseEvent[]) => new Set(list.map(({ type }) => type));
      for (let cut = 2; cut < events.length; cut++) {
        const said = events.slice(0, cut);
        const rest = remainder(saidOf(said), final, cut);
        expect([cut, rest?.at(-1)]).toEqual([
          cut,
          { ...last, response: final, sequence_number: last.sequence_number && cut + rest!.length - 1 },
        ]);
        expect([cut, types([...said, ...rest!])]).toEqual([cut, types(events)]);
        const done = (list: readonly ResponseEvent[]) =>
          list.filter(({ type }) => type === 'response.output_text.done')[0]!.text;
        expect([cut, done([...said, ...rest!])]).toEqual([cut, done(events)]);
      }
    });

    it('a file of requests has the answers that vllm run-batch gives', async () => {
      const command = cli(['batch', 'run', join(folder, 'in.jsonl'), '--url', queue.url]);
      // One line is refused.
      expect((await command.exited).code).toBe(1);
      expect((await runBatch.exited).code, runBatch.output()).toBe(0);
      const ours = await said('in.output.jsonl', 'in.output.errors.jsonl');
      expect(ours.get('line-5')).toMatchObject({ status_code: 400 });
      expect([...ours].sort()).toEqual([...(await said('vllm.jsonl'))].sort());
    });
  });
}
