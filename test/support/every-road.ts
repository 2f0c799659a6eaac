import WebSocket from 'ws';
import { answers, type Form, settle } from './played-answers.ts';
import { until } from './poll.ts';
import { ANSWERED_FIRST, RawWorker } from './raw-worker.ts';
import type { TestRoad } from './test-queue.ts';

/** A queue with a worker that the test plays, and a caller with the token `app`. */
export interface PlayedQueue {
  url: string;
  worker: RawWorker;
  ask(path: string, body?: object | string, token?: string): Promise<Response>;
  id: string;
}

export async function playedQueue(road: TestRoad): Promise<PlayedQueue> {
  const { url } = road;
  const id = road.newQueue();
  const worker = await new RawWorker(url, 'worker').connect(id);
  await worker.register('w', { capacity: 4 });
  const ask = (path: string, body?: object | string, token = 'app') =>
    fetch(url + path, {
      headers: {
        authorization: `Bearer ${token}`,
        'x-queue-id': id,
        'content-type': 'application/json',
        ...ANSWERED_FIRST,
      },
      ...(body !== undefined && {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    });
  return { worker, ask, id, url };
}

/**
 * A road of a request to an engine and back. @param said what the engine answers @returns all that the caller reads
 */
type Road = (queue: PlayedQueue, path: string, form: Form, body: object, said: string) => Promise<string>;

const settledJob = async ({ ask }: PlayedQueue, id: string) => {
  const job = (await (await ask(`/api/jobs/${id}?wait=20`)).json()) as {
    state: string;
    result: unknown;
    error: unknown;
  };
  return JSON.stringify(job);
};

/** Every road by which a request reaches an engine, and its answer a caller. */
export const ROADS: Record<string, Road> = {
  'a live request': async ({ worker, ask }, path, form, body, said) => {
    const answer = ask(path, body);
    const job = await worker.job();
    settle(worker, job, form, said);
    return await (await answer).text();
  },
  'a live stream': async ({ worker, ask }, path, form, body, said) => {
    const answer = ask(path, { ...body, stream: true });
    settle(worker, await worker.job(), form, said, true);
    return await (await answer).text();
  },
  'a stored job': async (queue, path, form, body, said) => {
    const { worker, ask } = queue;
    const payload = { method: 'POST', path, body: JSON.stringify(body) };
    const { id } = (await (await ask('/api/jobs', { job_type: 'engine_request', payload })).json()) as {
      id: string;
    };
    settle(worker, await worker.job(), form, said);
    return await settledJob(queue, id);
  },
  'the stream of a stored job': async (queue, path, form, body, said) => {
    const { worker, ask } = queue;
    const payload = { method: 'POST', path, body: JSON.stringify({ ...body, stream: true }) };
    const job = { job_type: 'engine_request', payload, stream: true };
    const { id } = (await (await ask('/api/jobs', job)).json()) as { id: string };
    const reading = ask(`/api/jobs/${id}/stream`).then((answer) => answer.text());
    settle(worker, await worker.job(), form, said, 'stored');
    const [live, stored] = [await reading, await settledJob(queue, id)];
    return live + stored;
  },
  'the job socket': async (queue, path, form, body, said) => {
    const { worker, id: queueId, url } = queue;
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/jobs/socket?queue_id=${queueId}`, {
      headers: { authorization: 'Bearer app' },
    });
    const frames: string[] = [];
    socket.on('message', (data) => frames.push(String(data)));
    await new Promise((open) => socket.once('open', open));
    const payload = { method: 'POST', path, body: JSON.stringify(body) };
    socket.send(
      JSON.stringify({ type: 'submit', jobs: [{ id: 'one', job_type: 'engine_request', payload }] }),
    );
    settle(worker, await worker.job(), form, said);
    const settled = await until(
      () => frames.find((frame) => frame.includes('"settled"')),
      'the program is told',
    );
    socket.close();
    return settled;
  },
  'a job of RunPod': async (queue, path, form, body, said) => {
    const { worker, ask } = queue;
    const answer = ask('/v2/default/runsync', { input: { openai_route: path, openai_input: body } });
    const job = await worker.job();
    const { job_id, fence_token } = job;
    const output = [answers(form, said).whole];
    worker.send({ type: 'job_result', job_id, fence_token, result: { job_type: 'runpod', output } });
    return await (await answer).text();
  },
  'a line of a batch': async ({ worker, ask, id, url }, path, form, body, said) => {
    const form_ = new FormData();
    const line = JSON.stringify({
      custom_id: 'a',
      method: 'POST',
      url: path,
      body: { model: 'tiny', ...body },
    });
    form_.set('purpose', 'batch');
    form_.set('file', new Blob([`${line}\n`]), 'in.jsonl');
    const headers = { authorization: 'Bearer app', 'x-queue-id': id };
    const file = (await (
      await fetch(`${url}/v1/files`, { method: 'POST', headers, body: form_ })
    ).json()) as { id: string };
    const asked = { input_file_id: file.id, endpoint: path, completion_window: '24h' };
    const batch = (await (await ask('/v1/batches', asked)).json()) as { id: string };
    settle(worker, await worker.job(), form, said);
    const done = await until(async () => {
      const now = (await (await ask(`/v1/batches/${batch.id}`)).json()) as {
        status: string;
        output_file_id: string;
      };
      return now.status === 'completed' ? now : null;
    }, 'the batch is done');
    return await (await ask(`/v1/files/${done.output_file_id}/content`)).text();
  },
};
