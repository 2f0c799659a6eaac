import type { BatchFiles } from '../../src/batches/ports.ts';

/** So short that even a small input is read in several pieces, bytes. */
const READ_BYTES = 400;

/** The objects of files, all in one: what they answered is on disk, and outlives every process. */
export class FileStore implements BatchFiles {
  /** Lines of each file by their keys, in the order in which they came. */
  readonly #files = new Map<string, Map<number, Uint8Array>>();

  put(id: string, bytes: Uint8Array): void {
    this.#files.set(id, new Map([[0, bytes]]));
  }

  /** Null: there is none. */
  text(id: string): string | null {
    const file = this.#files.get(id);
    return file ? Buffer.concat([...file.values()]).toString() : null;
  }

  async size(id: string): Promise<number | null> {
    const file = this.#files.get(id);
    return file ? lengthOf(file) : null;
  }

  async read(id: string, offset: number, length: number): Promise<Uint8Array> {
    const bytes = Buffer.concat([...(this.#files.get(id)?.values() ?? [])]);
    return bytes.subarray(offset, offset + Math.min(length, READ_BYTES));
  }

  async readLines(id: string, lines: { offset: number; length: number }[]): Promise<Uint8Array[]> {
    const bytes = Buffer.concat([...(this.#files.get(id)?.values() ?? [])]);
    return lines.map(({ offset, length }) => bytes.subarray(offset, offset + length));
  }

  async append(id: string, lines: { key: number; bytes: Uint8Array }[]): Promise<number> {
    const file = this.#files.get(id) ?? new Map<number, Uint8Array>();
    this.#files.set(id, file);
    for (const { key, bytes } of lines) if (!file.has(key)) file.set(key, bytes);
    return lengthOf(file);
  }

  async keep(): Promise<void> {}
}

function lengthOf(file: ReadonlyMap<number, Uint8Array>): number {
  return [...file.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
}
