import type { StoredJob } from '../store/jobs-table.ts';

/** The oldest beyond so many are read from the table again. */
const MOST_ROWS = 1000;
/** A longer payload is read from its row when it is sent. */
const MOST_PAYLOAD_CHARACTERS = 4096;

interface Known {
  row: StoredJob;
  /** As it lies in the row; undefined: that is not known. */
  payload: string | null | undefined;
}

/**
 * Rows of stored jobs that this object wrote a moment ago, so that they are not read back: reading one takes longer than
 * writing it. A row is known from its insertion over its lease to its success, the way that nearly all jobs go. Whatever
 * else changes a row makes it unknown, so that nothing but that way is told twice, here and in the tables.
 */
export class KnownRows {
  readonly #rows = new Map<string, Known>();

  /** A row that was inserted now. @param payload as it lies in the row */
  inserted(row: StoredJob, payload: string | null): void {
    const isShort = payload === null || payload.length <= MOST_PAYLOAD_CHARACTERS;
    this.#keep({ row, payload: isShort ? payload : undefined });
  }

  /** A row that was leased now. */
  leased(row: StoredJob): void {
    this.#keep({ row, payload: this.#rows.get(row.id)?.payload });
  }

  /** A row that was settled now; one that was not known stays so. */
  settled(row: StoredJob): void {
    if (this.#rows.has(row.id)) this.#keep({ row, payload: undefined });
  }

  find(id: string): StoredJob | null {
    return this.#rows.get(id)?.row ?? null;
  }

  /** Once, since it is sent once. @returns undefined: it is not known */
  takePayload(id: string): string | null | undefined {
    const known = this.#rows.get(id);
    const payload = known?.payload;
    if (known) known.payload = undefined;
    return payload;
  }

  forget(id: string): void {
    this.#rows.delete(id);
  }

  forgetAll(): void {
    this.#rows.clear();
  }

  #keep(known: Known): void {
    this.#rows.set(known.row.id, known);
    if (this.#rows.size <= MOST_ROWS) return;
    const [oldest] = this.#rows.keys();
    this.#rows.delete(oldest!);
  }
}
