import type { FleetView, PoolRow } from '../../protocol/index.ts';
import { age } from '../../show/format.ts';
import { clean } from '../top/terminal.ts';
import { columns } from './columns.ts';
import { dollars } from './cost.ts';
import { sentence } from './story.ts';

/** A launcher may be silent for this many ms: it syncs every few seconds. */
const SILENT_MS = 60_000;

/** Returns the scheduler's part of a fleet as lines of text. @param now epoch ms of the server's clock */
export function statusLines({ scaling, pools }: FleetView, now: number): string[] {
  if (scaling === null) {
    return ['No fleet is applied to this queue: "worker-vllm launcher fleet.yaml" applies one.'];
  }
  const rows = pools.flatMap((pool) => rowOf(pool, now));
  const { price_per_hour, spent_today, budget } = scaling;
  return [
    ...columns([HEAD, ...rows]),
    '',
    `Now $${dollars(price_per_hour)} an hour${limit(budget.per_hour)}, today $${dollars(spent_today)}${limit(budget.per_day)}.`,
    ...troubles({ scaling, pools }, now),
  ].map(clean);
}

const HEAD = [
  'CONFIG',
  'WANTED',
  'READY',
  'STARTING',
  'DRAINING',
  'WAITING',
  '$/HOUR',
  '$ TODAY',
  'LAST DECISION',
];

function rowOf({ config_id, scaling }: PoolRow, now: number): string[][] {
  if (!scaling) return [];
  const { decision } = scaling;
  const numbers = [scaling.wanted, scaling.ready, scaling.starting, scaling.draining, scaling.waiting];
  return [
    [
      config_id,
      ...numbers.map((number) => (number === null ? '–' : String(number))),
      dollars(scaling.price_per_hour),
      dollars(scaling.spent_today),
      decision ? `${age(now - decision.at)} ago: ${decision.text}` : '–',
    ],
  ];
}

function limit(budget: number | null): string {
  return budget === null ? '' : ` of $${dollars(budget)}`;
}

function troubles({ scaling, pools }: Pick<FleetView, 'scaling' | 'pools'>, now: number): string[] {
  const { budget_reached, providers, launchers } = scaling!;
  const heard = launchers.filter(({ seen_at }) => now - seen_at < SILENT_MS);
  const unserved = providers.filter(({ driver }) => !heard.some(({ drivers }) => drivers.includes(driver)));
  return [
    ...(budget_reached === null ? [] : [`▲ ${sentence(budget_reached)}`]),
    ...pools.flatMap(({ config_id, scaling: own }) => troubleOf(config_id, own)),
    ...providers.flatMap(({ name, error }) => (error === null ? [] : [`▲ Provider ${name}: ${error}`])),
    ...unserved.map(
      ({ name, driver }) =>
        `▲ Provider ${name}: no launcher with the driver ${driver} is connected. Start one with "worker-vllm launcher".`,
    ),
  ];
}

function troubleOf(id: string, scaling: PoolRow['scaling']): string[] {
  if (!scaling) return [];
  const { breaker, control } = scaling;
  const resume = `"worker-vllm fleet resume ${id}"`;
  return [
    ...(breaker
      ? [`▲ ${id}: ${breaker.text}${breaker.until === null ? ` ${resume} tries again.` : ''}`]
      : []),
    ...(control === 'automatic' ? [] : [`▲ ${id} is ${control}: ${resume} ends that.`]),
  ];
}
