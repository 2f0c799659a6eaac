import type { EngineGauges } from '../../engine/client/types.ts';
import { devicesIn, nvidiaSmi } from '../../engine/machine/gpus.ts';
import { withTimeout } from '../../process/clock.ts';
import type { GpuReading } from '../../protocol/index.ts';
import type { Clock } from '../clock.ts';
import type { Ports } from '../ports.ts';

const MIB = 1024 ** 2;

/** Returns the reading that a cell of nvidia-smi becomes. */
type Read = (cell: string) => Partial<GpuReading>;

/**
 * nvidia-smi's columns in the requested order, each with the reading that it becomes. The name is last, since it may
 * hold a comma.
 */
const COLUMNS: [string, Read][] = [
  ['memory.used', number((value) => ({ memory_used_bytes: Math.round(value * MIB) }))],
  ['memory.total', number((value) => ({ memory_total_bytes: Math.round(value * MIB) }))],
  ['utilization.gpu', number((value) => ({ utilization: Math.min(1, value / 100) }))],
  ['temperature.gpu', number((value) => ({ temperature_celsius: value }))],
  ['power.draw', number((value) => ({ power_watts: value }))],
  ['name', text((value) => ({ name: value.slice(0, 256) }))],
];
const QUERY = `--query-gpu=${COLUMNS.map(([column]) => column).join()}`;

/** Reads a cell that holds a number. */
function number(reading: (value: number) => Partial<GpuReading>): Read {
  return (cell) => (cell !== '' && Number.isFinite(Number(cell)) ? reading(Number(cell)) : {});
}

/** Reads a cell that holds a text: nvidia-smi writes `[N/A]` and the like in place of one that it does not know. */
function text(reading: (value: string) => Partial<GpuReading>): Read {
  return (cell) => (cell === '' || cell.startsWith('[') ? {} : reading(cell));
}

const NVIDIA_SMI_LIMIT_MS = 5000;
/**
 * A reading is used for this long, ms: nvidia-smi takes up to a second of processor time on a machine with many GPUs.
 */
const KEPT_MS = 2000;

/**
 * Returns a reader of every GPU that CUDA_VISIBLE_DEVICES leaves visible. Once nvidia-smi is found to be missing, the
 * reader does not try it again. Calls soon after one another share one reading. The reader never rejects, and leaves
 * out what it cannot learn.
 */
export function gpuCollector(env: NodeJS.ProcessEnv, clock: Clock): () => Promise<GpuReading[]> {
  const which = whichGpus(env);
  let isAbsent = which === null;
  let newest: { atMs: number; reading: Promise<GpuReading[]> } | null = null;
  const read = async () => {
    const args = [QUERY, '--format=csv,noheader,nounits', ...(which ?? [])];
    const answer = await nvidiaSmi({ args, env, limitMs: NVIDIA_SMI_LIMIT_MS });
    isAbsent = answer.case === 'absent';
    return answer.case === 'answered' ? readGpus(answer.output) : [];
  };
  return async () => {
    if (isAbsent) return [];
    if (!newest || clock.now() - newest.atMs >= KEPT_MS) newest = { atMs: clock.now(), reading: read() };
    return await newest.reading;
  };
}

/** Reads a line for each GPU; values such as `[N/A]` are left out, as are warnings between the lines. */
export function readGpus(csv: string): GpuReading[] {
  return csv.split('\n').flatMap((line) => {
    const cells = line.split(',').map((cell) => cell.trim());
    if (cells.length < COLUMNS.length) return [];
    const last = cells.splice(COLUMNS.length - 1).join(', ');
    const readings = COLUMNS.map(([, read], at) => read(cells[at] ?? last));
    return [Object.assign({}, ...readings) as GpuReading];
  });
}

/**
 * Returns arguments that name the visible GPUs, since nvidia-smi itself sees every GPU of the machine. Returns null if
 * there is none, or only slices, for which nvidia-smi cannot be asked.
 */
function whichGpus({ CUDA_VISIBLE_DEVICES: visible }: NodeJS.ProcessEnv): string[] | null {
  if (visible === undefined) return [];
  const devices = devicesIn(visible);
  const isWhole = devices.length > 0 && !devices.some((device) => device.startsWith('MIG-'));
  return isWhole ? [`--id=${devices.join()}`] : null;
}

/** A report that is due waits this long for readings, ms. */
const WITHIN_MS = 500;

/** The readings that the worker has to ask others for. */
export interface Readings {
  /** The engine's gauges; null: the engine is not up, or does not report them. */
  gauges: EngineGauges | null;
  gpus: GpuReading[];
  engineVersion: string | null;
}

export interface CollectorPorts extends Pick<Ports, 'clock' | 'engine' | 'gpus'> {
  /** Tells whether the engine is up: an engine that is starting is asked for nothing. */
  isEngineUp(): boolean;
}

/**
 * Asks engine and driver for readings. Never rejects, and never waits for a late reading, which goes into the next
 * readings.
 */
export class Collector {
  readonly #ports: CollectorPorts;
  #newest: Readings = { gauges: null, gpus: [], engineVersion: null };

  constructor(ports: CollectorPorts) {
    this.#ports = ports;
  }

  /** The newest readings, without asking again. */
  get newest(): Readings {
    return this.#newest;
  }

  /** Forgets the readings of the engine, since another engine runs from now on. */
  forgetEngine(): void {
    this.#newest = { ...this.#newest, gauges: null, engineVersion: null };
  }

  async take(): Promise<Readings> {
    const { clock } = this.#ports;
    await withTimeout(clock, WITHIN_MS, () => this.#ask()).catch(() => {});
    return this.#newest;
  }

  async #ask(): Promise<void> {
    const { engine, gpus, isEngineUp } = this.#ports;
    const isUp = isEngineUp();
    await Promise.all([
      gpus().then((read) => this.#note({ gpus: read })),
      isUp
        ? engine.gauges().then(
            (gauges) => this.#note({ gauges }),
            () => this.#note({ gauges: null }),
          )
        : this.#note({ gauges: null }),
      isUp && this.#newest.engineVersion === null
        ? engine.version().then((engineVersion) => this.#note({ engineVersion }))
        : undefined,
    ]);
  }

  #note(part: Partial<Readings>): void {
    this.#newest = { ...this.#newest, ...part };
  }
}
