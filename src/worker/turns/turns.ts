import { connect } from 'node:net';
import { createInterface } from 'node:readline';

/** A worker's word to the `swap` command: the worker waits for a turn at the GPU, or its engine is asleep again. */
export type TurnRequest = 'want' | 'asleep';

/** The `swap` command's word to a worker: its turn has come, or another worker waits for a turn. */
export type TurnWord = 'wake' | 'wanted';

export interface TurnsPorts {
  tell(name: string, word: TurnWord): void;
}

/**
 * Decides which engine has the turn at a GPU that several engines share: one engine is awake at a time, and the others
 * wait in the order in which they asked. The engine that is awake is told that another one waits, and decides itself
 * when to yield.
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

  /** True while another engine waits for its turn. */
  get isWanted(): boolean {
    return this.#line.length > 0;
  }

  want(name: string): void {
    if (name === this.#holder || this.#line.includes(name)) return;
    this.#line.push(name);
    if (this.#holder === null) this.#next();
    else this.#ports.tell(this.#holder, 'wanted');
  }

  /** Passes the turn on after the engine that had it has yielded. */
  asleep(name: string): void {
    if (name !== this.#holder) return;
    this.#holder = null;
    this.#next();
  }

  /** Removes an engine whose process has ended, or is not to be started again, and passes its turn on if it has it. */
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

/**
 * Connects to the `swap` command, which gives the turns, by a socket of this machine: one word a line, after a line
 * with the worker's name. `events.gone` is called when the connection has ended.
 */
export function connectTurns(
  path: string,
  name: string,
  events: { word(word: TurnWord): void; gone(): void },
): { tell(word: TurnRequest): void; close(): void } {
  const socket = connect(path);
  let isClosed = false;
  socket.on('error', () => {}).once('close', () => isClosed || events.gone());
  createInterface({ input: socket }).on('line', (line) => events.word(line as TurnWord));
  socket.write(`${name}\n`);
  return {
    tell: (word) => void socket.write(`${word}\n`),
    close: () => {
      isClosed = true;
      socket.destroy();
    },
  };
}
