import { Agent, request } from 'undici';
import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import type { Figure } from '../report.ts';
import { type BenchRoad, pace } from '../road.ts';

const STREAMS = 16;
const INTER_TOKEN_MS = 10;
const TOKENS = 300;
const STORED_BYTES = 10_000;

/** P2: the tail of paced streams while stored jobs are committed to disk one after another, against the same streams alone, in turns. */
export async function gapsBesideCommits(effort: Effort, road: BenchRoad): Promise<Figure[]> {
  await pace(road.engineUrl, INTER_TOKEN_MS);
  const arrivals = { kind: 'closed', callers: STREAMS, requests: STREAMS } as const;
  const ask = async () =>
    (await runLoad({ url: road.queueUrl, arrivals, tokens: scaled(TOKENS, effort) })).gapMs.p99;
  await ask();
  const [alone, beside, perSecond]: [number[], number[], number[]] = [[], [], []];
  for (let round = 0; round < effort.rounds; round++) {
    alone.push(await ask());
    const commits = keepCommitting(road.queueUrl);
    beside.push(await ask().finally(async () => void perSecond.push(await commits.stop())));
  }
  const shared = { group: 'P2', goal: null };
  const streams = `gap between tokens p99, ${STREAMS} streams`;
  return [
    {
      ...shared,
      name: `${streams}, while 10 KB are committed again and again ÷ nothing stored`,
      unit: '×',
      goal: 1.5,
      rounds: beside.map((ms, round) => ms / alone[round]!),
    },
    { ...shared, name: `${streams}, while 10 KB are committed again and again`, unit: 'ms', rounds: beside },
    { ...shared, name: `${streams}, nothing stored`, unit: 'ms', rounds: alone },
    { ...shared, name: 'commits of 10 KB meanwhile', unit: '/s', rounds: perSecond },
  ];
}

/** Submits one job after another, each synced before it is answered, for a model that no worker has. */
function keepCommitting(queueUrl: string): { stop(): Promise<number> } {
  const payload = { messages: [{ role: 'user', content: 'x'.repeat(STORED_BYTES) }] };
  const body = JSON.stringify({ config_id: 'nobody-takes-these', job_type: 'chat_completion', payload });
  const agent = new Agent({ connections: 1 });
  const began = performance.now();
  let commits = 0;
  let isStopped = false;
  const committing = (async () => {
    while (!isStopped) {
      const answer = await request(`${queueUrl}/api/jobs`, { method: 'POST', body, dispatcher: agent });
      const said = await answer.body.text();
      if (answer.statusCode >= 300) throw new Error(`a job was answered ${answer.statusCode}: ${said}`);
      commits += 1;
    }
  })();
  // The one that stops hears of an error.
  committing.catch(() => {});
  return {
    async stop() {
      isStopped = true;
      await committing;
      await agent.close();
      return (commits * 1000) / (performance.now() - began);
    },
  };
}
