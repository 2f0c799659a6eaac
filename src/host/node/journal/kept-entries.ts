import type { Log } from '../../../durable/host.ts';
import { type Entry, type Journal, Taken } from './journal.ts';

/**
 * Entries are kept in memory for this many ms and up to this many bytes: a server that fails over to a standby may
 * have lost the last ones, although it had acknowledged them.
 */
const KEPT_MS = 60_000;
const KEPT_BYTES = 64 * 2 ** 20;

/** The newest entries of a journal, with which a server gets back what it has lost. */
export class KeptEntries {
  readonly #kept: { entry: Entry; at: number }[] = [];
  #bytes = 0;

  /** @param now the time of a clock that never goes back, ms */
  add(entry: Entry, now: number): void {
    this.#kept.push({ entry, at: now });
    this.#bytes += entry.body.length;
    while (this.#kept.length > 1 && (this.#bytes > KEPT_BYTES || this.#kept[0]!.at < now - KEPT_MS))
      this.#bytes -= this.#kept.shift()!.entry.body.length;
  }

  /** Returns all entries above a number and up to another one, or null if some of them are not kept any more. */
  between(after: number, upTo: number): Entry[] | null {
    const entries = this.#kept.map(({ entry }) => entry).filter(({ seq }) => seq > after && seq <= upTo);
    return entries.length === upTo - after ? entries : null;
  }
}

/** Returns whether an entry that was found in the journal is this one. */
export function isSame(found: Entry, { seq, epoch, body }: Entry): boolean {
  return found.seq === seq && found.epoch === epoch && Buffer.from(body).equals(found.body);
}

/** Appends entries again that a server has lost, until another process has appended one of their numbers. */
export async function appendAgain(journal: Journal, entries: readonly Entry[], log: Log): Promise<void> {
  log('warn', 'the journal had lost entries that it had acknowledged: they are appended again', {
    from: entries[0]?.seq,
    to: entries.at(-1)?.seq,
  });
  for (const entry of entries) {
    try {
      await journal.append(entry);
    } catch (error) {
      if (!(error instanceof Taken)) throw error;
      // Another follower may append the same ones. The caller's next append finds out whose entry is there else.
      const [found] = await journal.read(entry.seq - 1, 1);
      if (!found || !isSame(found, entry)) return;
    }
  }
}
