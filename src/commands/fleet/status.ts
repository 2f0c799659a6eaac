import { EXIT } from '../../process/index.ts';
import {
  type FleetView,
  type LaunchRow,
  type PoolRow,
  type PoolVersion,
  printable,
  workerName,
} from '../../protocol/index.ts';
import { age } from '../../show/format.ts';
import { spotInWords } from '../../show/spot.ts';
import {
  lastWords,
  ROLLOUT_WORDS,
  saysWhyStopped,
  shownVersions,
  versionFigures,
  versionState,
  versionWorkers,
} from '../../show/versions.ts';
import type { QueueTarget } from '../ask-queue.ts';
import { clean, columns, print } from '../terminal.ts';
import { drawLive, readFleet } from '../top/live.ts';
import { dollars } from './cost.ts';
import { sentence } from './story.ts';

interface FleetStatusOptions extends QueueTarget {
  json?: boolean;
  watch?: boolean;
}

/**
 * Runs `worker-vllm fleet status`: prints what the scheduler wants, has and has decided, by pool.
 * @returns the exit code
 * @throws UserError when the queue cannot be reached, or the token may not look
 */
export async function runFleetStatus({ json, watch, ...target }: FleetStatusOptions): Promise<number> {
  const view = await readFleet(target);
  if (json) {
    print(JSON.stringify(scalingOf(view), null, 2));
    return EXIT.ok;
  }
  if (watch && process.stdout.isTTY) {
    return drawLive(target, view, (shown, { rows, columns }) =>
      [shown.connection, '', ...statusLines(shown.view, shown.now)]
        .slice(0, rows)
        .map((line) => printable(line).slice(0, columns)),
    );
  }
  print(statusLines(view, view.at).join('\n'));
  return EXIT.ok;
}

/** Returns the parts of `GET /api/fleet` that the scheduler makes. */
function scalingOf({ at, scaling, pools, launches }: FleetView) {
  return {
    at,
    scaling,
    pools: pools.flatMap(({ config_id, scaling: own }) => (own ? [{ config_id, ...own }] : [])),
    launches,
  };
}

/** A launcher that was silent for longer than this, ms, is shown as silent: it syncs every few seconds. */
const SILENT_MS = 60_000;

/** Returns the scheduler's part of a fleet as lines of text. @param now epoch ms of the server's clock */
export function statusLines({ scaling, pools, launches }: FleetView, now: number): string[] {
  if (scaling === null) {
    return ['No fleet is applied to this queue: "worker-vllm launcher fleet.yaml" applies one.'];
  }
  const scaled = pools.filter((pool) => pool.scaling !== null);
  const [head, ...rows] = columns([HEAD, ...scaled.flatMap((pool) => rowOf(pool, now))]);
  const { price_per_hour, spent_today, budget } = scaling;
  return [
    head!,
    ...scaled.flatMap((pool, index) => [
      rows[index]!,
      ...spotLines(pool),
      ...rolloutLines(pool, launches, now),
    ]),
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

/** Returns a line on what a pool's spot machines did, if it had any. */
function spotLines({ scaling }: PoolRow): string[] {
  const words = spotInWords(scaling!);
  return words === null ? [] : [`  ${words}`];
}

/** Returns a line for each version of a pool's workers, and one that says how far the rollout is. */
function rolloutLines({ config_id, scaling }: PoolRow, launches: LaunchRow[], now: number): string[] {
  const { rollout } = scaling!;
  const versions = shownVersions(scaling!).flatMap((version) => [
    versionLine(version),
    ...(version.stopped_because === null || saysWhyStopped(scaling!, version)
      ? []
      : [`    Stopped: ${sentence(version.stopped_because)}`]),
    ...lastWords(version, config_id, launches).map((line) => `    | ${line}`),
  ]);
  if (rollout === null) return versions;
  const { state, since, text, next } = rollout;
  const following = next === null ? '' : ` Next: ${workerName(next)}.`;
  return [...versions, `  ${ROLLOUT_WORDS[state]} for ${age(now - since)}: ${sentence(text)}${following}`];
}

function versionLine(version: PoolVersion): string {
  const parts = [
    `${version.version} ${versionState(version)}`,
    versionWorkers(version).join(', '),
    ...versionFigures(version),
    version.what,
  ];
  return `  ${parts.filter((part) => part !== '').join(' · ')}`;
}

function limit(budget: number | null): string {
  return budget === null ? '' : ` of $${dollars(budget)}`;
}

function troubles({ scaling, pools }: Pick<FleetView, 'scaling' | 'pools'>, now: number): string[] {
  const { budget_reached, providers, launchers } = scaling!;
  const connected = launchers.filter(({ seen_at }) => now - seen_at < SILENT_MS);
  const unserved = providers.filter(
    ({ driver }) => !connected.some(({ drivers }) => drivers.includes(driver)),
  );
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
  const { breaker, control, rollout } = scaling;
  const resume = `"worker-vllm fleet resume ${id}"`;
  return [
    ...(breaker
      ? [`▲ ${id}: ${breaker.text}${breaker.until === null ? ` ${resume} tries again.` : ''}`]
      : []),
    ...(control === 'automatic' ? [] : [`▲ ${id} is ${control}: ${resume} ends that.`]),
    ...(rollout?.state === 'paused'
      ? [`▲ The rollouts of ${id} are paused: "worker-vllm fleet roll ${id} --resume" ends that.`]
      : []),
  ];
}
