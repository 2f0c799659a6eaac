import type { FleetHistory } from '../../protocol/fleet-view.ts';
import * as format from '../../show/format.ts';
import { Chart } from '../controls/chart.tsx';
import { Chips } from '../controls/chips.tsx';
import type { Series } from '../controls/series.ts';
import { ownFailure, usePolled } from '../polled.ts';
import { filter, query } from '../router.ts';

interface ChartOf {
  title: string;
  /** The looks of the lines, by the names of their series in the history. */
  lines: Record<string, Omit<Series, 'values'>>;
  format(value: number | null): string;
  most?: number;
  isWhole?: boolean;
}

const CHARTS: ChartOf[] = [
  {
    title: 'Tokens a second',
    lines: { tokens_per_second: { name: 'out', draw: 'area' } },
    format: format.perSecond,
  },
  {
    title: 'Requests in the engine',
    lines: {
      engine_running: { name: 'running', draw: 'area' },
      engine_waiting: { name: 'in line', tone: 'warn' },
    },
    format: format.count,
    isWhole: true,
  },
  {
    title: 'Time to the first token',
    lines: { first_token_ms: { name: 'median' } },
    format: format.duration,
  },
  {
    title: 'KV cache and GPU',
    lines: {
      kv_cache_usage: { name: 'KV cache' },
      gpu_utilization: { name: 'GPU busy', draw: 'dotted', tone: 'dim' },
    },
    format: format.percent,
    most: 1,
  },
];

const RANGES = { '1h': 'Last hour', '24h': 'Last day' } as const;
/** The interval of reads, ms: the steps of an hour's history are 10 s, of a day's a minute. */
const REFRESH_MS = { '1h': 10_000, '24h': 60_000 };

/** The least number of steps that are shown. */
const LEAST_STEPS = 60;

/** Leaves out the time before anything was known; otherwise what came since would stick to the edge. */
function sinceKnown({ at, series, step_ms, marks }: FleetHistory): FleetHistory {
  const all = Object.values(series);
  const known = at.findIndex((_, i) => all.some((values) => values[i] != null));
  const first = Math.max(0, Math.min(known, at.length - LEAST_STEPS));
  return {
    at: at.slice(first),
    step_ms,
    marks,
    series: Object.fromEntries(Object.entries(series).map(([name, values]) => [name, values.slice(first)])),
  };
}

export function WorkerCharts({ workerId }: { workerId: string }) {
  const range = query.value.get('over') === '24h' ? '24h' : '1h';
  const path = `api/fleet/history?worker_id=${encodeURIComponent(workerId)}&range=${range}`;
  const { data: history, failure } = usePolled<FleetHistory>(path, REFRESH_MS[range]).value;
  const data = history && sinceKnown(history);
  const known = CHARTS.filter(({ lines }) =>
    Object.keys(lines).some((key) => data?.series[key]?.some((value) => value !== null)),
  );
  return (
    <section class="load" aria-labelledby="charts-title">
      <div class="tools">
        <h2 id="charts-title">Load</h2>
        <Chips
          label="Range"
          chosen={range}
          options={RANGES}
          onChoose={(over) => filter({ over: over === '1h' ? null : over })}
        />
      </div>
      {data && known.length > 0 ? (
        <div class="charts">
          {known.map(({ title, lines, ...rest }) => (
            <Chart
              key={title}
              title={title}
              at={data.at}
              span={[data.at[0]!, data.at.at(-1)! + data.step_ms]}
              cursor="worker"
              series={Object.entries(lines).map(([key, look]) => ({
                ...look,
                values: data.series[key] ?? data.at.map(() => null),
              }))}
              {...rest}
            />
          ))}
        </div>
      ) : (
        <p class={`notice${data ? '' : ' asked'}`}>
          {ownFailure(failure) ?? (data ? 'Nothing was measured.' : 'Asking …')}
        </p>
      )}
    </section>
  );
}
