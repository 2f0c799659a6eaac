import type { EngineGauges } from '../../engine/client/types.ts';
import { reasonOf } from '../../process/http.ts';
import { Outage } from '../../process/outage.ts';
import type { GpuReading } from '../../protocol/index.ts';
import type { Timer } from '../clock.ts';
import type { Ports } from '../ports.ts';

/** The base protocol's interval of snapshots, ms. */
const SNAPSHOT_EVERY_MS = 30_000;
/** The number of snapshots that are stored: half an hour, so that a shorter outage of the receiver leaves no gap. */
const MOST_KEPT = 60;

/** The metrics of worker, engine and the first GPU at one moment, as sent to `CASOLA_METRICS_URL`. */
export interface MetricSnapshot {
  /** The time of the snapshot, epoch s, whole. */
  timestamp: number;
  worker_uptime_s: number;
  gpu_memory_used_mb?: number;
  gpu_memory_total_mb?: number;
  gpu_utilization_pct?: number;
  gpu_temperature_c?: number;
  vllm_running_requests?: number;
  vllm_waiting_requests?: number;
  /** The id of one of the running jobs. */
  current_job_id?: string;
}

export interface MetricShipperPorts extends Pick<Ports, 'clock' | 'gpus' | 'log'> {
  /** Sends snapshots; rejects when they were refused or did not arrive. */
  post(snapshots: MetricSnapshot[]): Promise<void>;
  /** Reads the engine's gauges; null: the engine does not report them. */
  gauges(): Promise<EngineGauges | null>;
  currentJobId(): string | undefined;
}

/**
 * Takes and sends a snapshot every 30 s. Refused snapshots are sent with the next one; beyond 60 the oldest are
 * dropped. Never throws.
 */
export class MetricShipper {
  readonly #ports: MetricShipperPorts;
  readonly #startedAt: number;
  #unsent: MetricSnapshot[] = [];
  #timer: Timer = null;
  readonly #outage: Outage;
  #isStopped = false;

  constructor(ports: MetricShipperPorts) {
    this.#ports = ports;
    this.#startedAt = ports.clock.now();
    this.#outage = new Outage(ports.log, {
      begins: 'metrics do not arrive at CASOLA_METRICS_URL; jobs are not affected',
      ends: 'metrics arrive at CASOLA_METRICS_URL again',
    });
  }

  /** Takes the first snapshot at once, then one at each interval, or later if one takes longer. */
  start(): void {
    void this.#run();
  }

  stop(): void {
    this.#isStopped = true;
    this.#ports.clock.clearTimeout(this.#timer);
  }

  async #run(): Promise<void> {
    const { clock } = this.#ports;
    const nextAt = clock.now() + SNAPSHOT_EVERY_MS;
    const snapshot = await this.#take();
    this.#unsent = [...this.#unsent, snapshot].slice(-MOST_KEPT);
    if (!this.#isStopped) await this.#send();
    if (this.#isStopped) return;
    this.#timer = clock.setTimeout(() => this.start(), Math.max(0, nextAt - clock.now()));
  }

  async #take(): Promise<MetricSnapshot> {
    const { clock, gauges, gpus, currentJobId } = this.#ports;
    const [engine, [gpu]] = await Promise.all([gauges().catch(() => null), gpus()]);
    const now = clock.now();
    const jobId = currentJobId();
    return {
      timestamp: Math.floor(now / 1000),
      worker_uptime_s: Math.floor((now - this.#startedAt) / 1000),
      ...(gpu ? gpuFigures(gpu) : {}),
      ...(engine ? { vllm_running_requests: engine.running, vllm_waiting_requests: engine.waiting } : {}),
      ...(jobId === undefined ? {} : { current_job_id: jobId }),
    };
  }

  async #send(): Promise<void> {
    try {
      await this.#ports.post(this.#unsent);
      this.#unsent = [];
      this.#outage.report(null);
    } catch (error) {
      this.#outage.report(reasonOf(error));
    }
  }
}

const MIB = 1024 ** 2;

/** Returns the metrics of a GPU in the base protocol's units. */
function gpuFigures(gpu: GpuReading): Partial<MetricSnapshot> {
  const { memory_used_bytes: used, memory_total_bytes: total, utilization, temperature_celsius } = gpu;
  return {
    ...(used === undefined ? {} : { gpu_memory_used_mb: Math.round(used / MIB) }),
    ...(total === undefined ? {} : { gpu_memory_total_mb: Math.round(total / MIB) }),
    ...(utilization === undefined ? {} : { gpu_utilization_pct: Math.round(utilization * 100) }),
    ...(temperature_celsius === undefined ? {} : { gpu_temperature_c: temperature_celsius }),
  };
}
