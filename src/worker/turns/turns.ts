/** What a worker tells the `swap` command: it waits for a turn at the GPU, or its engine sleeps again. */
export type TurnRequest = 'want' | 'asleep';

/** What it is told: its turn has come, or another one waits for its turn. */
export type TurnWord = 'wake' | 'wanted';

export interface TurnsPorts {
  tell(name: string, word: TurnWord): void;
}

/**
 * Whose turn it is at a GPU that several engines share: one is awake at a time, and the others stand in line in the order
 * in which they asked. The one that is awake is told that another one waits; when it lets go is its own to decide.
 */
export class Turns {
  readonly #ports: TurnsPorts;
  #holder: string | null = null;
  #line: string[] = [];

  constructor(ports: TurnsPorts) {
    this.#ports = ports;
  }

  get holder(): string | null {
    return this.#holder;
  }

  /** Another one waits for its turn. */
  get isWanted(): boolean {
    return this.#line.length > 0;
  }

  want(name: string): void {
    if (name === this.#holder || this.#line.includes(name)) return;
    this.#line.push(name);
    if (this.#holder === null) this.#next();
    else this.#ports.tell(this.#holder, 'wanted');
  }

  /** The one whose turn it was has let go. */
  asleep(name: string): void {
    if (name !== this.#holder) return;
    this.#holder = null;
    this.#next();
  }

  /** Its process has ended, or is not to be started any more: it has no turn, and gives on the one that it has. */
  gone(name: string): void {
    this.#line = this.#line.filter((one) => one !== name);
    this.asleep(name);
  }

  #next(): void {
    const next = this.#line.shift();
    if (next === undefined) return;
    this.#holder = next;
    this.#ports.tell(next, 'wake');
    if (this.#line.length > 0) this.#ports.tell(next, 'wanted');
  }
}
