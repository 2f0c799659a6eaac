import { nvidiaSmi } from './nvidia-smi.ts';

const COUNT_LIMIT_MS = 10_000;

/** The GPUs that an engine started from here would see. */
export interface VisibleGpus {
  /** The number of GPUs; 0 where there is no way to tell. */
  count: number;
  /** Why the count is lower than that of the visible devices, for the log; null: it is not. */
  note: string | null;
}

/**
 * Counts the GPUs that an engine would see. CUDA shows a process one MIG instance, whatever else there is (NVIDIA's MIG
 * User Guide, "CUDA Device Enumeration").
 */
export async function visibleGpus(env: NodeJS.ProcessEnv, signal?: AbortSignal): Promise<VisibleGpus> {
  const named = env.CUDA_VISIBLE_DEVICES === undefined ? null : devicesIn(env.CUDA_VISIBLE_DEVICES);
  if (named?.some((device) => device.startsWith('MIG-'))) return oneInstance(named.length);
  // A single GPU counts as one, whether it is cut into instances or not.
  if (named && named.length < 2) return { count: named.length, note: null };
  const answer = await nvidiaSmi({ args: ['-L'], env, limitMs: COUNT_LIMIT_MS, ...(signal && { signal }) });
  const lines = answer.case === 'answered' ? answer.output.split('\n') : [];
  const instances = lines.filter((line) => /^\s+MIG /.test(line)).length;
  if (instances > 0) return oneInstance(named?.length ?? instances);
  return { count: named?.length ?? lines.filter((line) => /^GPU \d+:/.test(line)).length, note: null };
}

function oneInstance(devices: number): VisibleGpus {
  const note = `CUDA shows a process one MIG instance, of the ${devices} that are visible: the engine runs on one, with a tensor-parallel size of 1`;
  return { count: 1, note: devices > 1 ? note : null };
}

/**
 * Returns the entries of a CUDA_VISIBLE_DEVICES: numbers, `GPU-…`, or `MIG-…`. CUDA reads the list up to the first
 * entry that is no device, such as `-1`.
 */
export function devicesIn(list: string): string[] {
  const entries = list.split(',').map((entry) => entry.trim());
  const end = entries.findIndex((entry) => !/^(?:\d+|(?:GPU|MIG)-.+)$/.test(entry));
  return end < 0 ? entries : entries.slice(0, end);
}
