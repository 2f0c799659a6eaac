import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { Logger } from '../process/index.ts';
import { BROKEN_OFF } from '../protocol/index.ts';
import { SOCKET_NAME } from './config.ts';

/** The port from workerd's first control message. */
export function listening(child: ChildProcess): Promise<number> {
  return new Promise((done) => {
    const lines = createInterface({ input: child.stdio[3] as Readable });
    lines.on('line', (line) => {
      const message = JSON.parse(line) as { event: string; socket: string; port: number };
      if (message.event === 'listen' && message.socket === SOCKET_NAME) done(message.port);
    });
  });
}

/** What workerd prints: kept until it is ready, since a failed start is reported in one line; then logged. */
export function watchOutput(child: ChildProcess, logger?: Logger) {
  const early: string[] = [];
  const log = logger ? lineLogger(logger) : () => {};
  let isReady = false;
  let isOutOfDescriptors = false;
  const take = (level: 'info' | 'warn') => (line: string) => {
    isOutOfDescriptors ||= line.includes('accept(): Too many open files');
    if (isReady) log(line, level);
    else early.push(line);
  };
  // A program that cannot be started at all says nothing itself.
  child.once('error', (error) => take('warn')(error.message));
  createInterface({ input: child.stdout as Readable }).on('line', take('info'));
  createInterface({ input: child.stderr as Readable }).on('line', take('warn'));
  return {
    early,
    /** Known for sure once the process has ended. */
    isOutOfDescriptors: () => isOutOfDescriptors,
    ready: () => {
      isReady = true;
      for (const line of early) log(line, 'warn');
    },
  };
}

/** The same fault is logged once in this time, ms: each request meets it again. */
const FAULT_EVERY_MS = 60_000;

/**
 * Logs what the process prints. The gateway and its objects print JSON with `level` and `msg`; everything else is the
 * runtime's own text, of which faults of the databases are said in plain words and its C++ stacks are for debugging.
 */
export function lineLogger(logger: Logger): (line: string, level: 'info' | 'warn') => void {
  const toldAt = new Map<string, number>();
  return (line, level) => {
    const told = ownLine(line);
    if (told) return logger[told.level](told.fields, told.msg);
    // The gateway or a relay has broken a response off on purpose.
    if (line.includes(`jsg.Error: ${BROKEN_OFF}`)) return logger.debug(line);
    // Of a database alarm that was set anew while it rang: nothing is lost, and nothing to be done about it.
    if (line.startsWith('stack: ') || line.includes('SQLite alarm handler canceled'))
      return logger.debug(line);
    const fault = faultIn(line);
    if (!fault) return logger[level](line);
    const now = performance.now();
    if (now - (toldAt.get(fault.key) ?? -FAULT_EVERY_MS) < FAULT_EVERY_MS) return logger.debug(line);
    toldAt.set(fault.key, now);
    logger.error(fault.text);
  };
}

/** The message for a line of the runtime about a fault that operators can mend; null for any other line. */
function faultIn(line: string): { key: string; text: string } | null {
  if (line.includes('dup(): Too many open files')) {
    return {
      key: 'descriptors',
      text: 'connections are refused: workerd has no file descriptor left for them',
    };
  }
  const database =
    /SQLite failed;.* = (.*): (SQLITE_\w+)/.exec(line) ?? /failed: (.*): (SQLITE_\w+)/.exec(line);
  if (!database) return null;
  const [, reason, code = ''] = database;
  const text = `a database of the state folder failed: ${reason} (${code}); "worker-vllm state check" names it`;
  return { key: code, text };
}

/** Null for a line that is not of the gateway or its objects. */
function ownLine(
  line: string,
): { level: 'debug' | 'info' | 'warn' | 'error'; msg: string; fields: object } | null {
  try {
    const { level, msg, ...fields } = JSON.parse(line);
    return ['debug', 'info', 'warn', 'error'].includes(level) ? { level, msg, fields } : null;
  } catch {
    return null;
  }
}
