import type { FinalState } from '../final-state.ts';
import type { Operation } from '../operations.ts';
import { FINAL_STATES, idOf, ms, readsByJob } from './lookups.ts';

/** The usage of stored jobs is that of the jobs; of chats, at least of those that were whole. */
export function wrongUsage(operations: readonly Operation[], { jobs, usage }: FinalState): string[] {
  const wrong: string[] = [];
  const lengths = new Map<string, number>();
  for (const operation of operations) {
    const id = idOf(operation);
    if (id !== null && operation.call.kind === 'submit') lengths.set(id, operation.call.tokens);
  }
  let least = 0;
  let most = 0;
  let ended = 0;
  for (const [id, job] of jobs) {
    if (!job || !FINAL_STATES.includes(job.state)) continue;
    ended += 1;
    const length = lengths.get(id) ?? 0;
    if (job.state === 'succeeded') least += length;
    most += length;
  }
  // A submission without an answer and without an id of its own may have made a job that nobody knows.
  const nameless = operations.filter(
    ({ call, end }) =>
      call.kind === 'submit' && call.id === null && end?.type !== 'ok' && end?.type !== 'fail',
  );
  const unseen = nameless.reduce((sum, { call }) => sum + (call.kind === 'submit' ? call.tokens : 0), 0);
  demand('requests of stored jobs', usage.jobs.requests, ended, ended + nameless.length);
  demand('tokens of stored jobs', usage.jobs.output, least, most + unseen);

  const chats = operations.filter(({ call }) => call.kind === 'chat');
  const whole = chats.filter(({ end }) => end?.type === 'ok');
  const tokensOf = (list: readonly Operation[]) =>
    list.reduce((sum, { call }) => sum + (call.kind === 'chat' ? call.tokens : 0), 0);
  demand('requests of chats', usage.chats.requests, whole.length, chats.length);
  demand('tokens of chats', usage.chats.output, tokensOf(whole), tokensOf(chats));
  return wrong;

  function demand(what: string, is: number, from: number, to: number): void {
    if (is < from || is > to) wrong.push(`${what}: ${is}, ${from === to ? from : `${from} to ${to}`} ended`);
  }
}

/** Finds readings of the usage that lack what had ended when they were asked for. */
export function wrongUsageReads(operations: readonly Operation[]): string[] {
  const ends = [...readsByJob(operations).values()]
    .map((reads) => reads.find(({ job }) => FINAL_STATES.includes(job.state))?.at)
    .filter((at) => at !== undefined)
    .sort((a, b) => a - b);
  let next = 0;
  return operations
    .filter(({ call, end }) => call.kind === 'usage' && end?.type === 'ok')
    .sort((a, b) => a.from - b.from)
    .flatMap(({ from, end }) => {
      while (next < ends.length && ends[next]! < from) next += 1;
      const { requests } = (end as { usage: { requests: number } }).usage;
      return requests < next
        ? [`${requests} requests at ${ms(from)}, when ${next} jobs were seen ended`]
        : [];
    });
}
