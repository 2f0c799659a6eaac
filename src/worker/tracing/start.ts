import type { Log } from '../../process/log.ts';
import { type SpanOrigin, Tracer } from './job-spans.ts';
import { tracingSettings } from './settings.ts';

export interface Tracing {
  tracer: Tracer;
  /** Posts the remaining spans within `withinMs`. */
  stop(withinMs: number): Promise<void>;
}

/** Starts spans for the collector that OpenTelemetry's variables name; null: they name none, and nothing is loaded. */
export async function startTracing(
  env: NodeJS.ProcessEnv,
  queueId: string,
  origin: SpanOrigin,
  log: Log,
): Promise<Tracing | null> {
  const settings = tracingSettings(env);
  if (settings === null) return null;
  const { startExporter } = await import('./exporter.ts');
  for (const warning of settings.warnings) log.warn({}, warning);
  const exporter = startExporter(settings, origin.workerId, log);
  return { tracer: new Tracer(queueId, origin, exporter), stop: (withinMs) => exporter.stop(withinMs) };
}
