import type { ObjectHost } from '../../durable/host.ts';
import type { Asks } from './env.ts';
import { FleetReport, type FleetReportPorts } from './fleet-report.ts';

/** Makes the report to the fleet object of this queue id. */
export function reportToFleet(
  host: Pick<ObjectHost, 'queueId' | 'after' | 'log'>,
  objects: Pick<Asks, 'fleet'>,
  queue: Pick<FleetReportPorts, 'share' | 'takeEnded' | 'awaitsStart' | 'hearStarts'>,
): FleetReport {
  return new FleetReport({
    send: (events, share, ended) => objects.fleet(host.queueId).record(events, share, ended),
    ...queue,
    after: (ms, run) => void host.after(ms, run),
    failed: (error) =>
      host.log('warn', 'the fleet object cannot be told of workers; jobs are not affected', {
        error: String(error),
      }),
  });
}
