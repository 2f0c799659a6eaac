import { keepMembers } from '../../protocol/index.ts';
import type { Platform, PlatformAnswer, PlatformPost } from './platform.ts';

/** The outcome of a job, as it would be posted. */
export interface LocalOutcome {
  /** The outputs in the order in which they came. */
  stream: unknown[];
  output?: unknown;
  error?: string;
}

const TAKEN: PlatformAnswer = { status: 200, body: undefined, problem: '' };

/** Stands in for the platform on this machine: jobs come from local requests. */
export class LocalPlatform implements Platform {
  readonly stops = null;
  readonly ping = null;
  readonly #queued: { id: string }[] = [];
  readonly #running = new Map<string, { stream: unknown[]; end: (outcome: LocalOutcome) => void }>();
  #wake: (() => void) | null = null;

  /** Queues a job, and resolves to its outcome. @param job as the platform would give it */
  submit(job: { id: string; input: unknown }): Promise<LocalOutcome> {
    return new Promise((end) => {
      this.#running.set(job.id, { stream: [], end });
      this.#queued.push(job);
      this.#wake?.();
    });
  }

  async take(wanted: number, _isBusy: boolean, signal: AbortSignal): Promise<PlatformAnswer> {
    if (this.#queued.length === 0 && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
    return { ...TAKEN, body: this.#queued.splice(0, wanted) };
  }

  async post({ to, jobId, body }: PlatformPost): Promise<PlatformAnswer> {
    const job = this.#running.get(jobId);
    const said = JSON.parse(body) as { output?: unknown; error?: string };
    keepMembers(said, Buffer.from(body), ['output']);
    if (to === 'stream') job?.stream.push(said.output);
    else {
      this.#running.delete(jobId);
      job?.end({ ...said, stream: job.stream });
    }
    return TAKEN;
  }
}
