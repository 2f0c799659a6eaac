import WebSocket from 'ws';
import { JobConnection } from '../../src/client/index.ts';
import { payloadOf, resultOf, runProgram } from './plan.ts';

/** The queue of this project: jobs over one socket by the published client, workers that answer at once. */

/** The pool of these jobs alone: the worker of a road serves another. */
const CONFIG = 'durable';

/** A frame that a worker is sent. */
interface Frame {
  type: string;
  job_id: string;
  fence_token: number;
}

await runProgram({
  /** Speaks as src/worker does (several frames share a message), without an engine to ask. */
  work(plan) {
    const id = `durable-${process.pid}`;
    const result = resultOf(plan);
    const socket = new WebSocket(`${plan.url.replace(/^http/, 'ws')}/ws?queue_id=vllm-queue`, {
      perMessageDeflate: false,
    });
    const settlementOf = ({ job_id, fence_token }: Frame) => ({
      type: 'job_result',
      job_id,
      fence_token,
      result,
    });
    return new Promise((resolve) => {
      socket.on('open', () => {
        const register = {
          type: 'register',
          worker_id: id,
          config_id: CONFIG,
          capacity: plan.slots,
          protocol: 1,
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
  },
  async connect(plan) {
    const connection = new JobConnection({ url: plan.url, inFlight: plan.inFlight });
    const payload = payloadOf(plan);
    const job = { job_type: 'chat_completion' as const, config_id: CONFIG, payload };
    return async () => {
      for await (const end of connection.results(Array.from({ length: plan.jobs }, () => job))) {
        if (!('job' in end) || end.job.state !== 'succeeded')
          throw new Error(`job ${end.id} did not succeed`);
      }
    };
  },
});
