import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { parseArgs } from 'node:util';
import { parseJson, WorkerFrame } from '../src/protocol/index.ts';
import { Queue } from '../src/queue/queue.ts';
import type { SubmitJob } from '../src/queue/rpc.ts';
import type { Connection, Ports, Row, Session } from '../src/queue/store/ports.ts';
import { startWorkerd } from '../src/workerd/process.ts';
import { closeRawWorkers, RawWorker } from '../test/support/raw-worker.ts';

/**
 * Persisted jobs a second, from submission to acknowledgement, each stored durably on the way:
 * `node scripts/measure-queue.ts [--jobs N] [--rounds N] [--only rules|workerd]`.
 * `rules`: the queue's rules alone over node:sqlite on disk, 64 events to a commit.
 * `workerd`: the object in workerd, over HTTP and a socket.
 */
const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '20000' },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string' },
  },
});
const jobs = Number(values.jobs);
const EVENTS_PER_COMMIT = 64;
const SLOTS = 256;
const PAYLOAD = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(400) }] });
const RESULT = { status: 'success', completion: { text: 'y'.repeat(400) } };

/** Processor time is printed too: on a busy machine it says more than the rate. */
interface Measured {
  rate: number;
  cpuMicros: number;
}
const best: Record<string, Measured> = {};
for (let round = 0; round < Number(values.rounds); round++) {
  if (values.only !== 'workerd') keepBest('rules', await inFolder(measureRules));
  if (values.only !== 'rules') keepBest('workerd', await inFolder(measureWorkerd));
}
for (const [name, { rate, cpuMicros }] of Object.entries(best)) {
  const cpu = `${cpuMicros.toFixed(0)} µs of processor time a job`;
  console.log(`${name.padEnd(8)} ${Math.round(rate)} jobs/s, ${cpu} (best of ${values.rounds})`);
}

function keepBest(name: string, measured: Measured): void {
  const known = best[name] ?? measured;
  best[name] = {
    rate: Math.max(known.rate, measured.rate),
    cpuMicros: Math.min(known.cpuMicros, measured.cpuMicros),
  };
}

