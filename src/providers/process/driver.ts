import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { signalGroup } from '../../process/child.ts';
import { sleep } from '../../process/clock.ts';
import { UserError } from '../../process/exit-codes.ts';
import { freePort } from '../../process/free-port.ts';
import { programArguments } from '../../process/package.ts';
import { GRACE_SECONDS, wayDownMs } from '../../process/way-down.ts';
import type { ProviderSpec } from '../../scheduler/provider-spec.ts';
import type { LaunchOutcome, ListedMachine } from '../../scheduler/rpc.ts';
import type { Driver, DriverPorts, LaunchRequest, MachineKey } from '../driver.ts';
import {
  isProcess,
  leaderWithToken,
  type ProcessRecord,
  ProcessRecords,
  startTimeOf,
  TOKEN_VARIABLE,
} from './records.ts';

type ProcessSpec = Extract<ProviderSpec, { driver: 'process' }>;

/**
 * The shell script that runs the supervisor and stores its exit code, even if the launcher that started it is gone by
 * then. A signal to the group reaches both the shell and the supervisor; the shell goes on waiting.
 */
const KEEPS_EXIT_CODE = `
trap : TERM INT HUP
"$@"
echo $? > "$0.new" && mv "$0.new" "$0"
`;

/** A process may take this many ms to end after SIGKILL. */
const KILL_MS = 2000;
const LOOK_EVERY_MS = 50;
/** A process that ended more than this many ms before the launcher starts is not listed any more. */
const FORGOTTEN_MS = 24 * 3600_000;

/**
 * A driver for workers as processes of this machine. Each is a supervisor in a process group of its own, with its GPUs
 * and a free port for its engine. A process is recorded on disk before it is started.
 */
export class ProcessDriver implements Driver {
  readonly #spec: ProcessSpec;
  readonly #ports: DriverPorts;
  readonly #program: string[];
  readonly #records: ProcessRecords;

  /**
   * @param program the program to run: the supervisor, unless a test gives another
   * @throws UserError when nothing can be stored in the state folder
   */
  constructor(
    spec: ProcessSpec,
    ports: DriverPorts,
    program = [process.execPath, ...programArguments('supervisor')],
  ) {
    this.#spec = spec;
    this.#ports = ports;
    this.#program = program;
    const folder = join(ports.stateDir, 'processes');
    try {
      this.#records = new ProcessRecords(folder);
    } catch (error) {
      const { message } = error as Error;
      throw new UserError(
        `Cannot keep what is started here in ${folder}: ${message}. Choose another state folder.`,
      );
    }
    // The installation of so old a process is gone; otherwise its launcher would have ended the record.
    for (const record of this.#records.all()) {
      const exit = this.#pidOf(record) === null ? this.#records.exitOf(record.name) : null;
      if (exit && ports.clock.now() - exit.at > FORGOTTEN_MS) this.#records.remove(record.name);
    }
  }

