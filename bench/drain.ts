import { parseArgs } from 'node:util';
import type { LedgerView } from '../src/protocol/index.ts';
import { until } from '../test/support/poll.ts';
import { engineRunning, type QueueProcess, readyWorker, startQueue, tearDown } from '../test/support/road.ts';

/**
 * A drain of one of two workers under answers of a minute each, with and without moves (docs/moving.md).
 *
 *   npm run bench:drain [-- --streams 16]
 */
const { values } = parseArgs({ options: { streams: { type: 'string', default: '16' } } });
const STREAMS = Number(values.streams);
const TOKENS = 600;
const ENGINE = '--inter-token-latency-ms 100';

const CASES = [
  { MIGRATION: 'off', CASOLA_SHUTDOWN_GRACE_PERIOD: '2' },
  { MIGRATION: 'off', CASOLA_SHUTDOWN_GRACE_PERIOD: '120' },
  { MIGRATION: 'exact', CASOLA_SHUTDOWN_GRACE_PERIOD: '2' },
] as const;

const BODY = {
  model: 'tiny',
  stream: true,
  stream_options: { include_usage: true },
  ignore_eos: true,
  max_tokens: TOKENS,
};

async function ask(queue: QueueProcess, at: number): Promise<Response> {
  const messages = [{ role: 'user', content: `Tell me about number ${at}.` }];
  return fetch(`${queue.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...BODY, messages }),
  });
}

async function drain(env: (typeof CASES)[number]): Promise<void> {
  const queue = await startQueue();
  const start = (id: string) =>
    readyWorker(queue.url, id, { engineArgs: ENGINE, env: { ...env, CASOLA_MAX_JOBS: String(STREAMS) } });
  const leaving = await start('leaving');
  const staying = await start('staying');
  const responses = await Promise.all(Array.from({ length: STREAMS }, (_, at) => ask(queue, at)));
  const texts = responses.map((response) => response.text().catch(() => ''));
  const running = async () =>
    (await engineRunning(leaving.engineUrl)) + (await engineRunning(staying.engineUrl));
  await until(async () => (await running()) === STREAMS, 'all run');
  await new Promise((resolve) => setTimeout(resolve, 5000));
  const began = performance.now();
  process.kill(leaving.process.pid, 'SIGTERM');
  await leaving.process.exited;
  const seconds = (performance.now() - began) / 1000;
  const whole = (await Promise.all(texts)).filter((text) => text.includes(`"completion_tokens":${TOKENS}`));
  const ledgers = await Promise.all(
    responses.map(async (response) => {
      const id = response.headers.get('x-job-id');
      return (await (await fetch(`${queue.url}/api/jobs/${id}/ledger`)).json()) as LedgerView;
    }),
  );
  const moved = ledgers.filter(({ steps }) => steps.some(({ step }) => step === 'moved')).length;
  const usage = async () => {
    const page = await (await fetch(`${queue.url}/api/usage?days=2`)).json();
    return (page as { total: { succeeded: number; output: number; wasted: number } }).total;
  };
  await until(async () => (await usage()).succeeded === whole.length, 'all are counted');
  const { output, wasted } = await usage();
  const cells = [
    env.MIGRATION,
    `${env.CASOLA_SHUTDOWN_GRACE_PERIOD} s`,
    `${seconds.toFixed(1)} s`,
    `${whole.length} of ${STREAMS}`,
    moved,
    output,
    wasted,
  ];
  console.log(`| ${cells.join(' | ')} |`);
  await tearDown();
}

console.log('| `MIGRATION` | grace | the worker ended after | whole answers | moved | output | wasted |');
console.log('| --- | --- | --- | --- | --- | --- | --- |');
for (const env of CASES) await drain(env);
