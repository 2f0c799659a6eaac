import type { FinalState } from '../final-state.ts';
import type { Operation, SeenJob } from '../operations.ts';
import { cut, FINAL_STATES, idOf, ms, readsByJob, textOf } from './lookups.ts';

const ENDS = ['settled', 'cancelled', 'expired'];
/** Each acknowledged job came out: with its answer, or cancelled if somebody asked for that. */
export function lostJobs(operations: readonly Operation[], { jobs }: FinalState): string[] {
  const cancelled = new Set(
    operations.map(({ call }) => (call.kind === 'cancel' ? call.id : null)).filter((id) => id !== null),
  );
  const lost: string[] = [];
  for (const operation of operations) {
    const { call, end } = operation;
    if (call.kind !== 'submit' || end?.type !== 'ok') continue;
    const id = idOf(operation)!;
    const job = jobs.get(id);
    const isRight = job?.state === 'succeeded' || (job?.state === 'cancelled' && cancelled.has(id));
    if (!isRight)
      lost.push(`${id}, acknowledged at ${ms(end.at)}: ${job?.state ?? 'the queue does not know it'}`);
  }
  for (const { call, from, end } of operations) {
    if (call.kind !== 'read' && call.kind !== 'cancel') continue;
    if (end?.type === 'fail' && end.why.startsWith('404'))
      lost.push(`${call.id}, acknowledged, was not known at ${ms(from)}`);
    if (call.kind !== 'cancel' || end?.type !== 'ok') continue;
    const state = jobs.get(call.id)?.state;
    if (state !== end.job!.state)
      lost.push(`the cancel of ${call.id} was answered ${end.job!.state}: ${state}`);
  }
  return lost;
}

/** A job is not there if every submission of it was refused. */
export function refusedJobs(operations: readonly Operation[], { jobs }: FinalState): string[] {
  const refused = new Map<string, boolean>();
  for (const { call, end } of operations) {
    if (call.kind !== 'submit' || call.id === null) continue;
    refused.set(call.id, (refused.get(call.id) ?? true) && end?.type === 'fail');
  }
  return [...refused].filter(([id, isRefused]) => isRefused && jobs.get(id)).map(([id]) => id);
}

export function wrongJobs(operations: readonly Operation[], { jobs }: FinalState): string[] {
  const wrong = new Set<string>();
  for (const operation of operations) {
    const { call } = operation;
    const id = idOf(operation);
    if (call.kind !== 'submit' || id === null) continue;
    const job = jobs.get(id);
    if (job?.state !== 'succeeded') continue;
    const expected = textOf(call.prompt, call.tokens);
    if (job.text !== expected) wrong.add(`${id}: "${cut(job.text)}" in place of "${cut(expected)}"`);
  }
  return [...wrong];
}

export function settledTwice({ jobs }: FinalState): string[] {
  return [...jobs].flatMap(([id, job]) => {
    const ends = job?.steps.filter(({ step }) => ENDS.includes(step)) ?? [];
    const isRight = !job || (ends.length === 1) === FINAL_STATES.includes(job.state);
    return isRight && ends.length < 2
      ? []
      : [`${id}: ${ends.map(({ step, fence }) => `${step} (${fence})`)}`];
  });
}

/** Finds jobs of which a client read, after their end, something else than others read later. */
export function changedJobs(operations: readonly Operation[], { jobs }: FinalState): string[] {
  const changed: string[] = [];
  for (const [id, reads] of readsByJob(operations)) {
    const over = reads.find(({ job }) => FINAL_STATES.includes(job.state));
    const later = reads.filter(({ from }) => over && from > over.at).map(({ job }) => job);
    const last = jobs.get(id);
    if (last) later.push(last);
    const other = over && later.find((job) => outcomeOf(job) !== outcomeOf(over.job));
    if (other) changed.push(`${id}: ${outcomeOf(over.job)}, later ${outcomeOf(other)}`);
  }
  return changed;
}

/** Without times, which the queue moves when its clock is set back. */
function outcomeOf({ state, fence, text }: SeenJob): string {
  return `${state} with fence ${fence}: "${text ?? ''}"`;
}

export function idsTwice(operations: readonly Operation[]): string[] {
  const given = operations.flatMap(({ call, end }) =>
    call.kind === 'submit' && call.id === null && end?.type === 'ok' ? [end.id!] : [],
  );
  const seen = new Set<string>();
  return given.filter((id) => seen.size === seen.add(id).size);
}
