import * as format from '../../show/format.ts';
import type { PagedList } from './paged-list.ts';

type Shown = Pick<PagedList<unknown>, 'news' | 'rows' | 'hasMore' | 'isLoading' | 'showNews' | 'loadMore'>;

/** Shows the number of new rows that came while the user reads further down. */
export function News({ list: { news, showNews } }: { list: Shown }) {
  if (news === 0) return null;
  return (
    <button type="button" class="news" onClick={showNews}>
      {format.count(news)} new
    </button>
  );
}

/** Shows the button for older rows, or that there are none. */
export function ListEnd({ list, what }: { list: Shown; what: string }) {
  const { rows, hasMore, isLoading, loadMore } = list;
  if (!hasMore)
    return (
      <p class="list-end">
        {rows.length > 0 && <span class="dim">{format.plural(rows.length, what)}, and no more.</span>}
      </p>
    );
  return (
    <p class="list-end">
      <button type="button" onClick={loadMore} disabled={isLoading}>
        {isLoading ? 'Loading …' : `Older ones than these ${format.count(rows.length)}`}
      </button>
    </p>
  );
}
