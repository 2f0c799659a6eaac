import type { AliasRow } from '../../protocol/fleet-view.ts';
import * as format from '../../show/format.ts';
import { type Column, Table } from '../controls/table.tsx';
import { href } from '../router.ts';

const ROW_HEIGHT = 56;

type ModelRow = AliasRow['models'][number];

/** Shows what the models of each alias answered in the last ten minutes, side by side; nothing without aliases. */
export function Aliases({ aliases }: { aliases: readonly AliasRow[] }) {
  if (aliases.length === 0) return null;
  return (
    <section aria-labelledby="aliases">
      <h2 id="aliases">Aliases</h2>
      <p class="dim">The figures of the models are of the last ten minutes.</p>
      {aliases.map(({ alias, models }) => (
        <article key={alias} class="alias" aria-label={alias}>
          <h3 class="id">{alias}</h3>
          <Table
            label={`Models of ${alias}`}
            columns={COLUMNS}
            rows={models}
            rowHeight={ROW_HEIGHT}
            idOf={({ model, is_mirror }) => `${is_mirror ? 'mirror ' : ''}${model}`}
            isAside
          />
        </article>
      ))}
    </section>
  );
}

/** The columns of an alias's models; their figures are of the last ten minutes. */
const COLUMNS: Column<ModelRow>[] = [
  {
    key: 'model',
    head: 'Model',
    cell: ({ model, is_mirror, fell }) => (
      <>
        <a class="id clamped" title={model} href={href(`requests?model=${encodeURIComponent(model)}`)}>
          {model}
        </a>
        {is_mirror && <small>mirror: gets copies</small>}
        {fell > 0 && <small>{format.many(fell)} fell back to it</small>}
      </>
    ),
  },
  {
    key: 'share',
    head: 'Requests',
    title:
      "Its share of the alias's requests in the last ten minutes, and their number; copies have no share",
    width: 96,
    narrow: 68,
    isNumber: true,
    cell: ({ share, requests, is_mirror }) => (
      <>
        {is_mirror ? 'copies' : format.percent(share)}
        <small class="number">{format.many(requests)}</small>
      </>
    ),
  },
  {
    key: 'errors',
    head: 'Errors',
    title: 'The share of its requests that failed or found no room in the last ten minutes, and their number',
    width: 72,
    narrow: 56,
    isNumber: true,
    cell: ({ errors, requests }) => (
      <>
        {format.percent(requests === 0 ? null : errors / requests)}
        {errors > 0 && <small class="number">{format.many(errors)}</small>}
      </>
    ),
  },
  {
    key: 'first-token',
    head: 'First token',
    title: 'The time from submission to the first token, in the last ten minutes: half were faster, and p95',
    width: 104,
    narrow: 84,
    isNumber: true,
    cell: ({ first_token_p50_ms, first_token_p95_ms }) => (
      <>
        {format.duration(first_token_p50_ms)}
        {first_token_p95_ms !== null && (
          <small class="number">p95 {format.duration(first_token_p95_ms)}</small>
        )}
      </>
    ),
  },
];
