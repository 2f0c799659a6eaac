import { createInterface } from 'node:readline';
import { JobClient, JobConnection, type JobEnd, QueueError } from '../../../src/client/index.ts';

/** Calls the client of src/client as it is told on stdin: program.ts. driver.py is the same in Python. */

// biome-ignore lint/suspicious/noExplicitAny: lines are as program.ts writes them
type Line = any;

const made = new Map<string, JobClient | JobConnection>();
const running = new Map<number, AbortController>();

const tell = (told: object) => process.stdout.write(`${JSON.stringify(told)}\n`);

const errorOf = (error: unknown) => {
  if (!(error instanceof QueueError)) return { message: String(error), status: 0, code: null, cause: null };
  const { message, status, code, cause } = error;
  return { message, status, code, cause: cause === undefined ? null : String(cause) };
};

const endOf = (end: JobEnd) =>
  'error' in end
    ? { id: end.id, job: null, error: errorOf(end.error) }
    : { id: end.id, job: end.job, error: null };

const METHODS: Record<string, (line: Line, signal: AbortSignal) => unknown> = {
  make: ({ on, kind, options: { queue_id, in_flight, ping_seconds, ...same } }) => {
    const options = { ...same, queueId: queue_id, inFlight: in_flight, pingSeconds: ping_seconds };
    made.set(on, kind === 'client' ? new JobClient(options) : new JobConnection(options));
  },
  submit: ({ on, job }, signal) => client(on).submit(job, signal),
  get: ({ on, id }, signal) => client(on).get(id, signal),
  wait: ({ on, id, seconds }, signal) =>
    client(on).wait(id, { signal, ...(seconds === null ? {} : { seconds }) }),
  cancel: ({ on, id }, signal) => client(on).cancel(id, signal),
  ledger: ({ on, id }, signal) => client(on).ledger(id, signal),
  settle: async ({ on, job }) => endOf(await connection(on).settle(job)),
  run: ({ on, job }) => connection(on).run(job),
  results: async ({ call, on, jobs, take }, signal) => {
    let taken = 0;
    for await (const end of connection(on).results(jobs)) {
      tell({ call, end: endOf(end) });
      taken += 1;
      if (taken === take) await new Promise((resolve) => signal.addEventListener('abort', resolve));
      if (signal.aborted) throw signal.reason;
    }
  },
  close: ({ on }) => connection(on).close(),
};

const client = (name: string) => made.get(name) as JobClient;
const connection = (name: string) => made.get(name) as JobConnection;

async function run(line: Line): Promise<void> {
  const abort = new AbortController();
  running.set(line.call, abort);
  try {
    tell({ call: line.call, value: (await METHODS[line.do]!(line, abort.signal)) ?? null });
  } catch (error) {
    if (abort.signal.aborted) tell({ call: line.call, value: 'stopped' });
    else tell({ call: line.call, error: errorOf(error) });
  } finally {
    running.delete(line.call);
  }
}

createInterface(process.stdin).on('line', (text) => {
  const line: Line = JSON.parse(text);
  if (line.stop !== undefined) running.get(line.stop)?.abort();
  else void run(line);
});
