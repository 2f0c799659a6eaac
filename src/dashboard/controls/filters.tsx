import type { ComponentChildren } from 'preact';
import * as format from '../../show/format.ts';
import { now, timeZone } from '../clock.ts';
import { filter } from '../router.ts';
import { HoldTime } from './time.tsx';
import { isNarrow } from './window.ts';

/** A filter of a list, in the address and the form. */
export interface FilterField {
  /** The filter's name in the address. */
  name: string;
  /** The API's name of the parameter. */
  parameter: string;
  label: string;
  /** The values to choose from; left out: anything may be typed. `words` has their names. */
  options?: readonly string[];
  words?: Record<string, string>;
}

interface FiltersProps {
  params: URLSearchParams;
  fields: readonly FilterField[];
  /** Further filters, which are used less often. */
  more?: readonly FilterField[];
  /** The label of the choice of a time: "Submitted". */
  timeLabel: string;
}

/** The spans of time, by their names in the address. */
const RANGES: Record<string, { ms: number; name: string }> = {
  '15m': { ms: 900_000, name: 'in the last 15 minutes' },
  '1h': { ms: 3_600_000, name: 'in the last hour' },
  '24h': { ms: 86_400_000, name: 'in the last 24 hours' },
  '7d': { ms: 7 * 86_400_000, name: 'in the last 7 days' },
};
/** The ends of a fixed span of time, ISO. */
const SPAN = ['since', 'until'];

/** Returns the API's query for the filters; `range_ms` counts back from when it is sent. */
export function apiQuery(params: URLSearchParams, fields: readonly FilterField[]): string {
  const asked = new URLSearchParams();
  for (const { name, parameter } of fields) {
    const value = params.get(name);
    if (value) asked.set(parameter, value);
  }
  for (const name of SPAN) {
    const value = params.get(name);
    if (value) asked.set(name, value);
  }
  const range = RANGES[params.get('range') ?? ''];
  if (range) asked.set('range_ms', String(range.ms));
  return asked.toString();
}

/** Returns the active filters in words. */
export function chosen(
  params: URLSearchParams,
  fields: readonly FilterField[],
): { name: string; text: string }[] {
  const set = fields.filter(({ name }) => params.get(name));
  const words = set.map(({ name, label, words }) => {
    const value = params.get(name) ?? '';
    return { name, text: `${label.toLowerCase()} ${words?.[value] ?? value}` };
  });
  const range = RANGES[params.get('range') ?? ''];
  return [
    ...words,
    ...(range ? [{ name: 'range', text: range.name }] : []),
    ...SPAN.filter((name) => params.get(name)).map((name) => ({
      name,
      text: `${name === 'since' ? 'from' : 'until'} ${spanTime(params.get(name))}`,
    })),
  ];
}

/** The number of filters that a narrow window shows at once. */
const FEW = 2;

/** Shows a form for all filters of the address. */
export function Filters({ params, fields: all, more: rest = [], timeLabel }: FiltersProps) {
  const [fields, more] = isNarrow.value ? [all.slice(0, FEW), [...all.slice(FEW), ...rest]] : [all, rest];
  const set = (name: string) => (event: Event) =>
    filter({ [name]: (event.currentTarget as HTMLInputElement).value || null });
  const field = (one: FilterField) => (
    <Field key={one.name} label={one.label}>
      {one.options ? (
        <Choice value={params.get(one.name)} field={one} onChange={set(one.name)} />
      ) : (
        <input type="search" spellcheck={false} value={params.get(one.name) ?? ''} onChange={set(one.name)} />
      )}
    </Field>
  );
  const isMoreSet = more.some(({ name }) => params.get(name));
  const span = SPAN.filter((name) => params.get(name));
  const range = RANGES[params.get('range') ?? ''];
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      {fields.map(field)}
      <Field label={timeLabel}>
        <select value={params.get('range') ?? ''} onChange={set('range')}>
          <option value="">any time</option>
          {Object.entries(RANGES).map(([key, { name }]) => (
            <option key={key} value={key}>
              {name}
            </option>
          ))}
        </select>
      </Field>
      {range && <HoldTime onHold={() => hold(range.ms)} />}
      {span.length > 0 && (
        <button type="button" class="chip" onClick={() => filter({ since: null, until: null })}>
          {span
            .map((name) => `${name === 'since' ? 'from' : 'until'} ${spanTime(params.get(name))}`)
            .join(' ')}{' '}
          <span aria-hidden="true">×</span>
          <span class="unseen">, any time</span>
        </button>
      )}
      {more.length > 0 && (
        <details class="more-filters" open={isMoreSet}>
          <summary>More filters</summary>
          <div>{more.map(field)}</div>
        </details>
      )}
    </form>
  );
}

/** Fixes a moving span of time, so that its address shows the same to others. */
function hold(ms: number): void {
  const iso = (at: number) => new Date(at).toISOString();
  filter({ range: null, since: iso(now.peek() - ms), until: iso(now.peek()) });
}

function spanTime(text: string | null): string {
  const at = Date.parse(text ?? '');
  return Number.isFinite(at) ? format.exactTime(at, timeZone.value) : (text ?? '');
}

function Field({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: what it labels is handed in.
    <label>
      <span>{label}</span>
      {children}
    </label>
  );
}

interface ChoiceProps {
  value: string | null;
  field: FilterField;
  onChange(event: Event): void;
}

function Choice({ value, field: { options = [], words }, onChange }: ChoiceProps) {
  const all = value && !options.includes(value) ? [...options, value] : options;
  return (
    <select value={value ?? ''} onChange={onChange}>
      <option value="">any</option>
      {all.map((option) => (
        <option key={option} value={option}>
          {words?.[option] ?? option}
        </option>
      ))}
    </select>
  );
}

interface NothingProps {
  what: string;
  params: URLSearchParams;
  fields: readonly FilterField[];
  /** The text if no filter is active. */
  children: ComponentChildren;
}

/** Shows which filter leaves no rows, and a button that removes it. */
export function NothingFits({ what, params, fields, children }: NothingProps) {
  const set = chosen(params, fields);
  if (set.length === 0) return <p class="notice">{children}</p>;
  const clear = () => filter(Object.fromEntries(set.map(({ name }) => [name, null])));
  return (
    <p class="notice">
      No {what} fits these filters: {set.map(({ text }) => text).join(', ')}.{' '}
      <button type="button" onClick={clear}>
        Show all
      </button>
    </p>
  );
}
