import type { FleetView } from '../../protocol/fleet-view.ts';
import type { ScalingLauncher, ScalingProvider, ScalingSummary } from '../../protocol/scaling.ts';
import * as format from '../../show/format.ts';
import { now } from '../clock.ts';
import { Progress } from '../controls/figures.tsx';
import { Mark } from '../controls/marks.tsx';
import { type Column, Table } from '../controls/table.tsx';
import { Age } from '../controls/time.tsx';
import { fleet } from '../live.ts';
import { usePolled } from '../polled.ts';
import { href } from '../router.ts';
import { perMillionTokens, recentLaunches, type Spend, spendOf, uncounted } from '../spending.ts';
import { costInWords, type UsageAnswer } from '../usage.ts';
import { RECENT_COLUMNS } from './launch-columns.tsx';
import { isScaled, type ScaledPool } from './scaling.tsx';

const ROW_HEIGHT = 48;
const LINE_HEIGHT = 36;
/** The interval at which the page reads usage, ms. */
const LOOK_MS = 5000;

/** Shows what the fleet costs, for what, and how the newest launches ended. */
export function SpendView() {
  const view = fleet.value;
  if (!view) return null;
  return (
    <section class="view spend" aria-labelledby="spend-title">
      <h1 id="spend-title">Spend</h1>
      {view.scaling ? <Costs view={view} scaling={view.scaling} /> : <Nothing />}
    </section>
  );
}

/**
 * Says that no launches are counted. Workers that no launcher started may still report a price, which prices their
 * usage.
 */
function Nothing() {
  const { data } = usePolled<UsageAnswer>('api/usage?days=1', LOOK_MS).value;
  const isPriced = data !== null && data.total.dollars !== null;
  return (
    <>
      <p class="notice">
        No fleet's file is applied, so the scheduler starts no workers, and no spend of launched machines is
        counted. <code>npx worker-vllm launcher fleet.yaml</code> applies one.
      </p>
      <p class="notice">
        {isPriced ? (
          <>
            Slots that were used today cost <b class="number">{costInWords(data.total)}</b>, by the prices
            that workers report (<code>WORKER_PRICE_PER_HOUR</code>): <a href={href('usage')}>Usage</a> says
            for whom.
          </>
        ) : (
          <>
            Workers that are started by hand or by a platform are billed there. One that is started with{' '}
            <code>WORKER_PRICE_PER_HOUR</code> has its cost counted in <a href={href('usage')}>Usage</a>.
          </>
        )}
      </p>
    </>
  );
}

function Costs({ view, scaling }: { view: FleetView; scaling: ScalingSummary }) {
  const spend = (isOf: (launch: FleetView['launches'][number]) => boolean) =>
    spendOf(view.launches.filter(isOf), view.workers, now.value);
  const pools = view.pools.filter(isScaled).map((pool) => ({
    pool,
    spend: spend(({ config_id }) => config_id === pool.config_id),
  }));
  const providers = scaling.providers.map((provider) => ({
    provider,
    spend: spend((launch) => launch.provider === provider.name),
  }));
  const recent = recentLaunches(view);
  const others = uncounted(view);
  return (
    <>
      <Totals scaling={scaling} idle={spend(() => true).idle_per_hour} />
      {others > 0 && (
        <p class="dim">
          {format.plural(others, 'worker')} that no launcher started {others === 1 ? 'is' : 'are'} not counted
          here; <a href={href('usage')}>Usage</a> has what was used of them, at the prices that they report.
        </p>
      )}
      <section aria-labelledby="spend-pools">
        <h2 id="spend-pools">By pool</h2>
        <Table
          label="Spend by pool"
          columns={POOL_COLUMNS}
          rows={pools}
          rowHeight={LINE_HEIGHT}
          idOf={({ pool }) => pool.config_id}
          isAside
        />
      </section>
      <section aria-labelledby="spend-providers">
        <h2 id="spend-providers">By provider</h2>
        <Table
          label="Spend by provider"
          columns={PROVIDER_COLUMNS}
          rows={providers}
          rowHeight={ROW_HEIGHT}
          idOf={({ provider }) => provider.name}
          isAside
        />
        <Launchers launchers={scaling.launchers} />
      </section>
      <section aria-labelledby="spend-launches">
        <h2 id="spend-launches">
          Newest launches <span class="number dim">{recent.length}</span>
        </h2>
        {recent.length > 0 ? (
          <Table
            label="Newest launches"
            columns={RECENT_COLUMNS}
            rows={recent}
            rowHeight={ROW_HEIGHT}
            idOf={({ id }) => id}
          />
        ) : (
          <p class="notice">Nothing has been launched yet.</p>
        )}
      </section>
    </>
  );
}

