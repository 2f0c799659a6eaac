import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import type { AnswerBody, TakePiece } from './types.ts';

/**
 * The engine is paused when more than this many bytes of an answer are held for a reader that is not ready for them.
 */
const HELD_BYTES = 64 * 1024;

/** The first line and the headers of an answer. */
export interface ExchangeHead {
  status: number;
  headers: IncomingHttpHeaders;
}

/**
 * One request to the engine, as undici's handler. The body goes to its reader as it is parsed, without a stream or a
 * promise in between; a reader that returns a promise pauses the socket until the promise resolves.
 *
 * - `asked`     → `answering` (the head came), `over`
 * - `answering` → `over` (complete, cut, aborted, or left by the reader)
 */
export class Exchange implements Dispatcher.DispatchHandler, AnswerBody {
  readonly #head = Promise.withResolvers<ExchangeHead>();
  readonly #signal: AbortSignal;
  readonly #explain: (error: Error) => Error;
  readonly #onAbort = () => this.#leave(abortError());
  #state: 'asked' | 'answering' | 'over' = 'asked';
  /** The error that ended the exchange; null: it is not over, or the answer is complete. */
  #problem: Error | null = null;
  #controller: Dispatcher.DispatchController | null = null;
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  #take: TakePiece | null = null;
  /** Whether the reader has asked for time. */
  #isWaiting = false;
  #read: PromiseWithResolvers<void> | null = null;

  /** @param explain turns the reason why the body broke off into an error for the reader */
  constructor(signal: AbortSignal, explain: (error: Error) => Error) {
    this.#signal = signal;
    this.#explain = explain;
    signal.addEventListener('abort', this.#onAbort);
  }

  /**
   * The head of the answer. Rejects with undici's error when the connection cannot be made or breaks, and with an
   * AbortError when the signal fired.
   */
  get head(): Promise<ExchangeHead> {
    return this.#head.promise;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#state === 'over') controller.abort(this.#problem ?? abortError());
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    // Other heads follow this informational one.
    if (status >= 100 && status < 200) return;
    if (this.#state !== 'asked') return;
    this.#state = 'answering';
    this.#head.resolve({ status, headers });
  }

  onResponseData(controller: Dispatcher.DispatchController, piece: Uint8Array): void {
    // A parser that resumes after a pause begins with an empty piece, and a pause for that would never end.
    if (this.#state === 'over' || piece.byteLength === 0) return;
    if (this.#take && !this.#isWaiting && this.#held.length === 0) return this.#give(piece);
    this.#held.push(piece);
    this.#heldBytes += piece.byteLength;
    if (this.#heldBytes > HELD_BYTES) controller.pause();
  }

  onResponseEnd(): void {
    this.#end(null);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#state === 'asked') this.#head.reject(error);
    this.#end(this.#explain(error));
  }

  eachPiece(take: TakePiece): Promise<void> {
    this.#read = Promise.withResolvers<void>();
    this.#take = take;
    this.#drain();
    return this.#read.promise;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    const pieces: Uint8Array[] = [];
    let more = Promise.withResolvers<void>();
    let taken = Promise.withResolvers<undefined>();
    const whole = this.eachPiece((piece) => {
      pieces.push(piece);
      more.resolve();
      return taken.promise;
    }).finally(() => more.resolve());
    whole.catch(() => {});
    try {
      for (;;) {
        await more.promise;
        const piece = pieces.shift();
        if (!piece) return await whole;
        more = Promise.withResolvers<void>();
        yield piece;
        taken.resolve(undefined);
        taken = Promise.withResolvers<undefined>();
      }
    } finally {
      this.leave();
    }
  }

  /** Closes the socket to the engine, unless the answer is complete. */
  leave(): void {
    this.#leave(null);
  }

  /** Stops reading. @param problem the reader's error; null: the reader left by itself */
  #leave(problem: Error | null): void {
    const wasOver = this.#state === 'over';
    this.#held = [];
    if (this.#state === 'asked') this.#head.reject(problem ?? abortError());
    this.#end(problem);
    if (problem) this.#read?.reject(problem);
    else this.#read?.resolve();
    if (!wasOver) this.#controller?.abort(problem ?? abortError());
  }

  #end(problem: Error | null): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    this.#problem = problem;
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#drain();
  }

  /** Gives the held pieces to the reader until it asks for time, and then the end. */
  #drain(): void {
    if (!this.#take) return;
    while (this.#held.length > 0 && !this.#isWaiting) {
      const piece = this.#held.shift()!;
      this.#heldBytes -= piece.byteLength;
      this.#give(piece);
    }
    if (this.#isWaiting || this.#held.length > 0) return;
    if (this.#state !== 'over') this.#controller?.resume();
    else if (this.#problem) this.#read?.reject(this.#problem);
    else this.#read?.resolve();
  }

  #give(piece: Uint8Array): void {
    try {
      const answer = this.#take!(piece);
      if (answer === false) this.leave();
      else if (answer) this.#wait(answer);
    } catch (error) {
      this.#leave(error as Error);
    }
  }

  /** Pauses the engine while the reader asks for time. */
  #wait(reader: Promise<false | undefined>): void {
    this.#isWaiting = true;
    this.#controller?.pause();
    reader.then(
      (answer) => {
        this.#isWaiting = false;
        if (answer === false) this.leave();
        else this.#drain();
      },
      (error: Error) => this.#leave(error),
    );
  }
}

export function abortError(): DOMException {
  return new DOMException('the request to the engine was aborted', 'AbortError');
}
