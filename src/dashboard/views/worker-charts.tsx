import { useState } from 'preact/hooks';
import type { FleetHistory } from '../../protocol/fleet-view.ts';
import { Chart } from '../controls/chart.tsx';
import * as format from '../format.ts';
import { usePolled } from '../polled.ts';

interface ChartOf {
  title: string;
  /** Names of series in the history, and what they are called here. */
  lines: Record<string, string>;
  format(value: number | null): string;
  most?: number;
}

const CHARTS: ChartOf[] = [
  { title: 'Tokens a second', lines: { tokens_per_second: 'tokens/s' }, format: format.amount },
  {
    title: 'Requests in the engine',
    lines: { engine_running: 'running', engine_waiting: 'in line' },
    format: format.count,
  },
  {
    title: 'Time to the first token, median',
    lines: { first_token_ms: 'first token' },
    format: format.duration,
  },
  {
    title: 'KV cache and GPU',
    lines: { kv_cache_usage: 'KV cache', gpu_utilization: 'GPU busy' },
    format: format.percent,
    most: 1,
  },
];

const RANGES = { '1h': 'Last hour', '24h': 'Last day' } as const;
/** A step of an hour's history is 10 s, of a day's a minute. */
const REFRESH_MS = { '1h': 10_000, '24h': 60_000 };

export function WorkerCharts({ workerId }: { workerId: string }) {
  const [range, setRange] = useState<keyof typeof RANGES>('1h');
  const path = `api/fleet/history?worker_id=${encodeURIComponent(workerId)}&range=${range}`;
  const { data, failure } = usePolled<FleetHistory>(path, REFRESH_MS[range]).value;
  return (
    <section aria-labelledby="charts-title">
      <div class="tools">
        <h2 id="charts-title">Load</h2>
        <fieldset class="chips">
          <legend class="unseen">Range</legend>
          {(Object.keys(RANGES) as (keyof typeof RANGES)[]).map((key) => (
            <button key={key} type="button" aria-pressed={range === key} onClick={() => setRange(key)}>
              {RANGES[key]}
            </button>
          ))}
        </fieldset>
      </div>
      {data ? (
        <div class="charts">
          {CHARTS.map(({ title, lines, ...rest }) => (
            <Chart
              key={title}
              title={title}
              at={data.at}
              series={Object.entries(lines).map(([key, name]) => ({
                name,
                values: data.series[key] ?? data.at.map(() => null),
              }))}
              {...rest}
            />
          ))}
        </div>
      ) : (
        <p class="notice">{failure ? failure.message : 'Asking …'}</p>
      )}
    </section>
  );
}
