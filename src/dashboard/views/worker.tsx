import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { WorkerRow } from '../../protocol/fleet-view.ts';
import type { ListedJob } from '../../protocol/jobs.ts';
import { workerName } from '../../protocol/scaling.ts';
import * as format from '../../show/format.ts';
import { shortGpuName } from '../../show/workers.ts';
import { ask } from '../api.ts';
import { CopyButton, Problem, useAction } from '../controls/action.tsx';
import { Slots } from '../controls/figures.tsx';
import { WorkerMark } from '../controls/marks.tsx';
import { Table } from '../controls/table.tsx';
import { Age, Time } from '../controls/time.tsx';
import { fleet } from '../live.ts';
import { ownFailure, usePolled } from '../polled.ts';
import { go, href } from '../router.ts';
import { isAdmin } from '../session.ts';
import { ColdStart } from './cold-start.tsx';
import { JOB_COLUMNS, jobRowHeight } from './job-columns.tsx';
import { AgainstPool } from './worker-beside-pool.tsx';
import { WorkerCharts } from './worker-charts.tsx';
import { StartOf, shareOf } from './worker-columns.tsx';
import { WorkerLog } from './worker-log.tsx';

/** Shows one worker: what it does, how it started, its last log lines. */
export function WorkerView({ id }: { id: string }) {
  if (!fleet.value) return null;
  return <WorkerPage id={id} worker={fleet.value.workers.find(({ worker_id }) => worker_id === id)} />;
}

function WorkerPage({ id, worker }: { id: string; worker: WorkerRow | undefined }) {
  // The log stays where it was when the page was opened, whatever happens to the worker afterwards.
  const [isLogFirst] = useState(worker?.state === 'error' || worker?.state === 'lost');
  return (
    <article class="view worker" aria-labelledby="worker-title">
      <header>
        <h1 id="worker-title" class="id" data-id={id}>
          {workerName(id)}
        </h1>
        {workerName(id) !== id && <span class="id dim">{id}</span>}
        <CopyButton text={id} what="the worker's id" />
        {worker && <WorkerMark state={worker.state} share={shareOf(worker)} />}
        {worker?.state_since != null && (
          <span class="dim">
            for <Age at={worker.state_since} />
          </span>
        )}
        {worker && (worker.state === 'starting' || worker.state === 'loading') && <StartOf worker={worker} />}
      </header>
      {worker ? (
        <>
          <Trouble worker={worker} />
          <ForgetWorker worker={worker} />
          {isLogFirst && <WorkerLog workerId={id} />}
          <ColdStart worker={worker} />
          <Facts worker={worker} />
          {worker.config_id && <AgainstPool workerId={id} configId={worker.config_id} />}
          <WorkerCharts workerId={id} />
        </>
      ) : (
        <p class="notice">
          No worker of this name is known. Its log and its requests may still be here. The queue forgets a
          worker with its last job. <a href={href('')}>All workers</a>
        </p>
      )}
      {!(worker && isLogFirst) && <WorkerLog workerId={id} />}
      <WorkerJobs workerId={id} />
    </article>
  );
}

/** Shows what is wrong with a worker, and what to do. */
function Trouble({ worker: { error, was_doing, disconnected, state, preempted } }: { worker: WorkerRow }) {
  if (preempted && state === 'draining') {
    return (
      <section class="trouble warn" aria-label="Machine">
        <p>
          Its machine is being taken away by the provider. It takes no more jobs; its answers go on at other
          workers.
        </p>
      </section>
    );
  }
  if (error) {
    return (
      <section class="trouble bad" aria-label="Error">
        <pre>{error.message}</pre>
        {error.advice && <p>{error.advice}</p>}
        <p class="dim">
          Reported <Age at={error.at} /> ago.
        </p>
      </section>
    );
  }
  if (state !== 'lost' && state !== 'late') return null;
  return (
    <section class="trouble warn" aria-label="Silent">
      <p>
        {was_doing ? `It ${was_doing.replace(/^it /, '')} when it last reported.` : 'It reports nothing.'}
        {disconnected && (
          <>
            {' '}
            Its connection ended <Age at={disconnected.at} /> ago: {disconnected.reason}.
          </>
        )}
      </p>
      <p class="dim">Look whether its machine is still there; what it said last is below.</p>
    </section>
  );
}

