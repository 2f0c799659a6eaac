import type { WorkerRow, WorkerState } from '../../protocol/fleet-view.ts';
import { plural } from '../../show/format.ts';
import { Command } from '../controls/action.tsx';
import { Mark, WORKER_LOOKS, WORKER_STATES } from '../controls/marks.tsx';
import { Table } from '../controls/table.tsx';
import { Age } from '../controls/time.tsx';
import { isLow } from '../controls/window.ts';
import { fleet } from '../live.ts';
import { at, filter, query } from '../router.ts';
import { session } from '../session.ts';
import { OverTime } from './over-time.tsx';
import { Scaling } from './scaling.tsx';
import { engineWords, sortWorkers, WORKER_COLUMNS } from './worker-columns.tsx';

const ROW_HEIGHT = isLow ? 40 : 44;

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
      <div class="tools fleet-tools">
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

/** Shows which filter leaves no rows, and a button that removes it. */
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

/** Shows the states of the workers, with the number of workers in each. */
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
      placeholder="Find a worker"
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
  const words = [worker_id, config_id, ...models, ...names, engineWords(worker), error?.message];
  return words.some((one) => one?.toLowerCase().includes(wanted)) || wanted === '';
}

function PoolFilter({ workers, chosen }: { workers: WorkerRow[]; chosen: string | null }) {
  const pools = [...new Set(workers.flatMap(({ config_id }) => config_id ?? []))].sort();
  if (pools.length < 2 && chosen === null) return null;
  return (
    <label class="select">
      <span class="unseen">Pool</span>
      <select value={chosen ?? ''} onChange={(event) => filter({ config_id: event.currentTarget.value })}>
        <option value="">All pools</option>
        {pools.map((pool) => (
          <option key={pool} value={pool}>
            {pool}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Shows the commands that a first-time visitor types, with this page's own address filled in. */
function EmptyFleet() {
  const url = at('').replace(/\/$/, '');
  return (
    <section class="view empty" aria-labelledby="empty-title">
      <h1 id="empty-title">Add the first worker</h1>
      <p>
        A worker stands beside an engine such as vLLM, on any machine that reaches this address. It dials out,
        so no port of it has to be open.
      </p>
      {session.value?.asks_for_token === false ? <OnThisMachine url={url} /> : <Anywhere url={url} />}
      <Waiting />
    </section>
  );
}

/** Shows the commands for this machine, since a queue without tokens serves it alone. */
function OnThisMachine({ url }: { url: string }) {
  return (
    <ul>
      <li>
        <h2>With a GPU and vLLM on this machine</h2>
        <Command
          text={`${reaches(url)} \\\nVLLM_MODEL=Qwen/Qwen3-0.6B CASOLA_MAX_JOBS=16 npx worker-vllm supervise`}
        />
      </li>
      <li>
        <h2>Without a GPU</h2>
        <p>A simulated engine takes part as a real one would; its answers are made up.</p>
        <Command text={simulated(reaches(url))} />
      </li>
      <li>
        <h2>For workers on other machines</h2>
        <p>
          This queue has no tokens, so it serves this machine alone. Make one for workers and one for this
          page, stop the queue, and start it again for others:
        </p>
        <Command
          text={[
            'npx worker-vllm token create --scope worker',
            'npx worker-vllm token create --scope admin',
            `npx worker-vllm queue --host 0.0.0.0 --port ${location.port || 80}`,
          ].join('\n')}
          what="the commands"
        />
      </li>
    </ul>
  );
}

function Anywhere({ url }: { url: string }) {
  return (
    <ol>
      <li>
        <h2>Make a token for workers, on the queue's machine</h2>
        <p>It is shown once. The queue knows it within a second.</p>
        <Command text="npx worker-vllm token create --scope worker" />
      </li>
      <li>
        <h2>Start the worker and its engine, on the machine with the GPU</h2>
        <p>
          No image is published: in a clone there, <code>./build.sh</code> builds it first.
        </p>
        <Command
          text={[
            'docker run --gpus all --ipc=host \\',
            `  -e CASOLA_WS_URL=${webSocketOf(url)} -e CASOLA_API_URL=${url} -e CASOLA_LOGS_URL=${url}/api/logs \\`,
            '  -e CASOLA_API_TOKEN=PASTE_THE_TOKEN -e CASOLA_CONFIG_ID=qwen-small -e CASOLA_MAX_JOBS=16 \\',
            '  -e VLLM_MODEL=Qwen/Qwen3-0.6B ghcr.io/worker-vllm/worker-vllm',
          ].join('\n')}
        />
        <p>
          Without Docker, run <code>npm ci</code>, then <code>npx worker-vllm supervise</code> with the same
          variables in front of it.
        </p>
      </li>
      <li>
        <h2>Or without a GPU</h2>
        <p>A simulated engine takes part as a real one would; its answers are made up.</p>
        <Command text={simulated(`${reaches(url)} CASOLA_API_TOKEN=PASTE_THE_TOKEN`)} />
      </li>
    </ol>
  );
}

/** Returns the variables by which a worker reaches this queue. */
function reaches(url: string): string {
  return `CASOLA_WS_URL=${webSocketOf(url)} CASOLA_API_URL=${url} \\\nCASOLA_LOGS_URL=${url}/api/logs CASOLA_CONFIG_ID=first`;
}

function webSocketOf(url: string): string {
  return url.replace(/^http/, 'ws');
}

function simulated(variables: string): string {
  return `${variables} \\\nENGINE=simulator VLLM_MODEL=simulated VLLM_PORT=8001 CASOLA_MAX_JOBS=8 npx worker-vllm supervise`;
}

/** Shows whether a worker has tried to connect so far. */
function Waiting() {
  const refused = fleet.value?.attention.find(({ code }) => code === 'token_refused');
  return (
    <p class="waiting" role="status">
      <span class="pulse" aria-hidden="true" /> Waiting for a worker …{' '}
      {refused ? (
        <span class="warn">
          {refused.text} {refused.advice} (<Age at={refused.since} /> ago)
        </span>
      ) : (
        'none has connected yet. This page changes by itself as soon as one does.'
      )}
    </p>
  );
}