  async launch(request: LaunchRequest): Promise<LaunchOutcome> {
    const { name } = request;
    const port = await freePort();
    // From here to the record nothing is awaited, so no other launch gets the same GPUs or the same name.
    if (this.#records.find(name)) return launched(name);
    const gpus = this.#freeGpus(request.gpus);
    if (!gpus) return { kind: 'no_capacity', detail: this.#noGpus(request.gpus) };
    const grace = Number(request.env.CASOLA_SHUTDOWN_GRACE_PERIOD ?? GRACE_SECONDS);
    const record: ProcessRecord = {
      name,
      token: randomBytes(16).toString('hex'),
      process: null,
      gpus,
      port,
      created_at: this.#ports.clock.now(),
      grace_ms: wayDownMs(grace * 1000),
      asked_to_end_at: null,
    };
    this.#records.put(record);
    const child = this.#start(record, request.env);
    if (child.pid === undefined) {
      const error = await new Promise<Error>((done) => child.once('error', done));
      this.#records.remove(name);
      return { kind: 'rejected', detail: `the worker's process cannot be started: ${error.message}` };
    }
    this.#known(record, child.pid);
    // The child outlives this process.
    child.unref();
    return launched(name);
  }

  async list(prefix: string): Promise<ListedMachine[]> {
    return this.#records
      .all()
      .filter(({ name }) => name.startsWith(prefix))
      .map((record) => this.#shown(record));
  }

  async terminate({ name }: MachineKey): Promise<LaunchOutcome> {
    const record = this.#records.find(name);
    if (!record) return { kind: 'terminated' };
    const pid = this.#pidOf(record);
    if (pid !== null && !(await this.#end(record, pid))) {
      return { kind: 'unknown', detail: `process ${pid} does not end, even when killed` };
    }
    this.#records.remove(name);
    return { kind: 'terminated' };
  }

  #start({ name, token, gpus, port }: ProcessRecord, given: Record<string, string>): ChildProcess {
    const log = openSync(this.#records.logPath(name), 'a', 0o600);
    try {
      return spawn('/bin/sh', ['-c', KEEPS_EXIT_CODE, this.#records.exitPath(name), ...this.#program], {
        detached: true,
        stdio: ['ignore', log, log],
        env: {
          ...passedOn(this.#ports.env),
          VLLM_PORT: String(port),
          WORKER_SPOOL_DIR: join(this.#ports.stateDir, 'spool'),
          LOG_FORMAT: 'pretty',
          NO_COLOR: '1',
          ...given,
          CUDA_VISIBLE_DEVICES: gpus.join(','),
          [TOKEN_VARIABLE]: token,
        },
      });
    } finally {
      closeSync(log);
    }
  }

  /** Ends a process: SIGTERM, once, then SIGKILL to the group when its time is over. @returns whether it has ended */
  async #end(record: ProcessRecord, pid: number): Promise<boolean> {
    const { clock } = this.#ports;
    const askedAt = record.asked_to_end_at ?? clock.now();
    if (record.asked_to_end_at === null) {
      this.#records.put({ ...record, process: this.#processOf(record, pid), asked_to_end_at: askedAt });
      signalGroup(pid, 'SIGTERM');
    }
    if (await this.#isGoneBy(record, askedAt + record.grace_ms)) return true;
    this.#ports.log.warn({ name: record.name, pid }, 'the worker did not end in time: killing it');
    signalGroup(pid, 'SIGKILL');
    return await this.#isGoneBy(record, clock.now() + KILL_MS);
  }

  async #isGoneBy(record: ProcessRecord, limit: number): Promise<boolean> {
    const { clock } = this.#ports;
    while (this.#pidOf(record) !== null) {
      if (clock.now() >= limit) return false;
      await sleep(clock, LOOK_EVERY_MS);
    }
    return true;
  }

  /** Returns the process id of the group's leader, or null if it has ended, or never ran. */
  #pidOf(record: ProcessRecord): number | null {
    const { process: known, token } = record;
    if (known) return isProcess(known.pid, known.start_time, token) ? known.pid : null;
    // The launcher was killed between starting the process and recording that.
    const pid = leaderWithToken(token);
    if (pid !== null) this.#known(record, pid);
    return pid;
  }

  #known(record: ProcessRecord, pid: number): void {
    const known = this.#processOf(record, pid);
    // If the process has ended already, its exit code shows that.
    if (known) this.#records.put({ ...record, process: known });
  }

  #processOf({ process: known }: ProcessRecord, pid: number): ProcessRecord['process'] {
    const startTime = startTimeOf(pid);
    return known ?? (startTime === null ? null : { pid, start_time: startTime });
  }

  #shown(record: ProcessRecord): ListedMachine {
    const { name, created_at } = record;
    const runs = this.#pidOf(record) !== null;
    const exit = runs ? null : this.#records.exitOf(name);
    return {
      external_id: name,
      name,
      state: runs ? 'running' : 'ended',
      created_at,
      started_at: created_at,
      ended_at: exit?.at ?? null,
      price_per_hour: null,
      exit_code: exit?.code ?? null,
      detail: runs ? null : this.#records.endOfLog(name),
    };
  }

  /** Returns the indices of `count` free GPUs, or null if fewer are free. */
  #freeGpus(count: number): number[] | null {
    const all = this.#spec.gpus;
    // The spec names no GPUs, so workers get none.
    if (!all) return [];
    const used = new Set(
      this.#records
        .all()
        .filter((record) => this.#pidOf(record) !== null)
        .flatMap(({ gpus }) => gpus),
    );
    const free = all.filter((gpu) => !used.has(gpu));
    return free.length < count ? null : free.slice(0, count);
  }

  #noGpus(count: number): string {
    const total = this.#spec.gpus?.length ?? 0;
    if (count > total) return `${count} GPUs are asked for, and ${total} are listed under gpus`;
    return `${count} of ${total} GPUs are asked for, and fewer are free`;
  }
}

function launched(name: string): LaunchOutcome {
  return { kind: 'launched', external_id: name, price_per_hour: null };
}

/**
 * The variables of the launcher's own environment that a worker process gets: those that programs need to run at all,
 * and none that configures the launcher or holds a key. The pool gives all others, as it does for a container.
 */
const PASSED_ON =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|TEMP|TMP|XDG_.*|LD_LIBRARY_PATH|LD_PRELOAD|DYLD_.*|VIRTUAL_ENV|CONDA_.*|PYTHON.*|NODE_EXTRA_CA_CERTS|SSL_CERT_.*|REQUESTS_CA_BUNDLE|CUDA_HOME|CUDA_PATH|NVIDIA_.*|ROCM_PATH|HF_HOME|HF_ENDPOINT|HF_HUB_.*|(?:http|https|no|all)_proxy|(?:HTTP|HTTPS|NO|ALL)_PROXY|LOG_LEVEL)$/;

function passedOn(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => PASSED_ON.test(name)));
}
