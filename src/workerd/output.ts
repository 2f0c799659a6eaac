import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { Logger } from '../process/index.ts';
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

/** What workerd prints: kept until it is ready, since a failed start is told in one line; then logged. */
export function watchOutput(child: ChildProcess, logger?: Logger) {
  const early: string[] = [];
  let isReady = false;
  const take = (level: 'info' | 'warn') => (line: string) => {
    if (isReady) logLine(line, level, logger);
    else early.push(line);
  };
  // A program that cannot be started at all says nothing itself.
  child.once('error', (error) => take('warn')(error.message));
  createInterface({ input: child.stdout as Readable }).on('line', take('info'));
  createInterface({ input: child.stderr as Readable }).on('line', take('warn'));
  return {
    early,
    ready: () => {
      isReady = true;
      for (const line of early) logLine(line, 'warn', logger);
    },
  };
}

/** The objects log JSON lines with `level` and `msg`; everything else is the runtime's own text. */
function logLine(line: string, level: 'info' | 'warn', logger?: Logger): void {
  try {
    const { level: given, msg, ...fields } = JSON.parse(line);
    if (given === 'info' || given === 'warn' || given === 'error')
      return logger?.[given as 'info'](fields, msg);
  } catch {
    // Not JSON.
  }
  logger?.[level](line);
}
