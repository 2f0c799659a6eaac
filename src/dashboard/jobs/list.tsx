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
  /** What it lists, for those who do not see it. */
  label: string;
  /** One row of it: "job". */
  what: string;
  /** The same where none fits; left out: as `what`. */
  whatFits?: string;
  columns: readonly Column<Row>[];
  /** px */
  rowHeight: number;
  /** Where a click on a row leads, from the page's root. */
  pathOf?(row: Row): string;
  fields: readonly FilterField[];
  /** Those that are asked for less often. */
  more?: readonly FilterField[];
  /** Of the choice of a time: "Submitted". */
  timeLabel: string;
  /** What there is to say about the rows, above them. */
  notesOf?(list: PagedList<Row>): ComponentChildren;
  /** What is said where there are no rows and no filter is set. */
  children: ComponentChildren;
}

/** A list that is read page by page, with the filters that the address has. */
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
