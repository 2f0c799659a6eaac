import { useState } from 'preact/hooks';
import type { AlertMute, AlertReceiverRow, AlertsView as Alerts, TestPost } from '../../protocol/alerts.ts';
import { mutedText, receiverRules } from '../../show/alerts.ts';
import * as format from '../../show/format.ts';
import { ask } from '../api.ts';
import { Command, Problem, useAction } from '../controls/action.tsx';
import { Mark } from '../controls/marks.tsx';
import { Time } from '../controls/time.tsx';
import { ownFailure, usePolled } from '../polled.ts';
import { isAdmin } from '../session.ts';
import { MuteForm } from './mute-form.tsx';

const LOOK_MS = 5000;

/** Shows who is told of problems, how each receiver took it, and which alerts are muted. */
export function AlertsView() {
  const [changes, setChanges] = useState(0);
  const [isMuting, setMuting] = useState(false);
  const { data, failure } = usePolled<Alerts>('api/alerts', LOOK_MS, changes).value;
  const changed = () => {
    setMuting(false);
    setChanges(changes + 1);
  };
  return (
    <section class="view" aria-labelledby="alerts-title">
      <div class="tools">
        <h1 id="alerts-title">Alerts</h1>
        {isAdmin.value && (
          <button type="button" aria-expanded={isMuting} onClick={() => setMuting(!isMuting)}>
            Mute alerts
          </button>
        )}
      </div>
      {isMuting && <MuteForm onDone={changed} onCancel={() => setMuting(false)} />}
      <Problem text={ownFailure(failure)} />
      {data === null && failure === null && <p class="dim loading">Loading …</p>}
      {data && data.mutes.length > 0 && (
        <section aria-labelledby="alerts-muted">
          <h2 id="alerts-muted">Muted</h2>
          <ul class="alert-rows">
            {data.mutes.map((mute) => (
              <Mute key={mute.id} mute={mute} changed={changed} />
            ))}
          </ul>
        </section>
      )}
      {data && (
        <section aria-labelledby="alerts-receivers">
          <h2 id="alerts-receivers">Who is told</h2>
          {data.receivers.length === 0 && <Nobody />}
          <ul class="alert-rows">
            {data.receivers.map((receiver) => (
              <Receiver key={receiver.name} receiver={receiver} changed={changed} />
            ))}
          </ul>
        </section>
      )}
    </section>
  );
}

/** Says how to have somebody told. */
function Nobody() {
  return (
    <div class="ways">
      <p class="notice">
        Nobody is told of problems. Start the queue with the variable <code>QUEUE_ALERTS</code>, which names
        receivers: Slack, PagerDuty, Alertmanager, webhooks and e-mail (docs/alerts.md). For one channel of
        Slack the address of its webhook is enough:
      </p>
      <Command text="QUEUE_ALERT_URL=https://hooks.slack.com/services/…" what="the variable" />
    </div>
  );
}

const STATES = {
  ok: { tone: 'good', mark: { shape: 'full', label: 'Takes alerts:' } },
  idle: { tone: 'dim', mark: { shape: 'hollow', label: 'Not used yet:' } },
  failing: { tone: 'bad', mark: { shape: 'cross', label: 'Failing:' } },
  refused: { tone: 'bad', mark: { shape: 'cross', label: 'Not possible:' } },
} as const satisfies Record<AlertReceiverRow['state'], object>;

/** Shows a receiver: how it took the newest post, and of what it is told. */
function Receiver({ receiver, changed }: { receiver: AlertReceiverRow; changed(): void }) {
  const { name, kind, to, state, text, standing } = receiver;
  const [answer, setAnswer] = useState<TestPost | null>(null);
  const { act, isActing, problem } = useAction();
  const test = () =>
    act(async () => {
      setAnswer(null);
      const path = `api/alerts/receivers/${encodeURIComponent(name)}/test`;
      setAnswer(await ask<TestPost>(path, { method: 'POST' }));
      changed();
    });
  return (
    <li>
      <h3>
        {name}
        <small>
          {kind}, {to}
        </small>
      </h3>
      <div>
        <p>
          <span class={STATES[state].tone}>
            <Mark {...STATES[state].mark} />
          </span>{' '}
          {text}
        </p>
        <p class="dim">
          {receiverRules(receiver)}
          {standing > 0 && ` It was told of ${format.plural(standing, 'problem')} that still stand.`}
        </p>
        <p role="status" class={answer?.taken === false ? 'bad' : undefined}>
          {isActing ? 'The test is on its way …' : answer?.text}
        </p>
        <Problem text={problem} />
      </div>
      {isAdmin.value && (
        <button type="button" disabled={isActing} aria-label={`Send a test to ${name}`} onClick={test}>
          Send a test
        </button>
      )}
    </li>
  );
}

/** Shows what is muted, until when and why. Whoever mutes everything may forget it, so that is marked. */
function Mute({ mute, changed }: { mute: AlertMute; changed(): void }) {
  const { id, pool, kind, until, by, why } = mute;
  const { act, isActing, problem } = useAction();
  const end = () =>
    act(async () => {
      await ask(`api/alerts/mutes/${encodeURIComponent(id)}`, { method: 'DELETE' });
      changed();
    });
  const isAll = pool === null && kind === null;
  return (
    <li>
      <h3>
        {isAll && (
          <span class="warn">
            <Mark shape="triangle" label="Warning:" />{' '}
          </span>
        )}
        {mutedText(mute)}
      </h3>
      <div>
        <p>
          Until <Time at={until} />, by {by ?? 'somebody'}
          {isAll && '. Nobody is told of any problem.'}
        </p>
        {why !== null && <p class="dim">{why}</p>}
        <Problem text={problem} />
      </div>
      {isAdmin.value && (
        <button
          type="button"
          disabled={isActing}
          aria-label={`End the mute of ${mutedText(mute)}`}
          onClick={end}
        >
          End
        </button>
      )}
    </li>
  );
}
