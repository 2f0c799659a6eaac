import { useRef } from 'preact/hooks';
import { bytes } from '../../show/format.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { faultOfTools, NUMBERS, type Settings } from './try-request.ts';

interface SettingsProps {
  settings: Settings;
  onChange(settings: Settings): void;
}

/** Shows the form for everything in a request except the messages. */
export function SettingsForm({ settings, onChange }: SettingsProps) {
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
            Stop strings, one a line
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
        <p class="dim">Fields that are left empty are not sent.</p>
      </div>
    </details>
  );
}

/** The most bytes of an image: a request may have 20 MiB, and an image in it is a third larger. */
const MOST_IMAGE_BYTES = 10_000_000;

interface ImageProps {
  /** The image's address; for a file, a data: address that contains it. Empty: there is none. */
  image: string;
  onChange(image: string): void;
}

/** Shows the field for an image of the next message: a file, or an address that the engine fetches. */
export function ImageField({ image, onChange }: ImageProps) {
  const { act, problem } = useAction();
  const file = useRef<HTMLInputElement>(null);
  const isFile = image.startsWith('data:');
  const read = () => {
    const chosen = file.current?.files?.[0];
    if (!chosen) return;
    void act(async () => {
      if (chosen.size > MOST_IMAGE_BYTES)
        throw new Error(`The image has ${bytes(chosen.size)}; ${bytes(MOST_IMAGE_BYTES)} is the most here.`);
      onChange(await dataUrlOf(chosen));
    });
  };
  const remove = () => {
    if (file.current) file.current.value = '';
    onChange('');
  };
  return (
    <fieldset class="image">
      <legend class="unseen">Image</legend>
      <label>
        Image
        <input ref={file} type="file" accept="image/*" onChange={read} />
      </label>
      <label>
        Or its address
        <input
          type="url"
          placeholder="https://…"
          value={isFile ? '' : image}
          onInput={(event) => onChange(event.currentTarget.value.trim())}
        />
      </label>
      {isFile && <img src={image} alt="To be sent with the next message" />}
      {image !== '' && (
        <button type="button" onClick={remove}>
          Remove the image
        </button>
      )}
      <Problem text={problem} />
    </fieldset>
  );
}

function dataUrlOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(new Error('The image could not be read.'));
    reader.readAsDataURL(file);
  });
}
