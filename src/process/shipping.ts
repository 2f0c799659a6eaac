import { hostname } from 'node:os';
import * as z from 'zod';
import { type Clock, systemClock, withTimeout } from './clock.ts';
import { readEnvironment, variable } from './environment.ts';
import { UserError } from './exit-codes.ts';
import { postJson, reasonOf, systemWeb } from './http.ts';
import { createLogger, type Logger, logVariables } from './log.ts';
import { Outage } from './outage.ts';
import { secretHider } from './secrets.ts';
import { LAST_WORDS_MS } from './way-down.ts';

/** The variables of a container's identity, log lines and metrics, the same for each of its processes. */
export const containerVariables = {
  ...logVariables,
  CASOLA_CONFIG_ID: variable.name(256).describe('which jobs this worker takes, e.g. my-model'),
  CASOLA_QUEUE_ID: variable.name(256).default('vllm-queue'),
  CASOLA_INSTANCE_ID: variable.name(256).optional(),
  RUNPOD_POD_ID: variable.name(200).optional(),
  CONTAINER_ID: variable.name(200).optional(),
  CASOLA_API_TOKEN: variable.header().optional(),
  CASOLA_LOGS_URL: variable.url('http:', 'https:').optional(),
  CASOLA_LOG_FLUSH_INTERVAL: variable.seconds(0.1).default(30),
  CASOLA_METRICS_URL: variable.url('http:', 'https:').optional(),
};

/** The id of this container: the configured one, else the platform's, else the host name. */
export function instanceIdOf(
  given: Pick<
    z.infer<z.ZodObject<typeof containerVariables>>,
    'CASOLA_INSTANCE_ID' | 'RUNPOD_POD_ID' | 'CONTAINER_ID'
  >,
): string {
  if (given.CASOLA_INSTANCE_ID) return given.CASOLA_INSTANCE_ID;
  if (given.RUNPOD_POD_ID) return `runpod-${given.RUNPOD_POD_ID}`;
  if (given.CONTAINER_ID) return `vast-${given.CONTAINER_ID}`;
  return hostname();
}

/** The loggers of one process; their lines may be shipped too. */
export interface Logging {
  /** Makes a logger. @param name `engine` for the engine's own lines, else the component */
  createLogger(name: string): Logger;
  /** Sets the time within which the process must exit, ms from now: sending the last lines may take no longer. */
  mustEndWithin(ms: number): void;
}

/**
 * Runs a process whose log lines are sent to `CASOLA_LOGS_URL` too, if that is set; the last lines are sent before it
 * resolves or rejects. An error with which it rejects is one of these lines.
 *
 * If a variable is wrong nothing is sent, and `run` has to report the variable.
 * @param name the name of the process, for the log line about lines that do not arrive
 */
export async function withLogging<T>(
  name: string,
  env: NodeJS.ProcessEnv,
  run: (logging: Logging) => Promise<T>,
): Promise<T> {
  const shipping = startShipping(name, env);
  if (!shipping) {
    return await run({ createLogger: (part) => createLogger(part, env), mustEndWithin: () => {} });
  }
  const { shipper, entryOf } = shipping;
  let endsAt = Number.POSITIVE_INFINITY;
  try {
    return await run({
      createLogger: (part) => createLogger(part, env, (line) => shipper.add(entryOf(line))),
      mustEndWithin: (ms) => {
        endsAt = Math.min(endsAt, performance.now() + ms);
      },
    });
  } catch (error) {
    const { message: msg } = error as Error;
    shipper.add(entryOf(JSON.stringify({ level: 'error', time: new Date().toISOString(), msg })));
    throw error;
  } finally {
    await shipper.close(Math.min(LAST_WORDS_MS, endsAt - performance.now()));
  }
}

function startShipping(name: string, env: NodeJS.ProcessEnv) {
  const given = readQuietly(env);
  if (!given?.CASOLA_LOGS_URL) return null;
  const { CASOLA_LOGS_URL: url, CASOLA_API_TOKEN: token } = given;
  const identity = { instance_id: instanceIdOf(given), queue_id: given.CASOLA_QUEUE_ID };
  // The lines of this logger are not shipped, since a line about a failure to ship would be useless there.
  const log = createLogger(name, env);
  const shipper = new LogShipper({
    clock: systemClock,
    intervalMs: given.CASOLA_LOG_FLUSH_INTERVAL * 1000,
    post: (entries) => postJson(systemWeb, { url, token, body: { ...identity, entries } }),
    outage: new Outage(log, {
      begins: 'log lines do not arrive at CASOLA_LOGS_URL; jobs are not affected',
      ends: 'log lines arrive at CASOLA_LOGS_URL again',
    }),
  });
  shipper.start();
  const hide = secretHider(env);
  return { shipper, entryOf: (line: string) => entryOf(line, given.CASOLA_CONFIG_ID, hide) };
}

function readQuietly(env: NodeJS.ProcessEnv) {
  try {
    return readEnvironment(z.object(containerVariables), env);
  } catch (error) {
    if (error instanceof UserError) return null;
    throw error;
  }
}

/**
 * Returns a line of the local log as an entry: fields beside the message follow it as JSON, as on a terminal.
 * @param line as the logger wrote it, secret fields already hidden
 * @param hide hides secrets in the text itself, since others may read lines that leave the machine
 */
