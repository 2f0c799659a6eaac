import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { DurablePlan } from './plan.ts';

/** Runs one side in a process of its own. @returns jobs a second */
export async function runDurable(side: 'ours' | 'bullmq', plan: DurablePlan): Promise<number> {
  const file = fileURLToPath(new URL(`./${side}.ts`, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [file, JSON.stringify(plan)], {
    timeout: 180_000,
  });
  return (JSON.parse(stdout) as { jobsPerSecond: number }).jobsPerSecond;
}