async function inFolder(measure: (folder: string) => Measured | Promise<Measured>): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), 'measure-queue-'));
  try {
    return await measure(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The queue's rules over a database file that is synced at every commit. */
function measureRules(folder: string): Measured {
  const database = new DatabaseSync(join(folder, 'queue.sqlite'));
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
  const sent: { job_id: string; fence_token: number }[] = [];
  const connection = fakeConnection((frame) => {
    if (frame.type === 'job') sent.push(frame as never);
  });
  const queue = new Queue(portsOver(database, connection), {
    queue_id: 'q',
    lease_seconds: 30,
    reconnect_grace_seconds: 10,
  });
  const say = (frame: object) =>
    queue.onFrame(connection, parseJson(WorkerFrame, JSON.stringify(frame)), 'session');
  const together = (count: number, event: (index: number) => void) => {
    for (let from = 0; from < count; from += EVENTS_PER_COMMIT) {
      database.exec('BEGIN IMMEDIATE');
      for (let index = from; index < Math.min(count, from + EVENTS_PER_COMMIT); index++) event(index);
      database.exec('COMMIT');
    }
  };
  say({ type: 'register', worker_id: 'w', config_id: 'cfg', capacity: SLOTS, protocol: 1 });

  const job: SubmitJob = {
    job_type: 'chat_completion',
    payload: PAYLOAD,
    config_id: 'cfg',
    priority: 0,
    max_attempts: 3,
  };
  const started = performance.now();
  const cpuBefore = process.cpuUsage();
  // Half of the submissions find a free slot, half wait for one: both are usual.
  for (let done = 0; done < jobs; done += 2 * SLOTS) {
    together(2 * SLOTS, (index) => queue.submit([{ ...job, id: `job-${done + index}` }], ['']));
    together(2 * SLOTS, () => {
      const { job_id, fence_token } = sent.shift()!;
      say({ type: 'job_result', job_id, fence_token, result: RESULT });
    });
  }
  const done = Math.ceil(jobs / (2 * SLOTS)) * 2 * SLOTS;
  const rate = done / ((performance.now() - started) / 1000);
  const { user, system } = process.cpuUsage(cpuBefore);
  if (queue.read('status').pending > 0 || queue.read('status').running > 0)
    throw new Error('jobs are left over');
  database.close();
  return { rate, cpuMicros: (user + system) / done };
}

function portsOver(database: DatabaseSync, connection: Connection): Ports {
  const statements = new Map<string, StatementSync>();
  let alarmAt: number | null = null;
  return {
    sql: {
      exec: (query, ...bindings) => {
        let statement = statements.get(query);
        if (!statement) {
          statement = database.prepare(query);
          statements.set(query, statement);
        }
        return statement.all(...bindings) as unknown as Row[];
      },
    },
    alarm: {
      get: () => alarmAt,
      set: (at) => {
        alarmAt = at;
      },
      clear: () => {
        alarmAt = null;
      },
    },
    undoable: (work) => {
      work();
      return null;
    },
    now: () => Date.now(),
    machineTime: () => Date.now(),
    random: () => Math.random(),
    connections: () => [connection],
    breakStream: () => {},
    tellFleet: () => {},
    log: () => {},
  };
}

function fakeConnection(receive: (frame: { type: string }) => void): Connection {
  let session: Session | null = null;
  return {
    id: 'connection',
    load: () => session,
    save: (saved) => {
      session = saved;
    },
    lastHeardMs: () => Date.now(),
    send: (frame) => receive(JSON.parse(JSON.stringify(frame))),
    sendJob: (text) => receive(JSON.parse(typeof text === 'string' ? text : new TextDecoder().decode(text))),
    close: () => {},
  };
}

/** The object in workerd: four callers that submit by the hundred, one worker that answers at once. */
async function measureWorkerd(folder: string): Promise<Measured> {
  const road = await startWorkerd({ host: '127.0.0.1', port: 0, stateDir: folder, bindings: {} });
  try {
    const worker = await (await new RawWorker(road.url).connect()).register('w', { capacity: SLOTS });
    const started = performance.now();
    const cpuBefore = cpuMicrosOf(road.pid);
    const submitted = Promise.all([0, 1, 2, 3].map((caller) => submitShare(road.url, caller)));
    for (let answered = 0; answered < jobs; ) {
      const pushed = worker.frames.splice(0).filter((frame) => frame.type === 'job');
      for (const job of pushed) worker.result(job as never, RESULT);
      answered += pushed.length;
      await new Promise((done) => setTimeout(done, 1));
    }
    await submitted;
    await acknowledged(road.url);
    return {
      rate: jobs / ((performance.now() - started) / 1000),
      cpuMicros: (cpuMicrosOf(road.pid) - cpuBefore) / jobs,
    };
  } finally {
    closeRawWorkers();
    await road.stop();
  }
}

/** Processor time a process has used, µs (Linux: 100 ticks a second in /proc). */
function cpuMicrosOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

async function submitShare(url: string, caller: number): Promise<void> {
  for (let from = 0; from < jobs / 4; from += 100) {
    const body = Array.from({ length: Math.min(100, jobs / 4 - from) }, (_, index) => ({
      id: `job-${caller}-${from + index}`,
      job_type: 'chat_completion',
      config_id: 'cfg',
      payload: JSON.parse(PAYLOAD),
    }));
    const response = await fetch(`${url}/api/jobs`, { method: 'POST', body: JSON.stringify(body) });
    if (!response.ok) throw new Error(await response.text());
    await response.arrayBuffer();
  }
}

/** Every settlement is stored: nothing runs and nothing waits. */
async function acknowledged(url: string): Promise<void> {
  for (;;) {
    const status = (await (await fetch(`${url}/health`)).json()) as { running: number; pending: number };
    if (status.running + status.pending === 0) return;
    await new Promise((done) => setTimeout(done, 2));
  }
}
