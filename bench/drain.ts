import { Option } from 'commander';
import { commandLine, wholeFrom } from '../scripts/command-line.ts';
import type { LedgerView } from '../src/protocol/index.ts';
import { until } from '../test/support/poll.ts';
import {
  engineGenerated,
  engineRunning,
  job,
  type QueueProcess,
  readyWorker,
  startQueue,
  tearDown,
} from '../test/support/road.ts';

/**
 * A drain of one of two workers under answers of a minute each, live and stored, with and without moves (docs/moving.md).
 */
const given = commandLine(
  'node bench/drain.ts',
  'drains one of two workers under answers of a minute each, live and stored, with and without moves',
)
  .option('--jobs <count>', 'answers', wholeFrom(1), 16)
  .addOption(new Option('--only <kind>', 'answers of one kind').choices(['live', 'stored']))
  .parse()
  .opts<{ jobs: number; only?: string }>();
const JOBS = given.jobs;
const TOKENS = 600;
const ENGINE = '--inter-token-latency-ms 100';

const CASES = [
  { kind: 'live', MIGRATION: 'off', grace: '2' },
  { kind: 'live', MIGRATION: 'off', grace: '120' },
  { kind: 'live', MIGRATION: 'exact', grace: '2' },
  { kind: 'stored', MIGRATION: 'off', grace: '2' },
  { kind: 'stored', MIGRATION: 'off', grace: '120' },
  { kind: 'stored', MIGRATION: 'exact', grace: '2' },
] as const;

const BODY = { model: 'tiny', ignore_eos: true, max_tokens: TOKENS };
const STREAMED = { stream: true, stream_options: { include_usage: true } };

/** Has all of its tokens, as the engine's last event says. */
const isWhole = (text: string) => text.includes(`"completion_tokens":${TOKENS}`);

interface Asked {
  id: string;
  /** Resolves at its end. */
  whole: Promise<boolean>;
}

async function post(queue: QueueProcess, path: string, body: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return fetch(`${queue.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function ask(queue: QueueProcess, kind: 'live' | 'stored', at: number): Promise<Asked> {
  const body = { ...BODY, messages: [{ role: 'user', content: `Tell me about number ${at}.` }] };
  if (kind === 'live') {
    const response = await post(queue, '/v1/chat/completions', { ...body, ...STREAMED });
    const text = response.text().catch(() => '');
    return { id: response.headers.get('x-job-id')!, whole: text.then(isWhole) };
  }
  const id = `stored-${at}`;
  const payload = { method: 'POST', path: '/v1/chat/completions', body: JSON.stringify(body) };
  await post(queue, '/api/jobs', { id, config_id: 'cfg', job_type: 'engine_request', payload });
  return {
    id,
    whole: until(
      async () => {
        const view = await job(queue.url, id, 20);
        return view.settled_at ? view : null;
      },
      `${id} is settled`,
      { timeoutMs: 240_000 },
    ).then(({ result }) => isWhole(String(JSON.stringify(result)).replaceAll('\\', ''))),
  };
}

async function drain({ kind, MIGRATION, grace }: (typeof CASES)[number]): Promise<void> {
  const queue = await startQueue();
  const env = { MIGRATION, CASOLA_SHUTDOWN_GRACE_PERIOD: grace, CASOLA_MAX_JOBS: String(JOBS) };
  const start = (id: string) => readyWorker(queue.url, id, { engineArgs: ENGINE, env });
  const leaving = await start('leaving');
  const staying = await start('staying');
  const asked = await Promise.all(Array.from({ length: JOBS }, (_, at) => ask(queue, kind, at)));
  const ends = Promise.all(asked.map(({ whole }) => whole)).then((all) => ({ all, at: performance.now() }));
  const running = async () =>
    (await engineRunning(leaving.engineUrl)) + (await engineRunning(staying.engineUrl));
  await until(async () => (await running()) === JOBS, 'all run');
  await new Promise((resolve) => setTimeout(resolve, 5000));
  const began = performance.now();
  let generatedThere = 0;
  const watch = setInterval(async () => {
    generatedThere = await engineGenerated(leaving.engineUrl).catch(() => generatedThere);
  }, 100);
  process.kill(leaving.process.pid, 'SIGTERM');
  await leaving.process.exited;
  clearInterval(watch);
  const endedMs = performance.now() - began;
  const { all, at } = await ends;
  const whole = all.filter(Boolean).length;
  const ledgers = await Promise.all(
    asked.map(
      async ({ id }) => (await (await fetch(`${queue.url}/api/jobs/${id}/ledger`)).json()) as LedgerView,
    ),
  );
  const having = (wanted: string) =>
    ledgers.filter(({ steps }) => steps.some(({ step }) => step === wanted)).length;
  const usage = async () => {
    const page = await (await fetch(`${queue.url}/api/usage?days=2`)).json();
    return (page as { total: { succeeded: number; output: number; wasted: number } }).total;
  };
  await until(async () => (await usage()).succeeded === whole, 'all are counted');
  const { output, wasted } = await usage();
  // In no answer, whether a worker counted it or not.
  const lost = generatedThere + (await engineGenerated(staying.engineUrl)) - whole * TOKENS;
  const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
  const times = [seconds(endedMs), seconds(at - began)];
  const cells = [
    kind,
    MIGRATION,
    `${grace} s`,
    ...times,
    `${whole} of ${JOBS}`,
    having('moved'),
    having('released'),
    output,
    wasted,
    lost,
  ];
  console.log(`| ${cells.join(' | ')} |`);
  await tearDown();
}

console.log(
  '| jobs | `MIGRATION` | grace | the worker ended after | the last answer after | whole | moved | released | output | wasted | lost |',
);
console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |');
for (const one of CASES) if (given.only === undefined || given.only === one.kind) await drain(one);
