import type { LedgerStep } from '../client/index.ts';
import { printable, type Waiting } from '../protocol/index.ts';
import { waitingLine } from './waiting-line.ts';

/** Returns a ledger for people: a line a step, with its time since the first, s. */
export function traceText(jobId: string, steps: readonly LedgerStep[], waiting?: Waiting): string {
  const start = Date.parse(steps[0]?.at ?? '');
  const lines = steps.map((step) => {
    const seconds = ((Date.parse(step.at) - start) / 1000).toFixed(3);
    const where = step.worker_id === null ? '' : `${step.worker_id}, `;
    const attempt = step.attempt === 0 ? '' : `${where}attempt ${step.attempt}, fence ${step.fence_token}`;
    return [
      `+${seconds.padStart(9)} s`,
      step.step.replaceAll('_', ' ').padEnd(18),
      [attempt, step.detail].filter(Boolean).join(': '),
    ].join('  ');
  });
  if (waiting) lines.push(waitingLine(waiting));
  return printable(`Job ${jobId}\n${lines.map((line) => `  ${line.trimEnd()}\n`).join('')}`);
}
