import { commandLine, wholeFrom } from '../scripts/command-line.ts';
import { readyWorker, startQueue, tearDown, tearDownOnSignals } from '../test/support/road.ts';

/** How much later the caller of a response in the background has its first events than one that waits itself. */
const { pairs: PAIRS } = commandLine(
  'node bench/responses.ts',
  'measures the first events of responses, live and in the background, in turns',
)
  .option('--pairs <count>', 'pairs of both', wholeFrom(1), 200)
  .parse()
  .opts<{ pairs: number }>();
const WARM_UP = 20;

tearDownOnSignals();
const queue = await startQueue();
await readyWorker(queue.url, 'w', { engineArgs: '--inter-token-latency-ms 20' });

/** Returns after how many ms the first event and the first word came. */
async function timed(background: boolean): Promise<{ event: number; word: number }> {
  const body = JSON.stringify({ model: 'tiny', input: 'Hi', stream: true, background, max_output_tokens: 2 });
  const startedAt = performance.now();
  const response = await fetch(`${queue.url}/v1/responses`, { method: 'POST', body });
  let text = '';
  let event = 0;
  let word = 0;
  const decoder = new TextDecoder();
  for await (const piece of response.body!) {
    text += decoder.decode(piece as Uint8Array);
    const now = performance.now() - startedAt;
    if (event === 0 && text.includes('response.created')) event = now;
    if (word === 0 && text.includes('output_text.delta')) word = now;
  }
  return { event, word };
}

function quantile(values: number[], share: number): string {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) * share)]!.toFixed(1);
}

const live: Awaited<ReturnType<typeof timed>>[] = [];
const background: typeof live = [];
for (let pair = 0; pair < WARM_UP + PAIRS; pair += 1) {
  const both = [await timed(false), await timed(true)] as const;
  if (pair < WARM_UP) continue;
  live.push(both[0]);
  background.push(both[1]);
}
for (const what of ['event', 'word'] as const) {
  const [lives, backgrounds] = [live, background].map((all) => all.map((one) => one[what])) as [
    number[],
    number[],
  ];
  const later = backgrounds.map((ms, at) => ms - lives[at]!);
  for (const [name, values] of [
    ['live', lives],
    ['background', backgrounds],
    ['later by', later],
  ] as const)
    console.log(
      `first ${what}, ${name}: median ${quantile(values, 0.5)} ms, quartiles ${quantile(values, 0.25)} to ${quantile(values, 0.75)}`,
    );
}
await tearDown();
