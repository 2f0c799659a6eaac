import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { type FleetView, isFinal, type LaunchRow } from '../../src/protocol/index.ts';
import type { Child } from './processes.ts';
import { cli, processesWith, stateFolder } from './road.ts';

/** Fleets of simulated workers as processes of this machine, over the commands that operators type. */

interface Fleet {
  budget?: Record<string, number>;
  /** Default: this machine's processes, by the name of `here`. */
  providers?: Record<string, Record<string, unknown>>;
  pools: Record<string, Record<string, unknown>>;
}

/** Writes a fleet's file whose workers start and end in seconds. */
export function writeFleet(path: string, { budget = {}, providers = HERE, pools }: Fleet): void {
  const whole = Object.entries(pools).map(([id, pool]) => [id, { ...QUICK, ...pool }]);
  writeFileSync(path, stringify({ budget, providers, pools: Object.fromEntries(whole) }));
}

const HERE = { here: { driver: 'process' } };
const QUICK = {
  engine: 'simulator',
  model: 'tiny',
  slots: 2,
  wanted_wait: 1,
  scale_down_after: '3s',
  keep_warm: '1s',
  env: { CASOLA_HEARTBEAT_INTERVAL: 2, CASOLA_SHUTDOWN_GRACE_PERIOD: 1 },
  machines: [{ provider: 'here' }],
};

export async function fleetView(url: string): Promise<FleetView> {
  return (await (await fetch(`${url}/api/fleet`)).json()) as FleetView;
}

export function isAlive(launch: LaunchRow): boolean {
  return !isFinal(launch);
}

/** Resolves to the output of a command once it has ended. */
export async function printed(args: string[]): Promise<string> {
  const command = cli(args);
  const { code } = await command.exited;
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}:\n${command.output()}`);
  return command.output();
}

export interface RunningLauncher {
  process: Child;
  /** The folder of its records about what it started. */
  stateDir: string;
}

/** `worker-vllm launcher`, in the folder of an earlier one where that is given. @param program another version's */
export function startLauncher(
  url: string,
  path: string,
  stateDir = stateFolder(),
  program?: string,
): RunningLauncher {
  const args = ['launcher', path, '--url', url, '--state', stateDir, '--id', 'box'];
  return { process: cli(args, {}, undefined, program), stateDir };
}

/** Looks again and again which workers run as processes of a launcher's folder. */
export class WorkerCensus {
  readonly #stateDir: string;
  readonly #timer: ReturnType<typeof setInterval>;
  /** The most that ran at once: of one name, and of all. */
  mostOfOneName = 0;
  mostAtOnce = 0;

  constructor(stateDir: string) {
    this.#stateDir = stateDir;
    this.#timer = setInterval(() => void this.#look(), 100);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /**
   * A shell for each worker, whose command line names where its exit code goes. It leads its process group: what it forks
   * has the same command line until it is another program, and `mv` has one like it.
   */
  async running(): Promise<string[]> {
    const folder = join(this.#stateDir, 'processes');
    return (await processesWith(folder)).flatMap((pid) => {
      try {
        if (!leadsGroup(pid)) return [];
        const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        return words.find((word) => word.startsWith(folder) && word.endsWith('.exit')) ?? [];
      } catch {
        return [];
      }
    });
  }

  async #look(): Promise<void> {
    const names = await this.running();
    const counts = Object.values(Object.groupBy(names, (name) => name)).map((same) => same?.length ?? 0);
    this.mostOfOneName = Math.max(this.mostOfOneName, ...counts);
    this.mostAtOnce = Math.max(this.mostAtOnce, names.length);
  }
}

/** Reads field 5 of proc_pid_stat(5); the name before it stands in brackets and may hold anything. */
function leadsGroup(pid: number): boolean {
  const [, group] = /^.*\) \S+ \d+ (\d+) /s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
  return Number(group) === pid;
}
