import { setTimeout as sleep } from 'node:timers/promises';
import { type Child, startProcess } from '../../test/support/processes.ts';
import { CLI, cleanEnvironment } from '../../test/support/road.ts';
import { type Machine, on } from './network.ts';

/** The time after which a process that has ended is started again, ms. */
const RESTART_MS = 500;

/** A process that is started again whenever it ends, as its host would. */
export class Kept {
  readonly name: string;
  readonly #machine: Machine;
  readonly #args: string[];
  readonly #env: Record<string, string>;
  #process: Child | null = null;
  #output = '';
  #isOver = false;

  constructor(name: string, machine: Machine, args: string[], env: Record<string, string>) {
    this.name = name;
    this.#machine = machine;
    this.#args = args;
    this.#env = env;
    void this.#keep();
  }

  kill(signal: NodeJS.Signals): void {
    this.#process?.kill(signal);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#process?.stop();
  }

  output(): string {
    return this.#output + (this.#process?.output() ?? '');
  }

  async #keep(): Promise<void> {
    while (!this.#isOver) {
      const [command = '', ...args] = [...on(this.#machine), process.execPath, CLI, ...this.#args];
      const child = startProcess(command, args, { env: cleanEnvironment(this.#env), name: this.name });
      this.#process = child;
      const { code, signal } = await child.exited;
      this.#process = null;
      this.#output += `${child.output()}--- ended: ${code ?? signal}\n`;
      if (!this.#isOver) await sleep(RESTART_MS);
    }
  }
}
