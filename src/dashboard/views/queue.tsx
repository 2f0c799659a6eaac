import type { Percentiles, PoolRates, PoolRow } from '../../protocol/fleet-view.ts';
import * as format from '../../show/format.ts';
import { Chips } from '../controls/chips.tsx';
import { Figure, Slots } from '../controls/figures.tsx';
import { Still, useFixedOrder } from '../controls/still.tsx';
import { Age, WaitingFor } from '../controls/time.tsx';
import { fleet } from '../live.ts';
import { filter, href, query } from '../router.ts';
import { Aliases } from './aliases.tsx';
import { OverTime } from './over-time.tsx';
import { PoolActions } from './pool-actions.tsx';
import { isScaled, type ScaledPool } from './scaling.tsx';
import { SpotLine } from './spot-line.tsx';
import { Versions } from './versions.tsx';

/** The spans over which figures are shown, by their names in the address. */
const SPANS = { now: 'Last minute', hour: 'Last hour', day: 'Last 24 hours' } as const;
type Span = keyof typeof SPANS;
const SECONDS: Record<Span, number> = { now: 60, hour: 3600, day: 86_400 };

/** Shows what waits in each pool, why, and how fast jobs are served. */
export function QueueView() {
  const view = fleet.value;
  const given = query.value.get('range') ?? 'now';
  const span: Span = given in SPANS ? (given as Span) : 'now';
  const pool = query.value.get('config_id');
  const model = query.value.get('model');
  const pools = (view?.pools ?? [])
    .filter(({ config_id }) => pool === null || config_id === pool)
    .filter(({ models }) => model === null || models.includes(model));
  if (!view) return null;
  return (
    <section class="view" aria-labelledby="queue-title">
      <div class="tools">
        <h1 id="queue-title">Queue</h1>
        <Chips
          label="Figures over"
          chosen={span}
          options={SPANS}
          onChoose={(range) => filter({ range: range === 'now' ? null : range })}
        />
        {pool !== null && (
          <button type="button" onClick={() => filter({ config_id: null })}>
            pool: {pool} <span aria-hidden="true">×</span>
            <span class="unseen">, show all pools</span>
          </button>
        )}
        {model !== null && (
          <button type="button" onClick={() => filter({ model: null })}>
            model: {model} <span aria-hidden="true">×</span>
            <span class="unseen">, show all models</span>
          </button>
        )}
      </div>
      {pools.length === 0 ? (
        <NoPool pool={pool} model={model} />
      ) : (
        <Pools key={`${pool} ${model}`} pools={pools} span={span} />
      )}
      {pool === null && model === null && <Aliases aliases={view.aliases ?? []} />}
      <OverTime config_id={model === null ? pool : null} model={model} />
    </section>
  );
}

/** Shows why no pool is listed, and what to do. */
function NoPool({ pool, model }: { pool: string | null; model: string | null }) {
  if (pool === null && model === null) {
    return (
      <p class="notice">
        No pool is known yet. The first worker or job makes one known. <a href={href('')}>Add a worker</a>
      </p>
    );
  }
  return (
    <p class="notice">
      {pool === null ? `No pool serves the model ${model} now.` : `No pool ${pool} is known.`}{' '}
      <a href={href('queue')}>All pools</a>
    </p>
  );
}

/** Shows the pools in the order in which they were found: one that begins to wait moves no other. */
function Pools({ pools, span }: { pools: PoolRow[]; span: Span }) {
  const shown = useFixedOrder(inOrder(pools), ({ config_id }) => config_id);
  return (
    <>
      {shown.map((row) => (
        <Pool key={row.config_id} pool={row} span={span} />
      ))}
    </>
  );
}

/** Sorts pools, as they are when the view is opened: those in which jobs wait long come first, then by name. */
function inOrder(pools: PoolRow[]): PoolRow[] {
  return pools.sort(
    (a, b) => Number(waitsLong(b)) - Number(waitsLong(a)) || (a.config_id < b.config_id ? -1 : 1),
  );
}

function waitsLong({ oldest_wait_ms, objectives }: PoolRow): boolean {
  return (oldest_wait_ms ?? 0) > objectives.first_token.within_ms;
}

function Pool({ pool, span }: { pool: PoolRow; span: Span }) {
  const { config_id, models, pending, oldest_wait_ms, why_waiting } = pool;
  const rates = pool[span];
  const total = pending.waiting + pending.stored;
  const id = `pool-${config_id}`;
  return (
    <article class={`pool${why_waiting ? ' waits' : ''}`} aria-labelledby={id}>
      <header>
        <h2 id={id} class="id">
          {config_id}
        </h2>
        <p class="dim models" title={models.join(', ')}>
          {models
            .filter((model) => model !== config_id)
            .map((model, i) => (
              <>
                {i > 0 && ', '}
                <a href={href(`queue?model=${encodeURIComponent(model)}`)}>{model}</a>
              </>
            ))}
        </p>
        <p class="links">
          <a href={href(`?config_id=${encodeURIComponent(config_id)}`)}>Workers</a>{' '}
          <a href={href(`requests?config_id=${encodeURIComponent(config_id)}`)}>Requests</a>{' '}
          <a href={href(`queue?config_id=${encodeURIComponent(config_id)}`)}>Over time</a>
        </p>
      </header>
      <Still>
        <div class="depth">
          <div class="now">
            <Depth total={total} oldestMs={oldest_wait_ms} />
            <PoolActions pool={pool} />
          </div>
          <p class="ready">
            <span>
              <span class="number">
                {format.count(pool.ready_workers)}/{format.count(pool.workers)}
              </span>{' '}
              workers ready
            </span>{' '}
            <span>
              <Slots running={pool.busy_slots} slots={pool.slots} /> slots busy
            </span>
          </p>
          {why_waiting && total > 0 && <WaitingFor waiting={why_waiting} />}
          <Priorities pool={pool} />
        </div>
      </Still>
      <Rates rates={rates} seconds={SECONDS[span]} configId={config_id} />
      <Latency rates={rates} />
      {isScaled(pool) && <Decision pool={pool} />}
      {isScaled(pool) && <SpotLine pool={pool} />}
      {isScaled(pool) && <Versions pool={pool} />}
    </article>
  );
}

