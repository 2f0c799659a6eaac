import type { JobRef } from '../../src/protocol/index.ts';
import type { Clock } from '../../src/worker/clock.ts';
import type { Spool, SpooledSettlement } from '../../src/worker/jobs/settlement.ts';
import type { Random } from '../support/random.ts';

/** The disk of a worker's machine: outlives its processes, except for what was not synced when they ended. */
export class WorkerDisk {
  readonly #random: Random;
  readonly #files = new Map<string, string>();
  /** On the way to the disk, or away from it: key → the file, or null where it is being removed. */
  readonly #unsynced = new Map<string, string | null>();
  /** Every write fails. */
  isFull = false;

  constructor(random: Random) {
    this.#random = random;
  }

  get files(): number {
    return this.#files.size;
  }

  /** What a process that starts now must take over: of each job the newest attempt. */
  newest(): string[] {
    const fences = new Map<string, number>();
    for (const key of this.#files.keys()) {
      const [jobId, fence] = key.split('#') as [string, string];
      fences.set(jobId, Math.max(fences.get(jobId) ?? 0, Number(fence)));
    }
    return [...fences].map(([jobId, fence]) => `${jobId}#${fence}`);
  }

  /** The process is gone: of what was under way some happened and some did not. */
  processEnded(): void {
    for (const [key, text] of this.#unsynced) {
      if (this.#random.chance(0.5)) this.#apply(key, text);
    }
    this.#unsynced.clear();
  }

  /** As one process sees it. */
  spool(clock: Clock): Spool {
    const write = (key: string, text: string | null) =>
      new Promise<void>((resolve) => {
        this.#unsynced.set(key, text);
        clock.setTimeout(() => {
          if (this.#unsynced.get(key) === text) {
            this.#unsynced.delete(key);
            this.#apply(key, text);
          }
          resolve();
        }, this.#random.wait(5));
      });
    let last: Promise<void> = Promise.resolve();
    const inOrder = (work: () => Promise<void>) => {
      const done = last.then(work);
      last = done.catch(() => {});
      return done;
    };
    return {
      bytes: 0,
      put: (spooled) =>
        inOrder(() => {
          if (this.isFull) return Promise.reject(new Error('the disk is full'));
          return write(keyOf(spooled.settlement), JSON.stringify(spooled));
        }),
      remove: (ref) => inOrder(() => write(keyOf(ref), null)),
      load: () => this.#load(),
    };
  }

  async *#load(): AsyncGenerator<SpooledSettlement> {
    yield* [...this.#files.values()]
      .map((text) => JSON.parse(text) as SpooledSettlement)
      .sort((a, b) => a.settlement.fence_token - b.settlement.fence_token);
  }

  #apply(key: string, text: string | null): void {
    if (text === null) this.#files.delete(key);
    else this.#files.set(key, text);
  }
}

function keyOf({ job_id, fence_token }: JobRef): string {
  return `${job_id}#${fence_token}`;
}
