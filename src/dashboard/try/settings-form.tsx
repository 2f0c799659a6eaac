import { Problem } from '../controls/action.tsx';
import { faultOfTools, NUMBERS, type Settings } from './request.ts';

interface Props {
  settings: Settings;
  onChange(settings: Settings): void;
}

/** Shows the form for everything in a request except the messages. */
export function SettingsForm({ settings, onChange }: Props) {
  const field = (name: Exclude<keyof Settings, 'stream'>) => ({
    value: settings[name],
    spellcheck: false,
    onInput: (event: { currentTarget: { value: string } }) =>
      onChange({ ...settings, [name]: event.currentTarget.value }),
  });
  return (
    <details class="settings">
      <summary>System prompt, parameters, tools</summary>
      <div class="fields">
        <label>
          System prompt
          <textarea rows={2} {...field('system')} />
        </label>
        <div class="numbers">
          {(Object.entries(NUMBERS) as [keyof typeof NUMBERS, string][]).map(([name, label]) => (
            <label key={name}>
              {label}
              <input type="text" inputMode="decimal" {...field(name)} />
            </label>
          ))}
          <label>
            Stop, one a line
            <textarea rows={1} {...field('stop')} />
          </label>
        </div>
        <label>
          Tools, as JSON
          <textarea
            class="code"
            rows={4}
            placeholder='[{"type": "function", "function": {"name": "…", "parameters": {…}}}]'
            aria-invalid={faultOfTools(settings.tools) !== null}
            {...field('tools')}
          />
        </label>
        <Problem text={faultOfTools(settings.tools)} />
        <p class="dim">What is left empty is not sent.</p>
      </div>
    </details>
  );
}
