import type { WorkerRow } from '../../protocol/fleet-view.ts';
import { workerName } from '../../protocol/scaling.ts';
import type { GpuReading } from '../../protocol/telemetry.ts';
import * as format from '../../show/format.ts';
import { gpuTotals, TROUBLE } from '../../show/workers.ts';
import { now } from '../clock.ts';
import { Progress, Slots, Sparkline } from '../controls/figures.tsx';
import { WorkerMark } from '../controls/marks.tsx';
import type { Column } from '../controls/table.tsx';
import { Age } from '../controls/time.tsx';
import { href } from '../router.ts';

/** A column with the value by which it is sorted. */
interface WorkerColumn extends Column<WorkerRow> {
  sortBy?(worker: WorkerRow): number | string | null;
}

/** The columns of a worker in the fleet, left to right. */
export const WORKER_COLUMNS: WorkerColumn[] = [
  {
    key: 'state',
    head: 'State',
    width: 100,
    narrow: 92,
    cell: (worker) => <WorkerMark state={worker.state} share={shareOf(worker)} />,
  },
  {
    key: 'worker',
    head: 'Worker',
    width: 180,
    isSortable: true,
    sortBy: ({ worker_id }) => worker_id,
    cell: ({ worker_id, config_id }) => (
      <>
        <a class="id" href={href(`workers/${encodeURIComponent(worker_id)}`)} title={worker_id}>
          {workerName(worker_id)}
        </a>
        <small title={config_id ?? undefined}>{config_id ?? 'no pool yet'}</small>
      </>
    ),
  },
  { key: 'doing', head: 'Model, phase', drop: 4, cell: (worker) => <Doing worker={worker} /> },
  {
    key: 'slots',
    head: 'Slots',
    title: 'Slots for jobs; a filled one runs a job',
    width: 190,
    narrow: 56,
    isSortable: true,
    sortBy: ({ running }) => running,
    cell: ({ running, slots }) => <Slots running={running} slots={slots} />,
  },
  {
    key: 'waiting',
    head: 'In line',
    title: 'Requests that wait inside the engine',
    width: 62,
    isNumber: true,
    drop: 3,
    isSortable: true,
    sortBy: ({ engine_waiting }) => engine_waiting,
    cell: ({ engine_waiting }) => format.count(engine_waiting),
  },
  {
    key: 'kv',
    head: 'KV',
    title: 'Share of the KV cache in use',
    width: 56,
    isNumber: true,
    drop: 3,
    isSortable: true,
    sortBy: ({ kv_cache_usage }) => kv_cache_usage,
    cell: ({ kv_cache_usage }) => format.percent(kv_cache_usage),
  },
  {
    key: 'tokens',
    head: 'Tokens/s',
    title: 'Tokens generated a second, and their course over the last hour',
    width: 128,
    isNumber: true,
    drop: 5,
    isSortable: true,
    sortBy: ({ tokens_per_second }) => tokens_per_second,
    cell: ({ tokens_history, tokens_per_second }) => (
      <span class="course">
        <Sparkline values={tokens_history} label="Tokens a second over the last hour" />
        <span class="number">{format.amount(tokens_per_second)}</span>
      </span>
    ),
  },
  {
    key: 'first-token',
    head: 'First token',
    title: 'Median time to the first token',
    width: 86,
    isNumber: true,
    drop: 2,
    isSortable: true,
    sortBy: ({ first_token_ms }) => first_token_ms,
    cell: ({ first_token_ms }) => format.duration(first_token_ms),
  },
  {
    key: 'gpu',
    head: 'GPU',
    title: 'The GPUs, their highest temperature, and the power of all together',
    width: 118,
    drop: 3,
    isSortable: true,
    sortBy: ({ gpus }) => gpuTotals(gpus).name,
    cell: ({ gpus }) => <Gpus gpus={gpus} />,
  },
  {
    key: 'memory',
    head: 'GPU memory',
    title: 'Memory in use of all GPUs together, and their mean utilization',
    width: 100,
    isNumber: true,
    drop: 4,
    isSortable: true,
    sortBy: ({ gpus }) => gpuTotals(gpus).memoryUsed,
    cell: ({ gpus }) => <Memory gpus={gpus} />,
  },
  {
    key: 'beat',
    head: 'Heartbeat',
    title: 'Age of the newest heartbeat',
    width: 92,
    narrow: 86,
    isNumber: true,
    isSortable: true,
    sortBy: ({ heartbeat_at }) => heartbeat_at && -heartbeat_at,
    cell: ({ heartbeat_at }) => <Age at={heartbeat_at} />,
  },
  {
    key: 'up',
    head: 'Up',
    title: 'Age of the container',
    width: 82,
    isNumber: true,
    drop: 1,
    isSortable: true,
    sortBy: ({ start }) => (start.created_ms === undefined ? null : -start.created_ms),
    cell: ({ start }) => <Age at={start.created_ms ?? null} />,
  },
];

