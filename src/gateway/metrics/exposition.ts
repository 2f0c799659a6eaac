/**
 * Writes Prometheus' text format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats). A library would keep its
 * counters in memory; ours are rows of the objects, so that they need only be written down.
 */

export const EXPOSITION_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export interface Family {
  /** The family's name without the prefix. */
  name: string;
  type: 'counter' | 'gauge' | 'histogram';
  help: string;
  samples: Sample[];
}

export interface Sample {
  labels: Record<string, string>;
  value: number;
  /** The suffix of a histogram's sample: `_bucket`, `_sum` or `_count`. */
  suffix?: string;
}

/** The prefix of every name. */
const PREFIX = 'worker_vllm_';

export function exposition(families: readonly Family[]): string {
  return families.map(familyText).join('');
}

/**
 * Returns the samples of one histogram.
 * @param bounds upper bounds, s
 * @param counts the measurements between each bound and the one before, and last those above all bounds
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

export function gauge(name: string, help: string, samples: Sample[]): Family {
  return { name, type: 'gauge', help, samples };
}

/** Returns the same samples with the label of one pool. */
export function withPool(pool: string, samples: readonly Sample[]): Sample[] {
  return samples.map(({ labels, value }) => ({ labels: { pool, ...labels }, value }));
}

/** Returns a sample for each key. */
export function by(label: string, values: Readonly<Record<string, number>>): Sample[] {
  return Object.entries(values).map(([key, value]) => ({ labels: { [label]: key }, value }));
}
