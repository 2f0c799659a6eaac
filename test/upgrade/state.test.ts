import { join } from 'node:path';
import OpenAI, { toFile } from 'openai';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import type { LedgerView } from '../../src/protocol/index.ts';
import type { UsageAmounts } from '../../src/queue/rpc.ts';
import { until } from '../support/poll.ts';
import { stopAllProcesses } from '../support/processes.ts';
import {
  cli,
  killQueue,
  type QueueProcess,
  startQueue,
  startWorker,
  stateFolder,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';
import { TOKENS, Traffic } from './traffic.ts';
import { before, today, type Version } from './versions.ts';

/** The state folder of the version before, and the workers and clients that were connected, under the queue of today. */
afterEach(stopAllProcesses);
afterAll(tearDown);

const LINES = 40;
const SCOPES = ['admin', 'worker', 'submit', 'read'] as const;
type Tokens = Record<(typeof SCOPES)[number] | 'live', string>;

async function run(version: Version, ...args: string[]) {
  const command = cli(args, {}, undefined, version.program);
  const { code } = await command.exited;
  return { code, said: command.output() };
}

/** Makes a token of each scope on the disk of the queue. */
async function makeTokens(stateDir: string): Promise<Omit<Tokens, 'live'>> {
  const made: Record<string, string> = {};
  for (const scope of SCOPES) {
    const args = ['token', 'create', '--state', stateDir, '--scope', scope, '--name', scope];
    const { said } = await run(before, ...args, ...(scope === 'submit' ? ['--tenant', 'jobs'] : []));
    made[scope] = /wv_[\w-]+/.exec(said)![0];
  }
  return made as Omit<Tokens, 'live'>;
}

const as = (token: string) => ({ authorization: `Bearer ${token}` });

async function json<T>(url: string, token: string, init: RequestInit = {}): Promise<T> {
  const response = await fetch(url, { ...init, headers: as(token) });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/** Makes the token of the callers of streams over HTTP, as the page does. */
async function makeLiveToken(url: string, admin: string): Promise<string> {
  const body = JSON.stringify({ name: 'live', scopes: ['submit'], tenant: 'live' });
  return (await json<{ token: string }>(`${url}/api/tokens`, admin, { method: 'POST', body })).token;
}

function startWith(version: Version, url: string, id: string, token: string): Promise<WorkerProcess> {
  const env = { CASOLA_API_TOKEN: token };
  return startWorker(url, id, {
    engineArgs: '--inter-token-latency-ms 5',
    env,
    program: version.program,
  });
}

async function untilTaking({ url }: QueueProcess, id: string, token: string): Promise<void> {
  await until(async () => {
    const { workers } = await json<{ workers: { worker_id: string; state: string }[] }>(
      `${url}/api/workers`,
      token,
    );
    return workers.some(({ worker_id, state }) => worker_id === id && state === 'ready');
  }, `worker ${id} is ready`);
}

const openai = (url: string, apiKey: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });

async function startBatch(
  url: string,
  token: string,
): Promise<{ batch: string; input: string; text: string }> {
  const lines = Array.from({ length: LINES }, (_, n) => {
    const body = {
      model: 'tiny',
      messages: [{ role: 'user', content: `line ${n}` }],
      max_tokens: TOKENS,
      ignore_eos: true,
    };
    return JSON.stringify({ custom_id: `line-${n}`, method: 'POST', url: '/v1/chat/completions', body });
  });
  const text = lines.join('\n');
  const { files, batches } = openai(url, token);
  const input = await files.create({
    file: await toFile(new TextEncoder().encode(text), 'in.jsonl'),
    purpose: 'batch',
  });
  const made = await batches.create({
    input_file_id: input.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  });
  return { batch: made.id, input: input.id, text };
}

/** Every line of the batch has one answer, and the file that it was made of is as it was. */
async function expectBatch(
  url: string,
  token: string,
  { batch, input, text }: Awaited<ReturnType<typeof startBatch>>,
) {
  const { files, batches } = openai(url, token);
  const done = await until(
    async () => {
      const view = await batches.retrieve(batch);
      return view.status === 'completed' ? view : null;
    },
    'the batch is complete',
    { timeoutMs: 120_000, everyMs: 100 },
  );
  const answers = (await (await files.content(done.output_file_id!)).text()).trim().split('\n');
  const ids = answers.map((line) => (JSON.parse(line) as { custom_id: string }).custom_id);
  expect(ids.toSorted()).toEqual(Array.from({ length: LINES }, (_, n) => `line-${n}`).toSorted());
  expect(await (await files.content(input)).text()).toBe(text);
}

/** Each job that was acknowledged succeeded once, and is counted once. */
async function expectJobs(url: string, { jobs, refused }: Traffic, token: string): Promise<void> {
  expect(refused).toEqual([]);
  for (const [id, { state, result }] of jobs) {
    expect({ id, state }).toEqual({ id, state: 'succeeded' });
    expect(await json(`${url}/api/jobs/${id}`, token)).toMatchObject({ state: 'succeeded', result });
    const { steps } = await json<LedgerView>(`${url}/api/jobs/${id}/ledger`, token);
    for (const once of ['submitted', 'settled'])
      expect(steps.filter(({ step }) => step === once)).toHaveLength(1);
  }
  const requests = jobs.size + LINES;
  expect(await usageOf(url, token, 'jobs')).toMatchObject({
    requests,
    succeeded: requests,
    output: requests * TOKENS,
  });
}

async function usageOf(url: string, token: string, tenant: string): Promise<UsageAmounts> {
  return (await json<{ total: UsageAmounts }>(`${url}/api/usage?days=2&tenant=${tenant}`, token)).total;
}

/** A stream that the end of the queue's process broke. Its caller was told so, or its connection broke. */
const BROKEN = /"error"|terminated|ECONNRESET|other side closed|UND_ERR_SOCKET/;

interface Upgraded {
  workers: WorkerProcess[];
  queue: QueueProcess;
  tokens: Tokens;
  traffic: Traffic;
  /** A backup of the version before, from before the upgrade, and a job whose result is in it. */
  backup: string;
  inBackup: string;
}

/** Upgrades a queue of the version before, under traffic. @param end how its process ends */
async function upgrade(end: (queue: QueueProcess) => Promise<unknown>): Promise<Upgraded> {
  const stateDir = stateFolder();
  const onDisk = await makeTokens(stateDir);
  const old = await startQueue({ stateDir, program: before.program });
  const tokens = { ...onDisk, live: await makeLiveToken(old.url, onDisk.admin) };
  const workers = await Promise.all(['a', 'b'].map((id) => startWith(before, old.url, id, tokens.worker)));
  for (const id of ['a', 'b']) await untilTaking(old, id, tokens.read);
  const traffic = new Traffic(old.url, before, { jobs: tokens.submit, streams: tokens.live });
  await traffic.more(20);
  const backup = join(stateFolder(), 'backup');
  expect(await run(before, 'state', 'backup', backup, '--state', stateDir)).toMatchObject({ code: 0 });
  const [inBackup] = [...traffic.jobs.keys()];
  const batch = await startBatch(old.url, tokens.submit);
  await traffic.more(10);
  expect(traffic.broken).toEqual([]);

  await end(old);
  const queue = await startQueue({ stateDir, port: old.port });
  await traffic.more(20);
  await expectBatch(queue.url, tokens.submit, batch);
  for (const text of traffic.broken) expect(text).toMatch(BROKEN);
  return { queue, workers, tokens, traffic, backup, inBackup: inBackup! };
}

describe('a queue of today on the state of the version before', () => {
  it('has all that was acknowledged, when the one before was stopped under traffic; the way back is the backup', async () => {
    const { queue, workers, tokens, traffic, backup, inBackup } = await upgrade(({ process }) =>
      process.stop(),
    );
    const brokenByUpgrade = traffic.broken.length;
    // As docs/upgrading.md says: then the workers, one after the other.
    for (const id of ['c', 'd']) {
      await startWith(today, queue.url, id, tokens.worker);
      await untilTaking(queue, id, tokens.read);
    }
    for (const { process } of workers) await process.stop();
    await traffic.more(10);
    await traffic.end();
    expect(traffic.broken.slice(brokenByUpgrade)).toEqual([]);
    await expectJobs(queue.url, traffic, tokens.submit);
    // A stream is counted when its worker has settled it, which may be after its caller has read it.
    const streams = await until(async () => {
      const counted = await usageOf(queue.url, tokens.admin, 'live');
      return counted.succeeded >= traffic.whole ? counted : null;
    }, 'every stream that came whole is counted');
    expect(streams.succeeded).toBeLessThanOrEqual(traffic.whole + brokenByUpgrade);
    await queue.process.stop();

    const refused = cli(['queue', '--port', '0', '--state', queue.stateDir], {}, undefined, before.program);
    expect(await refused.exited).toMatchObject({ code: EXIT.badState });
    expect(refused.output()).toMatch(/was written by another version of worker-vllm \(state version \d+/);
    const stateDir = join(stateFolder(), 'restored');
    expect(await run(before, 'state', 'restore', backup, '--state', stateDir)).toMatchObject({ code: 0 });
    const back = await startQueue({ stateDir, program: before.program });
    const { result } = traffic.jobs.get(inBackup)!;
    expect(await json(`${back.url}/api/jobs/${inBackup}`, tokens.submit)).toMatchObject({ result });
    expect(await usageOf(back.url, tokens.admin, 'live')).toMatchObject({ failed: 0 });
  });

  it('has all that was acknowledged, when the one before was killed under traffic', async () => {
    const { queue, tokens, traffic } = await upgrade(killQueue);
    await traffic.end();
    await expectJobs(queue.url, traffic, tokens.submit);
  });
});
