import { readFileSync } from 'node:fs';
import { commandLine, existingFile, wholeFrom } from '../scripts/command-line.ts';
import { type Asked, LOADS, requestsOf, uniqueRequests } from './prefixes/loads.ts';
import { play } from './prefixes/world.ts';

/**
 * Measures what prefix-aware dispatch brings (docs/prefixes.md): the real rules of the queue over model engines, in
 * virtual time, so that a run takes seconds and says the same on every machine.
 */
const given = commandLine(
  'node bench/prefixes.ts',
  'measures what prefix-aware dispatch brings, in virtual time',
)
  .option('--requests <count>', 'requests of each load', wholeFrom(1), 4000)
  .option('--seed <number>', 'chooses the requests', wholeFrom(0), 1)
  .option(
    '--trace <file>',
    "one more load, of prompts that share nothing: a trace of Azure's (TIMESTAMP,ContextTokens,GeneratedTokens)",
    existingFile,
  )
  .parse()
  .opts<{ requests: number; seed: number; trace?: string }>();
const { requests: count, seed } = given;

/** About an 8B model on a GPU of 80 GB. */
const SLOTS = 32;
const ENGINE = { cacheTokens: 300_000, prefillTokensPerMs: 12, msPerToken: 20 };
/** Requests a second and worker: engines are busy, and nothing waits for long. */
const RATE = { conversations: 4, documents: 2.5, 'system prompt': 3, unique: 4 };

const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
const ms = (time: number) => Math.round(time);

console.log(
  '| load | workers | dispatch | hits | of one worker | predicted | seen | first token: mean, p50, p99, ms | busiest worker |',
);
console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- |');
for (const workers of [2, 4]) {
  for (const load of LOADS) compare(load, requestsOf(load, count, RATE[load] * workers, seed), workers);
  if (given.trace) compare('trace', uniqueRequests(traceOf(given.trace, workers), seed), workers);
}

function compare(load: string, asked: readonly Asked[], workers: number): void {
  const fleet = { workers, slots: SLOTS, engine: ENGINE };
  // All that the fleet has, in one worker.
  const engine = {
    ...ENGINE,
    cacheTokens: ENGINE.cacheTokens * workers,
    prefillTokensPerMs: ENGINE.prefillTokensPerMs * workers,
  };
  const one = play(asked, { workers: 1, slots: SLOTS * workers, engine }, false);
  const rows = [
    ['one worker gets all', one],
    ['by prefix', play(asked, fleet, true)],
    ['least loaded', play(asked, fleet, false)],
  ] as const;
  for (const [dispatch, { hits, predicted, seen, firstToken, busiest }] of rows) {
    const { mean, p50, p99 } = firstToken;
    const ofOne = one.hits < 0.01 ? '–' : percent(hits / one.hits);
    const times = `${ms(mean)}, ${ms(p50)}, ${ms(p99)}`;
    const cells = [
      load,
      workers,
      dispatch,
      percent(hits),
      ofOne,
      percent(predicted),
      percent(seen),
      times,
      percent(busiest),
    ];
    console.log(`| ${cells.join(' | ')} |`);
  }
}

/** As fast as the workers can take it: the trace is of a service of its own size. */
function traceOf(path: string, workers: number) {
  const rows = readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .slice(1, count + 1);
  const read = rows.map((row) => {
    const [time = '', context, generated] = row.split(',');
    return {
      at: Date.parse(`${time.slice(0, 23).replace(' ', 'T')}Z`),
      context: Number(context),
      generated: Number(generated),
    };
  });
  const began = read[0]!.at;
  const perSecond = read.length / ((read.at(-1)!.at - began) / 1000);
  const faster = (RATE.unique * workers) / perSecond;
  return read.map(({ at, context, generated }) => ({
    at: (at - began) / faster,
    promptTokens: context,
    answerTokens: generated,
  }));
}
