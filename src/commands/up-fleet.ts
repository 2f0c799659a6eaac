import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import type { QueueAtWork } from '../host/node/serve.ts';
import { addToken, type QueueOptions, readQueueSettings, refuseToFollow } from '../host/node/settings.ts';
import { startQueueProcesses } from '../host/node/start.ts';
import {
  createLogger,
  type EndSignals,
  EXIT,
  endSignals,
  readEnvironment,
  unlessSignalled,
  variable,
} from '../process/index.ts';
import { isFinal, type LaunchRow } from '../protocol/index.ts';
import type { FleetSpec } from '../scheduler/spec.ts';
import { makeToken } from '../state/tokens.ts';
import type { QueueTarget } from './ask-queue.ts';
import { requestsForFleet } from './choose-engine.ts';
import { queueIds } from './command-line.ts';
import { removeFleet } from './fleet/control.ts';
import { readFleetFile } from './fleet/file.ts';
import { type RunningFleet, runFleet } from './fleet/run-fleet.ts';
import { print } from './terminal.ts';
import { readFleet } from './top/live.ts';

/** Machines elsewhere may take this many ms to end. */
const MACHINES_END_MS = 60_000;
const POLL_MS = 500;

interface Parts {
  queue: QueueAtWork;
  fleet: RunningFleet;
  target: QueueTarget;
  signals: EndSignals;
}

/**
 * Runs `worker-vllm up --fleet FILE`: a queue, and a launcher for the fleet of the file, until a signal arrives.
 * Nothing of the fleet is left after that.
 * @returns the exit code
 * @throws UserError before anything was started
 */
export async function runUpFleet(
  path: string,
  options: QueueOptions,
  env: NodeJS.ProcessEnv,
): Promise<number> {
  let reload = () => {};
  const signals = endSignals(undefined, () => reload());
  try {
    // The command reports faults of variables and file before it starts anything.
    const { CASOLA_QUEUE_ID: queueId } = readEnvironment(
      z.object({ CASOLA_QUEUE_ID: variable.header().optional() }),
      env,
    );
    const { spec } = await readFleetFile(path, env);
    const settings = await readQueueSettings(options, { ...env, QUEUE_IDS: queueIds(env) });
    refuseToFollow(settings);
    const own = makeToken('up', ['admin']);
    const asksForTokens = settings.tokens.length > 0;
    if (asksForTokens) addToken(settings, own.entry);
    // The command prints what happens in sentences, so the log has warnings only.
    const logger = createLogger('queue', { ...env, LOG_LEVEL: env.LOG_LEVEL || 'warn' });
    const queue = await unlessSignalled(startQueueProcesses(settings, logger), signals);
    if (typeof queue === 'string') {
      print(`${queue}: the queue ends before it was up.`);
      return EXIT.ok;
    }
    const { url } = queue;
    print(`Dashboard: ${url}/`);
    print(`The queue is up, its state in ${settings.stateDir}.`);
    const token = asksForTokens ? own.token : undefined;
    const target: QueueTarget = { url, token, queueId };
    const fleet = await runFleet(
      path,
      target,
      { stateDir: resolve(settings.stateDir), endsMachines: true },
      env,
    ).catch(async (error) => {
      await queue.stop();
      throw error;
    });
    reload = fleet.reload;
    print(requestsForFleet({ url, model: modelOf(spec), asksForTokens }));
    const parts = { queue, fleet, target, signals };
    const first = await Promise.race([signals.first, queue.failed, fleet.launcher.ended]);
    if (typeof first === 'string') print(`${first}: ending in order; once more ends at once.`);
    else if (first instanceof Error)
      print(`The queue failed (${first.message}); it ends, and so does the rest.`);
    else print('A part of it ended unexpectedly; so does the rest.');
    return await end(parts, typeof first === 'string');
  } finally {
    signals.release();
  }
}

/** Ends the workers first, so that they can release their jobs; then the queue. */
async function end({ queue, fleet, target, signals }: Parts, isWanted: boolean): Promise<number> {
  fleet.stop();
  const inOrder = (async () => {
    if (isWanted) await endMachines(target);
    fleet.launcher.stop();
    await fleet.launcher.ended;
    await queue.stop();
  })();
  const forced = await Promise.race([inOrder, signals.second]);
  if (forced) return EXIT.forced;
  print('Everything has ended.');
  return isWanted ? EXIT.ok : EXIT.unexpected;
}

/** Withdraws the fleet, and waits for machines that do not end with this process. */
async function endMachines(target: QueueTarget): Promise<void> {
  const deadline = performance.now() + MACHINES_END_MS;
  try {
    await removeFleet(target);
    for (;;) {
      const { launches, scaling } = await readFleet(target);
      const drivers = new Map(scaling?.providers.map(({ name, driver }) => [name, driver]));
      const elsewhere = launches.filter(
        (launch) => !isFinal(launch) && drivers.get(launch.provider) !== 'process',
      );
      if (elsewhere.length === 0) return;
      if (performance.now() > deadline) return print(leftText(elsewhere));
      await sleep(POLL_MS);
    }
  } catch (error) {
    print((error as Error).message);
  }
}

function leftText(launches: LaunchRow[]): string {
  const names = launches.map(({ name, provider }) => `  ${name} (${provider})`);
  return `These machines have not ended yet, and are terminated now:\n${names.join('\n')}`;
}

function modelOf({ pools }: FleetSpec): string {
  return Object.values(pools)[0]?.model ?? 'default';
}