function Totals({ scaling, idle }: { scaling: ScalingSummary; idle: number }) {
  const { budget, price_per_hour, spent_today, budget_reached } = scaling;
  return (
    <>
      <dl class="totals">
        <Total
          name="Cost an hour, now"
          value={format.price(price_per_hour)}
          used={price_per_hour}
          most={budget.per_hour}
        />
        <div>
          <dt>Of that, idle</dt>
          <dd class="number">{format.price(idle)}</dd>
          <dd class="dim">slots in which nothing runs</dd>
        </div>
        <Total
          name="Today, since midnight UTC"
          value={format.money(spent_today)}
          used={spent_today}
          most={budget.per_day}
        />
      </dl>
      {budget_reached !== null && (
        <p class="warn">
          <Mark shape="triangle" label="Warning:" /> {budget_reached}
        </p>
      )}
    </>
  );
}

interface TotalProps {
  name: string;
  value: string;
  used: number;
  /** The budget; null: there is none. */
  most: number | null;
}

function Total({ name, value, used, most }: TotalProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="number">{value}</dd>
      <dd class="dim number">
        {most === null ? (
          'no budget set'
        ) : (
          <>
            of {format.money(most)}{' '}
            <Progress
              share={most > 0 ? Math.min(1, used / most) : 1}
              label={`${name}: share of the budget`}
            />
          </>
        )}
      </dd>
    </div>
  );
}

function money<Row extends { spend: Spend }>(
  key: keyof Spend & ('per_hour' | 'idle_per_hour' | 'last_hour'),
  head: string,
  title: string,
  drop?: 3 | 4 | 5,
): Column<Row> {
  const write = key === 'last_hour' ? format.money : format.price;
  const common = { key, head, title, width: 96, narrow: 84, isNumber: true };
  return { ...common, ...(drop && { drop }), cell: ({ spend }) => write(spend[key]) };
}

interface PoolSpend {
  pool: ScaledPool;
  spend: Spend;
}

const POOL_COLUMNS: Column<PoolSpend>[] = [
  { key: 'pool', head: 'Pool', cell: ({ pool }) => <span class="id">{pool.config_id}</span> },
  {
    key: 'machines',
    head: 'Machines',
    width: 84,
    isNumber: true,
    drop: 4,
    cell: ({ spend }) => format.count(spend.machines),
  },
  money('per_hour', 'Now', 'What its machines cost an hour now'),
  money('idle_per_hour', 'Idle', 'Of that, for slots of ready workers in which nothing runs', 4),
  money('last_hour', 'Last hour', 'What its machines cost over the newest hour', 4),
  {
    key: 'today',
    head: 'Today',
    title: 'Since midnight UTC',
    width: 96,
    narrow: 84,
    isNumber: true,
    cell: ({ pool }) => format.money(pool.scaling.spent_today),
  },
  {
    key: 'tokens',
    head: 'Tokens out',
    title: 'Generated over the newest hour',
    width: 96,
    isNumber: true,
    drop: 3,
    cell: ({ pool }) => format.amount(pool.hour.tokens_out),
  },
  {
    key: 'per-million',
    head: 'Per million',
    title: 'What a million generated tokens cost over the newest hour, idle time and starts included',
    width: 124,
    isNumber: true,
    drop: 5,
    cell: ({ pool, spend }) => format.money(perMillionTokens(pool, spend)),
  },
];

const PROVIDER_COLUMNS: Column<{ provider: ScalingProvider; spend: Spend }>[] = [
  {
    key: 'provider',
    head: 'Provider',
    cell: ({ provider }) => (
      <>
        <span class="id">{provider.name}</span>
        <small>{provider.driver}</small>
      </>
    ),
  },
  {
    key: 'machines',
    head: 'Machines',
    width: 84,
    isNumber: true,
    cell: ({ spend }) => format.count(spend.machines),
  },
  money('per_hour', 'Now', 'What its machines cost an hour now'),
  money('last_hour', 'Last hour', 'What its machines cost over the newest hour', 4),
  {
    key: 'list',
    head: 'Listed',
    title: 'When a complete list of its machines of this fleet last arrived',
    drop: 5,
    cell: ({ provider: { listed_at, error } }) =>
      error !== null ? (
        <span class="warn sentence" title={error}>
          <Mark shape="triangle" label="Warning:" /> {error}
        </span>
      ) : listed_at === null ? (
        'not listed yet'
      ) : (
        <>
          <Age at={listed_at} /> ago
        </>
      ),
  },
];

function Launchers({ launchers }: { launchers: ScalingLauncher[] }) {
  if (launchers.length === 0) {
    return (
      <p class="warn">
        <Mark shape="triangle" label="Warning:" /> No launcher is connected: what the scheduler decides is not
        carried out.
      </p>
    );
  }
  return (
    <p class="dim">
      {launchers.length === 1 ? 'Launcher' : 'Launchers'}:{' '}
      {launchers.map(({ launcher_id, drivers, host, seen_at }, index) => (
        <span key={launcher_id}>
          {index > 0 && ' · '}
          <span class="id" title={host ?? undefined}>
            {launcher_id}
          </span>{' '}
          ({drivers.join(', ')}), seen <Age at={seen_at} /> ago
        </span>
      ))}
    </p>
  );
}
