import type { WorkerState } from '../protocol/fleet-view.ts';
import type { GpuReading } from '../protocol/telemetry.ts';

/**
 * The rank of a worker's state by how much it needs somebody, the most urgent first. Working states share one rank,
 * whether or not jobs are running: rows change places only when something is wrong.
 */
export const TROUBLE: Record<WorkerState, number> = {
  error: 0,
  lost: 1,
  late: 2,
  paused: 3,
  starting: 4,
  loading: 4,
  draining: 5,
  running: 6,
  ready: 6,
  stopped: 7,
};

/** The GPUs of a machine as one: memory and power summed, mean utilization, and the highest temperature. */
interface GpuTotals {
  /** The GPUs' name and number, such as `H100 ×2`; null: none is known. */
  name: string | null;
  memoryUsed: number | null;
  memoryTotal: number | null;
  utilization: number | null;
  temperature: number | null;
  power: number | null;
}

/** The readings that are numbers. */
type NumberReading = {
  [Key in keyof GpuReading]-?: number extends GpuReading[Key] ? Key : never;
}[keyof GpuReading];

export function gpuTotals(gpus: readonly GpuReading[]): GpuTotals {
  const known = (key: NumberReading) => gpus.flatMap((gpu) => gpu[key] ?? []);
  const sum = (values: number[]) => (values.length > 0 ? values.reduce((a, b) => a + b) : null);
  const utilization = known('utilization');
  const temperature = known('temperature_celsius');
  return {
    name: nameOf(gpus),
    memoryUsed: sum(known('memory_used_bytes')),
    memoryTotal: sum(known('memory_total_bytes')),
    utilization: utilization.length > 0 ? sum(utilization)! / utilization.length : null,
    temperature: temperature.length > 0 ? Math.max(...temperature) : null,
    power: sum(known('power_watts')),
  };
}

function nameOf(gpus: readonly GpuReading[]): string | null {
  const name = gpus.find((gpu) => gpu.name)?.name;
  if (name === undefined) return null;
  return gpus.length > 1 ? `${shortGpuName(name)} ×${gpus.length}` : shortGpuName(name);
}

/** Returns the name that people use: H100 for `NVIDIA H100 80GB HBM3`. */
export function shortGpuName(name: string): string {
  const own = name
    .replace(/^(?:NVIDIA|AMD|Intel(?:\(R\))?)\s+/i, '')
    .replace(/^(?:GeForce|Tesla|Instinct)\s+/i, '');
  return own.replace(/[\s-](?:SXM\d?|PCIe?|NVL|HBM\d?e?|\d+\s?GB)\b.*$/i, '') || name;
}
