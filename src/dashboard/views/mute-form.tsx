import { useEffect, useRef } from 'preact/hooks';
import { ALERT_KINDS } from '../../protocol/problem-kinds.ts';
import { inWords } from '../../show/format.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { Choice } from '../controls/choice.tsx';
import { useFocusBack } from '../controls/focus.ts';
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

/** The kinds of problems, in words. */
const KINDS = { '': 'all', ...Object.fromEntries(ALERT_KINDS.map((kind) => [kind, inWords(kind)])) };

/** Shows the form that mutes alerts. */
export function MuteForm({ onDone, onCancel }: { onDone(): void; onCancel(): void }) {
  const form = useRef<HTMLFormElement>(null);
  const { act, isActing, problem } = useAction();
  useFocusBack(form);
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
    <form ref={form} class="filters panel" aria-label="Mute alerts" onSubmit={submit}>
      <p>What is muted still stands on the page; nobody is told of it.</p>
      <Choice label="For" name="for" options={DURATIONS} chosen="1h" />
      <label>
        <span>Pool, all unless named</span>
        <input name="pool" maxLength={256} autocomplete="off" list="mute-pools" placeholder="llama-*" />
      </label>
      <datalist id="mute-pools">
        {pools.map((id) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      <Choice label="Kind of problem" name="kind" options={KINDS} />
      <label>
        <span>Why</span>
        <input name="why" maxLength={500} autocomplete="off" />
      </label>
      <div class="buttons">
        <button type="submit" class="primary" disabled={isActing}>
          Mute
        </button>
        <button type="button" class="quiet" onClick={onCancel}>
          Cancel
        </button>
      </div>
      <Problem text={problem} />
    </form>
  );
}
