import { useState } from 'preact/hooks';
import type { AlertMute, AlertReceiverRow, AlertsView as Alerts, TestPost } from '../../protocol/alerts.ts';
import { mutedText, receiverRules } from '../../show/alerts.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { Mark } from '../controls/marks.tsx';
import { type Column, Table } from '../controls/table.tsx';
import { Time } from '../controls/time.tsx';
import { ownFailure, usePolled } from '../polled.ts';
import { isAdmin } from '../session.ts';
import { MuteForm } from './mute-form.tsx';

const ROW_HEIGHT = 56;
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
        {isAdmin.value && !isMuting && (
          <button type="button" onClick={() => setMuting(true)}>
            Mute alerts
          </button>
        )}
      </div>
      {isMuting && <MuteForm onDone={changed} onCancel={() => setMuting(false)} />}
      <Problem text={ownFailure(failure)} />
      {data && data.mutes.length > 0 && (
        <Table
          label="Muted alerts"
          columns={muteColumns(changed)}
          rows={data.mutes}
          rowHeight={ROW_HEIGHT}
          idOf={({ id }) => id}
        />
      )}
      {data && data.receivers.length > 0 && (
        <Table
          label="Receivers of alerts"
          columns={receiverColumns(changed)}
          rows={data.receivers}
          rowHeight={ROW_HEIGHT}
          idOf={({ name }) => name}
        />
      )}
      {data?.receivers.length === 0 && (
        <p class="notice">
          Nobody is told of problems. <code>QUEUE_ALERTS</code> names receivers: Slack, PagerDuty,
          Alertmanager, webhooks and e-mail.
        </p>
      )}
    </section>
  );
}

const STATES = {
  ok: { tone: 'good', mark: { shape: 'full', label: 'Takes alerts:' } },
  idle: { tone: 'dim', mark: { shape: 'hollow', label: 'Not used yet:' } },
  failing: { tone: 'bad', mark: { shape: 'cross', label: 'Failing:' } },
  refused: { tone: 'bad', mark: { shape: 'cross', label: 'Not possible:' } },
} as const satisfies Record<AlertReceiverRow['state'], object>;

function receiverColumns(changed: () => void): Column<AlertReceiverRow>[] {
  return [
    {
      key: 'name',
      head: 'Receiver',
      width: 180,
      narrow: 100,
      cell: ({ name, kind, to }) => (
        <span title={`${name}: ${kind}, ${to}`}>
          {name}
          <small>
            {kind}, {to}
          </small>
        </span>
      ),
    },
    {
      key: 'state',
      head: 'State',
      cell: ({ state, text }) => (
        <span class="clamped" title={text}>
          <span class={STATES[state].tone}>
            <Mark {...STATES[state].mark} />
          </span>{' '}
          {text}
        </span>
      ),
    },
    {
      key: 'rules',
      head: 'What it is told',
      width: 300,
      drop: 3,
      cell: (receiver) => (
        <span class="clamped" title={receiverRules(receiver)}>
          {receiverRules(receiver)}
        </span>
      ),
    },
    {
      key: 'standing',
      head: 'Stand',
      title: 'Problems that it was told of and that stand',
      width: 70,
      drop: 2,
      isNumber: true,
      cell: ({ standing }) => standing,
    },
    ...(isAdmin.value
      ? [
          {
            key: 'test',
            head: '',
            width: 130,
            narrow: 118,
            cell: ({ name }: AlertReceiverRow) => <Test name={name} changed={changed} />,
          },
        ]
      : []),
  ];
}

/** Shows the button that sends a test, and then how the receiver answered. */
function Test({ name, changed }: { name: string; changed(): void }) {
  const [answer, setAnswer] = useState<TestPost | null>(null);
  const { act, isActing, problem } = useAction();
  const send = () =>
    act(async () => {
      const path = `api/alerts/receivers/${encodeURIComponent(name)}/test`;
      setAnswer(await ask<TestPost>(path, { method: 'POST' }));
      changed();
    });
  const said = answer && (answer.taken ? 'Taken' : 'Not taken');
  return (
    <>
      <button
        type="button"
        class="quiet"
        disabled={isActing}
        aria-label={`Send a test to ${name}`}
        onClick={send}
      >
        Test
      </button>{' '}
      <span role="status" title={problem ?? answer?.text}>
        {problem === null ? said : 'failed'}
      </span>
    </>
  );
}

function muteColumns(changed: () => void): Column<AlertMute>[] {
  return [
    { key: 'what', head: 'Muted', cell: (mute) => <span title={mutedText(mute)}>{mutedText(mute)}</span> },
    { key: 'until', head: 'Until', width: 170, cell: ({ until }) => <Time at={until} /> },
    { key: 'by', head: 'By', width: 130, drop: 3, cell: ({ by }) => by ?? 'somebody' },
    { key: 'why', head: 'Why', width: 260, drop: 4, cell: ({ why }) => <span title={why ?? ''}>{why}</span> },
    ...(isAdmin.value
      ? [
          {
            key: 'end',
            head: '',
            width: 90,
            narrow: 90,
            cell: (mute: AlertMute) => <End mute={mute} changed={changed} />,
          },
        ]
      : []),
  ];
}

/** Shows the button that ends a mute early. */
function End({ mute, changed }: { mute: AlertMute; changed(): void }) {
  const { act, isActing, problem } = useAction();
  const end = () =>
    act(async () => {
      await ask(`api/alerts/mutes/${encodeURIComponent(mute.id)}`, { method: 'DELETE' });
      changed();
    });
  return (
    <>
      <button
        type="button"
        class="quiet"
        disabled={isActing}
        aria-label={`End the mute of ${mutedText(mute)}`}
        onClick={end}
      >
        End
      </button>
      {problem && <span title={problem}>failed</span>}
    </>
  );
}
