import { secretHider } from './secrets.ts';

/** Returns whether this is a worker of a RunPod endpoint, whose console reads the standard output. */
export function isRunpodWorker(env: NodeJS.ProcessEnv): boolean {
  return Boolean(env.RUNPOD_ENDPOINT_ID?.trim() && env.RUNPOD_WEBHOOK_GET_JOB?.trim());
}

const LEVELS: Record<string, string> = {
  notset: 'debug',
  trace: 'debug',
  debug: 'debug',
  info: 'info',
  warn: 'warn',
  warning: 'warn',
  error: 'error',
};

/** Returns RUNPOD_LOG_LEVEL, or RUNPOD_DEBUG_LEVEL, as our LOG_LEVEL; undefined: neither names a level. */
export function runpodLogLevel(env: NodeJS.ProcessEnv): string | undefined {
  const given = env.RUNPOD_LOG_LEVEL?.trim() || env.RUNPOD_DEBUG_LEVEL?.trim();
  return given === undefined ? undefined : LEVELS[given.toLowerCase()];
}

/**
 * Makes the function that puts a line of our log into the form by which RunPod's console files lines under their jobs:
 * `{"requestId": id or null, "message": text, "level": "INFO"}`. It leaves the machine, so secrets in its text are
 * hidden.
 */
export function runpodLines(env: NodeJS.ProcessEnv): (line: string) => string {
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
