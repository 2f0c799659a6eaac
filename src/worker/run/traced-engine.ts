import type { EngineClient } from '../../engine/client/types.ts';
import type { Ports } from '../ports.ts';
import type { RunningJob } from './running-job.ts';

/** What a run asks of its engine. */
export type RunEngine = Pick<EngineClient, 'request' | 'isHealthy'>;

/**
 * The engine as one attempt asks it: with the trace that the job belongs to in its headers, whether spans are exported
 * or not.
 */
export function tracedEngine(
  engine: EngineClient,
  { job, trace }: RunningJob,
  clock: Ports['clock'],
): RunEngine {
  const { traceparent, tracestate } = job.trace ?? {};
  if (trace === null && traceparent === undefined) return engine;
  return {
    isHealthy: (timeoutMs) => engine.isHealthy(timeoutMs),
    request: async (call) => {
      const own = trace?.request(call, clock.now());
      const given = traceparent === undefined ? {} : { traceparent, ...(tracestate && { tracestate }) };
      const answer = await engine.request({ ...call, headers: { ...given, ...call.headers, ...own } });
      trace?.answered(answer.status);
      return answer;
    },
  };
}
