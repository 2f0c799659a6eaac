import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { JobView, LedgerView } from '../../src/protocol/index.ts';
import { chatIds, textIds } from '../../src/simulator/fields.ts';
import { tokenSource } from '../../src/simulator/text.ts';
import { until } from '../support/poll.ts';
import { killTree } from '../support/processes.ts';
import {
  engineGenerated,
  engineRunning,
  HELD,
  type QueueProcess,
  readyWorker,
  setPace,
  setPaces,
  settled,
  startQueue,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Stored jobs whose worker cannot finish them go on elsewhere from the last token (docs/moving.md). */
let queue: QueueProcess;
const running: WorkerProcess[] = [];

beforeAll(async () => {
  queue = await startQueue();
});
afterEach(async () => {
  await Promise.all(running.splice(0).map(({ process }) => process.stop()));
});
afterAll(tearDown);

const JOBS = 12;
/** Far more than fit into the grace. */
const TOKENS = 300;

async function start(id: string, env: NodeJS.ProcessEnv = {}): Promise<WorkerProcess> {
  const worker = await readyWorker(queue.url, id, {
    engineArgs: `${HELD} --enable-scale-out`,
    env: { CASOLA_MAX_JOBS: String(JOBS), CASOLA_SHUTDOWN_GRACE_PERIOD: '2', ...env },
  });
  running.push(worker);
  return worker;
}

const ASKED = { model: 'tiny', ignore_eos: true, max_tokens: TOKENS };

const KINDS = 4;

/** One of each kind that ends in a generation. */
function payloadOf(at: number): Record<string, unknown> {
  const content = contentOf(at);
  const messages = [{ role: 'user', content }];
  const kind = at % KINDS;
  if (kind === 0) return { job_type: 'chat_completion', payload: { ...ASKED, messages } };
  const [path, body] = [
    ['/v1/chat/completions', { ...ASKED, messages }],
    ['/v1/completions', { ...ASKED, prompt: content }],
    [
      '/inference/v1/generate',
      { model: 'tiny', token_ids: textIds(content, 'tiny'), sampling_params: ASKED },
    ],
  ][kind - 1]!;
  return { job_type: 'engine_request', payload: { method: 'POST', path, body: JSON.stringify(body) } };
}

function contentOf(at: number): string {
  return `Tell me about number ${at}.`;
}

/** What an engine says that nobody disturbs: a text, or tokens. */
function uncut(at: number): string | number[] {
  const content = contentOf(at);
  const kind = at % KINDS;
  const ids = kind < 2 ? chatIds([{ role: 'user', content }], [content], 'tiny') : textIds(content, 'tiny');
  const source = tokenSource(ids);
  const tokens = Array.from({ length: TOKENS }, () => source.next());
  return kind === 3 ? tokens.map(({ id }) => id) : tokens.map(({ text }) => text).join('');
}

interface Choice {
  text?: string;
  message?: { content: string };
  token_ids?: number[];
  finish_reason: string;
}

interface Completion {
  choices: Choice[];
  usage: { completion_tokens: number };
}

function expectUncut(at: number, { state, result }: JobView): void {
  expect(state).toBe('succeeded');
  const { completion, response } = result as { completion?: Completion; response?: { body: Completion } };
  const { choices, usage } = (completion ?? response?.body)!;
  const said = choices.map(({ text, message, token_ids }) => text ?? message?.content ?? token_ids);
  expect(said).toEqual([uncut(at)]);
  expect([choices[0]!.finish_reason, usage.completion_tokens]).toEqual(['length', TOKENS]);
}

async function stepsOf(id: string): Promise<LedgerView['steps']> {
  return ((await (await fetch(`${queue.url}/api/jobs/${id}/ledger`)).json()) as LedgerView).steps;
}

/** Jobs on both workers, each of which has begun and is held there. @returns the ids of all */
async function begun(name: string, workers: WorkerProcess[]): Promise<string[]> {
  const ids = Array.from({ length: JOBS }, (_, at) => `${name}-${at}`);
  await Promise.all(ids.map((id, at) => submit(queue.url, { id, config_id: 'cfg', ...payloadOf(at) })));
  await until(async () => {
    const each = await Promise.all(workers.map(({ engineUrl }) => engineRunning(engineUrl)));
    return each.reduce((sum, one) => sum + one, 0) === JOBS;
  }, 'all jobs run');
  const made = async () =>
    Math.min(...(await Promise.all(workers.map((one) => engineGenerated(one.engineUrl)))));
  const before = await made();
  await setPaces(workers, 40);
  await until(async () => (await made()) > before + 20 * JOBS, 'some of each is generated');
  await setPaces(workers, 2000);
  return ids;
}

/** Of all that has ended so far. */
async function counted(): Promise<{ output: number; wasted: number; succeeded: number }> {
  const page = await (await fetch(`${queue.url}/api/usage?days=2`)).json();
  return (page as { total: { output: number; wasted: number; succeeded: number } }).total;
}

/**
 * All of them are whole; those that were moved were so by this, and counted once.
 * @param staying the worker that has all of them now, whose engine need not take its time any more
 * @returns the steps of the moved
 */
async function expectWhole(
  ids: string[],
  staying: WorkerProcess,
  by: RegExp,
): Promise<LedgerView['steps'][]> {
  const before = await counted();
  await setPace(staying.engineUrl, 1);
  const views = await Promise.all(ids.map((id) => settled(queue.url, id)));
  for (const [at, view] of views.entries()) expectUncut(at, view);
  await until(async () => (await counted()).succeeded === before.succeeded + JOBS, 'all are counted');
  const { output, wasted } = await counted();
  expect([output - before.output, wasted]).toEqual([JOBS * TOKENS, 0]);
  const ledgers = await Promise.all(ids.map(stepsOf));
  const moved = ledgers.filter((steps) => steps.some(({ step }) => step === 'moved'));
  for (const steps of moved) expect(steps.find(({ step }) => step === 'moved')!.detail).toMatch(by);
  return moved;
}

it('a drain loses nothing of jobs that run much longer than its grace, and charges none', async () => {
  const [leaving, staying] = [await start('leaving'), await start('staying')];
  const ids = await begun('drained', [leaving, staying]);
  process.kill(leaving.process.pid, 'SIGTERM');
  await leaving.process.exited;
  const moved = await expectWhole(ids, staying, /^from leaving at token [1-9]\d*: draining$/);
  expect(moved.length).toBeGreaterThan(0);
  for (const steps of moved) {
    expect(steps.filter(({ step }) => step === 'released')).toHaveLength(1);
    expect(steps.some(({ step }) => step === 'attempt_failed')).toBe(false);
  }
});

it('an engine that dies loses nothing of what it had said', async () => {
  const [dying, healthy] = [await start('dying'), await start('healthy')];
  const ids = await begun('died', [dying, healthy]);
  await fetch(`${dying.engineUrl}/simulator/faults`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ die_after_tokens: 1 }),
  });
  const moved = await expectWhole(ids, healthy, /^from dying at token [1-9]\d*: /);
  expect(moved.length).toBeGreaterThan(0);
});

it('a worker that is killed loses no more than what it made since its last renewal', async () => {
  const [killed, staying] = [
    await start('killed', { CASOLA_RENEW_LEASE_AFTER: '0.5' }),
    await start('stays'),
  ];
  const ids = await begun('killed', [killed, staying]);
  killTree(killed.process.pid);
  const moved = await expectWhole(ids, staying, /^from killed at token [1-9]\d*: /);
  expect(moved.length).toBeGreaterThan(0);
});
