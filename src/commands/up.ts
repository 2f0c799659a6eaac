import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { QueueAtWork } from '../host/node/serve.ts';
import {
  addToken,
  type QueueOptions,
  queueVariables,
  readQueueSettings,
  refuseToFollow,
  withOptions,
} from '../host/node/settings.ts';
import { startQueueProcesses } from '../host/node/start.ts';
import { exitCodeOf, guardGroup } from '../process/child.ts';
import { freePort } from '../process/free-port.ts';
import { createLogger, type EndSignals, EXIT, endSignals, unlessSignalled } from '../process/index.ts';
import { programArguments } from '../process/package.ts';
import { makeToken } from '../state/tokens.ts';
import { readContainerVariables } from '../supervisor/variables.ts';
import { chooseEngine, firstRequest, withEngine } from './choose-engine.ts';
import { queueIds } from './command-line.ts';
import { print } from './terminal.ts';
import { LogFile, UpTerminal, WorkerOutput } from './up-output.ts';

/** A supervisor that was forced gets this many ms before it is killed. */
const FORCED_MS = 2000;
/** Once the supervisor has ended, its last lines are awaited for this many ms. */
const LAST_LINES_MS = 500;
/** If this process is killed, the supervisor gets this many seconds to end before it is killed too. */
const ORPHAN_SECONDS = 2;

/** The number of concurrent requests when one machine serves one person. */
const JOBS_SIDE_BY_SIDE = '8';
/** The interval of heartbeats, s: a person may watch the page, and a single worker costs nothing. */
const HEARTBEAT_SECONDS = '5';

interface Supervisor {
  exited: Promise<{ supervisor: number }>;
  signal(signal: NodeJS.Signals): void;
}

/**
 * Runs `worker-vllm up`: queue, worker and engine on this machine, until a signal arrives or a part of it ends.
 * @returns the exit code
 * @throws UserError before anything was started
 */
export async function runUp(options: QueueOptions, env: NodeJS.ProcessEnv): Promise<number> {
  const signals = endSignals();
  try {
    const enginePort = env.VLLM_PORT || String(await freePort());
    checkVariables(options, env, enginePort);
    const engine = chooseEngine(env);
    const settings = await readQueueSettings(options, { ...env, QUEUE_IDS: queueIds(env) });
    refuseToFollow(settings);
    const own = makeToken('up', ['worker', 'read']);
    const asksForTokens = settings.tokens.length > 0;
    if (asksForTokens) addToken(settings, own.entry);
    const token = asksForTokens ? own.token : undefined;
    const shown: NodeJS.ProcessEnv = { ...env, LOG_LEVEL: env.LOG_LEVEL || 'warn' };
    const terminal = new UpTerminal(shown);
    const logger = createLogger('queue', shown, undefined, terminal);
    const queue = await unlessSignalled(startQueueProcesses(settings, logger, { lines: terminal }), signals);
    if (typeof queue === 'string') {
      print(`${queue}: the queue ends before it was up.`);
      return EXIT.ok;
    }
    print(`Dashboard: ${queue.url}/`);
    const log = new LogFile(join(settings.stateDir, 'worker.log'));
    print(`The queue is up, its state in ${settings.stateDir}, the log of engine and worker in ${log.path}.`);
    print(engine.announcement);
    const output = new WorkerOutput(log, terminal, logger);
    const supervisor = startSupervisor(
      {
        // One folder holds the state of queue and worker.
        WORKER_SPOOL_DIR: join(resolve(settings.stateDir), 'spool'),
        ...workerEnvironment(queue.url, engine.env, enginePort, token),
      },
      output,
    );
    const over = new AbortController();
    void announce(queue.url, token, engine.isSimulated, over.signal).then((text) => {
      terminal.started();
      if (text) print(text);
    });
    const first = await Promise.race([signals.first, queue.failed, supervisor.exited]);
    over.abort();
    terminal.started();
    return await end(first, { queue, supervisor, signals });
  } finally {
    signals.release();
  }
}

/** Reports in one list what queue, supervisor, worker and engine would refuse one after the other. @throws UserError */
function checkVariables(options: QueueOptions, env: NodeJS.ProcessEnv, enginePort: string): void {
  const all = workerEnvironment('http://127.0.0.1', withEngine(withOptions(options, env)), enginePort);
  const { QUEUE_TOKENS } = env;
  readContainerVariables({ ...all, QUEUE_TOKENS }, queueVariables);
}

