import { useState } from 'preact/hooks';
import type { PoolVersion, Rollout } from '../../protocol/scaling.ts';
import * as format from '../../show/format.ts';
import {
  lastWords,
  ROLLOUT_WORDS,
  saysWhyStopped,
  shownVersions,
  versionState,
  versionWorkers,
} from '../../show/versions.ts';
import { Mark, type Shape } from '../controls/marks.tsx';
import { type Column, Table } from '../controls/table.tsx';
import { Age } from '../controls/time.tsx';
import { WorkerLink } from '../controls/worker-link.tsx';
import { fleet } from '../live.ts';
import { type Action, ActionsDialog, RolloutActions } from './pool-actions.tsx';
import type { ScaledPool } from './scaling.tsx';

const ROW_HEIGHT = 48;

/** Shows the versions of a pool's workers side by side, and how far a rollout is; nothing if there is one version. */
export function Versions({ pool }: { pool: ScaledPool }) {
  const [chosen, setChosen] = useState<Action | null>(null);
  const versions = shownVersions(pool.scaling);
  return (
    <>
      {versions.length > 0 && <Panel pool={pool} versions={versions} onChoose={setChosen} />}
      {chosen && <ActionsDialog pool={pool} actions={[chosen]} onClose={() => setChosen(null)} />}
    </>
  );
}

interface PanelProps {
  pool: ScaledPool;
  versions: readonly PoolVersion[];
  onChoose(action: Action): void;
}

function Panel({ pool, versions, onChoose }: PanelProps) {
  const { rollout } = pool.scaling;
  const id = `versions-${pool.config_id}`;
  return (
    <section class="versions" aria-labelledby={id}>
      <div class="rollout">
        <h3 id={id}>Versions</h3>
        {rollout !== null && <RolloutState rollout={rollout} />}
        <RolloutActions pool={pool} onChoose={onChoose} />
      </div>
      <Table
        label={`Versions of ${pool.config_id}`}
        columns={COLUMNS}
        rows={versions}
        rowHeight={ROW_HEIGHT}
        idOf={({ version }) => version}
        isAside
        classOf={({ state }) => state}
      />
      {versions
        .filter(({ stopped_because }) => stopped_because !== null)
        .map((version) => (
          <Stopped key={version.version} version={version} pool={pool} />
        ))}
    </section>
  );
}

const ROLLOUT_LOOKS: Record<Rollout['state'], { shape: Shape; tone: string }> = {
  rolling: { shape: 'ring', tone: 'work' },
  paused: { shape: 'triangle', tone: 'warn' },
  stopped: { shape: 'cross', tone: 'bad' },
};

/** Shows a rollout's state, how far it is, and which worker is next. */
function RolloutState({ rollout: { state, since, text, next } }: { rollout: Rollout }) {
  const { shape, tone } = ROLLOUT_LOOKS[state];
  return (
    <p>
      <span class={`state ${tone}`}>
        <Mark shape={shape} />
        {ROLLOUT_WORDS[state]}
      </span>{' '}
      <span class="dim">
        for <Age at={since} />:
      </span>{' '}
      {text}
      {next !== null && (
        <>
          {' '}
          Next: <WorkerLink id={next} />
        </>
      )}
    </p>
  );
}

/** Shows why a version was stopped, and the last lines of a worker of it. */
function Stopped({ version, pool }: { version: PoolVersion; pool: ScaledPool }) {
  const isSaid = saysWhyStopped(pool.scaling, version);
  const lines = lastWords(version, pool.config_id, fleet.value?.launches ?? []);
  return (
    <div class="stopped">
      {!isSaid && (
        <p class="bad">
          <span class="id">{version.version}</span> was stopped: {version.stopped_because}
        </p>
      )}
      {isSaid && lines.length > 0 && <p class="dim">The last words of one of its workers:</p>}
      {lines.length > 0 && <pre>{lines.join('\n')}</pre>}
    </div>
  );
}

const VERSION_LOOKS: Record<PoolVersion['state'], { shape: Shape; tone: string }> = {
  wanted: { shape: 'full', tone: 'good' },
  old: { shape: 'half', tone: 'drain' },
  stopped: { shape: 'cross', tone: 'bad' },
  kept: { shape: 'hollow', tone: 'idle' },
};

/** The columns of a pool's versions; their figures are of the last ten minutes. */
const COLUMNS: Column<PoolVersion>[] = [
  {
    key: 'version',
    head: 'Version',
    cell: (version) => {
      const { shape, tone } = VERSION_LOOKS[version.state];
      return (
        <>
          <span class={`state ${tone}`}>
            <Mark shape={shape} />
            <span class="id">{version.version}</span>
          </span>
          <small title={version.what}>
            {versionState(version)} · <Age at={version.since} /> ago{version.what && ` · ${version.what}`}
          </small>
        </>
      );
    },
  },
  {
    key: 'workers',
    head: 'Workers',
    width: 110,
    narrow: 84,
    cell: (version) => {
      const [first, ...others] = versionWorkers(version);
      return (
        <>
          {first}
          {others.length > 0 && <small>{others.join(', ')}</small>}
        </>
      );
    },
  },
  {
    key: 'share',
    head: 'Requests',
    title: "Its share of the pool's requests in the last ten minutes, and their number",
    width: 88,
    narrow: 68,
    isNumber: true,
    cell: ({ share, requests }) => (
      <>
        {format.percent(share)}
        {requests !== null && <small class="number">{format.many(requests)}</small>}
      </>
    ),
  },
  {
    key: 'errors',
    head: 'Errors',
    title: 'The share of its requests at which its workers failed in the last ten minutes, and their number',
    width: 72,
    narrow: 56,
    isNumber: true,
    cell: ({ errors, requests }) => (
      <>
        {format.percent(errors === null || !requests ? null : errors / requests)}
        {errors !== null && errors > 0 && <small class="number">{format.many(errors)}</small>}
      </>
    ),
  },
  {
    key: 'first-token',
    head: 'First token',
    title: 'The time from submission to the first token, in the last ten minutes: half were faster, and p95',
    width: 104,
    isNumber: true,
    drop: 5,
    cell: ({ first_token_p50_ms, first_token_p95_ms }) => (
      <>
        {format.duration(first_token_p50_ms)}
        {first_token_p95_ms !== null && (
          <small class="number">p95 {format.duration(first_token_p95_ms)}</small>
        )}
      </>
    ),
  },
  {
    key: 'tokens',
    head: 'Tokens/s',
    title: 'The tokens that one of its workers generates each second, in the last ten minutes',
    width: 84,
    isNumber: true,
    drop: 5,
    cell: ({ tokens_per_second }) => format.amount(tokens_per_second),
  },
];
