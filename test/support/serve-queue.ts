import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { startQueue } from '../../src/host/node/serve.ts';
import { EXIT, type Logger, UserError } from '../../src/process/index.ts';
import type { FromQueue, QueueProcessOptions, ToQueue } from './queue-process.ts';

/** The process of `startQueueProcess`: `node serve-queue.ts OPTIONS`, with its parent at the other end of IPC. */
const options = JSON.parse(process.argv[2]!) as QueueProcessOptions;
const tell = (message: FromQueue) => void process.send?.(message, undefined, undefined, () => {});
const logAt =
  (level: 'debug' | 'info' | 'warn' | 'error') =>
  (...said: unknown[]) =>
    tell({ type: 'log', level, said: said as [unknown, string?] });
const logger = { debug: logAt('debug'), info: logAt('info'), warn: logAt('warn'), error: logAt('error') };

// The test is gone, and so is what it asked for.
process.on('disconnect', () => process.exit());
try {
  const queue = await startQueue({ ...options, logger: logger as unknown as Logger });
  process.on('message', async (message: ToQueue) => {
    if (message.type === 'stop') {
      await queue.stop();
      process.exit();
    }
    if (message.type === 'collect') return tell({ type: 'held', bytes: heldBytes() });
    const error = await queue.setTokens(message.text).then(
      () => null,
      (error: Error) => error.message,
    );
    tell({ type: 'done', call: message.call, error });
  });
  void queue.failed.then(() => process.exit(EXIT.unexpected));
  tell({ type: 'up', url: queue.url, port: queue.port });
} catch (error) {
  const { message, stack } = error as Error;
  const isMistake = error instanceof UserError;
  const refused: FromQueue = {
    type: 'refused',
    message: isMistake ? message : (stack ?? message),
    exitCode: isMistake ? error.exitCode : null,
  };
  process.send?.(refused, undefined, undefined, () => process.exit(EXIT.unexpected));
}

/** Collects garbage. @returns the bytes that are left, in the heap and in the buffers outside of it */
function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  // What the first collection finalizes is freed by the second.
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
