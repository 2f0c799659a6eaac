/** The streams of one home that a worker sends through a port, for the time when that home is not linked to it. */
export class StreamsOfHome {
  /** The streams of which records were passed on. */
  readonly #passed = new Set<number>();
  /** The streams that were first seen while the home was away, and the times then, ms. */
  readonly #missed = new Map<number, number>();

  get size(): number {
    return this.#passed.size + this.#missed.size;
  }

  /** Notes a record that was passed on. */
  passed(stream: number, isLast: boolean): void {
    if (isLast) this.#passed.delete(stream);
    else this.#passed.add(stream);
  }

  /** Notes a record that could not be passed on. @param now ms */
  missed(stream: number, now: number): void {
    if (!this.#passed.has(stream) && !this.#missed.has(stream)) this.#missed.set(stream, now);
  }

  /** Notes that the home wants no more of a stream. */
  cancelled(stream: number): void {
    this.#passed.delete(stream);
  }

  /** Forgets the streams of which records were passed on, and returns them. */
  takePassed(): number[] {
    const streams = [...this.#passed];
    this.#passed.clear();
    return streams;
  }

  /** Forgets the streams that were missed before a time, and returns them. */
  takeMissed(before: number): number[] {
    const streams = [...this.#missed].filter(([, at]) => at <= before).map(([stream]) => stream);
    for (const stream of streams) this.#missed.delete(stream);
    return streams;
  }
}
