import { computed, effect } from '@preact/signals';
import { clockTime } from '../../show/format.ts';
import { now, timeZone } from '../clock.ts';
import { connection, dataAge, denial, fleet, resume, retryAt } from '../live.ts';
import { isSignedOut } from '../session.ts';

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
  // The view asks for a token in this case.
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
        Something between this page and the queue refuses WebSockets, so it asks every 5 s.
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
