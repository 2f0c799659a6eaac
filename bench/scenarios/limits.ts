import type { Limits, NewToken } from '../../src/protocol/index.ts';
import { until } from '../../test/support/poll.ts';
import { startQueue, startWorker } from '../../test/support/road.ts';
import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import { processorMs } from '../machine.ts';
import type { Figure } from '../report.ts';
import { processOf, WARM_UP_REQUESTS } from '../road.ts';

const ADMIN = 'bench-admin';
const WORKER = 'bench-worker';
const CALLERS = 64;
const REQUESTS = 4000;
/** So far away that they keep nobody. */
const LIMITS: Limits = {
  running: 1e6,
  requests_per_minute: 1e9,
  tokens_per_minute: 1e12,
  tokens_per_month: 1e12,
};

/** P8: processor time of the queue for a whole short request of a token with limits against one without, in turns. */
export async function requestsUnderLimits(effort: Effort): Promise<Figure[]> {
  const queue = await startQueue({ env: { QUEUE_TOKENS: `admin:${ADMIN},worker:${WORKER}` } });
  const worker = await startWorker(queue.url, 'bench', {
    engineArgs: `--disable-uvicorn-access-log --max-num-seqs ${CALLERS}`,
    env: { CASOLA_MAX_JOBS: String(CALLERS), CASOLA_API_TOKEN: WORKER },
  });
  await until(async () => worker.process.output().includes('taking jobs'), 'the worker takes jobs');
  const tokens = {
    plain: await makeToken(queue.url, 'plain', null),
    limited: await makeToken(queue.url, 'limited', LIMITS),
  };
  const pid = processOf(queue);
  const run = async (token: string, requests: number) => {
    const before = processorMs(pid);
    const arrivals = { kind: 'closed', callers: CALLERS, requests } as const;
    await runLoad({ url: queue.url, arrivals, tokens: 1, token });
    return ((processorMs(pid) - before) * 1000) / requests;
  };
  for (const token of Object.values(tokens)) await run(token, scaled(WARM_UP_REQUESTS / 2, effort));
  const requests = scaled(REQUESTS, effort);
  const rounds = { plain: [] as number[], limited: [] as number[] };
  for (let round = 0; round < effort.rounds; round++) {
    // The one that follows the other may find more garbage to collect.
    const order = round % 2 === 0 ? (['plain', 'limited'] as const) : (['limited', 'plain'] as const);
    for (const side of order) rounds[side].push(await run(tokens[side], requests));
  }
  return [
    {
      group: 'P8',
      name: 'processor a short request, queue, a token with limits ÷ without, 64 side by side',
      unit: '×',
      goal: 1.05,
      rounds: rounds.limited.map((µs, round) => µs / rounds.plain[round]!),
    },
    {
      group: 'P8',
      name: 'processor a short request, queue, a token without limits, 64 side by side',
      unit: 'µs',
      goal: null,
      rounds: rounds.plain,
    },
  ];
}

async function makeToken(url: string, name: string, limits: Limits | null): Promise<string> {
  const response = await fetch(`${url}/api/tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ADMIN}` },
    body: JSON.stringify({ name, scopes: ['submit'], ...(limits && { limits }) }),
  });
  if (!response.ok) throw new Error(`a token was not made: ${response.status} ${await response.text()}`);
  return ((await response.json()) as NewToken).token;
}
