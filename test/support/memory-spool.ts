import type { JobRef } from '../../src/protocol/index.ts';
import type { Spool, SpooledSettlement } from '../../src/worker/jobs/settlement.ts';

/**
 * A worker's spool folder in memory; it outlives the worker processes that use it. What is not synced yet is
 * lost at a crash, as on a disk.
 */
export class MemorySpool implements Spool {
  readonly #sync: () => Promise<void>;
  /** JSON by job and fence: what is kept is a copy. */
  readonly #synced = new Map<string, string>();
  readonly #unsynced = new Map<string, string>();
  /** Set: every write fails for this reason. */
  problem: string | null = null;
  /** Number of the process that uses it: what an earlier one had under way ends with it. */
  #process = 0;

  /** @param sync resolves when a write has reached the disk */
  constructor(sync: () => Promise<void> = () => Promise.resolve()) {
    this.#sync = sync;
  }

  /** Settlements a new process would find. */
  get size(): number {
    return this.#synced.size;
  }

  get bytes(): number {
    return [...this.#synced.values()].reduce((total, text) => total + text.length, 0);
  }

  async put(spooled: SpooledSettlement): Promise<void> {
    if (this.problem) throw new Error(this.problem);
    const process = this.#process;
    const name = nameOf(spooled.settlement);
    const text = JSON.stringify(spooled);
    this.#unsynced.set(name, text);
    await this.#sync();
    if (process !== this.#process) return await new Promise<never>(() => {});
    // Removed while it was written.
    if (this.#unsynced.get(name) !== text) return;
    this.#unsynced.delete(name);
    if (this.problem) throw new Error(this.problem);
    this.#synced.set(name, text);
  }

  async remove(ref: JobRef): Promise<void> {
    this.#unsynced.delete(nameOf(ref));
    this.#synced.delete(nameOf(ref));
  }

  async *load(): AsyncIterable<SpooledSettlement> {
    if (this.problem) throw new Error(this.problem);
    yield* [...this.#synced.values()]
      .map((text) => JSON.parse(text) as SpooledSettlement)
      .sort((a, b) => a.settlement.fence_token - b.settlement.fence_token);
  }

  /** The process, or its machine, ends now. */
  crash(): void {
    this.#process += 1;
    this.#unsynced.clear();
  }
}

function nameOf({ fence_token, job_id }: JobRef): string {
  return `${fence_token} ${job_id}`;
}
