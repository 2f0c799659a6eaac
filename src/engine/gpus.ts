import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const NVIDIA_SMI_LIMIT_MS = 10_000;

/** How many GPUs an engine started from here would see; 0 where there is no way to tell. */
export async function visibleGpus(env: NodeJS.ProcessEnv): Promise<number> {
  if (env.CUDA_VISIBLE_DEVICES !== undefined) return devicesIn(env.CUDA_VISIBLE_DEVICES);
  try {
    const { stdout } = await promisify(execFile)('nvidia-smi', ['-L'], { env, timeout: NVIDIA_SMI_LIMIT_MS });
    return stdout.split('\n').filter((line) => /^GPU \d+:/.test(line)).length;
  } catch {
    return 0;
  }
}

/** CUDA reads the list up to the first entry that is no device, such as `-1`. */
function devicesIn(list: string): number {
  const entries = list.split(',').map((entry) => entry.trim());
  const end = entries.findIndex((entry) => !/^(?:\d+|(?:GPU|MIG)-.+)$/.test(entry));
  return end < 0 ? entries.length : end;
}
