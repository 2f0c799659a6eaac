import * as format from '../../show/format.ts';
import { Problem } from '../controls/action.tsx';
import { Chips } from '../controls/chips.tsx';
import { Progress } from '../controls/figures.tsx';
import { type Column, Table } from '../controls/table.tsx';
import { ownFailure, usePolled } from '../polled.ts';
import { filter, query } from '../router.ts';
import { mayRead } from '../session.ts';
import {
  BY,
  type By,
  costInWords,
  groupsOf,
  tokensInWords,
  type UsageAnswer,
  type UsageGroup,
} from '../usage.ts';
import { UsageMonth } from './usage-month.tsx';
import { NearLimits, Sharing } from './usage-sharing.tsx';

const LINE_PX = 40;
/** The time between two reads, ms. */
const LOOK_MS = 5000;
const DAYS: Record<string, string> = {
  '1': 'Today',
  '7': '7 days',
  '30': '30 days',
  '365': '365 days',
};

/** Shows who used what, for how much; who waits for whom; and whose limits are nearly used. */
export function UsageView() {
  const given = query.value;
  const days = given.get('days') ?? '7';
  const by = given.get('by') ?? 'tenant';
  const span = days in DAYS ? days : '7';
  const key: By = by in BY ? (by as By) : 'tenant';
  const grouped = key === 'day' ? '' : `&group_by=${key}`;
  const { data, failure } = usePolled<UsageAnswer>(`api/usage?days=${span}${grouped}`, LOOK_MS).value;
  return (
    <section class="view usage" aria-labelledby="usage-title">
      <h1 id="usage-title">Usage</h1>
      <div class="tools">
        <Chips
          label="Days (UTC)"
          chosen={span}
          options={DAYS}
          onChoose={(days) => filter({ days: days === '7' ? null : days })}
        />
        <Chips
          label="By what"
          lead="By"
          chosen={key}
          options={BY}
          onChoose={(by) => filter({ by: by === 'tenant' ? null : by })}
        />
      </div>
      <Problem text={ownFailure(failure)} />
      {data === null && failure === null && <p class="dim loading">Loading …</p>}
      {data && <Groups answer={data} by={key} />}
      {mayRead.value && <NearLimits />}
      {mayRead.value && <Sharing />}
      <UsageMonth />
    </section>
  );
}

function Groups({ answer, by }: { answer: UsageAnswer; by: By }) {
  const groups = groupsOf(answer, by);
  if (groups.length === 0) return <p class="notice">Nothing was used in this time.</p>;
  const { total } = answer;
  const idle = groups.find(({ isIdle }) => isIdle);
  const bytes = answer.stored.reduce((sum, one) => sum + one.bytes, 0);
  return (
    <>
      <dl class="totals">
        <Total
          name="Requests"
          value={format.count(total.requests)}
          note={`${format.count(total.failed)} failed`}
        />
        <Total
          name="Tokens in"
          value={tokensInWords(total.input)}
          note={`${tokensInWords(total.cached)} of them cached`}
        />
        <Total
          name="Tokens out"
          value={tokensInWords(total.output)}
          note={`${tokensInWords(total.wasted)} wasted`}
        />
        <Total name="Cost" value={costInWords(total)} note={costNote(answer)} />
        {idle && <Total name="Idle" value={format.money(idle.dollars)} note="launched, and not used" />}
        {bytes > 0 && <Total name="Stored" value={format.bytes(bytes)} note="responses, as of now" />}
      </dl>
      <Table
        label={`Usage by ${BY[by]}`}
        columns={columnsOf(by, by === 'tenant' && bytes > 0)}
        rows={groups}
        rowHeight={LINE_PX}
        idOf={({ name, isIdle }) => (isIdle ? '\0idle' : name)}
      />
      <p class="list-end dim">
        {format.plural(groups.length - (idle ? 1 : 0), BY[by])}. Cached tokens of prompts were in an engine's
        cache. Wasted tokens are those of attempts that failed, or whose job went to another worker.{' '}
        {total.dollars === null
          ? "Tokens are always counted. The cost of slots is known for machines that a fleet's file launches with a price, and for workers with WORKER_PRICE_PER_HOUR."
          : 'Cost is the time that attempts held slots, at the price of their machines divided by the slots of each. Idle is what launched machines cost beyond that: starts, and slots that nobody used.'}
      </p>
    </>
  );
}

function costNote({ total }: UsageAnswer): string {
  const { dollars, slot_ms, unpriced_slot_ms } = total;
  if (dollars === null) return slot_ms === 0 ? 'nothing ran' : 'the price of what ran is not known';
  if (unpriced_slot_ms === 0) return `${format.duration(slot_ms)} of slots`;
  return `${format.duration(unpriced_slot_ms)} of slots without a price`;
}

function Total({ name, value, note }: { name: string; value: string; note: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="number">{value}</dd>
      <dd class="dim number">{note}</dd>
    </div>
  );
}

/** @param isStored whether tenants have something stored, which then has a column */
function columnsOf(by: By, isStored: boolean): Column<UsageGroup>[] {
  const word = BY[by];
  return [
    {
      key: 'name',
      head: word[0]!.toUpperCase() + word.slice(1),
      cell: ({ name, isIdle }) => {
        if (isIdle) return <em title="What launched machines cost beyond what was used of them">idle</em>;
        return name === '' ? (
          <span class="dim">no {word}</span>
        ) : (
          <span class="clamped" title={name}>
            {name}
          </span>
        );
      },
    },
    {
      key: 'share',
      head: 'Share of tokens',
      width: 170,
      drop: 5,
      cell: ({ share, isIdle }) =>
        !isIdle && (
          <span class="share">
            <Progress share={share} label="Share of tokens" />
            <span class="number dim">{format.percent(share)}</span>
          </span>
        ),
    },
    number('requests', 'Requests', ({ requests }) => format.count(requests), 5),
    number('failed', 'Failed', ({ failed }) => format.count(failed), 4),
    number('input', 'Tokens in', ({ input }) => tokensInWords(input)),
    number('cached', 'Cached', ({ cached }) => tokensInWords(cached), 3),
    number('output', 'Tokens out', ({ output }) => tokensInWords(output)),
    number('wasted', 'Wasted', ({ wasted }) => tokensInWords(wasted), 3),
    number('slots', 'Slot time', ({ slot_ms }) => format.duration(slot_ms), 3),
    ...(isStored
      ? [number('stored', 'Stored', ({ stored }) => (stored === null ? '' : format.bytes(stored)), 4)]
      : []),
    {
      key: 'cost',
      head: 'Cost',
      title: 'US dollars',
      width: 110,
      narrow: 76,
      isNumber: true,
      cell: (group) => (
        <span class={group.dollars === null ? 'dim' : undefined} title={costInWords(group)}>
          {costInWords(group)}
        </span>
      ),
    },
  ];
}

function number(
  key: string,
  head: string,
  cell: (group: UsageGroup) => string,
  drop?: 3 | 4 | 5,
): Column<UsageGroup> {
  const used = (group: UsageGroup) => (group.isIdle ? '' : cell(group));
  return { key, head, width: 92, narrow: 78, isNumber: true, ...(drop && { drop }), cell: used };
}
