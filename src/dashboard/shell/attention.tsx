import { useRef, useState } from 'preact/hooks';
import type { Attention as Item } from '../../protocol/fleet-view.ts';
import * as format from '../../show/format.ts';
import { ask } from '../api.ts';
import { now, timeZone } from '../clock.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { Mark } from '../controls/marks.tsx';
import { Still } from '../controls/still.tsx';
import { keepPlaces, type Place } from '../controls/still-places.ts';
import { Age } from '../controls/time.tsx';
import { isLow } from '../controls/window.ts';
import { fleet } from '../live.ts';
import { href, path } from '../router.ts';
import { isAdmin } from '../session.ts';

/** The most problems that are shown at first, so that the workers below are in view. */
const MOST = isLow ? 2 : 3;

/** Shows problems that need an operator, worst first when the view is opened; nothing if there is none. */
export function Attention() {
  const [isWhole, setWhole] = useState(false);
  const items = fleet.value?.attention ?? [];
  if (path.value === '')
    return (
      // The key changes with the length, so that the room of the whole list is given back.
      <Still key={String(isWhole)}>
        {items.length > 0 && <List items={items} isWhole={isWhole} onWhole={setWhole} />}
      </Still>
    );
  return items.length === 0 || path.value === 'try' ? null : <Brief items={items} />;
}

interface ListProps {
  items: Item[];
  /** Whether all problems are shown, each with its whole text. */
  isWhole: boolean;
  onWhole(isWhole: boolean): void;
}

function List({ items, isWhole, onWhole }: ListProps) {
  const shown = useRef<Place<Item>[]>([]);
  const most = isWhole ? undefined : MOST;
  shown.current = keepPlaces(shown.current, items, keyOf, most);
  // A new error must not be hidden by warnings that keep their places.
  const isError = ({ item }: Place<Item>) => item.severity === 'error';
  const isErrorHidden = shown.current.slice(MOST).some(isError);
  if (isErrorHidden && !shown.current.slice(0, MOST).every(isError))
    shown.current = keepPlaces([], items, keyOf, most);
  return (
    <section class="attention" aria-label="Needs attention">
      <h2>
        Needs attention <span class="number">{items.length}</span>
        {(items.length > MOST || isWhole) && (
          <button type="button" class="quiet" aria-expanded={isWhole} onClick={() => onWhole(!isWhole)}>
            {isWhole ? 'Show the worst' : 'Show all'}
          </button>
        )}
        <a class="told" href={href('alerts')}>
          Who is told
        </a>
      </h2>
      <ol class={isWhole ? 'whole' : undefined}>
        {shown.current.slice(0, most).map(({ item, isOver }) => (
          <Row key={keyOf(item)} item={item} isOver={isOver} />
        ))}
      </ol>
    </section>
  );
}

/** Shows, on a view about something else, the worst problem in a line, and all problems after a click. */
function Brief({ items }: { items: Item[] }) {
  const worst = items[0]!;
  return (
    <section class="attention brief" aria-label="Needs attention">
      <details>
        <summary>
          <span class={SEVERITIES[worst.severity].tone}>
            <SeverityMark item={worst} />
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

const SEVERITIES = {
  error: { shape: 'cross', label: 'Error:', tone: 'bad' },
  warning: { shape: 'triangle', label: 'Warning:', tone: 'warn' },
  info: { shape: 'hollow', label: 'Information:', tone: 'dim' },
} as const satisfies Record<Item['severity'], object>;

function SeverityMark({ item }: { item: Item }) {
  const { shape, label } = SEVERITIES[item.severity];
  return <Mark shape={shape} label={label} />;
}

function keyOf({ id }: Item): string {
  return id;
}

function Row({ item, isOver = false }: { item: Item; isOver?: boolean }) {
  return (
    <li class={isOver ? 'over' : SEVERITIES[item.severity].tone}>
      <SeverityMark item={item} />
      <p title={`${item.text} ${item.advice}`}>
        <span class="text">
          <span class="what">{item.text}</span> <span class="advice">{item.advice}</span>
        </span>
      </p>
      <Age at={item.since} />
      <Open item={item} />
      <Acknowledged item={item} />
    </li>
  );
}

/** Shows who takes care of a problem, or the button by which the user takes care of it. */
function Acknowledged({ item: { id, text, acknowledged, muted_until } }: { item: Item }) {
  const { act, isActing, problem } = useAction();
  if (acknowledged) {
    return (
      <div class="acknowledged">
        acknowledged <Age at={acknowledged.at} /> ago{' '}
        <span class="by">by {acknowledged.by ?? 'somebody'}</span>
      </div>
    );
  }
  const muted = muted_until !== null && (
    <a
      class="by"
      href={href('alerts')}
      title={`Nobody is told of it until ${format.exactTime(muted_until, timeZone.value)}`}
    >
      muted for {format.age(muted_until - now.value)}
    </a>
  );
  if (!isAdmin.value) return muted && <div class="acknowledged">{muted}</div>;
  const acknowledge = () =>
    act(async () => {
      await ask('api/fleet/attention/acknowledge', { method: 'POST', body: JSON.stringify({ id }) });
    });
  return (
    <div class="acknowledged">
      <button
        type="button"
        class="quiet"
        aria-label={`Acknowledge: ${text}`}
        disabled={isActing}
        onClick={acknowledge}
      >
        Acknowledge
      </button>
      {muted}
      <Problem text={problem} />
    </div>
  );
}

/** Shows the link that leads to the cause. */
function Open({ item: { worker_id, config_id, code } }: { item: Item }) {
  if (worker_id !== null) {
    return (
      <a class="button" href={href(`workers/${encodeURIComponent(worker_id)}`)}>
        Open worker<span class="unseen"> {worker_id}</span>
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
      Open pool<span class="unseen"> {config_id}</span>
    </a>
  );
}
