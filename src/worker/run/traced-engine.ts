import type { EngineClient } from '../../engine/client/types.ts';
import type { Ports } from '../ports.ts';
import type { RunningJob } from './running-job.ts';

/** The part of the engine client that a run uses. */
export type RunEngine = Pick<EngineClient, 'request' | 'isHealthy'>;

/**
 * Wraps the engine for one attempt: its requests carry the priority of the job in their headers, unless they name one
 * there, and the trace that the job belongs to, whether spans are exported or not.
 */
export function tracedEngine(
  engine: EngineClient,
  { job, trace }: RunningJob,
  clock: Ports['clock'],
): RunEngine {
  const { traceparent, tracestate } = job.trace ?? {};
  const { priority = 0 } = job;
  if (trace === null && traceparent === undefined && priority === 0) return engine;
  // In vLLM's header the lowest number goes first.
  const ranked: Record<string, string> = priority === 0 ? {} : { 'x-vllm-priority': String(-priority) };
  return {
    isHealthy: (timeoutMs) => engine.isHealthy(timeoutMs),
    request: async (call) => {
      const own = trace?.request(call, clock.now());
      const given = traceparent === undefined ? {} : { traceparent, ...(tracestate && { tracestate }) };
      const answer = await engine.request({
        ...call,
        headers: { ...ranked, ...given, ...call.headers, ...own },
      });
      trace?.answered(answer.status);
      return answer;
    },
  };
}
