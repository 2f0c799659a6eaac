import { useEffect, useRef, useState } from 'preact/hooks';
import type { NewToken, TokenView } from '../../protocol/tokens.ts';
import { Command, Problem, useAction } from '../controls/action.tsx';
import { useFocusBack } from '../controls/focus.ts';
import { Table } from '../controls/table.tsx';
import { isNarrow } from '../controls/window.ts';
import { ownFailure, usePolled } from '../polled.ts';
import { isAdmin, session } from '../session.ts';
import { columnsWith, isOfVariable } from './token-columns.tsx';
import { TokenForm } from './token-form.tsx';

/** The height of a row, px, with room for two lines of text; in a narrow window a name has two lines below it. */
const ROW_PX = { wide: 44, narrow: 64 };
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
    // A secret is shown only once, so an action on another token does not take it away.
    if (token !== null) setMade(token);
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
        {mayMake && (
          <button
            type="button"
            aria-expanded={isMaking}
            onClick={() => {
              close();
              setMaking(!isMaking);
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
      {commanded !== null && <Commands key={commanded} name={commanded} onClose={close} />}
      {made && <Made key={made.token} token={made} onClose={() => setMade(null)} />}
      <Problem text={problem ?? ownFailure(failure)} />
      {isAdmin.value && data === null && failure === null && <p class="dim loading">Loading …</p>}
      {data && data.tokens.length > 0 && (
        <Table
          label="Tokens"
          columns={columnsWith({ act, isActing, changed, change })}
          rows={data.tokens}
          rowHeight={isNarrow.value ? ROW_PX.narrow : ROW_PX.wide}
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
  useFocusBack(panel);
  useEffect(() => panel.current?.focus(), []);
  return panel;
}
