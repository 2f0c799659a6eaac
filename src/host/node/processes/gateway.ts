import { EXIT } from '../../../process/index.ts';
import { startGateway } from '../gateway.ts';
import type { ChildParts } from './child.ts';
import type { GatewayStart } from './messages.ts';

/**
 * Runs a gateway until it is told to stop, or has drained after a signal.
 * @returns the exit code
 * @throws UserError when it cannot start
 */
export async function runGatewayChild(start: GatewayStart, parts: ChildParts): Promise<number> {
  const { parent, log, signals } = parts;
  const { host, port, queue, token } = start;
  const gateway = await startGateway({
    ...{ host, port, sharesPort: true, token },
    queueUrls: [queue],
    advertise: null,
    logger: log,
  });
  const linked = gateway.linked.then(() => parent.tell({ type: 'up' }));
  const first = await Promise.race([signals.first, parent.stopped, linked.then(() => signals.first)]);
  const ended = () => Promise.race([signals.second, parent.stopped.then(() => gateway.stop())]);
  if (first === undefined) {
    const forced = await ended();
    return forced ? EXIT.forced : EXIT.ok;
  }
  log.info(`${first}: the gateway drains; once more to end at once`);
  await parent.tell({ type: 'drains' });
  const forced = await Promise.race([gateway.drain(), ended()]);
  return forced ? EXIT.forced : EXIT.ok;
}
