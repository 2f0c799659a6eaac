import { devicesIn } from '../../engine/machine/gpus.ts';
import { nvidiaSmi } from '../../engine/machine/nvidia-smi.ts';

/** What is known of a GPU at one moment; what nvidia-smi does not tell is left out. */
export interface GpuSnapshot {
  gpu_memory_used_mb?: number;
  gpu_memory_total_mb?: number;
  gpu_utilization_pct?: number;
  gpu_temperature_c?: number;
}

/** nvidia-smi's columns in the order asked for, and what they are called in a snapshot. */
const COLUMNS = [
  ['memory.used', 'gpu_memory_used_mb'],
  ['memory.total', 'gpu_memory_total_mb'],
  ['utilization.gpu', 'gpu_utilization_pct'],
  ['temperature.gpu', 'gpu_temperature_c'],
] as const;

const NVIDIA_SMI_LIMIT_MS = 5000;

/**
 * Asks nvidia-smi for the first GPU of this container at each call, and no more once there is no nvidia-smi.
 * Never rejects: what cannot be learnt is left out.
 */
export function gpuReader(env: NodeJS.ProcessEnv): () => Promise<GpuSnapshot> {
  const query = `--query-gpu=${COLUMNS.map(([column]) => column).join(',')}`;
  const which = whichGpu(env);
  let isAbsent = false;
  return async () => {
    if (isAbsent || !which) return {};
    const args = [query, '--format=csv,noheader,nounits', ...which];
    const answer = await nvidiaSmi({ args, env, limitMs: NVIDIA_SMI_LIMIT_MS });
    isAbsent = answer.case === 'absent';
    return answer.case === 'answered' ? readRow(answer.output) : {};
  };
}

/** The first line of nvidia-smi's answer; a value such as `[N/A]` is left out. */
export function readRow(csv: string): GpuSnapshot {
  const cells = csv.split('\n')[0]!.split(',');
  const known = COLUMNS.flatMap(([, name], at) => {
    const cell = cells[at]?.trim() ?? '';
    return cell !== '' && Number.isFinite(Number(cell)) ? [[name, Number(cell)]] : [];
  });
  return Object.fromEntries(known);
}

/** nvidia-smi itself sees every GPU of the machine. Null: there is none here, or only a slice it cannot be asked for. */
function whichGpu({ CUDA_VISIBLE_DEVICES: visible }: NodeJS.ProcessEnv): string[] | null {
  if (visible === undefined) return [];
  const [first] = devicesIn(visible);
  return first === undefined || first.startsWith('MIG-') ? null : [`--id=${first}`];
}
