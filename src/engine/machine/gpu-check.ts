/**
 * This file judges whether a machine's GPUs are fit for an engine, by the output of nvidia-smi, for which gpus.ts asks.
 * The checks and their limits are those of Casola's deployed worker.
 */
import { devicesIn } from './gpus.ts';

/** One GPU; null stands for values that nvidia-smi does not report (`[N/A]`, `[Not Supported]`, ...). */
export interface Gpu {
  index: number;
  uuid: string;
  name: string;
  memoryTotalMib: number | null;
  memoryUsedMib: number | null;
  /** The share of time in which the GPU is busy, 0 to 100. */
  utilisation: number | null;
  /** The ECC errors since the driver was loaded: older ones have been repaired by taking the bad rows out of use. */
  uncorrectedErrors: number | null;
  powerLimitWatts: number | null;
  defaultPowerLimitWatts: number | null;
  /** Whether the driver has given up the GPU until it is reset. */
  needsReset: boolean;
}

export interface ExpectedGpus {
  /** A part of the GPU's expected name, in any case. */
  name?: string | undefined;
  /** The expected memory of each GPU, in GB of 1024 MiB, as vendors count GPU memory. */
  vramGb?: number | undefined;
}

const VRAM_SHARE = 0.9;
const MEMORY_IN_USE_MIB = 500;
const UTILISATION = 10;
const POWER_SHARE = 0.7;

const NUMBERS = [
  ...['memory.total', 'memory.used', 'utilization.gpu', 'ecc.errors.uncorrected.volatile.total'],
  ...['power.limit', 'power.default_limit'],
];

/**
 * The arguments that ask nvidia-smi for the values that `parseGpus` reads. The name is last, since it may hold a comma.
 */
export const GPU_QUERY = [
  `--query-gpu=${['index', 'uuid', ...NUMBERS, 'name'].join()}`,
  '--format=csv,noheader,nounits',
];

/** Reads a line for each GPU; warnings that nvidia-smi prints between the lines are skipped. */
export function parseGpus(output: string): Gpu[] {
  return output.split('\n').flatMap((line) => {
    const fields = line.split(',').map((field) => field.trim());
    const [index = '', uuid = ''] = fields;
    if (!/^\d+$/.test(index) || fields.length < NUMBERS.length + 3) return [];
    const numbers = fields.slice(2, 2 + NUMBERS.length).map(numberIn);
    const [memoryTotalMib, memoryUsedMib, utilisation, uncorrectedErrors] = numbers as (number | null)[];
    return [
      {
        index: Number(index),
        uuid,
        name: fields.slice(2 + NUMBERS.length).join(', '),
        memoryTotalMib: memoryTotalMib ?? null,
        memoryUsedMib: memoryUsedMib ?? null,
        utilisation: utilisation ?? null,
        uncorrectedErrors: uncorrectedErrors ?? null,
        powerLimitWatts: numbers[4] ?? null,
        defaultPowerLimitWatts: numbers[5] ?? null,
        needsReset: fields.some((field) => /^\[?GPU (?:requires reset|is lost)/i.test(field)),
      },
    ];
  });
}

/**
 * Returns why the GPUs cannot be checked, by CUDA_VISIBLE_DEVICES; null: they can. nvidia-smi counts GPUs, not the
 * instances that a GPU was divided into.
 */
export function reasonNotToCheck(visible: string | undefined): string | null {
  if (visible === undefined) return null;
  const devices = devicesIn(visible);
  if (devices.length === 0) return `CUDA_VISIBLE_DEVICES=${JSON.stringify(visible)} shows the engine no GPU`;
  return devices.some((device) => device.startsWith('MIG-')) ? 'the engine gets a MIG instance' : null;
}

/**
 * Returns everything wrong with the GPUs that an engine would see: what was found, what is expected, what to do.
 * @param visible CUDA_VISIBLE_DEVICES. Its numbers are read as nvidia-smi's own; CUDA counts in the same way if all
 * GPUs are of one kind
 */
export function checkGpus(
  gpus: readonly Gpu[],
  visible: string | undefined,
  expected: ExpectedGpus,
): string[] {
  if (gpus.length === 0) return ['nvidia-smi lists no GPU, expected one at least: look at the driver'];
  if (visible === undefined) return gpus.flatMap((gpu) => checkGpu(gpu, expected));
  return devicesIn(visible).flatMap((device) => {
    const gpu = gpus.find(({ index, uuid }) => device === String(index) || uuid.startsWith(device));
    if (gpu) return checkGpu(gpu, expected);
    const there = gpus.map(({ index }) => index).join(', ');
    return [`CUDA_VISIBLE_DEVICES names ${device}, but nvidia-smi lists only ${there}: correct the variable`];
  });
}

function checkGpu(gpu: Gpu, expected: ExpectedGpus): string[] {
  const findings = gpu.needsReset ? ['the driver has given it up: reset it, or reboot the machine'] : [];
  const { memoryTotalMib, memoryUsedMib, utilisation, uncorrectedErrors } = gpu;
  if (expected.name && !gpu.name.toLowerCase().includes(expected.name.toLowerCase())) {
    findings.push(`expected one with CASOLA_EXPECTED_GPU_NAME=${JSON.stringify(expected.name)} in its name`);
  }
  const neededMib = Math.ceil((expected.vramGb ?? 0) * 1024 * VRAM_SHARE);
  if (memoryTotalMib !== null && memoryTotalMib < neededMib) {
    findings.push(
      `${memoryTotalMib} MiB of memory, expected ${neededMib} MiB at least ` +
        `(${VRAM_SHARE * 100} % of CASOLA_EXPECTED_VRAM_GB=${expected.vramGb})`,
    );
  }
  if (memoryUsedMib !== null && memoryUsedMib >= MEMORY_IN_USE_MIB) {
    findings.push(
      `${memoryUsedMib} MiB already in use, expected under ${MEMORY_IN_USE_MIB} MiB: end what uses them`,
    );
  }
  if (utilisation !== null && utilisation >= UTILISATION) {
    findings.push(`${utilisation} % busy, expected under ${UTILISATION} %: end what uses it`);
  }
  if (uncorrectedErrors) {
    findings.push(`uncorrected ECC errors: ${uncorrectedErrors}, expected none: reset or replace it`);
  }
  return [...findings, ...checkPower(gpu)].map((finding) => `GPU ${gpu.index} (${gpu.name}): ${finding}`);
}

function checkPower({ powerLimitWatts, defaultPowerLimitWatts }: Gpu): string[] {
  if (powerLimitWatts === null || defaultPowerLimitWatts === null) return [];
  const neededWatts = POWER_SHARE * defaultPowerLimitWatts;
  if (powerLimitWatts >= neededWatts) return [];
  const share = `${POWER_SHARE * 100} % of its default of ${defaultPowerLimitWatts} W`;
  return [
    `power limit ${powerLimitWatts} W, expected ${share} at least: raise it (nvidia-smi -pl ${Math.round(defaultPowerLimitWatts)})`,
  ];
}

/** Reads a number; nvidia-smi prints one of several texts in brackets for a value that it does not know. */
function numberIn(field: string): number | null {
  const number = Number(field);
  return field === '' || Number.isNaN(number) ? null : number;
}
