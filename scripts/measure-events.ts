import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import type { EngineAnswer } from '../src/engine/client/types.ts';
import { movePlan } from '../src/moving/plan.ts';
import type { AnswerRecord, EngineRequest, MovePlan } from '../src/protocol/index.ts';
import { chatShapes } from '../src/simulator/shapes.ts';
import type { Attempt } from '../src/worker/run/attempt.ts';
import type { Answered } from '../src/worker/run/send-request.ts';
import { commandLine, wholeFrom } from './command-line.ts';

/**
 * Measures what a token of a streamed chat costs the worker between its two sockets: the bytes of an engine go through
 * the worker's own code until they are messages to the relay. Each checkout is measured in processes of its own, in
 * turns, so that ratios of one run hold on a busy machine.
 */
const given = commandLine(
  'node scripts/measure-events.ts',
  'measures the processor time and the allocations of the worker for each event of a stream',
)
  .option('--against <checkout>', 'another checkout, whose figures this one is divided by')
  .option('--rounds <count>', 'processes for each checkout', wholeFrom(1), 5)
  .option('--tokens <count>', 'events of a stream', wholeFrom(1), 1000)
  .option('--measure <checkout>', 'measures one checkout in this process, and prints JSON')
  .parse()
  .opts<{ against?: string; rounds: number; tokens: number; measure?: string }>();

/** The kinds of a stream: what the worker requests from the engine beside the caller's request. */
const KINDS = ['as it comes', 'with usage', 'with usage and token ids'] as const;
const PATH = '/v1/chat/completions';
const PROMPT = [11, 12, 13, 14];
const STREAMS = 200;

/** The cost of an event, in microseconds and bytes. */
interface Cost {
  us: number;
  bytes: number;
}

if (given.measure !== undefined) {
  const costs: Cost[] = [];
  for (const kind of KINDS) costs.push(await costOf(given.measure, kind));
  console.log(JSON.stringify(costs));
} else compare();

function compare(): void {
  const checkouts = [resolve(import.meta.dirname, '..'), ...(given.against ? [resolve(given.against)] : [])];
  const runs = checkouts.map((): Cost[][] => []);
  for (let round = 0; round < given.rounds; round++)
    checkouts.forEach((checkout, index) => {
      runs[index]!.push(measured(checkout));
    });
  KINDS.forEach((kind, index) => {
    const [own, other] = runs.map((costs) => ({
      us: median(costs.map((cost) => cost[index]!.us)),
      bytes: median(costs.map((cost) => cost[index]!.bytes)),
    }));
    const shown = ({ us, bytes }: Cost) => `${us.toFixed(2)} µs, ${Math.round(bytes)} bytes`;
    const ratio = (name: keyof Cost) => (own![name] / other![name]).toFixed(2);
    const against = other ? `; before ${shown(other)}; ratios ${ratio('us')} and ${ratio('bytes')}` : '';
    console.log(`${kind}: ${shown(own!)} an event${against}`);
  });
}

function measured(checkout: string): Cost[] {
  // No garbage is collected while the bytes of one stream are counted.
  const flags = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256'];
  const args = [...flags, import.meta.filename, '--measure', checkout, '--tokens', String(given.tokens)];
  const { stdout, stderr, status } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout) as Cost[];
}

async function costOf(checkout: string, kind: (typeof KINDS)[number]): Promise<Cost> {
  const runs: Cost[] = [];
  const pass = await passing(checkout, kind);
  for (let stream = 0; stream < STREAMS; stream++) {
    globalThis.gc!();
    const before = allocated();
    const began = process.cpuUsage();
    await pass();
    const { user, system } = process.cpuUsage(began);
    runs.push({ us: (user + system) / given.tokens, bytes: (allocated() - before) / given.tokens });
  }
  const warm = runs.slice(STREAMS / 2);
  return { us: median(warm.map(({ us }) => us)), bytes: median(warm.map(({ bytes }) => bytes)) };
}

/** Returns the function that sends one stream through the code of a checkout. */
async function passing(checkout: string, kind: (typeof KINDS)[number]): Promise<() => Promise<void>> {
  const from = async <Module>(file: string) => (await import(join(checkout, 'src', file))) as Module;
  const { readableEvents } = await from<typeof import('../src/engine/client/answer-body.ts')>(
    'engine/client/answer-body.ts',
  );
  const { relayEvents } = await from<typeof import('../src/worker/run/relay-events.ts')>(
    'worker/run/relay-events.ts',
  );
  const { AnswerStream } = await from<typeof import('../src/worker/answers/answer-stream.ts')>(
    'worker/answers/answer-stream.ts',
  );
  const { encodeRecords } = await from<typeof import('../src/protocol/answers.ts')>('protocol/answers.ts');
  const pieces = streamOf(kind);
  const plan = movePlan(PATH, JSON.stringify({ messages: [], stream: true })) as MovePlan;
  const isMoved = kind === 'with usage and token ids';
  const moving: Answered['moving'] = isMoved ? { plan, isAsked: false, from: null, prompt: null } : null;
  const request = { method: 'POST', path: PATH, body: '{}' } as EngineRequest;
  const attempt = { counting() {}, streamed() {}, used() {} } as unknown as Attempt;
  return async () => {
    let size = 0;
    const flush = () => {
      const records: AnswerRecord[] = [];
      stream.collect(records);
      if (records.length > 0) encodeRecords(records);
      stream.taken(stream.size);
    };
    const stream = new AnswerStream(1, { changed: flush, begun() {}, more: flush, cancelled() {} });
    const body: EngineAnswer['body'] = {
      async eachPiece(take) {
        for (const piece of pieces) {
          size += piece.byteLength;
          const wait = take(piece);
          if (wait) await wait;
        }
      },
      async *[Symbol.asyncIterator]() {},
    };
    const headers = { 'content-type': 'text/event-stream' };
    const answer = await readableEvents({ status: 200, headers, body }, PATH);
    await relayEvents(attempt, request, { answer, added: kind !== 'as it comes', moving }, stream);
    stream.end();
    if (stream.size > size || stream.size < size / 2) throw new Error(`${stream.size} of ${size} bytes`);
  };
}

/** Returns the pieces in which vLLM writes a stream, an event each. */
function streamOf(kind: (typeof KINDS)[number]): Uint8Array[] {
  const head = { id: 'chatcmpl-3f1c5d6e7a8b9c0d', model: 'Qwen/Qwen3-8B', created: 1_790_000_000 };
  const hasIds = kind === 'with usage and token ids';
  const isCounted = kind !== 'as it comes';
  const text = chatShapes.text(head, 0);
  const words = [' the', ' of', 'ing', ' größer', '\n', ' "quoted"', ' a', ' model'];
  const events = [chatShapes.opening(head, 0, null, hasIds ? PROMPT : null)!];
  for (let token = 0; token < given.tokens; token++)
    events.push(text(words[token % words.length]!, null, false, null, hasIds ? [1000 + token] : null));
  events.push(text('', { reason: 'stop', stopReason: null } as never, !isCounted, null, hasIds ? [2] : null));
  if (isCounted) events.push(chatShapes.usage(head, { prompt: 4, completion: given.tokens + 1 }));
  return [...events, chatShapes.done].map((event) => Buffer.from(event));
}

function allocated(): number {
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)]!;
}
