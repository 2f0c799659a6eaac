import { useEffect, useState } from 'preact/hooks';
import type { RequestRecord } from '../../protocol/request-record.ts';
import * as format from '../../show/format.ts';
import { ApiFailure, ask } from '../api.ts';
import { now } from '../clock.ts';
import { ownFailure, repeat } from '../polled.ts';
import { compare, type Measure, type Side } from './worker-comparison.ts';

const SPAN_MS = 3_600_000;
/** The most requests of the worker, and of its pool, that are read. */
const MOST_REQUESTS = 500;
const REFRESH_MS = 30_000;

const FORMATS: Record<Measure['kind'], (value: number | null) => string> = {
  duration: format.duration,
  rate: format.amount,
  share: smallShare,
};

/** Returns a share as a percentage, a small one with a decimal: `2 %` beside `2 %` would not be 1.4 times as much. */
function smallShare(share: number | null): string {
  const hasDecimal = share !== null && share >= 0.0005 && share < 0.0995;
  return hasDecimal ? `${(share * 100).toFixed(1)} %` : format.percent(share);
}

/** Shows whether a worker is slower than the others of its pool, or fails more. */
export function AgainstPool({ workerId, configId }: { workerId: string; configId: string }) {
  const { measures, failure } = useMeasures(workerId, configId);
  return (
    <section class="against" aria-labelledby="against-title">
      <h2 id="against-title">Beside its pool</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">Measure</th>
            <th scope="col" class="number">
              This worker
            </th>
            <th scope="col" class="number of">
              Requests
            </th>
            <th scope="col" class="number">
              Rest of <span class="breaks">{configId}</span>
            </th>
            <th scope="col" class="number of">
              Requests
            </th>
            <th scope="col">Compared</th>
          </tr>
        </thead>
        <tbody>
          {measures.map((measure) => (
            <tr key={measure.name}>
              <th scope="row">{measure.name}</th>
              <SideCells side={measure.worker} kind={measure.kind} />
              <SideCells side={measure.pool} kind={measure.kind} />
              <td class={measure.isWorse ? 'warn' : ''}>{comparison(measure)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="dim">
        {ownFailure(failure) ??
          `This compares medians, and the share of requests that failed, among those that ended within the last hour: at most the newest ${MOST_REQUESTS} of the worker and of its pool.`}
      </p>
    </section>
  );
}

/** Shows a value, and how many requests it is of. */
function SideCells({ side: { value, n }, kind }: { side: Side; kind: Measure['kind'] }) {
  return (
    <>
      <td class="number">{FORMATS[kind](value)}</td>
      <td class="number dim of">{format.count(n)}</td>
    </>
  );
}

/** Returns a comparison such as `2.3 times the pool's`. */
function comparison({ times, worker, pool }: Pick<Measure, 'times' | 'worker' | 'pool'>): string {
  if (worker.n === 0 || pool.n === 0) return format.UNKNOWN;
  if (worker.value === pool.value) return 'as the pool';
  if (worker.value === 0) return 'none here';
  if (times === null) return '0 in the pool';
  if (times > 0.95 && times < 1.05) return 'as the pool';
  return `${times < 10 ? times.toFixed(1) : Math.round(times)} times the pool’s`;
}

interface Measured {
  measures: Measure[];
  failure: ApiFailure | null;
}

function useMeasures(workerId: string, configId: string): Measured {
  const [measured, setMeasured] = useState<Measured>({ measures: compare(workerId, [], []), failure: null });
  useEffect(
    () =>
      repeat(REFRESH_MS, async (signal) => {
        const since = new Date(now.peek() - SPAN_MS).toISOString();
        const newest = async (column: string, value: string) => {
          const query = new URLSearchParams({ [column]: value, since, limit: String(MOST_REQUESTS) });
          return (await ask<{ requests: RequestRecord[] }>(`api/requests?${query}`, { signal })).requests;
        };
        try {
          const [own, pool] = await Promise.all([
            newest('worker_id', workerId),
            newest('config_id', configId),
          ]);
          setMeasured({ measures: compare(workerId, own, pool), failure: null });
        } catch (error) {
          if (error instanceof ApiFailure) setMeasured((known) => ({ ...known, failure: error }));
        }
      }),
    [workerId, configId],
  );
  return measured;
}
