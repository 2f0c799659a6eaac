import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { LedgerView, RequestRecord } from '../../src/protocol/index.ts';
import { chatIds } from '../../src/simulator/fields.ts';
import { tokenSource } from '../../src/simulator/text.ts';
import { readEvents } from '../engine/contract/calls.ts';
import { withoutComments } from '../support/comments.ts';
import { until } from '../support/poll.ts';
import { killTree } from '../support/processes.ts';
import {
  type QueueProcess,
  readyWorker,
  setPaces,
  startQueue,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Answers that their worker cannot finish go on elsewhere (docs/moving.md). */
let queue: QueueProcess;
const running: WorkerProcess[] = [];

beforeAll(async () => {
  queue = await startQueue();
});
afterEach(async () => {
  await Promise.all(running.splice(0).map(({ process }) => process.stop()));
});
afterAll(tearDown);

const STREAMS = 32;
const TOKENS = 120;

async function start(id: string, env: NodeJS.ProcessEnv = {}): Promise<WorkerProcess> {
  const worker = await readyWorker(queue.url, id, {
    engineArgs: '--inter-token-latency-ms 200 --enable-scale-out',
    env: { CASOLA_MAX_JOBS: String(STREAMS), ...env },
  });
  running.push(worker);
  return worker;
}

function messagesOf(at: number) {
  return [{ role: 'user', content: `Tell me about number ${at}.` }];
}

function ask(at: number, more: object = {}): Promise<Response> {
  return fetch(`${queue.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'tiny',
      messages: messagesOf(at),
      stream: true,
      stream_options: { include_usage: true },
      ignore_eos: true,
      max_tokens: TOKENS,
      ...more,
    }),
  });
}

/** What an engine says that nobody disturbs. */
function uncut(at: number): string {
  const messages = messagesOf(at);
  const source = tokenSource(
    chatIds(
      messages,
      messages.map(({ content }) => content),
      'tiny',
    ),
  );
  return Array.from({ length: TOKENS }, () => source.next().text).join('');
}

interface Chunk {
  id: string;
  created: number;
  choices: { delta: { role?: string; content?: string }; finish_reason: string | null; token_ids: null }[];
  usage?: { prompt_tokens: number; completion_tokens: number };
}

/** What ends it late in its answer. */
function stopOf(at: number): string {
  const text = uncut(at);
  for (let from = text.length - 60; ; from++) {
    const stop = text.slice(from, from + 12);
    if (text.indexOf(stop) === from) return stop;
  }
}

/** Reads a stream and holds it against the one that nobody cut. @param stop it ends before that */
async function expectUnbroken(at: number, response: Response, stop: string | null = null): Promise<void> {
  const text = uncut(at);
  expect(response.status).toBe(200);
  const body = withoutComments(await response.text());
  const { events, done } = await readEvents(new Response(body));
  expect(done).toBe(true);
  const chunks = events as unknown as Chunk[];
  expect(new Set(chunks.map(({ id, created }) => `${id} ${created}`)).size).toBe(1);
  const choices = chunks.flatMap((chunk) => chunk.choices);
  const wanted = stop === null ? text : text.slice(0, text.indexOf(stop));
  expect(choices.map(({ delta }) => delta.content ?? '').join('')).toBe(wanted);
  expect(choices.filter(({ delta }) => delta.role)).toHaveLength(1);
  expect(choices.filter(({ finish_reason }) => finish_reason)).toHaveLength(1);
  expect(body).not.toMatch(/token_ids":\[/);
  const usages = chunks.flatMap(({ usage }) => usage ?? []);
  if (stop === null) expect(usages).toMatchObject([{ completion_tokens: TOKENS }]);
}

async function ledgerOf(response: Response): Promise<LedgerView> {
  const id = response.headers.get('x-job-id');
  return (await (await fetch(`${queue.url}/api/jobs/${id}/ledger`)).json()) as LedgerView;
}

/** Of all that was asked so far. */
async function counted(): Promise<{ output: number; wasted: number; succeeded: number }> {
  const page = await (await fetch(`${queue.url}/api/usage?days=2`)).json();
  return (page as { total: { output: number; wasted: number; succeeded: number } }).total;
}

/** The list of requests tells each of them as its caller saw it, who had the first token before the move. */
async function expectFirstTokensOfCallers(responses: Response[]): Promise<void> {
  for (const { job_id, steps } of await Promise.all(responses.map(ledgerOf))) {
    const moved = steps.find(({ step }) => step === 'moved');
    if (!moved) continue;
    const { submitted_at, wait_ms, first_token_ms } = await until(async () => {
      const page = await (await fetch(`${queue.url}/api/requests?limit=200`)).json();
      return (page as { requests: RequestRecord[] }).requests.find(({ id }) => id === job_id);
    }, 'it is listed');
    expect(submitted_at + first_token_ms!).toBeLessThanOrEqual(Date.parse(moved.at));
    expect(wait_ms).toBeLessThanOrEqual(first_token_ms!);
  }
}

async function moves(responses: Response[]): Promise<string[]> {
  const ledgers = await Promise.all(responses.map(ledgerOf));
  return ledgers.flatMap(({ steps }) =>
    steps.filter(({ step }) => step === 'moved').map(({ detail }) => detail!),
  );
}

/** The engines that stay need not take their time any more once the answers of another one are to move. */
async function hasten(...staying: WorkerProcess[]): Promise<void> {
  await setPaces(staying, 1);
}

/** Waits until a stream has a token: an answer without one is asked for again elsewhere, and not moved. */
async function withToken(asked: Promise<Response>): Promise<Response> {
  const response = await asked;
  expect(response.status).toBe(200);
  const [looked, kept] = response.body!.tee();
  const reader = looked.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (!/"content":"[^"]|"token_ids":\[\d/.test(text)) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`the stream ended without a token: ${text}`);
    text += value;
  }
  void reader.cancel();
  return new Response(kept, response);
}

/** So many streams over all workers, each of which has begun. */
function begun(count: number, more: (at: number) => object = () => ({})): Promise<Response[]> {
  return Promise.all(Array.from({ length: count }, (_, at) => withToken(ask(at, more(at)))));
}

it('no caller notices that one of three workers is killed under 32 streams', async () => {
  const killed = await start('killed');
  const staying = await Promise.all([start('second'), start('third')]);
  const before = await counted();
  const responses = await begun(STREAMS);
  killTree(killed.process.pid);
  await hasten(...staying);
  await Promise.all(responses.map((response, at) => expectUnbroken(at, response)));
  const details = await moves(responses);
  expect(details.length).toBeGreaterThan(0);
  for (const detail of details) expect(detail).toMatch(/^from killed at token \d+: /);
  await until(async () => (await counted()).succeeded === before.succeeded + STREAMS, 'all are counted');
  expect((await counted()).output).toBe(before.output + STREAMS * TOKENS);
});

it('a stop string ends an answer wherever its worker was killed', async () => {
  const killed = await start('killed');
  const other = await start('other');
  const responses = await begun(STREAMS, (at) => ({ stop: ['no such text', stopOf(at)] }));
  killTree(killed.process.pid);
  await hasten(other);
  await Promise.all(responses.map((response, at) => expectUnbroken(at, response, stopOf(at))));
  expect((await moves(responses)).length).toBeGreaterThan(0);
});

it('token ids that are asked for by token ids go on too', async () => {
  const killed = await start('killed');
  const other = await start('other');
  const promptOf = (at: number) => [7, 8, 9, at];
  const responses = await Promise.all(
    Array.from({ length: 8 }, (_, at) =>
      withToken(
        fetch(`${queue.url}/inference/v1/generate`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({
            model: 'tiny',
            token_ids: promptOf(at),
            sampling_params: { ignore_eos: true, max_tokens: TOKENS },
            stream: true,
          }),
        }),
      ),
    ),
  );
  killTree(killed.process.pid);
  await hasten(other);
  for (const [at, response] of responses.entries()) {
    const { events, done } = await readEvents(new Response(withoutComments(await response.text())));
    expect(done).toBe(true);
    const source = tokenSource(promptOf(at));
    expect(events.flatMap(({ choices }) => (choices as { token_ids: number[] }[])[0]!.token_ids)).toEqual(
      Array.from({ length: TOKENS }, () => source.next().id),
    );
    expect(new Set(events.map(({ request_id }) => request_id)).size).toBe(1);
  }
  expect((await moves(responses)).length).toBeGreaterThan(0);
});

it('a drain hands back no answer unfinished, and charges none twice', async () => {
  const draining = await start('draining', { CASOLA_SHUTDOWN_GRACE_PERIOD: '2' });
  const stays = await start('stays');
  const before = await counted();
  const responses = await begun(STREAMS);
  process.kill(draining.process.pid, 'SIGTERM');
  await hasten(stays);
  await Promise.all([
    draining.process.exited,
    ...responses.map((response, at) => expectUnbroken(at, response)),
  ]);
  const details = await moves(responses);
  expect(details.length).toBeGreaterThan(0);
  for (const detail of details) expect(detail).toMatch(/^from draining at token \d+: .*draining$/);
  await until(async () => (await counted()).succeeded === before.succeeded + STREAMS, 'all are counted');
  const after = await counted();
  expect([after.output, after.wasted]).toEqual([before.output + STREAMS * TOKENS, before.wasted]);
  await expectFirstTokensOfCallers(responses);
});

it('an answer goes on elsewhere when its engine dies', async () => {
  const dying = await start('dying');
  const healthy = await start('healthy');
  const responses = await begun(8);
  await fetch(`${dying.engineUrl}/simulator/faults`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ die_after_tokens: 1 }),
  });
  await hasten(healthy);
  await Promise.all(responses.map((response, at) => expectUnbroken(at, response)));
  expect((await moves(responses)).length).toBeGreaterThan(0);
});

it('an answer that could not go on exactly stays, and its ledger says why', async () => {
  const killed = await start('killed');
  const [response] = await begun(1, () => ({ seed: 7, max_tokens: 2000 }));
  await start('other');
  killTree(killed.process.pid);
  expect(await response!.text()).toMatch(/"error"/);
  const { steps } = await until(async () => {
    const ledger = await ledgerOf(response!);
    return ledger.steps.some(({ step }) => step === 'not_moved') ? ledger : null;
  }, 'its ledger says so');
  expect(steps.find(({ step }) => step === 'not_moved')?.detail).toMatch(/^a seed begins anew/);
});
