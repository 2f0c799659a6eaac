import { PostgresServer } from '../../test/support/postgres-server.ts';
import { type QueueProcess, startQueue, tearDown } from '../../test/support/road.ts';
import { type DurableRun, runDurable } from '../durable/index.ts';
import { type Effort, scaled } from '../effort.ts';
import type { Figure } from '../report.ts';
import { processOf } from '../road.ts';
import { median } from '../statistics.ts';

const LOAD = { jobs: 6400, slots: 16, bytes: 1000, inFlight: 64 };
const SUBMISSIONS = 400;

interface Side {
  name: string;
  queue: QueueProcess;
  runs: DurableRun[];
  submissions: number[];
}

/**
 * Measures what a journal in PostgreSQL costs over the local disk alone, in turns, with both disks and both processes
 * on this machine: stored jobs that are submitted one after another, and jobs with 64 of them in flight.
 */
export async function journal(effort: Effort): Promise<Figure[]> {
  const jobs = Math.max(scaled(LOAD.jobs, effort), 2 * LOAD.inFlight);
  const server = await PostgresServer.make();
  try {
    const sides: Side[] = [];
    for (const [name, env] of Object.entries({
      'no journal': {},
      PostgreSQL: { QUEUE_JOURNAL: server.address },
    }))
      sides.push({ name, queue: await startQueue({ env }), runs: [], submissions: [] });
    // The first round is a rehearsal: V8 has not compiled anything of the queues yet.
    for (let round = -1; round < effort.rounds; round++) {
      for (const { queue, runs, submissions } of sides) {
        const run = await runDurable('ours', { ...LOAD, jobs, url: queue.url }, processOf(queue));
        const submission = await submitOneByOne(queue.url, scaled(SUBMISSIONS, effort));
        if (round < 0) continue;
        runs.push(run);
        submissions.push(submission);
      }
    }
    return figuresOf(sides);
  } finally {
    await tearDown();
    await server.remove();
  }
}

/** Submits jobs that no worker takes. @returns the median of the times until one is acknowledged, ms */
async function submitOneByOne(url: string, count: number): Promise<number> {
  const payload = { messages: [{ role: 'user', content: 'x'.repeat(LOAD.bytes) }] };
  const body = JSON.stringify({ job_type: 'chat_completion', config_id: 'nobody', payload });
  const times: number[] = [];
  for (let n = 0; n < Math.max(count, 1); n += 1) {
    const began = performance.now();
    const response = await fetch(`${url}/api/jobs`, { method: 'POST', body });
    await response.arrayBuffer();
    if (response.status !== 201) throw new Error(`a job was not taken: ${response.status}`);
    times.push(performance.now() - began);
  }
  return median(times);
}

function figuresOf(sides: readonly Side[]): Figure[] {
  const [without, inPostgres] = sides as [Side, Side];
  const shared = { group: 'journal', goal: null };
  const ratio = (round: number) => inPostgres.runs[round]!.jobsPerSecond / without.runs[round]!.jobsPerSecond;
  return [
    ...sides.flatMap(({ name, runs, submissions }) => [
      { ...shared, name: `a submission, one after another, ${name}, p50`, unit: 'ms', rounds: submissions },
      {
        ...shared,
        name: `durable jobs, ${name}, 64 in flight`,
        unit: '/s',
        rounds: runs.map((run) => run.jobsPerSecond),
      },
      {
        ...shared,
        name: `processor of the queue a durable job, ${name}, 64 in flight`,
        unit: 'µs',
        rounds: runs.map((run) => run.server),
      },
    ]),
    {
      ...shared,
      name: 'a submission, PostgreSQL − no journal, p50',
      unit: 'ms',
      goal: 3,
      rounds: inPostgres.submissions.map((ms, round) => ms - without.submissions[round]!),
    },
    {
      ...shared,
      name: 'durable jobs/s, PostgreSQL ÷ no journal, 64 in flight',
      unit: '×',
      goal: 0.7,
      atLeast: true,
      rounds: inPostgres.runs.map((_, round) => ratio(round)),
    },
  ];
}
