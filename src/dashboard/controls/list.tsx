import type { ComponentChildren } from 'preact';
import * as format from '../../show/format.ts';
import { query } from '../router.ts';
import { Problem } from './action.tsx';
import { apiQuery, type FilterField, Filters, NothingFits } from './filters.tsx';
import { type Listed, type PagedList, usePagedList } from './paged-list.ts';
import { type Column, Table } from './table.tsx';

interface ListProps<Row> {
  listed: Listed<Row>;
  /** The name of the list, for those who do not see it. */
  label: string;
  /** The noun for one row: "job". */
  what: string;
  /** The noun if no row fits; left out: `what`. */
  whatFits?: string;
  columns: readonly Column<Row>[];
  /** The row's height, px. */
  rowHeight: number;
  /** Returns where a click on a row leads, from the page's root. */
  pathOf?(row: Row): string;
  fields: readonly FilterField[];
  /** Further filters, which are used less often. */
  more?: readonly FilterField[];
  /** The label of the choice of a time: "Submitted". */
  timeLabel: string;
  /** Returns notes about the rows, which are shown above them. */
  notesOf?(list: PagedList<Row>): ComponentChildren;
  /** The text if there are no rows and no filter is active. */
  children: ComponentChildren;
}

/** Shows a list that is read page by page, with the filters in the address. */
export function List<Row>(props: ListProps<Row>) {
  const { listed, label, what, columns, rowHeight, pathOf, fields, more = [], timeLabel } = props;
  const params = query.value;
  const all = [...fields, ...more];
  const list = usePagedList(listed, apiQuery(params, all));
  const { rows, isLoading, problem } = list;
  return (
    <>
      <Filters params={params} fields={fields} more={more} timeLabel={timeLabel} />
      <Problem text={problem} />
      {props.notesOf?.(list)}
      <News list={list} />
      {rows.length > 0 && (
        <Table
          label={label}
          columns={columns}
          rows={rows}
          rowHeight={rowHeight}
          idOf={listed.idOf}
          {...(pathOf && { pathOf })}
        />
      )}
      {rows.length === 0 && isLoading && <p class="dim loading">Loading …</p>}
      {rows.length === 0 && !isLoading && !problem && (
        <NothingFits what={props.whatFits ?? what} params={params} fields={all}>
          {props.children}
        </NothingFits>
      )}
      <ListEnd list={list} what={what} />
    </>
  );
}

type Shown = Pick<PagedList<unknown>, 'news' | 'rows' | 'hasMore' | 'isLoading' | 'showNews' | 'loadMore'>;

/** Shows the number of new rows that arrived while the user reads further down. */
function News({ list: { news, showNews } }: { list: Shown }) {
  if (news === 0) return null;
  return (
    <button type="button" class="news" onClick={showNews}>
      {format.count(news)} new
    </button>
  );
}

/** Shows the button for older rows, or says that there are none. */
function ListEnd({ list, what }: { list: Shown; what: string }) {
  const { rows, hasMore, isLoading, loadMore } = list;
  if (!hasMore)
    return (
      <p class="list-end">
        {rows.length > 0 && (
          <span class="dim">
            {rows.length === 1
              ? `This is the only ${what}.`
              : `These are all ${format.plural(rows.length, what)}.`}
          </span>
        )}
      </p>
    );
  return (
    <p class="list-end">
      <button type="button" onClick={loadMore} disabled={isLoading}>
        {isLoading ? 'Loading …' : `Show older ones (${format.count(rows.length)} shown)`}
      </button>
    </p>
  );
}
