import { chatText } from '../../../test/soak/engine-text.ts';
import type { Operation, SeenJob } from '../operations.ts';

/** The model of every engine of a run, so that an answer follows from its request alone. */
export const MODEL = 'tiny';
export const FINAL_STATES = ['succeeded', 'failed', 'cancelled', 'expired'];

/** Returns the id of the job that a submission made, as far as its client knows. */
export function idOf({ call, end }: Operation): string | null {
  if (call.kind !== 'submit') return null;
  return call.id ?? (end?.type === 'ok' ? end.id! : null);
}

/** The reads and cancels of each job that were answered, in the order of their answers. */
export function readsByJob(
  operations: readonly Operation[],
): Map<string, { from: number; at: number; job: SeenJob }[]> {
  const reads = new Map<string, { from: number; at: number; job: SeenJob }[]>();
  for (const { call, from, end } of operations) {
    if ((call.kind !== 'read' && call.kind !== 'cancel') || end?.type !== 'ok' || !end.job) continue;
    const list = reads.get(call.id) ?? [];
    list.push({ from, at: end.at, job: end.job });
    reads.set(call.id, list);
  }
  for (const list of reads.values()) list.sort((a, b) => a.at - b.at);
  return reads;
}

export function textOf(prompt: string, tokens: number): string {
  return chatText([{ role: 'user', content: prompt }], tokens, MODEL);
}

export function cut(text: string | null): string {
  return text === null ? '' : text.length > 60 ? `${text.slice(0, 60)}… (${text.length})` : text;
}

export function ms(at: number): string {
  return `${(at / 1000).toFixed(1)} s`;
}
