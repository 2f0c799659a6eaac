import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { parseJson, WorkerFrame } from '../src/protocol/index.ts';
import { Queue } from '../src/queue/queue.ts';
import type { SubmitJob } from '../src/queue/rpc.ts';
import type { Connection, Ports, Row, Session } from '../src/queue/store/ports.ts';
import { commandLine, wholeFrom } from './command-line.ts';

/**
 * Measures the stored jobs a second that the queue's rules alone carry, over node:sqlite on disk with 64 events to a
 * commit. `npm run bench -- --only P3` measures them with the object around them.
 */
const given = commandLine(
  'node scripts/measure-queue.ts',
  "measures the stored jobs a second that the queue's rules alone carry",
)
  .option('--jobs <count>', 'jobs of a round', wholeFrom(1), 20_000)
  .option('--rounds <count>', 'rounds, of which the best is told', wholeFrom(1), 3)
  .parse()
  .opts<{ jobs: number; rounds: number }>();
const { jobs } = given;
const EVENTS_PER_COMMIT = 64;
const SLOTS = 256;
const PAYLOAD = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(400) }] });
const RESULT = { status: 'success', completion: { text: 'y'.repeat(400) } };

/** Processor time is printed too: on a busy machine it says more than the rate. */
interface Measured {
  rate: number;
  cpuMicros: number;
}
const measured = Array.from({ length: given.rounds }, () => inFolder(measureRules));
const rate = Math.round(Math.max(...measured.map(({ rate }) => rate)));
const micros = Math.min(...measured.map(({ cpuMicros }) => cpuMicros)).toFixed(0);
console.log(`${rate} jobs/s, ${micros} µs of processor time a job (best of ${given.rounds})`);

function inFolder(measure: (folder: string) => Measured): Measured {
  const folder = mkdtempSync(join(tmpdir(), 'measure-queue-'));
  try {
    return measure(folder);
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
    queue.onFrame(connection, parseJson(WorkerFrame, JSON.stringify(frame)), () => 'session');
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
  // Half of the submissions find a free slot and half wait for one, since both are usual.
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
    random: () => Math.random(),
    connections: () => [connection],
    breakStream: () => {},
    closeAnswers: () => {},
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
