import { useEffect, useRef } from 'preact/hooks';
import { ALERT_KINDS } from '../../protocol/problem-kinds.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { fleet } from '../live.ts';

/** How long a mute may last, in words. */
const DURATIONS = {
  '30m': '30 minutes',
  '1h': '1 hour',
  '2h': '2 hours',
  '8h': '8 hours',
  '1d': '1 day',
  '7d': '7 days',
};

/** Shows the form that mutes alerts. */
export function MuteForm({ onDone, onCancel }: { onDone(): void; onCancel(): void }) {
  const form = useRef<HTMLFormElement>(null);
  const { act, isActing, problem } = useAction();
  useEffect(() => form.current?.querySelector<HTMLSelectElement>('select')?.focus(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    const given = [...new FormData(form.current!)].filter(([, value]) => value !== '');
    return act(async () => {
      await ask('api/alerts/mutes', { method: 'POST', body: JSON.stringify(Object.fromEntries(given)) });
      onDone();
    });
  };
  const pools = (fleet.value?.pools ?? []).map(({ config_id }) => config_id);
  return (
    <form ref={form} class="filters" aria-label="Mute alerts" onSubmit={submit}>
      <label>
        <span>For</span>
        <select name="for" defaultValue="1h">
          {Object.entries(DURATIONS).map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span>Pool, all unless named</span>
        <input name="pool" maxLength={256} autocomplete="off" list="mute-pools" placeholder="llama-*" />
      </label>
      <datalist id="mute-pools">
        {pools.map((id) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      <label>
        <span>Kind of problem</span>
        <select name="kind" defaultValue="">
          <option value="">all</option>
          {ALERT_KINDS.map((kind) => (
            <option key={kind} value={kind}>
              {kind.replaceAll('_', ' ')}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span>Why</span>
        <input name="why" maxLength={500} autocomplete="off" />
      </label>
      <button type="submit" disabled={isActing}>
        Mute
      </button>
      <button type="button" class="quiet" onClick={onCancel}>
        Cancel
      </button>
      <Problem text={problem} />
    </form>
  );
}
