import { useState } from 'preact/hooks';
import { termsText } from '../../protocol/token-terms.ts';
import type { NewToken, TokenView } from '../../protocol/tokens.ts';
import { ask } from '../api.ts';
import { Command, CopyButton, Problem, useAction } from '../controls/action.tsx';
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
  /** The token of the folder whose commands are shown. */
  const [commanded, setCommanded] = useState<string | null>(null);
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
    setCommanded(null);
  };
  const change = (token: TokenView) => {
    close();
    if (token.source === 'file') setCommanded(token.name);
    else setChanging(token);
  };
  const mayMake = isAdmin.value && session.value?.asks_for_token === true;
  return (
    <section class="view" aria-labelledby="tokens-title">
      <div class="tools">
        <h1 id="tokens-title">Tokens</h1>
        {mayMake && !isMaking && changing === null && (
          <button
            type="button"
            onClick={() => {
              close();
              setMaking(true);
            }}
          >
            Make a token
          </button>
        )}
      </div>
      {!isAdmin.value && <p class="notice">Tokens are shown to those who sign in with the scope admin.</p>}
      {mayMake && (isMaking || changing !== null) && (
        <TokenForm key={changing?.name} token={changing} onDone={changed} onCancel={close} />
      )}
      {commanded !== null && <Commands name={commanded} onClose={close} />}
      {made && <Made token={made} />}
      <Problem text={ownFailure(failure)} />
      {isAdmin.value && data === null && failure === null && <p class="dim loading">Loading …</p>}
      {data && data.tokens.length > 0 && (
        <Table
          label="Tokens"
          columns={columnsWith(changed, change)}
          rows={data.tokens}
          rowHeight={ROW_HEIGHT}
          idOf={({ source, name }) => `${source} ${name}`}
        />
      )}
      {data?.tokens.some(({ name, source }) => source === 'file' && isOfVariable(name)) && (
        <p class="notice">
          Tokens in the variable <code>QUEUE_TOKENS</code> are changed there, and known after a restart of the
          queue.
        </p>
      )}
      {data?.tokens.length === 0 && (
        <p class="notice">
          This queue was started without tokens and serves this machine alone.{' '}
          <code>npx worker-vllm token create --scope admin</code> makes the first token. The queue asks for
          tokens once it has been started again.
        </p>
      )}
    </section>
  );
}

/** Returns whether a token that the queue does not keep stands in a variable, where no command reaches it. */
function isOfVariable(name: string): boolean {
  return /^QUEUE_TOKENS \d+$/.test(name);
}

/** Shows the commands for a token of the state folder, which the queue itself only reads. */
function Commands({ name, onClose }: { name: string; onClose(): void }) {
  const quoted = /^[\w.:@-]+$/.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`;
  return (
    <section class="panel" aria-label={`Commands for the token ${name}`}>
      <p>
        <b>{name}</b> was made by <code>token create</code> and stands in a file of the queue's machine, which
        the queue only reads. Run one of these there; it is in force within a second.
      </p>
      <Command text={`npx worker-vllm token rotate ${quoted}`} what="the command that rotates it" />
      <Command text={`npx worker-vllm token revoke ${quoted}`} what="the command that revokes it" />
      <Command
        text={`npx worker-vllm token set ${quoted} --requests-per-minute 60`}
        what="the command that limits it"
      />
      <p class="dim">
        <code>npx worker-vllm token set --help</code> lists all that can be changed.
      </p>
      <div>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </section>
  );
}

/** Shows a new token, which is shown only once. */
function Made({ token: { name, token } }: { token: NewToken }) {
  return (
    <p class="notice made" role="status">
      This is the token “{name}”. Copy it now: it is shown only this once. <code>{token}</code>{' '}
      <CopyButton text={token} what={`the token ${name}`} />
    </p>
  );
}

function columnsWith(
  changed: (token: NewToken | null) => void,
  change: (token: TokenView) => void,
): Column<TokenView>[] {
  return [
    { key: 'name', head: 'Name', cell: (token) => <Name token={token} /> },
    {
      key: 'scopes',
      head: 'May',
      width: 120,
      drop: 5,
      cell: ({ scopes, worker_id }) => scopes.join(', ') + (worker_id ? ` as ${worker_id}` : ''),
    },
    { key: 'tenant', head: 'Tenant', width: 120, drop: 3, cell: ({ tenant }) => tenant },
    { key: 'models', head: 'Models', width: 140, drop: 3, cell: ({ models }) => models?.join(', ') ?? 'all' },
    { key: 'routes', head: 'Routes', width: 140, drop: 1, cell: ({ routes }) => routes?.join(', ') ?? 'all' },
    {
      key: 'terms',
      head: 'Limits',
      width: 190,
      drop: 4,
      cell: (token) => <span title={termsText(token)}>{termsText(token)}</span>,
    },
    {
      key: 'expires',
      head: 'Expires',
      width: 190,
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

/** Shows a token's name, and on a phone what the columns that are left out there say. */
function Name({ token: { name, scopes, last_used_at } }: { token: TokenView }) {
  return (
    <>
      <span title={name}>{name}</span>
      <small class="when-narrow">
        {scopes.join(', ')}
        {last_used_at !== null && (
          <>
            , used <Age at={Date.parse(last_used_at)} /> ago
          </>
        )}
      </small>
    </>
  );
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
    if (isOfVariable(name)) return <span class="dim">in QUEUE_TOKENS</span>;
    return (
      <button type="button" class="quiet" aria-label={`Commands for ${name}`} onClick={change}>
        Commands …
      </button>
    );
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
      {source !== 'oidc' && (
        <button
          type="button"
          class="quiet"
          disabled={isActing}
          aria-label={`Rotate ${name}`}
          onClick={rotate}
        >
          Rotate
        </button>
      )}
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
      {problem && (
        <span class="bad" title={problem}>
          It failed.
        </span>
      )}
    </>
  );
}
