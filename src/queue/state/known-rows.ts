import type { StoredJob } from '../store/jobs-table.ts';

/** The oldest beyond so many are read from the table again. */
const MOST_ROWS = 1000;
/** A longer text is read from its row when it is sent. */
const MOST_CHARACTERS = 4096;

const NO_ERRORS = '[]';

interface Known {
  row: StoredJob;
  /** The payload before a lease, the result after success, as it lies in the row; null: not known. */
  text: string | null;
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
    this.#keep(row, payload);
  }

  /** A row that was leased now. */
  leased(row: StoredJob): void {
    this.#keep(row, this.#rows.get(row.id)?.text ?? null);
  }

  /** A row that was settled now; one that was not known stays so. @param result as it lies in the row, if it is read soon */
  settled(row: StoredJob, result: string | null): void {
    if (this.#rows.has(row.id)) this.#keep(row, result);
  }

  find(id: string): StoredJob | null {
    return this.#rows.get(id)?.row ?? null;
  }

  /** The payload of a job that is sent now, or the result of one that is told: once. @returns null: it is not known */
  takeText(id: string): string | null {
    const known = this.#rows.get(id);
    if (known === undefined) return null;
    const { text } = known;
    known.text = null;
    return text;
  }

  forget(id: string): void {
    this.#rows.delete(id);
  }

  forgetAll(): void {
    this.#rows.clear();
  }

  #keep(row: StoredJob, text: string | null): void {
    // One with a failed attempt is off that way, and what is told of the attempts may be long.
    if (row.attempt_errors !== NO_ERRORS) return this.forget(row.id);
    this.#rows.set(row.id, { row, text: text !== null && text.length <= MOST_CHARACTERS ? text : null });
    if (this.#rows.size <= MOST_ROWS) return;
    const [oldest] = this.#rows.keys();
    this.#rows.delete(oldest!);
  }
}
