import { useEffect, useRef } from 'preact/hooks';
import {
  LIMITS,
  type LimitName,
  limitWords,
  RATE_LIMITS,
  TENANT_LIMITS,
} from '../../protocol/token-terms.ts';
import type { NewToken, TokenView } from '../../protocol/tokens.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { Choice } from '../controls/choice.tsx';
import { useFocusBack } from '../controls/focus.ts';

/** The sentences that say what a token may do, by scope. */
const SCOPES = {
  submit: 'submit: send requests and jobs',
  read: 'read: look at everything',
  'submit+read': 'submit and read',
  worker: 'worker: run jobs',
  launcher: 'launcher: start machines',
  gateway: 'gateway: answer callers for this queue',
  admin: 'admin: everything',
};

/** The fields of limits, all optional. */
const LIMIT_NUMBERS = RATE_LIMITS.map((name) => limitField(name, 'at most'));

/** The fields for all tokens of the tenant together: those of `limits.tenant`. */
const TENANT_NUMBERS = TENANT_LIMITS.map((name) => limitField(name, 'of the tenant'));

/** Returns the field of a limit, named as `Dollars a day, at most`. */
function limitField<Name extends LimitName>(name: Name, end: string) {
  const words = limitWords(name).replace('US ', '');
  const label = `${words[0]!.toUpperCase()}${words.slice(1)}, ${end}`;
  return { name, label, ...(LIMITS[name].unit === 'dollars' ? { min: 0.01, step: 0.01 } : { min: 1 }) };
}

/** All fields of numbers. */
const NUMBERS = [
  ...LIMIT_NUMBERS,
  { name: 'weight', label: 'Weight among tenants, 1 unless set', min: 0.01, max: 100, step: 0.01 },
  { name: 'default_priority', label: 'Priority, 0 unless set', min: -1000, max: 1000 },
  { name: 'highest_priority', label: 'Highest priority, 0 unless set', min: -10, max: 1000 },
  { name: 'stored_bytes', label: 'Bytes of responses stored, at most', min: 1 },
] as const;
const OWN_NUMBERS = ['weight', 'default_priority', 'highest_priority', 'stored_bytes'] as const;

/** The words for each choice of whether a token's requests are kept, where the queue keeps any. */
const KEEPS = { '': 'kept as QUEUE_KEEP_REQUESTS says', true: 'kept', false: 'never kept' };

/** The words for each choice of what a token may store of its responses. */
const STORES = {
  '': 'stored unless a request says no',
  off: 'stored if a request says so',
  deny: 'never stored',
};

/** The fields of comma-separated lists. */
const LISTS = [
  { name: 'models', label: 'Models, all unless named', placeholder: 'qwen-*, llama' },
  { name: 'routes', label: 'Routes, all unless named', placeholder: '/v1/embeddings' },
] as const;

interface NumberProps {
  name: string;
  label: string;
  value: number | null | undefined;
  min: number;
  max?: number;
  step?: number;
}

function NumberField({ label, value, ...input }: NumberProps) {
  return (
    <label>
      <span>{label}</span>
      <input type="number" {...input} defaultValue={value == null ? undefined : String(value)} />
    </label>
  );
}

interface Props {
  /** The token to change; null: a new one is made. */
  token: TokenView | null;
  /** Called when the form is done. @param made the new token; null: a token was changed */
  onDone(made: NewToken | null): void;
  onCancel(): void;
}

