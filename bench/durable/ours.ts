import WebSocket from 'ws';
import { JobConnection } from '../../src/client/index.ts';
import { type DurablePlan, printRate } from './plan.ts';

/** One process: submits durable jobs, runs them as two workers, reads every result; prints the rate. */

const plan = JSON.parse(process.argv[2] ?? '') as DurablePlan;
const WORKERS = 2;
/** What a worker is told. */
interface Frame {
  type: string;
  job_id: string;
  fence_token: number;
}
/** Submissions that share a request: what is ready in one tick of a busy submitter. */
const BATCH = 16;

const payload = { messages: [{ role: 'user', content: 'x'.repeat(plan.bytes) }] };
const result = { status: 'success', text: 'y'.repeat(plan.bytes) };

for (let n = 0; n < WORKERS; n++) await startWorker(`durable-${n}`);
let submitted = 0;
await printRate(plan.jobs, () =>
  plan.way === 'socket'
    ? runOverSocket()
    : Promise.all(Array.from({ length: plan.inFlight / BATCH }, submitUntilDone)),
);

async function runOverSocket(): Promise<void> {
  const connection = new JobConnection({ url: plan.url, inFlight: plan.inFlight });
  const jobs = Array.from({ length: plan.jobs }, () => ({
    job_type: 'chat_completion' as const,
    config_id: 'cfg',
    payload,
  }));
  for await (const end of connection.results(jobs)) {
    if (!('job' in end) || end.job.state !== 'succeeded') throw new Error(`job ${end.id} did not succeed`);
  }
}

async function submitUntilDone(): Promise<void> {
  while (submitted < plan.jobs) {
    submitted += BATCH;
    const jobs = Array.from({ length: BATCH }, () => ({
      job_type: 'chat_completion',
      config_id: 'cfg',
      payload,
    }));
    const response = await fetch(`${plan.url}/api/jobs`, { method: 'POST', body: JSON.stringify(jobs) });
    const answers = (await response.json()) as { job: { id: string } }[];
    await Promise.all(answers.map(({ job }) => readResult(job.id)));
  }
}

async function readResult(id: string): Promise<void> {
  const response = await fetch(`${plan.url}/api/jobs/${id}?wait=60`);
  const { state } = (await response.json()) as { state: string };
  if (state !== 'succeeded') throw new Error(`job ${id} is ${state}`);
}

/** A worker that answers each job at once, and speaks as src/worker does: several frames share a message. */
function startWorker(id: string): Promise<void> {
  const address = `${plan.url.replace(/^http/, 'ws')}/ws?queue_id=vllm-queue`;
  const socket = new WebSocket(address, { perMessageDeflate: false });
  return new Promise((resolve) => {
    socket.on('open', () => {
      const register = {
        type: 'register',
        worker_id: id,
        config_id: 'cfg',
        capacity: plan.inFlight / WORKERS,
        protocol: 1,
        features: ['ack', 'renew', 'frames'],
        instance: { id, models: ['tiny'], boot_id: id },
      };
      socket.send(JSON.stringify(register));
    });
    socket.on('message', (data) => {
      const frames = [JSON.parse(String(data))].flat() as Frame[];
      if (frames.some(({ type }) => type === 'registered')) resolve();
      const jobs = frames.filter(({ type }) => type === 'job');
      if (jobs.length > 0) socket.send(JSON.stringify(jobs.map(settlementOf)));
    });
  });
}

function settlementOf({ job_id, fence_token }: Frame) {
  return { type: 'job_result', job_id, fence_token, result };
}