function Facts({ worker }: { worker: WorkerRow }) {
  const { models, engine, engine_version, worker_version, version, config_id, host, protocol, connected_at } =
    worker;
  const { heartbeat_at, heartbeat_interval_ms, missed_renewals, spool_bytes, kv_cache_usage } = worker;
  const facts: [name: string, value: ComponentChildren][] = [
    ['Pool', config_id && <a href={href(`?config_id=${encodeURIComponent(config_id)}`)}>{config_id}</a>],
    [models.length > 1 ? 'Models' : 'Model', models.length > 0 ? models.join(', ') : null],
    ...adapterFacts(worker),
    ...turnFacts(worker),
    ['Slots', worker.slots === null ? null : <Slots running={worker.running} slots={worker.slots} />],
    [
      'In the engine',
      worker.engine_running !== null &&
        `${format.count(worker.engine_running)} running, ${format.count(worker.engine_waiting)} in line`,
    ],
    ['KV cache', format.percent(kv_cache_usage)],
    ...prefillFacts(worker),
    ['Tokens/s', format.amount(worker.tokens_per_second)],
    ['First token, median', format.duration(worker.first_token_ms)],
    ['Heartbeat', heartbeat_at && <HeartbeatAge at={heartbeat_at} intervalMs={heartbeat_interval_ms} />],
    ['Connected since', connected_at && <Time at={connected_at} />],
    ['Missed renewals of leases', format.count(missed_renewals)],
    ['Results not yet acknowledged', format.bytes(spool_bytes)],
    ['Engine', engine && `${engine} ${engine_version ?? ''}`],
    ["Version of the pool's file", version],
    [
      "The worker's program",
      worker_version && `${worker_version}${protocol === 'base' ? ', base protocol' : ''}`,
    ],
    ['Host', host],
  ];
  return (
    <section aria-label="Facts">
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value || format.UNKNOWN}</dd>
          </div>
        ))}
        {worker.gpus.map((gpu, i) => (
          // GPUs have no id, so their index is the key.
          <div key={i} class="gpu">
            <dt title={gpu.name}>
              GPU {i} {gpu.name && `· ${shortGpuName(gpu.name)}`}
            </dt>
            <dd class="number">
              {[
                format.memory(gpu.memory_used_bytes, gpu.memory_total_bytes),
                format.percent(gpu.utilization),
                format.celsius(gpu.temperature_celsius),
                format.watts(gpu.power_watts),
              ].join(' · ')}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/**
 * Returns the results of the long prompts that another engine prefilled for the worker; nothing for a worker that hands
 * none over.
 */
function prefillFacts({ prefills }: WorkerRow): [name: string, value: ComponentChildren][] {
  if (prefills === null) return [];
  const { done = 0, ...whole } = prefills.results;
  const reasons = Object.entries(whole).filter(([, count]) => count > 0);
  const words = reasons.map(([reason, count]) => `${format.count(count)} ${format.inWords(reason)}`);
  const handed = `${format.count(done)} handed over, ${format.count(prefills.tokens)} tokens`;
  return [['Long prompts', [handed, ...(words.length > 0 ? [`whole: ${words.join(', ')}`] : [])].join('; ')]];
}

/** Returns whether the engine is awake, if engines share a GPU; nothing for a worker whose engine has its own. */
function turnFacts({ engine_asleep }: WorkerRow): [name: string, value: ComponentChildren][] {
  if (engine_asleep === null) return [];
  return [['Shared GPU', engine_asleep ? 'asleep: another model has it' : 'awake']];
}

/** Returns which adapters the engine has loaded, and which it could not load; nothing for a worker that has none. */
function adapterFacts({ adapters }: WorkerRow): [name: string, value: ComponentChildren][] {
  if (adapters === null) return [];
  const { loaded, room, failed, names } = adapters;
  const facts: [name: string, value: ComponentChildren][] = [
    [
      `Adapters loaded, ${room} at once`,
      loaded.length > 0 ? loaded.join(', ') : `none of ${names.join(', ')}`,
    ],
  ];
  const text = failed.map(({ name, reason }) => `${name}: ${reason}`).join('; ');
  return failed.length === 0 ? facts : [...facts, ['Adapters not loaded', <span class="warn">{text}</span>]];
}

function HeartbeatAge({ at, intervalMs }: { at: number; intervalMs: number | null }) {
  return (
    <>
      <Age at={at} /> ago{intervalMs !== null && `, every ${format.age(intervalMs)}`}
    </>
  );
}

const SHOWN = 20;
const REFRESH_MS = 5000;

/** The columns without pool and worker, since all jobs are of one worker. */
const COLUMNS = JOB_COLUMNS.filter(({ key }) => key !== 'pool' && key !== 'worker');

/** Shows a worker's newest stored jobs. */
function WorkerJobs({ workerId }: { workerId: string }) {
  const worker = encodeURIComponent(workerId);
  const path = `api/jobs?worker_id=${worker}&limit=${SHOWN}`;
  const { data, failure } = usePolled<{ jobs: ListedJob[]; next: string | null }>(path, REFRESH_MS).value;
  return (
    <section aria-labelledby="jobs-title">
      <div class="tools">
        <h2 id="jobs-title">Stored jobs</h2>
        {data?.next && (
          <a class="button" href={href(`jobs?worker_id=${worker}`)}>
            All of them
          </a>
        )}
      </div>
      {data && data.jobs.length > 0 ? (
        <Table
          label="Stored jobs of this worker"
          columns={COLUMNS}
          rows={data.jobs}
          rowHeight={jobRowHeight()}
          idOf={({ id }) => id}
          pathOf={({ id }) => `jobs/${encodeURIComponent(id)}`}
        />
      ) : (
        <p class="notice">
          {ownFailure(failure) ??
            (data
              ? 'No stored job was sent to it. Requests that are answered on their connection are not stored.'
              : 'Asking …')}
        </p>
      )}
    </section>
  );
}

/** Shows the button that removes a worker that is gone from lists, verdict and attention. */
function ForgetWorker({ worker: { worker_id, state, connected_at } }: { worker: WorkerRow }) {
  const { act, isActing, problem } = useAction();
  const isGone = state === 'error' || state === 'lost' || state === 'stopped' || state === 'late';
  if (!isAdmin.value || !isGone || connected_at !== null) return null;
  const forget = () =>
    act(async () => {
      await ask(`api/workers/${encodeURIComponent(worker_id)}`, { method: 'DELETE' });
      go('');
    });
  return (
    <div class="actions">
      <button type="button" class="danger" onClick={forget} disabled={isActing}>
        Forget this worker
      </button>
      <span class="dim">It goes from lists, verdict and attention until it reports again.</span>
      <Problem text={problem} />
    </div>
  );
}
