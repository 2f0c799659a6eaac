import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { commandLine, wholeFrom } from '../../scripts/command-line.ts';
import { freePort } from '../../test/support/ports.ts';
import { cli, tearDown, tearDownOnSignals } from '../../test/support/road.ts';
import { runLoad } from '../load/index.ts';
import {
  descendantsOf,
  machineFacts,
  machineState,
  noiseSince,
  processorMs,
  residentMegabytes,
} from '../machine.ts';
import { noiseText } from '../report.ts';
import { median, quantile, sum } from '../statistics.ts';

/**
 * `node bench/entry/run.ts`: this gateway as a benchmark of gateways measures one. A mock upstream answers after 20 ms
 * with 40 tokens, 5 ms apart; clients ask it directly and through the gateway in turns, and the difference is what the
 * gateway adds. README.md beside this file says which benchmarks do so.
 */

const UPSTREAM = { firstMs: 20, gapMs: 5, tokens: 40 };
const CALLERS = [1, 16, 64];
/** An answer takes 215 ms, so one caller is done in 9 s. */
const REQUESTS_EACH = 40;

const given = commandLine('node bench/entry/run.ts', 'measures the gateway over a mock upstream')
  .option('--rounds <count>', 'pairs of direct and through, of which the median counts', wholeFrom(1), 3)
  .option('--json <file>', 'where the figures go as well')
  .parse();
const { rounds, json } = given.opts<{ rounds: number; json?: string }>();

interface Row {
  callers: number;
  /** The time that the gateway adds to the first event and to the last one, ms. */
  firstP50: number;
  firstP99: number;
  totalP50: number;
  totalP99: number;
  /** Processor time of all processes of the gateway for one request, ms. */
  processorMs: number;
  /** Requests a second: direct, and through the gateway. */
  direct: number;
  through: number;
}

tearDownOnSignals();
const state = mkdtempSync(join(tmpdir(), 'wv-entry-'));
try {
  const before = machineState();
  const upstream = await startUpstream();
  const gateway = await startGateway(upstream);
  const rows: Row[] = [];
  for (const callers of CALLERS) {
    // The first requests compile the code that they run.
    await ask(gateway.url, callers);
    const pairs: Row[] = [];
    for (let round = 0; round < rounds; round++) pairs.push(await measurePair(gateway, upstream, callers));
    const names = Object.keys(pairs[0]!) as (keyof Row)[];
    rows.push(
      Object.fromEntries(names.map((name) => [name, median(pairs.map((pair) => pair[name]))])) as never,
    );
  }
  const memoryMb = sum(gateway.pids().map(residentMegabytes));
  const noise = noiseSince(before);
  console.log('What the gateway adds, ms');
  console.table(
    rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, round2(value)]))),
  );
  console.log(`Memory of all its processes after that: ${Math.round(memoryMb)} MB.\n${noiseText(noise)}`);
  const figures = {
    at: new Date().toISOString(),
    machine: { ...machineFacts(), ...noise },
    memoryMb,
    rounds,
    rows,
  };
  if (json !== undefined) writeFileSync(resolve(json), `${JSON.stringify(figures, null, 2)}\n`);
} finally {
  await tearDown();
  rmSync(state, { recursive: true, force: true });
}

async function startUpstream(): Promise<string> {
  const port = String(await freePort());
  const pace = [
    '--time-to-first-token-ms',
    String(UPSTREAM.firstMs),
    '--inter-token-latency-ms',
    String(UPSTREAM.gapMs),
  ];
  const load = ['--max-num-seqs', '256', '--disable-uvicorn-access-log'];
  const upstream = cli(['simulate', 'tiny', '--port', port, ...pace, ...load]);
  await upstream.waitForLine(/startup complete/);
  return `http://127.0.0.1:${port}`;
}

/** The gateway as gateway.yaml and Dockerfile start it: queue, gateway and worker on one machine. */
async function startGateway(upstream: string): Promise<{ url: string; pids(): number[] }> {
  const port = String(await freePort());
  const env = { ENGINE_URL: upstream, CASOLA_MAX_JOBS: '256', LOG_LEVEL: 'warn' };
  const gateway = cli(['up', '--port', port, '--state', state], env);
  await gateway.waitForLine(/Ready: /);
  return { url: `http://127.0.0.1:${port}`, pids: () => [gateway.pid, ...descendantsOf(gateway.pid)] };
}

function ask(url: string, callers: number) {
  const count = callers * REQUESTS_EACH;
  return runLoad({ url, arrivals: { kind: 'closed', callers, requests: count }, tokens: UPSTREAM.tokens });
}

async function measurePair(
  gateway: { url: string; pids(): number[] },
  upstream: string,
  callers: number,
): Promise<Row> {
  const direct = await ask(upstream, callers);
  const spent = sum(gateway.pids().map(processorMs));
  const through = await ask(gateway.url, callers);
  const processor = sum(gateway.pids().map(processorMs)) - spent;
  const added = (times: 'firstMs' | 'totalMs', share: number) =>
    quantile(through[times], share) - quantile(direct[times], share);
  return {
    callers,
    firstP50: added('firstMs', 0.5),
    firstP99: added('firstMs', 0.99),
    totalP50: added('totalMs', 0.5),
    totalP99: added('totalMs', 0.99),
    processorMs: processor / through.totalMs.length,
    direct: (direct.totalMs.length / direct.durationMs) * 1000,
    through: (through.totalMs.length / through.durationMs) * 1000,
  };
}

function round2(value: number): number {
  return Math.round(value * 100) / 100;
}
