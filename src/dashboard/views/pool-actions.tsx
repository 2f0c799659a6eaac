import { useEffect, useRef, useState } from 'preact/hooks';
import type { PoolRow } from '../../protocol/fleet-view.ts';
import { ask } from '../api.ts';
import { isAdmin } from '../session.ts';

type Action = 'launch' | 'drain' | 'pause' | 'resume';

const ACTIONS: Record<Action, { name: string; effect: string }> = {
  launch: {
    name: 'Launch one',
    effect: 'Launches one more worker now, within the max of the pool and the budget.',
  },
  pause: {
    name: 'Pause',
    effect: 'Keeps the workers as they are: the scheduler launches none and ends none.',
  },
  drain: {
    name: 'Drain all',
    effect:
      'Its workers end when they have finished what they run, and none is launched until it is resumed.',
  },
  resume: {
    name: 'Resume',
    effect: 'The scheduler decides again, and starts that were held back are tried.',
  },
};

/** Shows an admin's actions on a pool; each shows its effect before it is done. */
export function PoolActions({ pool }: { pool: PoolRow }) {
  const [isOpen, setOpen] = useState(false);
  if (!isAdmin.value || !pool.scaling) return null;
  return (
    <>
      <button type="button" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        Change<span class="unseen"> {pool.config_id}</span> …
      </button>
      {isOpen && <ActionsDialog pool={pool} onClose={() => setOpen(false)} />}
    </>
  );
}

/** An action that is confirmed before it is done, and its result. */
interface Asked {
  action: Action;
  /** The scheduler's answer: what it would do, or has done; null: there is none yet. */
  text: string | null;
  isDone: boolean;
  problem: string | null;
}

function ActionsDialog({ pool, onClose }: { pool: PoolRow; onClose(): void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [asked, setAsked] = useState<Asked | null>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const send = async (action: Action, isDone: boolean) => {
    setAsked({ action, text: null, isDone: false, problem: null });
    try {
      const path = `api/fleet/pools/${encodeURIComponent(pool.config_id)}/${action}`;
      const body = JSON.stringify({ dry_run: !isDone });
      const { text } = await ask<{ text: string }>(path, { method: 'POST', body });
      setAsked({ action, text, isDone, problem: null });
    } catch (error) {
      setAsked({ action, text: null, isDone: false, problem: (error as Error).message });
    }
  };
  const { control, breaker } = pool.scaling!;
  const isHeld = control !== 'automatic' || breaker !== null;
  const choices = (Object.keys(ACTIONS) as Action[]).filter((action) =>
    action === 'resume'
      ? isHeld
      : action !== (control === 'paused' ? 'pause' : control === 'drained' && 'drain'),
  );
  return (
    <dialog ref={dialog} class="change" aria-labelledby="change-title" onClose={onClose}>
      <h2 id="change-title">
        Change <span class="id">{pool.config_id}</span>
      </h2>
      {asked === null ? (
        <ul>
          {choices.map((action) => (
            <li key={action}>
              <button type="button" onClick={() => send(action, false)}>
                {ACTIONS[action].name} …
              </button>
              <p>{ACTIONS[action].effect}</p>
            </li>
          ))}
        </ul>
      ) : (
        <Confirmation
          asked={asked}
          onConfirm={() => send(asked.action, true)}
          onBack={() => setAsked(null)}
        />
      )}
      <form method="dialog">
        <button type="submit">{asked?.isDone ? 'Close' : 'Change nothing'}</button>
      </form>
    </dialog>
  );
}

interface ConfirmationProps {
  asked: Asked;
  onConfirm(): void;
  onBack(): void;
}

function Confirmation({ asked: { action, text, isDone, problem }, onConfirm, onBack }: ConfirmationProps) {
  const said = useRef<HTMLParagraphElement>(null);
  // The pressed button is removed, and the focus with it, so the text takes the focus.
  useEffect(() => said.current?.focus(), [isDone]);
  return (
    <div class="confirm">
      <p ref={said} tabIndex={-1} role="status" class={problem ? 'warn' : undefined}>
        {problem ?? text ?? 'Asking the scheduler …'}
      </p>
      {text !== null && !isDone && (
        <button type="button" class={action === 'drain' ? 'danger' : 'primary'} onClick={onConfirm}>
          {ACTIONS[action].name} now
        </button>
      )}
      {!isDone && (
        <button type="button" class="quiet" onClick={onBack}>
          Something else
        </button>
      )}
    </div>
  );
}
