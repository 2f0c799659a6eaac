import { once } from 'node:events';
import { type EndSignals, type Logger, UserError } from '../../../process/index.ts';
import type { ChildStart, FromChild, ToChild } from './messages.ts';

/** A child's end of the channel to the process that started it. */
export interface ParentChannel {
  /** The name of this process in logs. */
  name: string;
  start: ChildStart;
  /** Resolves when the parent process has told this one to stop, or is gone. */
  stopped: Promise<void>;
  /** Resolves once the message has left, or cannot. */
  tell(message: FromChild): Promise<void>;
}

/** The parts that a child works with. */
export interface ChildParts {
  parent: ParentChannel;
  log: Logger;
  signals: EndSignals;
}

/** Opens the channel to the parent process. @throws UserError when this process has none */
export async function parentChannel(): Promise<ParentChannel> {
  if (!process.send) {
    throw new UserError('Only "worker-vllm queue --gateways" starts this program.');
  }
  const stopped = Promise.withResolvers<void>();
  process.once('disconnect', stopped.resolve);
  const [first] = (await Promise.race([
    once(process, 'message'),
    stopped.promise.then(() => [{ type: 'stop' }]),
  ])) as [ToChild];
  if (first.type !== 'start') throw new UserError('The process that started this one has told it nothing.');
  process.on('message', (message: ToChild) => {
    if (message.type === 'stop') stopped.resolve();
  });
  return {
    name: first.name,
    start: first.start,
    stopped: stopped.promise,
    tell: (message) =>
      new Promise((resolve) => {
        if (process.connected) process.send!(message, undefined, undefined, () => resolve());
        else resolve();
      }),
  };
}