type Ending = NodeJS.Signals | Awaited<QueueAtWork['failed']> | { supervisor: number };

/** Ends the worker first, so that it can release its jobs, and then the queue. */
async function end(
  first: Ending,
  parts: { queue: QueueAtWork; supervisor: Supervisor; signals: EndSignals },
): Promise<number> {
  const { queue, supervisor, signals } = parts;
  if (typeof first === 'string') print(`${first}: ending in order; once more ends at once.`);
  else if ('supervisor' in first)
    print(`The worker ended (exit code ${first.supervisor}); so does the rest.`);
  else print(`The queue failed (${first.message}); it ends, and so does the rest.`);

  supervisor.signal('SIGTERM');
  const inOrder = supervisor.exited.then(async (exit) => {
    await queue.stop();
    return exit.supervisor;
  });
  const code = await Promise.race([inOrder, signals.second]);
  if (typeof code === 'string') {
    supervisor.signal('SIGTERM');
    await Promise.race([supervisor.exited, sleep(FORCED_MS, undefined, { ref: false })]);
    supervisor.signal('SIGKILL');
    return EXIT.forced;
  }
  if (typeof first === 'object' && !('supervisor' in first)) return EXIT.unexpected;
  print('Everything has ended.');
  return code;
}

/**
 * Starts the supervisor in a group of its own: the terminal's Ctrl-C reaches this process alone, which ends all parts
 * in order.
 */
function startSupervisor(env: NodeJS.ProcessEnv, output: WorkerOutput): Supervisor {
  const child = spawn(process.execPath, programArguments('supervisor'), {
    env: { ...env, LOG_FORMAT: 'json' },
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const group = guardGroup(child, ORPHAN_SECONDS);
  createInterface({ input: child.stdout }).on('line', (line) => output.take(line));
  const read = once(child, 'close');
  const exited = exitCodeOf(child).then(async (code) => {
    // Remaining processes of the group may hold the output open.
    await Promise.race([read, sleep(LAST_LINES_MS)]);
    child.stdout.destroy();
    group.release();
    return { supervisor: code };
  });
  return { exited, signal: group.signal };
}

/** Returns the environment of supervisor, worker and engine. */
function workerEnvironment(
  url: string,
  env: NodeJS.ProcessEnv,
  enginePort: string,
  token?: string,
): NodeJS.ProcessEnv {
  return {
    ...env,
    CASOLA_WS_URL: url.replace(/^http/, 'ws'),
    CASOLA_API_URL: url,
    CASOLA_API_TOKEN: token,
    CASOLA_LOGS_URL: env.CASOLA_LOGS_URL || `${url}/api/logs`,
    CASOLA_METRICS_URL: env.CASOLA_METRICS_URL || `${url}/api/metrics`,
    CASOLA_HEARTBEAT_INTERVAL: env.CASOLA_HEARTBEAT_INTERVAL || HEARTBEAT_SECONDS,
    // The engine should see no tokens.
    QUEUE_TOKENS: undefined,
    CASOLA_CONFIG_ID: env.CASOLA_CONFIG_ID || 'local',
    CASOLA_MAX_JOBS: env.CASOLA_MAX_JOBS || (env.CASOLA_CAPACITY ? undefined : JOBS_SIDE_BY_SIDE),
    VLLM_PORT: enginePort,
    // On a person's own machine, GPUs are shared with a screen and other programs.
    GPU_CHECK: env.GPU_CHECK || 'warn',
  };
}

/** Returns how to make the first request, once a model is served; null when `over` is aborted before. */
async function announce(
  url: string,
  token: string | undefined,
  isSimulated: boolean,
  over: AbortSignal,
): Promise<string | null> {
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  while (!over.aborted) {
    try {
      const response = await fetch(`${url}/v1/models`, { headers, signal: over });
      const { data } = (await response.json()) as { data: { id: string }[] };
      if (data[0]) return firstRequest({ url, model: data[0].id, asksForTokens: !!token, isSimulated });
    } catch {
      // The queue is ending, so the loop's condition ends the loop.
    }
    await sleep(50, undefined, { signal: over }).catch(() => {});
  }
  return null;
}
