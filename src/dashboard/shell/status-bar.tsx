import { computed, effect } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { FleetSummary, Verdict } from '../../protocol/fleet-view.ts';
import * as format from '../../show/format.ts';
import { clockTime } from '../../show/format.ts';
import { now, timeZone } from '../clock.ts';
import { Mark, type Shape } from '../controls/marks.tsx';
import { connection, dataAge, denial, fleet, isOverdue, resume, retryAt } from '../live.ts';
import { href } from '../router.ts';
import { isSignedOut } from '../session.ts';

const VERDICTS: Record<Verdict, { word: string; shape: Shape; tone: string }> = {
  serving: { word: 'Serving', shape: 'full', tone: 'good' },
  degraded: { word: 'Degraded', shape: 'triangle', tone: 'warn' },
  not_serving: { word: 'Not serving', shape: 'cross', tone: 'bad' },
  empty: { word: 'No workers yet', shape: 'hollow', tone: 'idle' },
};

/** Whether the shown data is current. */
const isCurrent = computed(() => connection.value !== 'lost' && connection.value !== 'denied');

/** The text that replaces the verdict while nothing is known. */
const whyNothing = computed(() => {
  if (isSignedOut.value) return 'Sign in to see the fleet.';
  if (connection.value === 'denied') return 'This token may not see the fleet.';
  if (connection.value !== 'lost' && !isOverdue.value) return 'Asking the queue …';
  return 'The queue does not answer. Check that it runs; this page goes on as soon as it answers.';
});

/** Shows the verdict as a shape, for a window that is too small to keep all of it in view. */
export function VerdictMark() {
  const view = fleet.value;
  if (view === null) return null;
  const { word, shape, tone } = VERDICTS[view.summary.verdict];
  const isOld = !isCurrent.value;
  return (
    <span
      class={`verdict-mark ${isOld ? 'idle' : tone}`}
      role="img"
      aria-label={`Verdict: ${isOld ? `last known: ${word.toLowerCase()}` : word}`}
    >
      <Mark shape={isOld ? 'dashed' : shape} />
    </span>
  );
}

/** Shows the verdict on the whole fleet, in a wide window at every scroll position. */
export function StatusBar() {
  const view = fleet.value;
  return (
    <section class="status-bar" aria-label="Verdict">
      {view ? <Summary summary={view.summary} /> : <p class="verdict nothing idle">{whyNothing.value}</p>}
      <Freshness />
    </section>
  );
}

function Summary({ summary }: { summary: FleetSummary }) {
  const { word, shape, tone } = VERDICTS[summary.verdict];
  const isOld = !isCurrent.value;
  const { ready_workers, workers, busy_slots, slots, waiting, oldest_wait_ms, tokens_per_second } = summary;
  return (
    <>
      <p class={`verdict ${isOld ? 'idle' : tone}`}>
        <Mark shape={isOld ? 'dashed' : shape} />
        <strong>{isOld ? `Last known: ${word.toLowerCase()}` : word}</strong>
        <Reason key={summary.verdict} text={summary.text} />
      </p>
      <ul class="figures">
        <Figure name="ready" value={`${format.count(ready_workers)}/${format.count(workers)}`} to="" />
        <Figure name="slots busy" value={`${format.count(busy_slots)}/${format.count(slots)}`} to="" />
        <Figure
          name={oldest_wait_ms === null ? 'waiting' : `waiting, ${format.age(oldest_wait_ms)}`}
          value={format.count(waiting)}
          to="queue"
        />
        <Figure name="tokens/s" value={format.amount(tokens_per_second)} to="queue" />
      </ul>
    </>
  );
}

/** Shows the reason for a verdict. It keeps the room of the most lines that it had, so that none of them moves. */
function Reason({ text }: { text: string }) {
  const shown = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    const { style, offsetHeight } = shown.current!;
    style.minHeight = `${offsetHeight}px`;
  });
  return (
    <span ref={shown} class="reason" title={text}>
      {text}
    </span>
  );
}

function Figure({ name, value, to }: { name: string; value: string; to: string }) {
  return (
    <li>
      <a href={href(to)}>
        <b>{value}</b> {name}
      </a>
    </li>
  );
}

/** Shows how old the shown data is, and how it arrives. */
function Freshness() {
  if (isSignedOut.value) return null;
  const isOld = !isCurrent.value;
  const shape = connection.value === 'live' ? 'full' : isOld ? 'dashed' : 'ring';
  const word = {
    live: 'Live',
    polling: 'Every 5 s',
    connecting: 'Connecting',
    lost: 'Lost',
    denied: 'No access',
  }[connection.value];
  return (
    <p class={`freshness ${isOld ? 'warn' : 'good'}`} title="How old the data shown is">
      <Mark shape={shape} /> {word}
      {dataAge.value !== null && <span class="number"> {format.age(dataAge.value)}</span>}
    </p>
  );
}

/** Numbers older than this many ms are shown as old. */
const OLD_MS = 10_000;

effect(() => {
  document.documentElement.classList.toggle(
    'old-data',
    connection.value === 'lost' && (dataAge.value ?? 0) > OLD_MS,
  );
});

/** The seconds to the next try; it ticks with the page's clock, which follows the server's. */
const retryIn = computed(() => {
  void now.value;
  return retryAt.value === null ? null : Math.max(0, Math.ceil((retryAt.value - Date.now()) / 1000));
});

/** Shows a message while the shown data is not current. */
export function ConnectionBar() {
  // In this case the view asks for a token.
  if (isSignedOut.value) return null;
  if (connection.value === 'denied') {
    return (
      <p class="connection-bar bad" role="alert">
        {denial.value?.message}{' '}
        <button type="button" onClick={resume}>
          Try again
        </button>
      </p>
    );
  }
  if (connection.value === 'polling') {
    return (
      <p class="connection-bar" role="status">
        Something between this page and the queue refuses WebSockets, so the page asks every 5 s.
      </p>
    );
  }
  if (connection.value !== 'lost') return null;
  const from = fleet.value ? `Data of ${clockTime(fleet.value.at, timeZone.value)}. ` : '';
  const when = retryIn.value ? `Reconnecting in ${retryIn.value} s.` : 'Reconnecting …';
  return (
    <p class="connection-bar warn" role="status">
      {from}The queue does not answer. {when}{' '}
      <button type="button" onClick={resume}>
        Now
      </button>
    </p>
  );
}
