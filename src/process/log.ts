import pino, { type Logger } from 'pino';
import pretty from 'pino-pretty';

export type { Logger } from 'pino';

/** Field names whose values never reach a log. */
const SECRET_FIELDS = ['token', 'authorization', 'api_token', 'apiToken', '*.token', '*.authorization'];

/**
 * A logger for one process: coloured lines on a terminal, JSON where the output is piped.
 * `LOG_LEVEL` chooses the level (default info), `LOG_FORMAT` forces `pretty` or `json`.
 * @param name which part of the road speaks, e.g. `worker`
 * @param also gets each line too, as JSON; must not throw
 */
export function createLogger(
  name: string,
  env: NodeJS.ProcessEnv = process.env,
  also?: (line: string) => void,
): Logger {
  const options: pino.LoggerOptions = {
    base: { name },
    level: env.LOG_LEVEL ?? 'info',
    redact: { paths: SECRET_FIELDS, censor: '(secret)' },
    formatters: { level: (label) => ({ level: label }) },
    timestamp: pino.stdTimeFunctions.isoTime,
  };
  const local = localDestination(env);
  if (!also) return pino(options, local);
  const write = (line: string) => {
    local.write(line);
    also(line);
  };
  return pino(options, { write });
}

function localDestination(env: NodeJS.ProcessEnv): { write(line: string): void } {
  const wantsPretty = env.LOG_FORMAT ? env.LOG_FORMAT === 'pretty' : process.stdout.isTTY;
  if (!wantsPretty) return pino.destination({ dest: 1, sync: true });
  // Run in this thread: a transport thread would lose the last lines of a process that exits.
  return pretty({
    colorize: env.NO_COLOR === undefined,
    ignore: 'pid,hostname,name',
    translateTime: 'HH:MM:ss.l',
    messageFormat: '{name}: {msg}',
    singleLine: true,
    sync: true,
  });
}
