import type { Random } from './random.ts';
import type { VirtualClock } from './virtual-clock.ts';

/** What one end of a wire is told. */
export interface End {
  message(message: string | Uint8Array<ArrayBuffer>): void;
  closed(code: number): void;
}

/** The time and the chance by which wires delay. */
interface Air {
  clock: VirtualClock;
  random: Random;
}

/** A connection of two ends. What one sends reaches the other in order, later. */
export class Wire {
  readonly #world: Air;
  readonly #ends: [End | null, End | null] = [null, null];
  readonly #freeAt = [0, 0];
  isOver = false;
  /** The bytes on their way. */
  bytes = 0;
  mostBytes = 0;

  constructor(world: Air) {
    this.#world = world;
  }

  take(side: 0 | 1, end: End): void {
    this.#ends[side] = end;
  }

  send(to: 0 | 1, message: string | Uint8Array): void {
    const sent = typeof message === 'string' ? message : new Uint8Array(message);
    const size = sent.length;
    this.bytes += size;
    this.mostBytes = Math.max(this.mostBytes, this.bytes);
    this.#later(to, () => {
      this.bytes -= size;
      if (!this.isOver) this.#ends[to]?.message(sent);
    });
  }

  /** Closes the connection behind what was sent. */
  close(to: 0 | 1, code: number): void {
    this.#later(to, () => {
      if (this.#over()) for (const end of this.#ends) end?.closed(code);
    });
  }

  /** Loses what is on its way; each end notices at a time of its own. */
  break(): void {
    if (!this.#over()) return;
    const { clock, random } = this.#world;
    for (const end of this.#ends) clock.setTimeout(() => end?.closed(1006), random.below(1000));
  }

  #over(): boolean {
    if (this.isOver) return false;
    this.isOver = true;
    return true;
  }

  #later(to: 0 | 1, run: () => void): void {
    const { clock, random } = this.#world;
    const at = Math.max(this.#freeAt[to]!, clock.now() + random.wait(3, 60));
    this.#freeAt[to] = at;
    clock.setTimeout(run, at - clock.now());
  }
}
