import type { FleetRpc } from '../../fleet/rpc.ts';
import type { QueueEnv } from './env.ts';
import { FleetReport, type FleetReportPorts } from './fleet-report.ts';
import { log } from './log.ts';

/** Reports to the fleet object of this queue id. */
export function reportToFleet(
  { FLEET }: Pick<QueueEnv, 'FLEET'>,
  queueId: string,
  queue: Pick<FleetReportPorts, 'share' | 'takeEnded' | 'awaitsStart' | 'hearStarts'>,
): FleetReport {
  const fleet = () => FLEET.get(FLEET.idFromName(queueId)) as unknown as FleetRpc;
  return new FleetReport({
    send: (events, share, ended) => fleet().record(events, share, ended),
    ...queue,
    after: (ms, run) => void setTimeout(run, ms),
    failed: (error) =>
      log('warn', 'the fleet object cannot be told of workers; jobs are not affected', {
        error: String(error),
      }),
  });
}
