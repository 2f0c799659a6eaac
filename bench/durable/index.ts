import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { DurablePlan } from './plan.ts';

/** A program beside this file: the queue's, or one of those that it is compared with. */
export type Side = 'ours' | 'bullmq' | 'jetstream';

/** Runs one side in a process of its own. @returns jobs a second */
export async function runDurable(side: Side, plan: DurablePlan): Promise<number> {
  const file = fileURLToPath(new URL(`./${side}.ts`, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [file, JSON.stringify(plan)], {
    timeout: 180_000,
  });
  return (JSON.parse(stdout) as { jobsPerSecond: number }).jobsPerSecond;
}
