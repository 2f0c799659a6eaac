import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { buildClockShim, type ClockShim } from '../../test/support/clock-shim.ts';
import { buildPowerLoss, type PowerLoss } from '../../test/support/power-loss.ts';
import { type Child, startProcess } from '../../test/support/processes.ts';
import { CLI, cleanEnvironment } from '../../test/support/road.ts';
import { addressOf, on } from './network.ts';
import { SmallDisk } from './small-disk.ts';

const QUEUE_PORT = 8788;

export interface Health {
  role: 'owner' | 'follower';
  entry: number;
  behindSeconds: number;
  /** Jobs that wait or run; of the owner. */
  open: number;
}

/** A machine with a process of `worker-vllm queue --journal … --follow`, which is started again and again. */
export class Member {
  readonly machine: 'one' | 'two';
  readonly url: string;
  readonly disk: SmallDisk;
  readonly #clock: ClockShim = buildClockShim();
  readonly #env: Record<string, string>;
  readonly #journal: string;
  #power: PowerLoss | null = null;
  #process: Child | null = null;
  #output = '';

  constructor(machine: 'one' | 'two', folder: string, journal: string, env: Record<string, string>) {
    this.machine = machine;
    this.url = `http://${addressOf(machine)}:${QUEUE_PORT}`;
    this.disk = new SmallDisk(join(folder, machine));
    mkdirSync(this.stateFolder);
    this.#journal = journal;
    this.#env = env;
  }

  get stateFolder(): string {
    return join(this.disk.path, 'state');
  }

  /** Starts it, if it does not run; it is not waited for. */
  start(): void {
    if (this.#process) return;
    this.#power?.remove();
    this.#power = buildPowerLoss(this.stateFolder);
    const shims = [this.#clock.env, this.#power.env()];
    const preloaded = shims.map((shim) => shim.LD_PRELOAD).join(':');
    const options = ['--host', addressOf(this.machine), '--port', String(QUEUE_PORT)];
    const journal = ['--state', this.stateFolder, '--journal', this.#journal, '--follow'];
    const [command = '', ...args] = [
      ...on(this.machine),
      process.execPath,
      CLI,
      'queue',
      ...options,
      ...journal,
    ];
    const env = { ...cleanEnvironment(this.#env), ...Object.assign({}, ...shims), LD_PRELOAD: preloaded };
    const child = startProcess(command, args, { env, cwd: this.disk.path, name: `queue ${this.machine}` });
    this.#process = child;
    void child.exited.then(({ code, signal }) => {
      this.#output += `${child.output()}--- ended: ${code ?? signal}\n`;
      if (this.#process === child) this.#process = null;
    });
  }

  /** Sends a signal, and waits for the end if it is to end the process. */
  async signal(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    child?.kill(signal);
    if (signal === 'SIGKILL' || signal === 'SIGTERM') await child?.exited;
  }

  /** The machine's power is lost: the process is gone, and so is what it had not synced. */
  async losePower(): Promise<void> {
    await this.signal('SIGKILL');
    this.#power!.strike();
  }

  setClock(ms: number): void {
    this.#clock.setOffset(ms);
  }

  /** @returns null if it does not answer in time */
  async health(): Promise<Health | null> {
    try {
      const response = await fetch(`${this.url}/health`, { signal: AbortSignal.timeout(2000) });
      const body = (await response.json()) as Record<string, number | string>;
      const isFollower = body.role === 'follower';
      if (!isFollower && !response.ok) return null;
      return {
        role: isFollower ? 'follower' : 'owner',
        entry: Number(body.entry ?? 0),
        behindSeconds: Number(body.behind_seconds ?? 0),
        open: Number(body.pending ?? 0) + Number(body.running ?? 0),
      };
    } catch {
      return null;
    }
  }

  output(): string {
    return this.#output + (this.#process?.output() ?? '');
  }

  remove(): void {
    this.#power?.remove();
    this.#clock.remove();
  }
}
