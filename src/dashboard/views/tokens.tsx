import { useEffect, useRef, useState } from 'preact/hooks';
import { termsText } from '../../protocol/token-terms.ts';
import type { NewToken, TokenView } from '../../protocol/tokens.ts';
import { ask } from '../api.ts';
import { now } from '../clock.ts';
import { Command, Problem, useAction } from '../controls/action.tsx';
import { type Column, Table } from '../controls/table.tsx';
import { Age, Time } from '../controls/time.tsx';
import { isNarrow } from '../controls/window.ts';
import { ownFailure, usePolled } from '../polled.ts';
import { isAdmin, session } from '../session.ts';
import { TokenForm } from './token-form.tsx';

/** Rows have room for two lines of text; on a phone a name has two lines below it. */
const ROW_HEIGHT = isNarrow ? 64 : 44;
const LOOK_MS = 5000;

/** Shows who may use the queue: tokens, what they may do, and when each was last used. */
export function TokensView() {
  const [changes, setChanges] = useState(0);
  const [made, setMade] = useState<NewToken | null>(null);
  const [changing, setChanging] = useState<TokenView | null>(null);
  const [isMaking, setMaking] = useState(false);
  /** The token of the folder whose commands are shown. */
  const [commanded, setCommanded] = useState<string | null>(null);
  const { act, isActing, problem } = useAction();
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
      {made && <Made key={made.token} token={made} onClose={() => setMade(null)} />}
      <Problem text={problem ?? ownFailure(failure)} />
      {isAdmin.value && data === null && failure === null && <p class="dim loading">Loading …</p>}
      {data && data.tokens.length > 0 && (
        <Table
          label="Tokens"
          columns={columnsWith({ act, isActing, changed, change })}
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
  const panel = useInView();
  const quoted = /^[\w.:@-]+$/.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`;
  return (
    <section ref={panel} tabIndex={-1} class="panel" aria-label={`Commands for the token ${name}`}>
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
function Made({ token: { name, token }, onClose }: { token: NewToken; onClose(): void }) {
  const panel = useInView();
  return (
    <section ref={panel} tabIndex={-1} class="panel" role="status">
      <p>
        This is the token “{name}”. <b>Copy it now: it is shown only this once.</b>
      </p>
      <Command text={token} what={`the token ${name}`} />
      <div>
        <button type="button" onClick={onClose}>
          I have copied it
        </button>
      </div>
    </section>
  );
}

/** Returns the holder of a panel that is brought into view, and to the keyboard, when it opens: its row may be far below. */
function useInView() {
  const panel = useRef<HTMLElement>(null);
  useEffect(() => panel.current?.focus(), []);
  return panel;
}

interface TableActions {
  act(what: () => Promise<void>): Promise<void>;
  isActing: boolean;
  /** Called when something was done. @param made a token whose secret is to be shown */
  changed(made: NewToken | null): void;
  change(token: TokenView): void;
}

function columnsWith(actions: TableActions): Column<TokenView>[] {
  return [
    { key: 'name', head: 'Name', cell: (token) => <Name token={token} /> },
    {
      key: 'scopes',
      head: 'May',
      width: 120,
      drop: 5,
      cell: ({ scopes, worker_id }) => (
        <Whole text={scopes.join(', ') + (worker_id ? ` as ${worker_id}` : '')} />
      ),
    },
    { key: 'tenant', head: 'Tenant', width: 120, drop: 3, cell: ({ tenant }) => <Whole text={tenant} /> },
    {
      key: 'models',
      head: 'Models',
      width: 140,
      drop: 3,
      cell: ({ models }) => <Whole text={models?.join(', ')} usual="all" />,
    },
    {
      key: 'routes',
      head: 'Routes',
      width: 140,
      drop: 1,
      cell: ({ routes }) => <Whole text={routes?.join(', ')} usual="all" />,
    },
    {
      key: 'terms',
      head: 'Limits',
      width: 190,
      drop: 4,
      cell: (token) => <Whole text={termsText(token)} usual="none" />,
    },
    {
      key: 'expires',
      head: 'Expires',
      width: 190,
      drop: 3,
      cell: ({ expires_at }) => <Expiry at={expires_at === null ? null : Date.parse(expires_at)} />,
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
      narrow: 190,
      cell: (token) => <Actions token={token} {...actions} />,
    },
  ];
}

/** Shows a text of a cell in two lines at most. @param usual the text of most tokens, also where there is none */
function Whole({ text, usual }: { text: string | undefined; usual?: string }) {
  const shown = text ?? usual;
  return (
    <span class={shown === usual ? 'clamped dim' : 'clamped'} title={shown}>
      {shown}
    </span>
  );
}

/** Shows when a token ends, and whether it has ended. */
function Expiry({ at }: { at: number | null }) {
  if (at === null) return <span class="dim">never</span>;
  const isOver = at <= now.value;
  return (
    <span class={isOver ? 'bad' : undefined}>
      {isOver && 'expired, '}
      <Time at={at} />
    </span>
  );
}

/** Shows a token's name, and on a phone what the columns that are left out there say. */
function Name({ token: { name, scopes, expires_at, last_used_at } }: { token: TokenView }) {
  const isOver = expires_at !== null && Date.parse(expires_at) <= now.value;
  return (
    <>
      <Whole text={name} />
      <small class="when-narrow">
        {scopes.join(', ')}
        {isOver && <span class="bad">, expired</span>}
        {!isOver && last_used_at !== null && (
          <>
            , used <Age at={Date.parse(last_used_at)} /> ago
          </>
        )}
      </small>
    </>
  );
}

/** What takes a second click, since it ends the requests of the token that run. */
const RISKY = ['Rotate', 'Revoke'] as const;

/** Shows a token's actions. */
function Actions({ token, act, isActing, changed, change }: { token: TokenView } & TableActions) {
  const { name, source } = token;
  const [sure, setSure] = useState<(typeof RISKY)[number] | null>(null);
  if (source === 'file') {
    if (isOfVariable(name)) return <span class="dim in-variable">in QUEUE_TOKENS</span>;
    return (
      <button type="button" class="quiet" aria-label={`Commands for ${name}`} onClick={() => change(token)}>
        Commands …
      </button>
    );
  }
  const path = `api/tokens/${encodeURIComponent(name)}`;
  const run = {
    Rotate: async () => changed(await ask<NewToken>(`${path}/rotate`, { method: 'POST' })),
    Revoke: async () => {
      await ask(path, { method: 'DELETE' });
      changed(null);
    },
  };
  const click = (what: (typeof RISKY)[number]) => {
    setSure(sure === what ? null : what);
    if (sure === what) void act(run[what]);
  };
  return (
    <>
      <button type="button" class="quiet" aria-label={`Change ${name}`} onClick={() => change(token)}>
        Change
      </button>
      {RISKY.filter((what) => what === 'Revoke' || source !== 'oidc').map((what) => (
        <button
          key={what}
          type="button"
          class={sure === what ? 'quiet bad' : 'quiet'}
          disabled={isActing}
          aria-label={sure === what ? `${what} ${name}, yes` : `${what} ${name}`}
          title="Requests of the token that run are ended"
          onClick={() => click(what)}
          onBlur={() => setSure(null)}
        >
          {sure === what ? 'Really?' : what}
        </button>
      ))}
    </>
  );
}