/** Shows how many jobs wait, and for how long the oldest of them. */
function Depth({ total, oldestMs }: { total: number; oldestMs: number | null }) {
  if (total === 0) return <p class="big dim">Nothing waits</p>;
  return (
    <p class="big">
      <b class="number">{format.count(total)}</b> {total === 1 ? 'job waits' : 'jobs wait'}
      {oldestMs !== null && (
        <>
          , the oldest <b class="number">{format.age(oldestMs)}</b>
        </>
      )}
    </p>
  );
}

/** Shows what the scheduler decided last about a pool, and why. */
function Decision({ pool: { scaling } }: { pool: ScaledPool }) {
  if (scaling.decision === null) return null;
  const { at, text } = scaling.decision;
  // The versions below say how far a rollout is; the same sentence twice would be read twice.
  const isOfRollout = scaling.rollout !== null && begin(text) === begin(scaling.rollout.text);
  return (
    <p class="decision" title={text}>
      <span class="dim">
        Last decision, <Age at={at} /> ago:
      </span>{' '}
      {isOfRollout ? 'the rollout below goes on.' : text}
    </p>
  );
}

/** Returns the first sentence of a text. */
function begin(text: string): string {
  return text.split('. ', 1)[0]!;
}

/** Shows who waits: callers on a connection and stored jobs, and if priorities differ, how many of each. */
function Priorities({ pool: { pending, by_priority } }: { pool: PoolRow }) {
  if (pending.waiting + pending.stored === 0) return null;
  const isPlain = by_priority.length <= 1 && (by_priority[0]?.priority ?? 0) === 0;
  return (
    <p class="dim">
      {format.plural(pending.waiting, 'caller')} on a connection,{' '}
      {format.plural(pending.stored, 'stored job')}
      {!isPlain &&
        `; priority ${by_priority.map(({ priority, pending: jobs }) => `${priority}: ${format.count(jobs)}`).join(', ')}`}
    </p>
  );
}

function share(tokens: number, all: number): string {
  return all === 0 ? format.UNKNOWN : format.percent(tokens / all);
}

function Rates({ rates, seconds, configId }: { rates: PoolRates; seconds: number; configId: string }) {
  const { submitted, succeeded, failed, cancelled, expired, rejected, tokens_in, tokens_out } = rates;
  const { tokens_cached, tokens_predicted } = rates;
  const ended = succeeded + failed + expired;
  const failedLink = href(`jobs?state=failed&config_id=${encodeURIComponent(configId)}`);
  return (
    <dl class="rates">
      <Figure name="Came">{format.rate(submitted, seconds)}</Figure>
      <Figure name="Ended">{format.rate(ended + cancelled, seconds)}</Figure>
      <Figure name="Succeeded">{ended === 0 ? format.UNKNOWN : format.percent(succeeded / ended)}</Figure>
      <Figure name="Failed">{failed === 0 ? '0' : <a href={failedLink}>{format.count(failed)}</a>}</Figure>
      <Figure name="Expired">{format.count(expired)}</Figure>
      <Figure name="Cancelled">{format.count(cancelled)}</Figure>
      <Figure name="Rejected">{format.count(rejected)}</Figure>
      <Figure name="Tokens in">{format.amount(tokens_in)}</Figure>
      <Figure name="Cached" title="The share of the tokens in that engines had in their caches">
        {share(tokens_cached, tokens_in)}
      </Figure>
      <Figure
        name="Cached, predicted"
        title="The share of the tokens in that the queue expected in the cache of the worker that it chose"
      >
        {share(tokens_predicted, tokens_in)}
      </Figure>
      <Figure name="Tokens out">{format.amount(tokens_out)}</Figure>
    </dl>
  );
}

/** Shows the times from a job's arrival to a slot, and to its first token. */
function Latency({ rates: { wait_ms, first_token_ms } }: { rates: PoolRates }) {
  return (
    <table class="latency">
      <caption class="unseen">Times from submission</caption>
      <thead>
        <tr>
          <th scope="col">From submission</th>
          <th scope="col" class="number">
            p50
          </th>
          <th scope="col" class="number">
            p95
          </th>
          <th scope="col" class="number">
            p99
          </th>
          <th scope="col" class="number">
            <abbr title="How many were measured">count</abbr>
          </th>
        </tr>
      </thead>
      <tbody>
        <LatencyRow name="to a slot" values={wait_ms} />
        <LatencyRow name="to the first token" values={first_token_ms} />
      </tbody>
    </table>
  );
}

function LatencyRow({ name, values }: { name: string; values: Percentiles | null }) {
  return (
    <tr>
      <th scope="row">{name}</th>
      {(['p50', 'p95', 'p99'] as const).map((p) => (
        <td key={p} class="number">
          {format.duration(values?.[p])}
        </td>
      ))}
      <td class="number dim">{format.many(values?.n)}</td>
    </tr>
  );
}