export function entryOf(line: string, configId: string, hide: (text: string) => string): LogEntry {
  const { level, time, name, msg = '', job_id, ...fields } = JSON.parse(line);
  const more = Object.keys(fields).length > 0 ? JSON.stringify(fields) : '';
  return {
    timestamp: Math.floor(Date.parse(time) / 1000),
    level: level === 'warn' ? 'warning' : level === 'error' || level === 'fatal' ? 'error' : 'info',
    source: name === 'engine' ? 'vllm' : 'worker',
    message: hide(`${msg} ${more}`.trim()),
    ...(typeof job_id === 'string' ? { job_id } : {}),
    config_id: configId,
  };
}

/** A log line in the form of the receiver at `CASOLA_LOGS_URL`. */
export interface LogEntry {
  /** The time of the line, epoch s, whole. */
  timestamp: number;
  level: 'info' | 'warning' | 'error';
  /** The line's origin; `vllm` stands for any engine. */
  source: 'worker' | 'vllm';
  message: string;
  job_id?: string;
  config_id?: string;
}

/** The most lines in a batch, by the base protocol. */
const MOST_IN_BATCH = 1000;
/**
 * The most bytes of a batch as JSON, in which a control character takes six. Proxies accept 1 MB by default, and would
 * refuse a batch that is too large for ever.
 */
const MOST_BYTES = 900_000;
const MOST_KEPT = 10_000;
/** The most characters of a message; with MOST_KEPT it bounds the memory during a receiver's outage to some 40 MB. */
const LONGEST_MESSAGE = 4096;

export interface LogShipperPorts {
  clock: Clock;
  intervalMs: number;
  /** Posts a batch. Rejects if it was refused or did not arrive. */
  post(entries: LogEntry[]): Promise<void>;
  /** The outage that each batch updates, by whether it arrived. */
  outage: Outage;
}

/**
 * Buffers log lines and sends them in order, in batches; a refused batch is sent again. Never throws. When the
 * buffer is full the oldest lines are dropped, and the next batch says how many.
 */
export class LogShipper {
  readonly #ports: LogShipperPorts;
  #entries: LogEntry[] = [];
  #dropped = 0;
  #posting: Promise<void> | null = null;
  #timer: unknown;

  constructor(ports: LogShipperPorts) {
    this.#ports = ports;
  }

  /** Starts to send the buffered lines once an interval. */
  start(): void {
    const { clock, intervalMs } = this.#ports;
    this.#timer = clock.setTimeout(() => {
      void this.flush();
      this.start();
    }, intervalMs);
  }

  add(entry: LogEntry): void {
    this.#entries.push({ ...entry, message: cut(entry.message) });
    this.#dropOldest();
    // A full batch does not wait for the interval, unless the receiver is failing.
    if (this.#entries.length >= MOST_IN_BATCH && !this.#ports.outage.isOn) void this.flush();
  }

  /** Sends all lines, one batch at a time, until a batch is refused. */
  flush(): Promise<void> {
    this.#posting ??= this.#postAll().finally(() => {
      this.#posting = null;
    });
    return this.#posting;
  }

  /** Stops the interval and sends the rest; resolves when that is sent or refused, or at the limit. */
  async close(limitMs: number): Promise<void> {
    const { clock } = this.#ports;
    clock.clearTimeout(this.#timer);
    if (limitMs <= 0) return;
    const postLast = async () => {
      await this.#posting;
      await this.flush();
    };
    await withTimeout(clock, limitMs, postLast).catch(() => {});
  }

  async #postAll(): Promise<void> {
    while (this.#entries.length > 0) {
      const dropped = this.#dropped;
      const batch = this.#entries.splice(0, this.#fitting(dropped > 0 ? MOST_IN_BATCH - 1 : MOST_IN_BATCH));
      const whole = dropped > 0 ? [gap(dropped, batch[0]!), ...batch] : batch;
      try {
        await this.#ports.post(whole);
      } catch (error) {
        this.#entries.unshift(...batch);
        this.#dropOldest();
        this.#ports.outage.report(reasonOf(error));
        return;
      }
      this.#dropped -= dropped;
      this.#ports.outage.report(null);
    }
  }

  /** Returns how many of the oldest lines make a batch, at least one. */
  #fitting(most: number): number {
    let bytes = 0;
    const end = this.#entries.slice(0, most).findIndex((entry) => {
      bytes += Buffer.byteLength(JSON.stringify(entry)) + 1;
      return bytes > MOST_BYTES;
    });
    return end < 0 ? most : Math.max(1, end);
  }

  #dropOldest(): void {
    const tooMany = this.#entries.length - MOST_KEPT;
    if (tooMany <= 0) return;
    this.#entries.splice(0, tooMany);
    this.#dropped += tooMany;
  }
}

/** Returns the line that takes the place of dropped ones. */
function gap(dropped: number, next: LogEntry): LogEntry {
  const { timestamp, config_id } = next;
  const message = `${dropped} older log lines were dropped: they could not be sent in time`;
  return {
    timestamp,
    level: 'warning',
    source: 'worker',
    message,
    ...(config_id === undefined ? {} : { config_id }),
  };
}

function cut(message: string): string {
  return message.length <= LONGEST_MESSAGE ? message : `${message.slice(0, LONGEST_MESSAGE)}… (cut)`;
}
