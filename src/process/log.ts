import pino, { type Logger } from 'pino';
import { prettyFactory } from 'pino-pretty';
import * as z from 'zod';
import { printable } from '../protocol/text.ts';
import { readEnvironment } from './environment.ts';
import { logOutput } from './log-output.ts';
import { isRunpodWorker, runpodLines, runpodLogLevel } from './runpod-log.ts';

export type { Logger } from 'pino';

/** The part of pino's logger that code gets which only writes lines. */
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
 * Makes the logger of a process: coloured lines on a terminal, JSON if the output is piped.
 * `LOG_LEVEL` chooses the level (default info), `LOG_FORMAT` forces `pretty` or `json`. In a worker of a RunPod
 * endpoint lines have the form of its console.
 * @param name the component, e.g. `worker`
 * @param also gets each line too, as JSON; must not throw
 * @param local where the lines go otherwise, as JSON
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

/** Returns the set variable; an empty value does not hide the one beneath. */
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

/** Returns a function that writes a line of JSON for people: nothing but our colours steers their terminal. */
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
