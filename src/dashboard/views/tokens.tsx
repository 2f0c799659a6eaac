import { useState } from 'preact/hooks';
import { termsText } from '../../protocol/token-terms.ts';
import type { NewToken, TokenView } from '../../protocol/tokens.ts';
import { ask } from '../api.ts';
import { CopyButton, Problem, useAction } from '../controls/action.tsx';
import { type Column, Table } from '../controls/table.tsx';
import { Age, Time } from '../controls/time.tsx';
import { ownFailure, usePolled } from '../polled.ts';
import { isAdmin, session } from '../session.ts';
import { TokenForm } from './token-form.tsx';

const ROW_HEIGHT = 40;
const LOOK_MS = 5000;

/** Shows who may use the queue: tokens, what they may do, and when each was last used. */
export function TokensView() {
  const [changes, setChanges] = useState(0);
  const [made, setMade] = useState<NewToken | null>(null);
  const [changing, setChanging] = useState<TokenView | null>(null);
  const [isMaking, setMaking] = useState(false);
  const { data, failure } = usePolled<{ tokens: TokenView[] }>(
    isAdmin.value ? 'api/tokens' : null,
    LOOK_MS,
    changes,
  ).value;
  const changed = (token: NewToken | null) => {
    setMade(token);
    close();
    setChanges(changes + 1);
  };
  const close = () => {
    setChanging(null);
    setMaking(false);
  };
  const change = (token: TokenView) => {
    setMaking(false);
    setChanging(token);
  };
  const mayMake = isAdmin.value && session.value?.asks_for_token === true;
  return (
    <section class="view" aria-labelledby="tokens-title">
      <div class="tools">
        <h1 id="tokens-title">Tokens</h1>
        {mayMake && !isMaking && changing === null && (
          <button type="button" onClick={() => setMaking(true)}>
            Make a token
          </button>
        )}
      </div>
      {!isAdmin.value && <p class="notice">Tokens are shown to those who sign in with the scope admin.</p>}
      {mayMake && (isMaking || changing !== null) && (
        <TokenForm key={changing?.name} token={changing} onDone={changed} onCancel={close} />
      )}
      {made && <Made token={made} />}
      <Problem text={ownFailure(failure)} />
      {data && data.tokens.length > 0 && (
        <Table
          label="Tokens"
          columns={columnsWith(changed, change)}
          rows={data.tokens}
          rowHeight={ROW_HEIGHT}
          idOf={({ source, name }) => `${source} ${name}`}
        />
      )}
      {data?.tokens.some(isOfFolder) && (
        <p class="notice">
          Tokens of <code>token create</code> and <code>QUEUE_TOKENS</code> are kept outside the queue, which
          only reads them. On its machine <code>npx worker-vllm token set NAME</code>,{' '}
          <code>rotate NAME</code> and <code>revoke NAME</code> change those of the folder, in force within a
          second.
        </p>
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

function isOfFolder({ source }: TokenView): boolean {
  return source === 'file';
}

/** Shows a new token, which is shown only once. */
function Made({ token: { name, token } }: { token: NewToken }) {
  return (
    <p class="notice" role="status">
      The token “{name}”, shown this once: <code>{token}</code>{' '}
      <CopyButton text={token} what={`the token ${name}`} />
    </p>
  );
}

function columnsWith(
  changed: (token: NewToken | null) => void,
  change: (token: TokenView) => void,
): Column<TokenView>[] {
  return [
    { key: 'name', head: 'Name', cell: ({ name }) => <span title={name}>{name}</span> },
    {
      key: 'scopes',
      head: 'May',
      width: 120,
      drop: 5,
      cell: ({ scopes, worker_id }) => scopes.join(', ') + (worker_id ? ` as ${worker_id}` : ''),
    },
    { key: 'tenant', head: 'Tenant', width: 120, drop: 3, cell: ({ tenant }) => tenant },
    { key: 'models', head: 'Models', width: 120, drop: 3, cell: ({ models }) => models?.join(', ') ?? 'all' },
    { key: 'routes', head: 'Routes', width: 110, drop: 1, cell: ({ routes }) => routes?.join(', ') ?? 'all' },
    {
      key: 'terms',
      head: 'Limits',
      width: 150,
      drop: 4,
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
      title: 'Accurate to a minute',
      width: 90,
      drop: 5,
      isNumber: true,
      cell: ({ last_used_at }) => <Age at={last_used_at === null ? null : Date.parse(last_used_at)} />,
    },
    {
      key: 'actions',
      head: '',
      width: 220,
      narrow: 220,
      cell: (token) => <Actions token={token} changed={changed} change={() => change(token)} />,
    },
  ];
}

/** Shows a token's actions; revoking takes a second click. */
function Actions({
  token,
  changed,
  change,
}: {
  token: TokenView;
  changed(token: NewToken | null): void;
  change(): void;
}) {
  const { name, source } = token;
  const [isSure, setSure] = useState(false);
  const { act, isActing, problem } = useAction();
  if (source === 'file') {
    const isVariable = /^QUEUE_TOKENS \d+$/.test(name);
    return <span class="dim">{isVariable ? 'in QUEUE_TOKENS' : 'changed by command'}</span>;
  }
  const path = `api/tokens/${encodeURIComponent(name)}`;
  const rotate = () => act(async () => changed(await ask<NewToken>(`${path}/rotate`, { method: 'POST' })));
  const revoke = () =>
    act(async () => {
      await ask(path, { method: 'DELETE' });
      changed(null);
    });
  return (
    <>
      <button type="button" class="quiet" aria-label={`Change ${name}`} onClick={change}>
        Change
      </button>
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
