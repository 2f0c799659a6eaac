import { nvidiaSmi } from './nvidia-smi.ts';

const COUNT_LIMIT_MS = 10_000;

/** How many GPUs an engine started from here would see; 0 where there is no way to tell. */
export async function visibleGpus(env: NodeJS.ProcessEnv, signal?: AbortSignal): Promise<number> {
  if (env.CUDA_VISIBLE_DEVICES !== undefined) return devicesIn(env.CUDA_VISIBLE_DEVICES).length;
  const answer = await nvidiaSmi({ args: ['-L'], env, limitMs: COUNT_LIMIT_MS, ...(signal && { signal }) });
  if (answer.case !== 'answered') return 0;
  return answer.output.split('\n').filter((line) => /^GPU \d+:/.test(line)).length;
}

/**
 * The entries of a CUDA_VISIBLE_DEVICES: numbers, `GPU-…`, or `MIG-…`. CUDA reads the list up to the first
 * entry that is no device, such as `-1`.
 */
export function devicesIn(list: string): string[] {
  const entries = list.split(',').map((entry) => entry.trim());
  const end = entries.findIndex((entry) => !/^(?:\d+|(?:GPU|MIG)-.+)$/.test(entry));
  return end < 0 ? entries : entries.slice(0, end);
}
