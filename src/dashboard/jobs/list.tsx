import type { ComponentChildren } from 'preact';
import { Problem } from '../controls/action.tsx';
import type { Column } from '../controls/column.ts';
import { Table } from '../controls/table.tsx';
import { query } from '../router.ts';
import { apiQuery, type FilterField, Filters, NothingFits } from './filters.tsx';
import { ListEnd, News } from './list-end.tsx';
import { type Listed, type PagedList, usePagedList } from './paged-list.ts';

interface ListProps<Row> {
  listed: Listed<Row>;
  /** What the list holds, for those who do not see it. */
  label: string;
  /** The noun for one row: "job". */
  what: string;
  /** The noun where no row fits; left out, it is `what`. */
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
  /** The text where there are no rows and no filter is set. */
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
      {rows.length === 0 && !isLoading && !problem && (
        <NothingFits what={props.whatFits ?? what} params={params} fields={all}>
          {props.children}
        </NothingFits>
      )}
      <ListEnd list={list} what={what} />
    </>
  );
}
