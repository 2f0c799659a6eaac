import { describe, expect, it } from 'vitest';
import { askForWorker, readRequest } from '../../../src/host/cloudflare/crossing.ts';
import type { RequestAnswer, WaitingRequest } from '../../../src/queue/rpc.ts';

const CALL = {
  job_id: 'job-1',
  job_type: 'engine_request',
  model: 'tiny',
  priority: 0,
  wait_for_worker_ms: 0,
  wait_for_slot_ms: 5000,
};
const ANSWER: RequestAnswer = { kind: 'stream', stream_id: 7, fence_token: 1, worker_id: 'w' };

describe('a payload on its way to the queue', () => {
  it.each([
    ['in the header', 4096, null],
    ['as the body', 4097, 4097],
  ])('arrives byte for byte %s', async (_, length, bodyBytes) => {
    const payload = Uint8Array.from({ length }, (_, at) => at % 256);
    const job = { ...CALL, request_id: 'é\n"', payload };
    let asked: WaitingRequest | null = null;
    let sentAsBody: number | null = null;
    const queue = {
      fetch: async (url: string, init: RequestInit) => {
        sentAsBody = (init.body as Uint8Array | undefined)?.byteLength ?? null;
        asked = await readRequest(new Request(url, init));
        return Response.json(ANSWER);
      },
    };
    expect(await askForWorker(queue, job)).toEqual(ANSWER);
    expect(asked).toEqual(job);
    expect(sentAsBody).toBe(bodyBytes);
  });
});
