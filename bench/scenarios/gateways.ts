import { commandLine } from '../../test/soak/proc.ts';
import { tearDown } from '../../test/support/road.ts';
import { type Effort, scaled } from '../effort.ts';
import { runLoad } from '../load/index.ts';
import { descendantsOf, processorMs } from '../machine.ts';
import type { Figure } from '../report.ts';
import { type BenchRoad, pace, startRoad, warmUp } from '../road.ts';
import { median, sum } from '../statistics.ts';

/** A road over a queue of one process, or with gateways in processes of their own. */
interface Shape {
  name: string;
  road: BenchRoad;
  /** All processes of the queue. */
  queue: number[];
  /** The process that holds the objects. */
  owner: number;
}

/** The figures of one load at one shape. */
interface Measured {
  firstMs: number;
  tokensPerSecond: number;
  /** Processor time for a request or a token, µs. */
  queueUs: number;
  ownerUs: number;
}

interface Load {
  callers: number;
  requests: number;
  tokens: number;
  interTokenMs: number;
}

/** The figures of each round, by shape. */
type Turns = Measured[][];

/** A value that is told of each shape. */
interface Value {
  name: string;
  unit: string;
  of(measured: Measured): number;
  /** The goal of one gateway ÷ one process. */
  goal?: number;
  /** Whether it says something only where the owner is a process of its own. */
  isOwners?: boolean;
}

const ONE_BY_ONE: Load = { callers: 1, requests: 500, tokens: 1, interTokenMs: 0 };
const SHORT: Load = { callers: 64, requests: 2000, tokens: 1, interTokenMs: 0 };
const STREAMS: Load = { callers: 64, requests: 64, tokens: 300, interTokenMs: 10 };
const AT_MOST: Load = { callers: 128, requests: 512, tokens: 300, interTokenMs: 0 };

const NAMES = ['one process', '1 gateway', '2 gateways'];

/** The price of gateways in processes of their own, against one process, in turns. */
export async function gateways(effort: Effort): Promise<Figure[]> {
  const shapes: Shape[] = [];
  for (const [count, name] of NAMES.entries()) shapes.push(await start(count, name));
  for (const { road } of shapes) await warmUp(road, effort);
  const figures = [
    ...figuresOf(await inTurns(ONE_BY_ONE, shapes, effort), [
      { name: 'first token, one request after another, p50', unit: 'ms', of: ({ firstMs }) => firstMs },
    ]),
    ...figuresOf(await inTurns(SHORT, shapes, effort), [
      {
        name: 'processor a short request, all of the queue, 64 side by side',
        unit: 'µs',
        of: ({ queueUs }) => queueUs,
      },
      {
        name: 'processor a short request, owner, 64 side by side',
        unit: 'µs',
        of: ({ ownerUs }) => ownerUs,
        isOwners: true,
      },
    ]),
    ...figuresOf(await inTurns(STREAMS, shapes, effort), [
      {
        name: 'processor a token, all of the queue, 64 streams',
        unit: 'µs',
        of: ({ queueUs }) => queueUs,
        goal: 1.3,
      },
      {
        name: 'processor a token, owner, 64 streams',
        unit: 'µs',
        of: ({ ownerUs }) => ownerUs,
        isOwners: true,
      },
    ]),
    ...figuresOf(await inTurns(AT_MOST, shapes, effort), [
      {
        name: 'tokens of 128 streams as fast as they come',
        unit: '/s',
        of: ({ tokensPerSecond }) => tokensPerSecond,
      },
    ]),
  ];
  await tearDown();
  return figures;
}

async function start(count: number, name: string): Promise<Shape> {
  const road = await startRoad(256, undefined, { QUEUE_GATEWAYS: String(count) });
  const root = road.roots[0]!;
  const below = descendantsOf(root);
  const owner = count === 0 ? root : below.find((pid) => /queue-process\S* owner$/.test(commandLine(pid)))!;
  return { name, road, queue: [root, ...below], owner };
}

/** Runs a load at each shape in turns. @returns what each round measured, by shape */
async function inTurns(load: Load, shapes: readonly Shape[], effort: Effort): Promise<Turns> {
  const turns: Turns = shapes.map(() => []);
  // The first round finds a pace that was another one.
  for (let round = -1; round < effort.rounds; round++) {
    for (const [at, shape] of shapes.entries()) {
      const measured = await measure(load, shape, effort);
      if (round >= 0) turns[at]!.push(measured);
    }
  }
  return turns;
}

async function measure(load: Load, { road, queue, owner }: Shape, effort: Effort): Promise<Measured> {
  await pace(road.engineUrl, load.interTokenMs);
  const [requests, tokens] =
    load.tokens === 1 ? [scaled(load.requests, effort), 1] : [load.requests, scaled(load.tokens, effort)];
  const arrivals = { kind: 'closed', callers: Math.min(load.callers, requests), requests } as const;
  const spent = () => ({ queue: sum(queue.map(processorMs)), owner: processorMs(owner) });
  const before = spent();
  const { firstMs, tokensPerSecond } = await runLoad({ url: road.queueUrl, arrivals, tokens });
  const after = spent();
  const each = (ms: number) => (ms * 1000) / (requests * tokens);
  return {
    firstMs: median(firstMs),
    tokensPerSecond,
    queueUs: each(after.queue - before.queue),
    ownerUs: each(after.owner - before.owner),
  };
}

/** Returns one value at each shape, and those with gateways ÷ that of one process. */
function figuresOf(turns: Turns, values: readonly Value[]): Figure[] {
  const group = 'gateways';
  return values.flatMap(({ name, unit, of, goal = null, isOwners = false }) => {
    const rounds = turns.map((measured) => measured.map(of));
    return NAMES.flatMap((shape, at) => {
      if (at === 0)
        return isOwners ? [] : [{ group, name: `${name}, ${shape}`, unit, goal: null, rounds: rounds[0]! }];
      const figure = { group, name: `${name}, ${shape}`, unit, goal: null, rounds: rounds[at]! };
      if (isOwners) return [figure];
      const ratios = rounds[at]!.map((value, round) => value / rounds[0]![round]!);
      return [
        figure,
        {
          group,
          name: `${name}, ${shape} ÷ one process`,
          unit: '×',
          goal: at === 1 ? goal : null,
          rounds: ratios,
        },
      ];
    });
  });
}
