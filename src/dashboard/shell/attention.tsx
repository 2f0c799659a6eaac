import { useRef } from 'preact/hooks';
import type { Attention as Item } from '../../protocol/fleet-view.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { Age } from '../controls/age.tsx';
import { Mark } from '../controls/mark.tsx';
import { Still } from '../controls/still.tsx';
import * as format from '../format.ts';
import { fleet } from '../live.ts';
import { href, path } from '../router.ts';
import { isAdmin } from '../session.ts';
import { keepPlaces, type Place } from './still-places.ts';

/** So many are shown of those that a fleet has. */
const MOST = 6;
/** Of one of them in a line. */
const ROW_PX = 44;

/** Problems that need an operator, worst first when the view is opened; empty without one. */
export function Attention() {
  const items = fleet.value?.attention ?? [];
  if (path.value === '')
    return <Still spare={2 * ROW_PX}>{items.length > 0 && <List items={items} />}</Still>;
  return items.length === 0 || path.value === 'try' ? null : <Brief items={items} />;
}

function List({ items }: { items: Item[] }) {
  const shown = useRef<Place<Item>[]>([]);
  shown.current = keepPlaces(shown.current, items, keyOf);
  // A new error is not hidden behind warnings so that these may stay where they are.
  const isErrorHidden = shown.current.slice(MOST).some(({ item }) => item.severity === 'error');
  if (isErrorHidden) shown.current = keepPlaces([], items, keyOf);
  const more = shown.current.slice(MOST).filter(({ isOver }) => !isOver);
  return (
    <section class="attention" aria-label="Needs attention">
      <h2>
        Needs attention <span class="number">{items.length}</span>
      </h2>
      <ol>
        {shown.current.slice(0, MOST).map(({ item, isOver }) => (
          <Row key={keyOf(item)} item={item} isOver={isOver} />
        ))}
      </ol>
      {more.length > 0 && <More items={more.map(({ item }) => item)} />}
    </section>
  );
}

/** On a view that is about something else: the worst in a line, and all of it on a click. */
function Brief({ items }: { items: Item[] }) {
  const worst = items[0]!;
  const isError = worst.severity === 'error';
  return (
    <section class="attention brief" aria-label="Needs attention">
      <details>
        <summary>
          <span class={isError ? 'bad' : 'warn'}>
            <Mark shape={isError ? 'cross' : 'triangle'} label={isError ? 'Error:' : 'Warning:'} />
          </span>{' '}
          <span class="what">{worst.text}</span>
          {items.length > 1 && <span class="dim"> and {format.count(items.length - 1)} more</span>}
        </summary>
        <ol>
          {items.map((item) => (
            <Row key={keyOf(item)} item={item} />
          ))}
        </ol>
      </details>
    </section>
  );
}

function More({ items }: { items: Item[] }) {
  return (
    <details>
      <summary>{format.plural(items.length, 'more')}</summary>
      <ol>
        {items.map((item) => (
          <Row key={keyOf(item)} item={item} />
        ))}
      </ol>
    </details>
  );
}

function keyOf({ id }: Item): string {
  return id;
}

function Row({ item, isOver = false }: { item: Item; isOver?: boolean }) {
  const isError = item.severity === 'error';
  return (
    <li class={isOver ? 'over' : isError ? 'bad' : 'warn'}>
      <Mark shape={isError ? 'cross' : 'triangle'} label={isError ? 'Error' : 'Warning'} />
      <p>
        <span class="what">{item.text}</span> <span class="advice">{item.advice}</span>
      </p>
      <Age at={item.since} />
      <Open item={item} />
      <Acknowledged item={item} />
    </li>
  );
}

/** Who sees to it, or the way to say that one does. */
function Acknowledged({ item: { id, acknowledged } }: { item: Item }) {
  const { act, isActing, problem } = useAction();
  if (acknowledged) {
    return (
      <div class="acknowledged">
        acknowledged <Age at={acknowledged.at} /> <span class="by">by {acknowledged.by ?? 'somebody'}</span>
      </div>
    );
  }
  if (!isAdmin.value) return null;
  const acknowledge = () =>
    act(async () => {
      await ask('api/fleet/attention/acknowledge', { method: 'POST', body: JSON.stringify({ id }) });
    });
  return (
    <div class="acknowledged">
      <button type="button" class="quiet" disabled={isActing} onClick={acknowledge}>
        Acknowledge
      </button>
      <Problem text={problem} />
    </div>
  );
}

/** One step to where the cause is. */
function Open({ item: { worker_id, config_id, code } }: { item: Item }) {
  if (worker_id !== null) {
    return (
      <a class="button" href={href(`workers/${encodeURIComponent(worker_id)}`)}>
        {'Open worker'}
      </a>
    );
  }
  if (code === 'objective_missed' && config_id !== null) {
    return (
      <a class="button" href={href(`queue?config_id=${encodeURIComponent(config_id)}`)}>
        Open the pool
      </a>
    );
  }
  if (code === 'budget_reached' || code === 'launcher_silent' || code === 'provider_silent') {
    return (
      <a class="button" href={href('spend')}>
        Open spend
      </a>
    );
  }
  if (config_id === null) return null;
  return (
    <a class="button" href={href(`queue?config_id=${encodeURIComponent(config_id)}`)}>
      Open the queue
    </a>
  );
}
