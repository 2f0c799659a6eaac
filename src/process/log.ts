import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import pino, { type Logger } from 'pino';
import { prettyFactory } from 'pino-pretty';
import * as z from 'zod';
import { printable } from '../protocol/text.ts';
import { readEnvironment } from './environment.ts';
import { secretHider } from './secrets.ts';

export type { Logger } from 'pino';

/** The part of pino's logger that code which only writes lines gets. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** The character with which the code of a colour begins. */
const ESCAPE = '\x1b';

const LEVELS = ['debug', 'info', 'warn', 'error'] as const;

/** The variables of the log, for schemas that report all bad variables at once. */
export const logVariables = {
  LOG_LEVEL: z
    .string()
    .trim()
    .toLowerCase()
    .pipe(z.enum(LEVELS, { error: 'expected debug, info, warn or error' }))
    .default('info'),
};

/** The fields whose values never reach a log. */
const SECRET_FIELDS = ['token', 'authorization', 'api_token', 'apiToken', '*.token', '*.authorization'];

/**
 * Makes the logger of a process: coloured lines on a terminal, JSON if the output is piped. `LOG_LEVEL` chooses the
 * level (default info), `LOG_FORMAT` forces `pretty` or `json`. In a worker of a RunPod endpoint lines have the form of
 * its console.
 * @param name the component, such as `worker`
 * @param also gets each line too, as JSON; must not throw
 * @param local where the lines go, as JSON; left out: the standard output
 * @throws UserError when there is no such level
 */
export function createLogger(
  name: string,
  env: NodeJS.ProcessEnv = process.env,
  also?: (line: string) => void,
  local: LogDestination = localDestination(env),
): Logger {
  const options: pino.LoggerOptions = {
    base: { name },
    level: readEnvironment(z.object(logVariables), { LOG_LEVEL: runpodLogLevel(env), ...set(env) }).LOG_LEVEL,
    redact: { paths: SECRET_FIELDS, censor: '(secret)' },
    formatters: { level: (label) => ({ level: label }) },
    timestamp: pino.stdTimeFunctions.isoTime,
  };
  if (!also) return pino(options, local);
  const write = (line: string) => {
    local.write(line);
    also(line);
  };
  return pino(options, { write });
}

/** Returns the variable if it is set; an empty value does not hide the one beneath. */
function set({ LOG_LEVEL }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return LOG_LEVEL?.trim() ? { LOG_LEVEL } : {};
}

/** Takes a logger's lines, as JSON. */
export interface LogDestination {
  write(line: string): void;
}

/** Returns the standard output, in the form that the environment asks for. */
export function localDestination(env: NodeJS.ProcessEnv): LogDestination {
  const wantsPretty = env.LOG_FORMAT ? env.LOG_FORMAT === 'pretty' : process.stdout.isTTY;
  const output = logOutput();
  if (isRunpodWorker(env) && !env.LOG_FORMAT) {
    const form = runpodLines(env);
    return { write: (line) => output.write(form(line)) };
  }
  if (!wantsPretty) return output;
  const pretty = prettyLines(env.NO_COLOR === undefined);
  return { write: (line) => output.write(pretty(line)) };
}

/** Returns a function that writes a line of JSON for people: only our own colours steer their terminal. */
export function prettyLines(colorize: boolean): (line: string) => string {
  const pretty = prettyFactory({
    colorize,
    ignore: 'pid,hostname,name',
    translateTime: 'HH:MM:ss.l',
    messageFormat: ({ name, msg }) => `${name}: ${printable(String(msg))}`,
    singleLine: true,
  });
  return (line) => pretty(line).split(ESCAPE).map(printable).join(ESCAPE);
}

/** The most bytes that wait while the output accepts none; further lines are dropped. */
const MOST_UNWRITTEN = 1024 ** 2;
/** A pipe whose reader stands still is tried again after this many ms. */
const AGAIN_MS = 100;
/** A process that ends waits at most this many ms for a reader that stands still. */
const LAST_LINES_MS = 300;

