import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FleetView } from '../src/protocol/index.ts';
import { startQueueProcess } from '../test/support/queue-process.ts';
import { beatingWorkers } from './beating-workers.ts';
import { commandLine, wholeFrom } from './command-line.ts';

/**
 * Measures the cost of many workers' heartbeats for the fleet object: commits a second, and processor time of the
 * queue.
 */
/** The shortest run, s. The fleet object commits heartbeats without news every 5 s; a shorter run may see none. */
const LEAST_SECONDS = 15;
const given = commandLine(
  'node scripts/measure-heartbeats.ts',
  'measures what the heartbeats of many workers cost the fleet object',
)
  .option('--workers <count>', 'workers that beat', wholeFrom(1), 1000)
  .option('--interval <seconds>', 'between two heartbeats of one', wholeFrom(1), 10)
  .option('--seconds <count>', 'how long', wholeFrom(LEAST_SECONDS), 60)
  .option('--watch', 'somebody looks at the fleet meanwhile')
  .parse()
  .opts<{ workers: number; interval: number; seconds: number; watch?: true }>();
const { workers, interval } = given;
const intervalMs = interval * 1000;

const folder = mkdtempSync(join(tmpdir(), 'measure-heartbeats-'));
const road = await startQueueProcess({ host: '127.0.0.1', port: 0, stateDir: folder, bindings: {} });
try {
  // The warm-up takes first heartbeats, whose news the object stores sooner.
  const end = AbortSignal.timeout(2 * intervalMs + given.seconds * 1000);
  const beating = beatingWorkers(road.url, workers, intervalMs, end);
  await sleep(2 * intervalMs);
  const watched = given.watch ? watch() : null;
  const commits = countCommits();
  const cpuBefore = cpuSeconds();
  const startedAt = performance.now();
  await beating;
  const seconds = (performance.now() - startedAt) / 1000;
  const cpu = ((cpuSeconds() - cpuBefore) / seconds) * 100;
  const view = (await (await fetch(`${road.url}/api/fleet`)).json()) as FleetView;
  console.log(
    `${view.workers.length} workers, a heartbeat every ${interval} s each: ${(commits.stop() / seconds).toFixed(2)} commits/s, ${cpu.toFixed(1)} % of a core${watched ? `, ${(watched() / seconds / 1000).toFixed(0)} kB/s to one viewer` : ''}`,
  );
} finally {
  await road.stop();
  rmSync(folder, { recursive: true, force: true });
}

/** Counts the bytes that a viewer was sent. */
function watch(): () => number {
  let bytes = 0;
  const socket = new WebSocket(`${road.url.replace('http', 'ws')}/api/fleet/live`);
  socket.onopen = () => socket.send('{"type":"watch"}');
  socket.onmessage = ({ data }) => {
    bytes += String(data).length;
  };
  const pings = setInterval(() => socket.send('ping'), 10_000);
  return () => {
    clearInterval(pings);
    socket.close();
    return bytes;
  };
}

/** Counts the commits in the write-ahead log of the fleet object's database, as it grows. */
function countCommits(): { stop(): number } {
  const seen = new Set<string>();
  const look = () => {
    const logs = globSync(join(folder, '**/fleet.sqlite-wal'));
    if (logs.length === 0) throw new Error(`no fleet.sqlite-wal lies below ${folder}: where is the log now?`);
    for (const path of logs) {
      for (const commit of commitsIn(readFileSync(path))) seen.add(commit);
    }
  };
  look();
  const before = seen.size;
  const looking = setInterval(look, 200);
  return {
    stop: () => {
      clearInterval(looking);
      look();
      return seen.size - before;
    },
  };
}

/** Returns the frames that end a transaction: they name the database's size (sqlite.org/fileformat2.html, 4.1). */
function commitsIn(log: Buffer): string[] {
  if (log.length < 32) return [];
  const salts = log.toString('hex', 16, 24);
  const frame = 24 + log.readUInt32BE(8);
  const commits: string[] = [];
  for (let at = 32; at + frame <= log.length; at += frame) {
    const isOfThisLog = log.toString('hex', at + 8, at + 16) === salts;
    if (isOfThisLog && log.readUInt32BE(at + 4) > 0) commits.push(`${salts} ${at}`);
  }
  return commits;
}

/** Returns the processor time of the queue (Linux: 100 ticks a second in /proc). */
function cpuSeconds(): number {
  const fields = readFileSync(`/proc/${road.pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function sleep(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}
