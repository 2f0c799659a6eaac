import { useEffect, useRef, useState } from 'preact/hooks';
import type { PoolRow } from '../../protocol/fleet-view.ts';
import type { PoolScaling } from '../../protocol/scaling.ts';
import { ask } from '../api.ts';
import { useFocusBack } from '../controls/focus.ts';
import { isAdmin } from '../session.ts';

/** Something that is done to a pool by hand. */
export interface Action {
  name: string;
  effect: string;
  /** The last part of the path that is asked. */
  path: string;
  /** The fields of the request. */
  fields?: object;
  isDanger?: boolean;
}

const ACTIONS = {
  launch: {
    name: 'Launch one',
    effect: 'Launches one more worker now, within the max of the pool and the budget.',
    path: 'launch',
  },
  pause: {
    name: 'Pause',
    effect: 'Keeps the workers as they are: the scheduler launches none and ends none.',
    path: 'pause',
  },
  drain: {
    name: 'Drain all',
    effect:
      'Its workers end when they have finished what they run, and none is launched until it is resumed.',
    path: 'drain',
    isDanger: true,
  },
  resume: {
    name: 'Resume',
    effect: 'The scheduler decides again, and starts that were held back are tried.',
    path: 'resume',
  },
  roll: {
    name: 'Replace all',
    effect:
      'Replaces each worker by a new one of the same version, one by one, so that secrets that were changed take effect.',
    path: 'roll',
    fields: { action: 'anew' },
  },
  back: {
    name: 'Back',
    effect: 'Replaces each worker by one of the version before, one by one.',
    path: 'roll',
    fields: { action: 'back' },
  },
  pauseRollout: {
    name: 'Pause',
    effect: 'Replaces no more workers for now. The scheduler goes on to launch and end workers by need.',
    path: 'roll',
    fields: { action: 'pause' },
  },
  resumeRollout: {
    name: 'Resume',
    effect: 'Goes on to replace workers.',
    path: 'roll',
    fields: { action: 'resume' },
  },
  tryAgain: {
    name: 'Try again',
    effect: 'Rolls out the version that was stopped once more.',
    path: 'roll',
  },
} as const satisfies Record<string, Action>;

/** Shows an admin's actions on a pool; each shows its effect before it is done. */
export function PoolActions({ pool }: { pool: PoolRow }) {
  const [isOpen, setOpen] = useState(false);
  if (!isAdmin.value || !pool.scaling) return null;
  return (
    <>
      <button type="button" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        Change<span class="unseen"> {pool.config_id}</span> …
      </button>
      {isOpen && (
        <ActionsDialog pool={pool} actions={actionsOn(pool.scaling)} onClose={() => setOpen(false)} />
      )}
    </>
  );
}

/** Returns what can be done with a pool as it is. */
function actionsOn({ control, breaker, ready, rollout, versions }: PoolScaling): Action[] {
  const { launch, pause, drain, resume, roll, back } = ACTIONS;
  return [
    launch,
    ...(control === 'paused' ? [] : [pause]),
    ...(control === 'drained' ? [] : [drain]),
    ...(control !== 'automatic' || breaker !== null ? [resume] : []),
    ...(rollout === null && ready > 0 ? [roll] : []),
    ...(rollout === null && versions.length > 1 ? [back] : []),
  ];
}

interface RolloutActionsProps {
  pool: PoolRow;
  /** Called with what is to be confirmed; the buttons may go away with the rollout, while the dialog is read. */
  onChoose(action: Action): void;
}

/** Shows the buttons by which an admin holds a rollout or takes it back. */
export function RolloutActions({ pool, onChoose }: RolloutActionsProps) {
  if (!isAdmin.value || !pool.scaling?.rollout) return null;
  const { pauseRollout, resumeRollout, tryAgain, back } = ACTIONS;
  const { rollout, versions } = pool.scaling;
  const { state, to } = rollout;
  const actions: Record<typeof state, Action[]> = {
    rolling: [pauseRollout, back],
    paused: [resumeRollout, ...(versions.length > 1 ? [back] : [])],
    stopped: [{ ...tryAgain, fields: { action: 'to', version: to } }],
  };
  return (
    <div class="actions">
      {actions[state].map((action) => (
        <button key={action.name} type="button" aria-haspopup="dialog" onClick={() => onChoose(action)}>
          {action.name}
          <span class="unseen"> the rollout of {pool.config_id}</span> …
        </button>
      ))}
    </div>
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

interface DialogProps {
  pool: PoolRow;
  /** The actions to choose from; of a single one the effect is shown at once. */
  actions: readonly Action[];
  onClose(): void;
}

/** Shows actions on a pool; each shows its effect before it is done. */
export function ActionsDialog({ pool, actions, onClose }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useFocusBack(dialog);
  const [asked, setAsked] = useState<Asked | null>(null);
  const send = async (action: Action, isDone: boolean) => {
    setAsked({ action, text: null, isDone: false, problem: null });
    try {
      const path = `api/fleet/pools/${encodeURIComponent(pool.config_id)}/${action.path}`;
      const body = JSON.stringify({ ...action.fields, dry_run: !isDone });
      const { text } = await ask<{ text: string }>(path, { method: 'POST', body });
      setAsked({ action, text, isDone, problem: null });
    } catch (error) {
      setAsked({ action, text: null, isDone: false, problem: (error as Error).message });
    }
  };
  const [only] = actions.length === 1 ? actions : [];
  useEffect(() => {
    dialog.current?.showModal();
    if (only) void send(only, false);
  }, []);
  return (
    <dialog ref={dialog} class="change" aria-labelledby="change-title" onClose={onClose}>
      <h2 id="change-title">
        Change <span class="id">{pool.config_id}</span>
      </h2>
      {asked === null ? (
        <ul>
          {actions.map((action) => (
            <li key={action.name}>
              <button type="button" onClick={() => send(action, false)}>
                {action.name} …
              </button>
              <p>{action.effect}</p>
            </li>
          ))}
        </ul>
      ) : (
        <Confirmation
          asked={asked}
          onConfirm={() => send(asked.action, true)}
          {...(!only && { onBack: () => setAsked(null) })}
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
  /** Returns to the choice of actions; left out where there is none. */
  onBack?(): void;
}

function Confirmation({ asked: { action, text, isDone, problem }, onConfirm, onBack }: ConfirmationProps) {
  const said = useRef<HTMLParagraphElement>(null);
  // The pressed button is removed, and the focus with it, so the text takes the focus.
  useEffect(() => said.current?.focus(), [isDone, problem]);
  return (
    <div class="confirm">
      <p ref={said} tabIndex={-1} role="status" class={problem ? 'warn' : undefined}>
        {problem ?? text ?? 'Asking the scheduler …'}
      </p>
      {text !== null && !isDone && (
        <button type="button" class={action.isDanger ? 'danger' : 'primary'} onClick={onConfirm}>
          {action.name} now
        </button>
      )}
      {!isDone && onBack && (
        <button type="button" class="quiet" onClick={onBack}>
          Something else
        </button>
      )}
    </div>
  );
}
