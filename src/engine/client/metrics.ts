import type { MetricNames } from '../kinds/description.ts';
import type { EngineGauges } from './types.ts';

/**
 * Reads gauges and progress out of a Prometheus text page. Counts are summed over their labels (one series per engine
 * of a data-parallel server); of several cache usages the highest counts, since a share cannot be summed.
 * @returns null when the page holds no gauge
 */
export function readGauges(page: string, names: MetricNames): EngineGauges | null {
  const running = valuesOf(page, names.running);
  const waiting = valuesOf(page, names.waiting);
  const usage = valuesOf(page, names.kvCacheUsage);
  if (running.length + waiting.length + usage.length === 0) return null;
  const generated = valuesOf(page, names.generatedTokens);
  const preempted = names.preemptions === undefined ? [] : valuesOf(page, names.preemptions);
  const progress = names.progress.flatMap((name) => valuesOf(page, name));
  return {
    running: sum(running),
    waiting: sum(waiting),
    kvCacheUsage: Math.min(1, Math.max(0, ...usage)),
    ...(generated.length > 0 ? { generatedTokens: sum(generated) } : {}),
    ...(preempted.length > 0 ? { preemptions: sum(preempted) } : {}),
    ...(progress.length > 0 ? { progress: sum(progress) } : {}),
  };
}

function valuesOf(page: string, name: string): number[] {
  const values: number[] = [];
  for (const line of page.split('\n')) {
    if (!line.startsWith(name)) continue;
    const rest = line.slice(name.length);
    if (!rest.startsWith('{') && !rest.startsWith(' ')) continue;
    const value = Number(
      rest
        .slice(rest.lastIndexOf('}') + 1)
        .trim()
        .split(' ')[0],
    );
    if (Number.isFinite(value)) values.push(value);
  }
  return values;
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