/** Returns the share that fills the ring of a worker's mark. */
export function shareOf({ state, progress, running, slots }: WorkerRow): number | null {
  if (state === 'loading') return progress;
  return running !== null && slots ? Math.min(1, running / slots) : 1;
}

function Gpus({ gpus }: { gpus: GpuReading[] }) {
  const { name, temperature, power } = gpuTotals(gpus);
  const health = [
    temperature === null ? null : format.celsius(temperature),
    power === null ? null : format.watts(power),
  ];
  return (
    <>
      <span title={gpus.map(({ name }) => name ?? 'unnamed').join('\n')}>{name ?? format.UNKNOWN}</span>
      <small class="number">{health.filter((text) => text !== null).join(' · ')}</small>
    </>
  );
}

function Memory({ gpus }: { gpus: GpuReading[] }) {
  const { memoryUsed, memoryTotal, utilization } = gpuTotals(gpus);
  return (
    <>
      {format.memory(memoryUsed, memoryTotal)}
      {utilization !== null && <small>{format.percent(utilization)} busy</small>}
    </>
  );
}

/** Shows a worker's model and, under it, the progress of its start, or its problem. */
function Doing({ worker }: { worker: WorkerRow }) {
  const { models, state, was_doing, error, disconnected } = worker;
  const model = models[0];
  const more = models.length > 1 ? ` and ${models.length - 1} more` : '';
  return (
    <>
      <span class="model" title={models.join('\n')}>
        {model === undefined ? format.UNKNOWN : model.slice(model.lastIndexOf('/') + 1) + more}
      </span>
      {state === 'starting' || state === 'loading' ? (
        <>
          <StartOf worker={worker} />
          {error && (
            <small class="warn" title={error.message}>
              {error.message}
            </small>
          )}
        </>
      ) : (
        <small class={state === 'error' ? 'bad' : undefined} title={error?.message}>
          {state === 'error'
            ? error?.message
            : state === 'lost'
              ? (was_doing ?? disconnected?.reason)
              : engineWords(worker)}
        </small>
      )}
    </>
  );
}

/**
 * Returns words such as `asleep` or `sql, french`: whether the worker's machine is taken away, the step of its
 * start, whether its engine has the shared GPU, and its loaded adapters.
 */
export function engineWords({ state, phase, engine_asleep, adapters, preempted }: WorkerRow): string {
  const turn = engine_asleep === null ? null : engine_asleep ? 'asleep' : 'awake';
  const loaded = adapters === null ? null : adapters.loaded.join(', ');
  const leaving = preempted ? `its machine ${state === 'stopped' ? 'was' : 'is being'} taken away` : null;
  return [leaving, phase, turn, loaded].filter(Boolean).join(' · ');
}

/** Shows a start such as `load ▇▇▇▁ 1:12 of ~2:40`, amber once it takes longer than usual. */
export function StartOf({ worker }: { worker: WorkerRow }) {
  const { phase, progress, start, state_since, expected_start_ms } = worker;
  const since = start.created_ms ?? state_since;
  const taken = since === null ? null : now.value - since;
  const isSlow = taken !== null && expected_start_ms !== null && taken > expected_start_ms;
  return (
    <small class={`start ${isSlow ? 'warn' : ''}`}>
      <span>{phase ?? 'starting'}</span>
      <Progress share={progress} label={`Progress of ${workerName(worker.worker_id)}`} />
      <span class="number" title="Since the container was made, and how long that usually takes">
        {format.age(taken)}
        {expected_start_ms !== null && ` of ~${format.age(expected_start_ms)}`}
      </span>
    </small>
  );
}

/** Sorts workers by the chosen column, else by trouble, then by name; unknown values come last. */
export function sortWorkers(workers: readonly WorkerRow[], sort: string | null): WorkerRow[] {
  const isDown = sort?.startsWith('-') ?? false;
  const column = WORKER_COLUMNS.find(({ key }) => key === sort?.replace('-', ''));
  const by = column?.sortBy ?? (({ state }: WorkerRow) => TROUBLE[state]);
  return workers
    .map((worker) => ({ worker, value: by(worker) }))
    .sort((a, b) => {
      if (a.value === null || b.value === null) return Number(a.value === null) - Number(b.value === null);
      const order = a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
      if (order !== 0) return isDown ? -order : order;
      return a.worker.worker_id < b.worker.worker_id ? -1 : 1;
    })
    .map(({ worker }) => worker);
}
