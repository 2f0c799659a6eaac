import { setTimeout as sleep } from 'node:timers/promises';
import { startWatchdog } from '../../src/process/child.ts';
import type { Child } from '../support/processes.ts';

/** Time between the end of a process and its next start, ms. */
const RESTART_MS = 300;
/** Output kept of each of the last processes, characters. */
const KEPT_OUTPUT = 2_000_000;

/** Ends what was started here however this process ends. */
const watchdog = startWatchdog();

/** A process that is started again whenever it ends, as a platform does, until it is told to stay down. */
export class Kept {
  readonly name: string;
  readonly #start: () => Child;
  #current: Child | null = null;
  #loop: Promise<void> | null = null;
  #stopping = false;
  #log = '';
  starts = 0;

  constructor(name: string, start: () => Child) {
    this.name = name;
    this.#start = start;
  }

  get current(): Child | null {
    return this.#current;
  }

  /** Everything its processes printed, the oldest dropped. */
  output(): string {
    return this.#log + (this.#current?.output() ?? '');
  }

  run(): void {
    this.#loop ??= this.#run();
  }

  /** Ends it in order and does not start it again. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#current?.stop();
    await this.#loop;
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      const child = this.#start();
      this.#current = child;
      this.starts += 1;
      watchdog.watch(child.pid, 5);
      const exit = await child.exited;
      watchdog.forget(child.pid);
      this.#current = null;
      const end = `--- ended with ${exit.code ?? exit.signal} at ${new Date().toISOString()}\n`;
      this.#log = (this.#log + child.output() + end).slice(-KEPT_OUTPUT);
      if (!this.#stopping) await sleep(RESTART_MS);
    }
  }
}
