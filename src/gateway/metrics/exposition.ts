/**
 * Prometheus' text format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats). A library keeps its counters in
 * memory; ours are rows of the objects, so that all it takes is to write them down.
 */

export const EXPOSITION_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export interface Family {
  /** Without the prefix. */
  name: string;
  type: 'counter' | 'gauge' | 'histogram';
  help: string;
  samples: Sample[];
}

export interface Sample {
  labels: Record<string, string>;
  value: number;
  /** `_bucket`, `_sum` and `_count` of a histogram. */
  suffix?: string;
}

/** Before every name. */
const PREFIX = 'worker_vllm_';

export function exposition(families: readonly Family[]): string {
  return families.map(familyText).join('');
}

/**
 * The samples of one histogram.
 * @param bounds upper ones, s
 * @param counts for each bound what was measured up to it and above the one before, and last what was above all
 */
export function histogramSamples(
  labels: Record<string, string>,
  bounds: readonly number[],
  { counts, sum }: { counts: readonly number[]; sum: number },
): Sample[] {
  let all = 0;
  const buckets = counts.map((count, at): Sample => {
    all += count;
    const le = at < bounds.length ? String(bounds[at]) : '+Inf';
    return { labels: { ...labels, le }, value: all, suffix: '_bucket' };
  });
  return [...buckets, { labels, value: sum, suffix: '_sum' }, { labels, value: all, suffix: '_count' }];
}

function familyText({ name, type, help, samples }: Family): string {
  const full = PREFIX + name;
  const lines = samples.map(
    ({ labels, value, suffix = '' }) => `${full}${suffix}${labelText(labels)} ${value}\n`,
  );
  return `# HELP ${full} ${escaped(help)}\n# TYPE ${full} ${type}\n${lines.join('')}`;
}

function labelText(labels: Record<string, string>): string {
  const pairs = Object.entries(labels).map(
    ([name, value]) => `${name}="${escaped(value).replaceAll('"', '\\"')}"`,
  );
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

/** A family of gauges. */
export function gauge(name: string, help: string, samples: Sample[]): Family {
  return { name, type: 'gauge', help, samples };
}

/** The same samples, of one pool. */
export function withPool(pool: string, samples: readonly Sample[]): Sample[] {
  return samples.map(({ labels, value }) => ({ labels: { pool, ...labels }, value }));
}

/** A sample for each key. */
export function by(label: string, values: Readonly<Record<string, number>>): Sample[] {
  return Object.entries(values).map(([key, value]) => ({ labels: { [label]: key }, value }));
}
