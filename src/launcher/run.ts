import { hostname } from 'node:os';
import { resolve } from 'node:path';
import * as z from 'zod';
import { systemClock, withTimeout } from '../process/clock.ts';
import { reasonOf } from '../process/http.ts';
import { EXIT, type Logger, readEnvironment, UserError, variable } from '../process/index.ts';
import { logProxies } from '../process/outgoing.ts';
import { schemaWords } from '../protocol/index.ts';
import { DRIVER_NAMES, makeDriver } from '../providers/drivers.ts';
import { DRIVERS } from '../scheduler/drivers.ts';
import { LauncherAnswer, type LauncherReport } from '../scheduler/rpc.ts';
import { Launcher } from './launcher.ts';

export interface LauncherOptions {
  /** The queue's URL: `http://…` or `https://…`. */
  url: string;
  /** A token with the scope `launcher`; left out if the queue requires none. */
  token?: string | undefined;
  /** The queue's id; default `vllm-queue`. */
  queueId?: string | undefined;
  /** The queue's URL for launched workers; default `url`. */
  workerUrl?: string | undefined;
  /** The name of this launcher and its machine; default: the host's name. It must be the same after a restart. */
  id?: string | undefined;
  /** The drivers that the launcher offers; default: all. */
  drivers?: string[] | undefined;
  /** The folder where the driver `process` keeps its records and logs. */
  stateDir: string;
  /** Whether the launcher ends the machines when it ends. */
  endsMachines?: boolean;
}

export interface RunningLauncher {
  /** Resolves to the exit code once the launcher has ended: by `stop`, or because the queue refuses it. */
  ended: Promise<number>;
  /** Finishes the calls in progress and reports their results; machines run on, unless `endsMachines`. */
  stop(): void;
}

/**
 * The keys of providers under their usual names; a fleet's file may name others, which are read when a provider needs
 * them.
 */
const providerKeys = Object.fromEntries(
  Object.values(DRIVERS).flatMap(({ keyVariable }) =>
    keyVariable === null ? [] : [[keyVariable, variable.header().optional()]],
  ),
);

const SYNC_LIMIT_MS = 20_000;
/** A clock that never goes back: after a step back, no provider would be called until the clock has caught up. */
const CLOCK = { ...systemClock, now: () => Math.floor(systemClock.now()) };

/**
 * Starts a launcher in this process.
 * @throws UserError when an option or a provider's key is wrong
 */
export function startLauncher(
  options: LauncherOptions,
  env: NodeJS.ProcessEnv,
  log: Logger,
): RunningLauncher {
  const { queueId = 'vllm-queue', id = hostname(), drivers = DRIVER_NAMES } = options;
  const stateDir = resolve(options.stateDir);
  const url = options.url.replace(/\/+$/, '');
  const unknown = drivers.find((driver) => !(DRIVER_NAMES as string[]).includes(driver));
  if (unknown) throw new UserError(`There is no driver "${unknown}", only ${DRIVER_NAMES.join(', ')}.`);
  readEnvironment(z.object(providerKeys), env);
  const stopped = new AbortController();
  let exitCode: number = EXIT.ok;
  const refused = (why: string) => {
    log.error(`the queue refuses this launcher: ${why}`);
    exitCode = EXIT.deniedByQueue;
    stopped.abort();
  };
  const road = { url: (options.workerUrl ?? url).replace(/\/+$/, ''), queueId };
  const driverPorts = { env, clock: CLOCK, fetch, random: Math.random, stateDir, log };
  const launcher = new Launcher(
    {
      clock: CLOCK,
      random: Math.random,
      log,
      makeDriver: (spec) => makeDriver(spec, driverPorts),
      sync: (report) => sync(`${url}/api/launchers/${encodeURIComponent(id)}/sync`, report, options, refused),
    },
    { drivers, host: id, road, env, endsMachines: options.endsMachines ?? false },
  );
  log.info({ queue: url, queue_id: queueId, id, drivers }, 'launcher starting');
  logProxies(log, url);
  const ended = launcher.run(stopped.signal).then(() => exitCode);
  return { ended, stop: () => stopped.abort() };
}

/** Posts a report to the queue. @throws Error when the queue does not answer with orders */
function sync(
  url: string,
  report: LauncherReport,
  { token, queueId }: LauncherOptions,
  refused: (why: string) => void,
): Promise<LauncherAnswer> {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (token) headers.authorization = `Bearer ${token}`;
  if (queueId) headers['x-queue-id'] = queueId;
  return withTimeout(systemClock, SYNC_LIMIT_MS, async (signal) => {
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(report), signal });
    if (response.ok) return ordersIn(await response.json());
    const why = messageIn(await response.text());
    if (response.status === 401 || response.status === 403) refused(why);
    throw new Error(`HTTP ${response.status}: ${why}`);
  });
}

/** Parses the orders. @throws Error when this launcher does not know their form: then none is carried out */
function ordersIn(body: unknown): LauncherAnswer {
  const parsed = LauncherAnswer.safeParse(body, { error: schemaWords });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new Error(
    `its orders have a form that this launcher does not know (${issue?.path.join('.') || 'the answer'}: ${issue?.message}): run queue and launcher in the same version`,
  );
}

function messageIn(body: string): string {
  try {
    return JSON.parse(body).error.message;
  } catch (error) {
    return body.slice(0, 200) || reasonOf(error);
  }
}
