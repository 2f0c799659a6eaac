import { useRef, useState } from 'preact/hooks';
import { RATE_LIMITS, termsText } from '../../protocol/token-terms.ts';
import type { NewToken, TokenView } from '../../protocol/token-view.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { Age, Time } from '../controls/age.tsx';
import type { Column } from '../controls/column.ts';
import { CopyButton } from '../controls/copy-button.tsx';
import { Table } from '../controls/table.tsx';
import { usePolled } from '../polled.ts';
import { isAdmin, session } from '../session.ts';

const ROW_HEIGHT = 40;
const LOOK_MS = 5000;
const SCOPES = ['submit', 'read', 'submit+read', 'worker', 'launcher', 'admin'];

/** All of them may be left out. */
const NUMBERS = [
  { name: 'requests_per_minute', label: 'Requests a minute, at most', min: 1 },
  { name: 'tokens_per_minute', label: 'Tokens a minute, at most', min: 1 },
  { name: 'tokens_per_day', label: 'Tokens a day, at most', min: 1 },
  { name: 'tokens_per_month', label: 'Tokens a month, at most', min: 1 },
  { name: 'dollars_per_day', label: 'Dollars a day, at most', min: 0.01, step: 0.01 },
  { name: 'dollars_per_month', label: 'Dollars a month, at most', min: 0.01, step: 0.01 },
  { name: 'running', label: 'At a time, at most', min: 1 },
  { name: 'weight', label: 'Weight among tenants, 1 unless set', min: 0.01, max: 100, step: 0.01 },
  { name: 'default_priority', label: 'Priority, 0 unless set', min: -1000, max: 1000 },
  { name: 'highest_priority', label: 'Highest priority, 0 unless set', min: -10, max: 1000 },
] as const;

/** Of all tokens of its tenant together: the fields of `limits.tenant`. */
const TENANT_NUMBERS = [
  { name: 'tokens_per_day', label: 'Tokens a day, of the tenant', min: 1 },
  { name: 'tokens_per_month', label: 'Tokens a month, of the tenant', min: 1 },
  { name: 'dollars_per_day', label: 'Dollars a day, of the tenant', min: 0.01, step: 0.01 },
  { name: 'dollars_per_month', label: 'Dollars a month, of the tenant', min: 0.01, step: 0.01 },
] as const;

/** Who may use the queue: tokens, what they may do, and when each was last used. */
export function TokensView() {
  const [changes, setChanges] = useState(0);
  const [made, setMade] = useState<NewToken | null>(null);
  const { data, failure } = usePolled<{ tokens: TokenView[] }>(
    isAdmin.value ? 'api/tokens' : null,
    LOOK_MS,
    changes,
  ).value;
  const changed = (token: NewToken | null) => {
    setMade(token);
    setChanges(changes + 1);
  };
  return (
    <section class="view" aria-labelledby="tokens-title">
      <h1 id="tokens-title">Tokens</h1>
      {!isAdmin.value && <p class="notice">Tokens are shown to those who sign in with the scope admin.</p>}
      {isAdmin.value && session.value?.asks_for_token && <TokenForm onMade={changed} />}
      {made && <Made token={made} />}
      {failure && failure.status !== 0 && <Problem text={failure.message} />}
      {data && data.tokens.length > 0 && (
        <Table
          label="Tokens"
          columns={columnsWith(changed)}
          rows={data.tokens}
          rowHeight={ROW_HEIGHT}
          idOf={({ source, name }) => `${source} ${name}`}
        />
      )}
      {data?.tokens.length === 0 && (
        <p class="notice">
          This queue was started without tokens and serves this machine alone.{' '}
          <code>npx worker-vllm token create --scope admin</code> makes the first one, for the next start.
        </p>
      )}
    </section>
  );
}

/** The one time that it is shown. */
function Made({ token: { name, token } }: { token: NewToken }) {
  return (
    <p class="notice" role="status">
      The token “{name}”, shown this once: <code>{token}</code>{' '}
      <CopyButton text={token} what={`the token ${name}`} />
    </p>
  );
}

