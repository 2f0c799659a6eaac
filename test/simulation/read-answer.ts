import type { Exchange } from './engine.ts';
import type { Surroundings } from './worker-boot.ts';

/** What somebody has read of one answer, every byte of it held against what the engine said. */
export class ReadAnswer {
  readonly #around: Surroundings;
  readonly #jobId: string;
  readonly #isCounted: boolean;
  #exchange: Exchange | null = null;
  #bytes = 0;

  /** Of the attempt that was read; null: nothing came. */
  get fence(): number | null {
    return this.#exchange?.fence ?? null;
  }

  /** @param isCounted it asked for the usage */
  constructor(around: Surroundings, jobId: string, isCounted = false) {
    this.#around = around;
    this.#jobId = jobId;
    this.#isCounted = isCounted;
  }

  /** All that there is to be read. */
  #wanted({ bytes, counted }: Exchange): Buffer {
    return this.#isCounted && counted !== null ? counted : bytes;
  }

  take(piece: Uint8Array): void {
    const { oracle } = this.#around;
    const text = Buffer.from(piece).toString();
    this.#exchange ??= oracle.exchangeOf(text);
    const exchange = this.#exchange;
    if (!exchange) {
      this.#wrong(`began with ${text.slice(0, 80)}`);
      return;
    }
    if (exchange.jobId !== this.#jobId) this.#wrong(`has the answer of ${exchange.jobId}`);
    const expected = this.#wanted(exchange).subarray(this.#bytes, this.#bytes + piece.byteLength);
    this.#bytes += piece.byteLength;
    // The rest of one that may be moved comes from another engine.
    const isSaid = exchange.counted !== null || this.#bytes <= exchange.emitted;
    if (!isSaid || !expected.equals(piece)) {
      this.#wrong(
        `is not what exchange ${exchange.id} said before byte ${this.#bytes}: ${text.slice(0, 80)}`,
      );
    }
  }

  ended(): void {
    const exchange = this.#exchange;
    const size = exchange ? this.#wanted(exchange).byteLength : 0;
    const isWhole = exchange?.state === 'whole' || (exchange !== null && exchange.counted !== null);
    if (!isWhole || this.#bytes !== size) {
      const said = exchange ? `${size} bytes, ${exchange.state}, ${exchange.ending}` : 'nothing';
      this.#wrong(`ended as if whole after ${this.#bytes} bytes; the engine said ${said}`);
    }
  }

  #wrong(what: string): void {
    this.#around.oracle.violated('an answer is one attempt, whole and in order', `${this.#jobId} ${what}`);
  }
}