const STDOUT = 1;

let output: { write(text: string): void } | null = null;

/**
 * Returns the output to which this process writes its log, at once and in order. If it accepts nothing, like a full
 * disk or a pipe without a reader, the process continues, and up to 1 MiB waits.
 */
function logOutput(): { write(text: string): void } {
  output ??= openOutput();
  return output;
}

function openOutput() {
  const pipe = ownPipe();
  // The lines are written in this thread: a transport thread would lose the last ones when the process exits.
  const destination = pino.destination({
    dest: pipe ?? STDOUT,
    sync: true,
    maxLength: MOST_UNWRITTEN,
    // pino would sleep between its own tries.
    retryEAGAIN: () => false,
  });
  let isHeldUp = false;
  const goOn = () => {
    isHeldUp = false;
    destination.write('');
  };
  destination.on('error', (error: NodeJS.ErrnoException) => {
    // Waiting bytes are written with the next line: nobody knows when a full disk has room again.
    if (error.code !== 'EAGAIN') return;
    if (!isHeldUp) setTimeout(goOn, AGAIN_MS).unref();
    isHeldUp = true;
  });
  if (pipe !== null) {
    process.on('exit', () => {
      const until = performance.now() + LAST_LINES_MS;
      while (isHeldUp && performance.now() < until) {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
        goOn();
      }
    });
  }
  return destination;
}

/**
 * Opens the pipe at the standard output once more, so that writing to it never blocks: the engine and the worker
 * inherit the first descriptor, which stays blocking. Returns null if the output is no pipe, or cannot be opened again.
 */
function ownPipe(): number | null {
  try {
    if (!fstatSync(STDOUT).isFIFO()) return null;
    const opened = openSync(`/proc/self/fd/${STDOUT}`, constants.O_WRONLY | constants.O_NONBLOCK);
    if (fstatSync(opened).isFIFO()) return opened;
    closeSync(opened);
  } catch {
    // The system is not Linux, or the pipe belongs to another user.
  }
  return null;
}

/** Returns whether this is a worker of a RunPod endpoint, whose console reads the standard output. */
function isRunpodWorker(env: NodeJS.ProcessEnv): boolean {
  return Boolean(env.RUNPOD_ENDPOINT_ID?.trim() && env.RUNPOD_WEBHOOK_GET_JOB?.trim());
}

const RUNPOD_LEVELS: Record<string, string> = {
  notset: 'debug',
  trace: 'debug',
  debug: 'debug',
  info: 'info',
  warn: 'warn',
  warning: 'warn',
  error: 'error',
};

/** Returns RUNPOD_LOG_LEVEL, or RUNPOD_DEBUG_LEVEL, as our LOG_LEVEL; undefined: neither names a level. */
function runpodLogLevel(env: NodeJS.ProcessEnv): string | undefined {
  const given = env.RUNPOD_LOG_LEVEL?.trim() || env.RUNPOD_DEBUG_LEVEL?.trim();
  return given === undefined ? undefined : RUNPOD_LEVELS[given.toLowerCase()];
}

/**
 * Makes the function that puts a line of our log into the form by which RunPod's console files lines under their jobs:
 * `{"requestId": id or null, "message": text, "level": "INFO"}`. Such a line leaves the machine, so secrets in its text
 * are hidden.
 */
function runpodLines(env: NodeJS.ProcessEnv): (line: string) => string {
  const hide = secretHider(env);
  return (line) => {
    const {
      level,
      time: _time,
      name,
      msg = '',
      job_id = null,
      pid: _,
      hostname: __,
      ...fields
    } = JSON.parse(line);
    const more = Object.keys(fields).length > 0 ? ` ${JSON.stringify(fields)}` : '';
    const message = hide(`${name}: ${msg}${more}`);
    return `${JSON.stringify({ requestId: job_id, message, level: String(level).toUpperCase() })}\n`;
  };
}
