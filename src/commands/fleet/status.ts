import { EXIT } from '../../process/index.ts';
import { type FleetView, printable } from '../../protocol/index.ts';
import type { QueueTarget } from '../ask-queue.ts';
import { print } from '../print.ts';
import { readFleet } from '../top/connection.ts';
import { drawLive } from '../top/live.ts';
import { statusLines } from './status-lines.ts';

export interface FleetStatusOptions extends QueueTarget {
  json?: boolean;
  watch?: boolean;
}

/**
 * Runs `worker-vllm fleet status`: prints what the scheduler wants, has and has decided, by pool.
 * @returns the exit code
 * @throws UserError when the queue cannot be reached, or the token may not look
 */
export async function runFleetStatus({ json, watch, ...target }: FleetStatusOptions): Promise<number> {
  const view = await readFleet(target);
  if (json) {
    print(JSON.stringify(scalingOf(view), null, 2));
    return EXIT.ok;
  }
  if (watch && process.stdout.isTTY) {
    return drawLive(target, view, (shown, { rows, columns }) =>
      [shown.connection, '', ...statusLines(shown.view, shown.now)]
        .slice(0, rows)
        .map((line) => printable(line).slice(0, columns)),
    );
  }
  print(statusLines(view, view.at).join('\n'));
  return EXIT.ok;
}

/** Returns the parts of `GET /api/fleet` that the scheduler makes. */
function scalingOf({ at, scaling, pools, launches }: FleetView) {
  return {
    at,
    scaling,
    pools: pools.flatMap(({ config_id, scaling: own }) => (own ? [{ config_id, ...own }] : [])),
    launches,
  };
}
