import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DriverPorts } from '../../src/providers/driver.ts';
import { ProcessDriver } from '../../src/providers/process/driver.ts';
import { signal } from '../soak/proc.ts';
import type { SeenProvider } from './driver-under-test.ts';
import { NO_ACCIDENTS } from './fakes/accidents.ts';
import { until } from './poll.ts';

interface SeenProcess {
  pid: number;
  group: number;
  name: string;
  env: Record<string, string>;
}

/** Stands in for the supervisor: ends with 0 on SIGTERM and with 9 on SIGUSR1. */
const SUPERVISOR = ['/bin/sh', '-c', 'trap "exit 0" TERM; trap "exit 9" USR1; sleep 600 & wait'];
/** Ignores SIGTERM, but counts it. */
export const STUBBORN = ['/bin/sh', '-c', 'trap "echo got SIGTERM" TERM; while :; do sleep 600 & wait; done'];

/** The processes that one test starts, seen in /proc and not through the driver. */
export class ProcessWorld implements SeenProvider {
  readonly accidents = { ...NO_ACCIDENTS };
  readonly stateDir = mkdtempSync(join(tmpdir(), 'processes-'));
  readonly #mark = randomBytes(8).toString('hex');

  /** @param speed how much faster than ours its clock runs */
  driver({ gpus = undefined as number[] | undefined, program = SUPERVISOR, speed = 1 } = {}): ProcessDriver {
    const log = () => {};
    const ports: DriverPorts = {
      // The only variable of the launcher by which its processes are known here.
      env: { ...process.env, LC_TEST_MARK: this.#mark },
      clock: {
        now: () => Date.now() * speed,
        setTimeout: (run, ms) => setTimeout(run, ms / speed),
        clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout),
      },
      fetch,
      random: Math.random,
      stateDir: this.stateDir,
      log: { debug: log, info: log, warn: log, error: log },
    };
    return new ProcessDriver({ driver: 'process', ...(gpus ? { gpus } : {}) }, ports, program);
  }

  get alive(): SeenProcess[] {
    return this.#processes().filter(({ pid, group }) => pid === group);
  }

  /** It has got as far as to hear signals: the shell that keeps its exit code, itself, and its `sleep`. */
  async listens({ name }: Pick<SeenProcess, 'name'>): Promise<void> {
    await until(() => this.#processes().filter((seen) => seen.name === name).length === 3, `${name} is up`);
  }

  async end(machine: Pick<SeenProcess, 'name'>): Promise<void> {
    await this.listens(machine);
    await this.#signal(machine, 'SIGUSR1', ({ pid, group }) => pid !== group);
  }

  async vanish(machine: Pick<SeenProcess, 'name'>): Promise<void> {
    await this.#signal(machine, 'SIGKILL', () => true);
  }

  /** Ends whatever is left. */
  close(): void {
    for (const { pid } of this.#processes()) signal(pid, 'SIGKILL');
    rmSync(this.stateDir, { recursive: true, force: true });
  }

  async #signal({ name }: { name: string }, how: NodeJS.Signals, which: (seen: SeenProcess) => boolean) {
    const ofName = () => this.#processes().filter((seen) => seen.name === name);
    const seenFirst = ofName().filter(which);
    const isGone = () => {
      // Again and again: a shell that has just forked for its next process may miss one. What it starts afterwards to
      // keep an exit code is left alone.
      for (const { pid } of how === 'SIGKILL' ? ofName() : seenFirst) signal(pid, how);
      return ofName().length === 0;
    };
    await until(isGone, `${name} has ended`);
  }

  #processes(): SeenProcess[] {
    return readdirSync('/proc').flatMap((entry) => {
      try {
        const env = environmentOf(entry);
        if (env.LC_TEST_MARK !== this.#mark) return [];
        const fields = readFileSync(`/proc/${entry}/stat`, 'utf8')
          .replace(/^.*\) /s, '')
          .split(' ');
        if (fields[0] === 'Z') return [];
        return [{ pid: Number(entry), group: Number(fields[2]), name: env.CASOLA_INSTANCE_ID ?? '', env }];
      } catch {
        return [];
      }
    });
  }
}

function environmentOf(pid: string): Record<string, string> {
  if (!/^\d+$/.test(pid)) return {};
  const pairs = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
  return Object.fromEntries(
    pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
  );
}
