import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { LoadPlan, LoadResult } from './plan.ts';

const GENERATOR = fileURLToPath(new URL('./generator.ts', import.meta.url));
/** Figures of some thousand requests. */
const MOST_OUTPUT_BYTES = 64 * 1024 * 1024;
/** No load lasts longer, ms. */
const LIMIT_MS = 180_000;

/** Runs one load in a process of its own. */
export async function runLoad(plan: LoadPlan): Promise<LoadResult> {
  const { stdout } = await promisify(execFile)(process.execPath, [GENERATOR, JSON.stringify(plan)], {
    maxBuffer: MOST_OUTPUT_BYTES,
    timeout: LIMIT_MS,
  });
  return JSON.parse(stdout) as LoadResult;
}
