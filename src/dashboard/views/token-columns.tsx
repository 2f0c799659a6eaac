import { useState } from 'preact/hooks';
import { termsText } from '../../protocol/token-terms.ts';
import type { NewToken, TokenView } from '../../protocol/tokens.ts';
import { ask } from '../api.ts';
import { now } from '../clock.ts';
import type { Column } from '../controls/table.tsx';
import { Age, Time } from '../controls/time.tsx';

/** Returns whether a token that the queue does not keep stands in a variable, where no command reaches it. */
export function isOfVariable(name: string): boolean {
  return /^QUEUE_TOKENS \d+$/.test(name);
}

/** A row needs these of the view to act on its token. */
interface TableActions {
  act(what: () => Promise<void>): Promise<void>;
  isActing: boolean;
  /** Called when something was done. @param made a token whose secret is to be shown */
  changed(made: NewToken | null): void;
  change(token: TokenView): void;
}

/** Returns the columns of the list of tokens. */
export function columnsWith(actions: TableActions): Column<TokenView>[] {
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

/** These actions take a second click, since they end the requests of the token that run. */
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
