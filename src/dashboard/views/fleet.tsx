import type { WorkerRow, WorkerState } from '../../protocol/fleet-view.ts';
import { plural } from '../../show/format.ts';
import { Mark } from '../controls/mark.tsx';
import { WORKER_LOOKS, WORKER_STATES } from '../controls/state.tsx';
import { Table } from '../controls/table.tsx';
import { OverTime } from '../courses/over-time.tsx';
import { fleet } from '../live.ts';
import { filter, query } from '../router.ts';
import { EmptyFleet } from './empty-fleet.tsx';
import { Scaling } from './scaling.tsx';
import { engineWords, sortWorkers, WORKER_COLUMNS } from './worker-columns.tsx';

const ROW_HEIGHT = 44;

/** Shows every worker, a row each, the worst first. */
export function FleetView() {
  const view = fleet.value;
  if (!view) return null;
  if (!view.scaling && view.summary.verdict === 'empty' && view.workers.length === 0) return <EmptyFleet />;
  const state = WORKER_STATES.find((known) => known === query.value.get('state')) ?? null;
  const pool = query.value.get('config_id');
  const text = query.value.get('text') ?? '';
  const sort = query.value.get('sort');
  const ofPool = view.workers
    .filter(({ config_id }) => pool === null || config_id === pool)
    .filter((worker) => says(worker, text));
  const shown = state === null ? ofPool : ofPool.filter((worker) => worker.state === state);
  return (
    <section class="view" aria-labelledby="fleet-title">
      <Scaling view={view} />
      <div class="tools">
        <h1 id="fleet-title">Workers</h1>
        <StateFilter workers={ofPool} chosen={state} />
        <TextFilter text={text} />
        <PoolFilter workers={view.workers} chosen={pool} />
      </div>
      {shown.length > 0 ? (
        <Table
          label="Workers"
          columns={WORKER_COLUMNS}
          rows={sortWorkers(shown, sort)}
          rowHeight={ROW_HEIGHT}
          idOf={({ worker_id }) => worker_id}
          pathOf={({ worker_id }) => `workers/${encodeURIComponent(worker_id)}`}
          classOf={({ state }) => state}
          sort={sort}
          onSort={(sort) => filter({ sort })}
        />
      ) : (
        <NoneShown hidden={view.workers.length} state={state} />
      )}
      <OverTime config_id={pool} />
    </section>
  );
}

/** Shows which filter leaves nothing, and a button that removes it. */
function NoneShown({ hidden, state }: { hidden: number; state: WorkerState | null }) {
  if (hidden === 0) return <p class="notice">No worker is there.</p>;
  const pool = query.value.get('config_id');
  const text = query.value.get('text');
  const words = [
    state && ` is ${WORKER_LOOKS[state].word.toLowerCase()}`,
    pool && ` in the pool ${pool}`,
    text && ` with “${text}”`,
  ];
  return (
    <p class="notice">
      No worker{words}; {plural(hidden, 'worker')} hidden.{' '}
      <button type="button" onClick={() => filter({ state: null, config_id: null, text: null })}>
        Show all
      </button>
    </p>
  );
}

/** Shows the states of the workers, with how many are in each. */
function StateFilter({ workers, chosen }: { workers: WorkerRow[]; chosen: WorkerState | null }) {
  const counts = Map.groupBy(workers, ({ state }) => state);
  return (
    <fieldset class="chips">
      <legend class="unseen">Filter by state</legend>
      <button type="button" aria-pressed={chosen === null} onClick={() => filter({ state: null })}>
        All <span class="number">{workers.length}</span>
      </button>
      {WORKER_STATES.filter((state) => counts.has(state)).map((state) => (
        <button
          key={state}
          type="button"
          aria-pressed={chosen === state}
          onClick={() => filter({ state: chosen === state ? null : state })}
        >
          <span class={`state ${WORKER_LOOKS[state].tone}`}>
            <Mark shape={WORKER_LOOKS[state].shape} share={0.7} />
            {WORKER_LOOKS[state].word}
          </span>{' '}
          <span class="number">{counts.get(state)!.length}</span>
        </button>
      ))}
    </fieldset>
  );
}

/**
 * Shows the field that finds what the browser's own search cannot: rows that are not in view are not in the document.
 */
function TextFilter({ text }: { text: string }) {
  return (
    <input
      type="search"
      placeholder="Worker, model, GPU, error"
      aria-label="Filter by words of a worker's name, pool, model, adapters, GPU or error"
      spellcheck={false}
      value={text}
      onInput={(event) => filter({ text: event.currentTarget.value })}
    />
  );
}

/** Returns whether a text occurs in what is shown of a worker. */
function says(worker: WorkerRow, text: string): boolean {
  const { worker_id, config_id, models, gpus, error } = worker;
  const wanted = text.trim().toLowerCase();
  const names = gpus.map(({ name }) => name);
  const told = [worker_id, config_id, ...models, ...names, engineWords(worker), error?.message];
  return told.some((one) => one?.toLowerCase().includes(wanted)) || wanted === '';
}

function PoolFilter({ workers, chosen }: { workers: WorkerRow[]; chosen: string | null }) {
  const pools = [...new Set(workers.flatMap(({ config_id }) => config_id ?? []))].sort();
  if (pools.length < 2 && chosen === null) return null;
  return (
    <label class="select">
      Pool{' '}
      <select value={chosen ?? ''} onChange={(event) => filter({ config_id: event.currentTarget.value })}>
        <option value="">all</option>
        {pools.map((pool) => (
          <option key={pool} value={pool}>
            {pool}
          </option>
        ))}
      </select>
    </label>
  );
}