/** Shows the form that makes a token, or changes one; a change is in force within a second. */
export function TokenForm({ token, onDone, onCancel }: Props) {
  const form = useRef<HTMLFormElement>(null);
  const { act, isActing, problem } = useAction();
  useFocusBack(form);
  useEffect(() => {
    const first = token === null ? 'name' : 'expires';
    form.current?.querySelector<HTMLInputElement>(`[name=${first}]`)?.focus();
  }, [token]);
  const submit = (event: Event) => {
    event.preventDefault();
    const given = termsIn(new FormData(form.current!), token);
    return act(async () => {
      if (token === null) {
        onDone(await ask<NewToken>('api/tokens', { method: 'POST', body: JSON.stringify(given) }));
        form.current?.reset();
      } else {
        const path = `api/tokens/${encodeURIComponent(token.name)}`;
        await ask(path, { method: 'PATCH', body: JSON.stringify(given) });
        onDone(null);
      }
    });
  };
  return (
    <form
      ref={form}
      class="filters panel"
      aria-label={token === null ? 'Make a token' : `Change the token ${token.name}`}
      onSubmit={submit}
    >
      <h2>{token === null ? 'Make a token' : `Change ${token.name}`}</h2>
      <label>
        <span>Name</span>
        <input
          name="name"
          required
          maxLength={256}
          autocomplete="off"
          defaultValue={token?.name}
          readOnly={token !== null}
        />
      </label>
      {token === null && <Choice label="What it may do" name="scopes" options={SCOPES} />}
      <label>
        <span>Expires, never unless set</span>
        <input name="expires" type="date" defaultValue={dayOf(token)} />
      </label>
      <details class="more-filters" open={token !== null}>
        <summary>Tenant, models and routes</summary>
        <div>
          <label>
            <span>Tenant, the token's name unless set</span>
            <input name="tenant" maxLength={256} autocomplete="off" defaultValue={tenantOf(token)} />
          </label>
          {LISTS.map(({ name, label, placeholder }) => (
            <label key={name}>
              <span>{label}</span>
              <input
                name={name}
                placeholder={placeholder}
                autocomplete="off"
                defaultValue={token?.[name]?.join(', ')}
              />
            </label>
          ))}
          <Choice
            label="Its responses are"
            name="store"
            options={STORES}
            chosen={token?.store === 'allow' ? '' : (token?.store ?? '')}
          />
          <Choice
            label="Its requests and answers are"
            name="keep"
            options={KEEPS}
            chosen={token?.keep == null ? '' : String(token.keep)}
          />
        </div>
      </details>
      <details class="more-filters" open={token !== null}>
        <summary>Limits, budgets and priorities</summary>
        <div>
          {NUMBERS.map((field) => (
            <NumberField key={field.name} {...field} value={{ ...token, ...token?.limits }[field.name]} />
          ))}
        </div>
      </details>
      <details class="more-filters" open={token?.limits?.tenant !== undefined}>
        <summary>Budgets of its tenant</summary>
        <div>
          {TENANT_NUMBERS.map((field) => (
            <NumberField
              key={field.name}
              {...field}
              name={`tenant_${field.name}`}
              value={token?.limits?.tenant?.[field.name]}
            />
          ))}
        </div>
      </details>
      <div class="buttons">
        <button type="submit" class="primary" disabled={isActing}>
          {token === null ? 'Make a token' : 'Save'}
        </button>
        <button type="button" class="quiet" onClick={onCancel}>
          Cancel
        </button>
      </div>
      <Problem text={problem} />
    </form>
  );
}

/** Returns the terms in the form. For a changed token, null removes an emptied one; a term that is left out stays. */
function termsIn(fields: FormData, token: TokenView | null): Record<string, unknown> {
  const text = (name: string) => String(fields.get(name) ?? '').trim();
  const numbers = (names: readonly string[], prefix = '') =>
    Object.fromEntries(
      names.filter((name) => text(prefix + name)).map((name) => [name, Number(text(prefix + name))]),
    );
  const list = (name: string) => {
    const given = text(name)
      .split(',')
      .map((part) => part.trim())
      .filter(Boolean);
    return given.length > 0 ? given : null;
  };
  const tenant = numbers(
    TENANT_NUMBERS.map(({ name }) => name),
    'tenant_',
  );
  const limits = {
    ...numbers(RATE_LIMITS),
    // The form has no fields for limits by model.
    ...(token?.limits?.models && { models: token.limits.models }),
    ...(Object.keys(tenant).length > 0 && { tenant }),
  };
  const terms = {
    ...Object.fromEntries(OWN_NUMBERS.map((name) => [name, numbers([name])[name] ?? null])),
    limits: Object.keys(limits).length > 0 ? limits : null,
    tenant: text('tenant') || null,
    models: list('models'),
    routes: list('routes'),
    store: text('store') || null,
    keep: text('keep') === '' ? null : text('keep') === 'true',
    // The field has no time of day, so if the day is unchanged the exact time is kept.
    ...(text('expires') !== dayOf(token) && {
      expires_at: text('expires') ? new Date(text('expires')).toISOString() : null,
    }),
  };
  if (token !== null) return terms;
  const set = Object.fromEntries(Object.entries(terms).filter(([, value]) => value !== null));
  return { ...set, name: text('name'), scopes: text('scopes').split('+') };
}

function tenantOf(token: TokenView | null): string {
  return token === null || token.tenant === token.name ? '' : token.tenant;
}

/** Returns the day when a token expires, in UTC, as the field's day is read. */
function dayOf(token: TokenView | null): string {
  return token?.expires_at?.slice(0, 10) ?? '';
}
