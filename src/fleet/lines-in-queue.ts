import type { BacklogFacts } from '../scheduler/facts.ts';

/** The queue's newest report is never older than this, ms. */
const REPORTED_WITHIN_MS = 15_000;

/**
 * Remembers how many lines of batches the queue had of late, by pool. The batches object learns that a line has ended
 * before the fleet object learns how much still waits: by the newest count alone, lines that have ended since the
 * queue's report would count as jobs that wait for a worker.
 */
export class LinesInQueue {
  #told: { at: number; lines: ReadonlyMap<string, number> }[] = [];

  /**
   * Notes the newest counts. @param now epoch ms @returns `told` with the highest count of lines in the queue of late,
   * for each pool
   */
  most(told: ReadonlyMap<string, BacklogFacts>, now: number): ReadonlyMap<string, BacklogFacts> {
    const lines = new Map([...told].map(([id, { in_queue }]) => [id, in_queue]));
    // After the clock was set back, no older count is known to be recent.
    const recent = this.#told.filter(({ at }) => at > now - REPORTED_WITHIN_MS && at <= now);
    this.#told = [...recent, { at: now, lines }];
    const pools = new Set(this.#told.flatMap(({ lines }) => [...lines.keys()]));
    const most = (id: string) => Math.max(...this.#told.map(({ lines }) => lines.get(id) ?? 0));
    return new Map(
      [...pools].map((id) => [id, { batches: told.get(id)?.batches ?? [], in_queue: most(id) }]),
    );
  }
}