function TokenForm({ onMade }: { onMade(token: NewToken): void }) {
  const form = useRef<HTMLFormElement>(null);
  const { act, isActing, problem } = useAction();
  const make = (event: Event) => {
    event.preventDefault();
    const fields = new FormData(form.current!);
    const text = (name: string) => String(fields.get(name)).trim();
    const models = text('models')
      .split(',')
      .map((model) => model.trim())
      .filter(Boolean);
    const numbers = (names: readonly string[], prefix = '') =>
      Object.fromEntries(
        names.filter((name) => text(prefix + name)).map((name) => [name, Number(text(prefix + name))]),
      );
    const tenant = numbers(
      TENANT_NUMBERS.map(({ name }) => name),
      'tenant_',
    );
    const limits = { ...numbers(RATE_LIMITS), ...(Object.keys(tenant).length > 0 && { tenant }) };
    const body = {
      ...numbers(['weight', 'default_priority', 'highest_priority']),
      ...(Object.keys(limits).length > 0 && { limits }),
      name: text('name'),
      ...(text('tenant') && { tenant: text('tenant') }),
      scopes: text('scopes').split('+'),
      ...(models.length > 0 && { models }),
      ...(text('expires') && { expires_at: new Date(text('expires')).toISOString() }),
    };
    return act(async () => {
      onMade(await ask<NewToken>('api/tokens', { method: 'POST', body: JSON.stringify(body) }));
      form.current?.reset();
    });
  };
  return (
    <form ref={form} class="filters" aria-label="Make a token" onSubmit={make}>
      <label>
        <span>Name</span>
        <input name="name" required maxLength={256} autocomplete="off" />
      </label>
      <label>
        <span>Tenant, its name unless set</span>
        <input name="tenant" maxLength={256} autocomplete="off" />
      </label>
      <label>
        <span>What it may do</span>
        <select name="scopes">
          {SCOPES.map((scopes) => (
            <option key={scopes} value={scopes}>
              {scopes}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span>Models, all unless named</span>
        <input name="models" placeholder="qwen-*, llama" autocomplete="off" />
      </label>
      <label>
        <span>Expires, never unless set</span>
        <input name="expires" type="date" />
      </label>
      {NUMBERS.map(({ name, label, ...bounds }) => (
        <label key={name}>
          <span>{label}</span>
          <input name={name} type="number" {...bounds} />
        </label>
      ))}
      <details class="more-filters">
        <summary>Budgets of its tenant</summary>
        <div>
          {TENANT_NUMBERS.map(({ name, label, ...bounds }) => (
            <label key={name}>
              <span>{label}</span>
              <input name={`tenant_${name}`} type="number" {...bounds} />
            </label>
          ))}
        </div>
      </details>
      <button type="submit" disabled={isActing}>
        Make a token
      </button>
      <Problem text={problem} />
    </form>
  );
}

function columnsWith(changed: (token: NewToken | null) => void): Column<TokenView>[] {
  return [
    { key: 'name', head: 'Name', cell: ({ name }) => <span title={name}>{name}</span> },
    {
      key: 'scopes',
      head: 'May',
      width: 120,
      cell: ({ scopes, worker_id }) => scopes.join(', ') + (worker_id ? ` as ${worker_id}` : ''),
    },
    { key: 'tenant', head: 'Tenant', width: 120, drop: 3, cell: ({ tenant }) => tenant },
    { key: 'models', head: 'Models', width: 120, drop: 4, cell: ({ models }) => models?.join(', ') ?? 'all' },
    { key: 'routes', head: 'Routes', width: 110, drop: 1, cell: ({ routes }) => routes?.join(', ') ?? 'all' },
    {
      key: 'terms',
      head: 'Limits',
      width: 150,
      drop: 2,
      cell: (token) => <span title={termsText(token)}>{termsText(token)}</span>,
    },
    {
      key: 'expires',
      head: 'Expires',
      width: 170,
      drop: 3,
      cell: ({ expires_at }) => (expires_at === null ? 'never' : <Time at={Date.parse(expires_at)} />),
    },
    {
      key: 'used',
      head: 'Last used',
      title: 'To a minute',
      width: 90,
      isNumber: true,
      cell: ({ last_used_at }) => <Age at={last_used_at === null ? null : Date.parse(last_used_at)} />,
    },
    {
      key: 'actions',
      head: '',
      width: 150,
      narrow: 150,
      cell: (token) => <Actions token={token} changed={changed} />,
    },
  ];
}

/** A second click takes it away. */
function Actions({ token, changed }: { token: TokenView; changed(token: NewToken | null): void }) {
  const { name, source } = token;
  const [isSure, setSure] = useState(false);
  const { act, isActing, problem } = useAction();
  if (source === 'file') return <span class="dim">in a file</span>;
  const path = `api/tokens/${encodeURIComponent(name)}`;
  const rotate = () => act(async () => changed(await ask<NewToken>(`${path}/rotate`, { method: 'POST' })));
  const revoke = () =>
    act(async () => {
      await ask(path, { method: 'DELETE' });
      changed(null);
    });
  return (
    <>
      <button type="button" class="quiet" disabled={isActing} aria-label={`Rotate ${name}`} onClick={rotate}>
        Rotate
      </button>
      <button
        type="button"
        class="quiet"
        disabled={isActing}
        aria-label={isSure ? `Revoke ${name}, yes` : `Revoke ${name}`}
        onClick={() => (isSure ? revoke() : setSure(true))}
        onBlur={() => setSure(false)}
      >
        {isSure ? 'Really?' : 'Revoke'}
      </button>
      {problem && <span title={problem}>failed</span>}
    </>
  );
}
