import { afterAll, expect, it } from 'vitest';
import { withoutComments } from '../support/comments.ts';
import { answerLines } from '../support/line-worker.ts';
import { until } from '../support/poll.ts';
import { bytes, EVENT_STREAM } from '../support/raw-worker.ts';
import { startReceiver } from '../support/receiver.ts';
import { promisesOfQueues } from './queue-under-test.ts';

/** The roads through all objects, with the worker played by the test: what a host must carry whole. */

const receiver = await startReceiver();
afterAll(() => receiver.stop());

const ENDPOINT = '/v1/chat/completions';
const CHAT = { model: 'tiny', messages: [{ role: 'user', content: 'hello' }] };
const JOB = { job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] } };
const SETTINGS = {
  QUEUE_WEBHOOK_HOSTS: `private:${new URL(receiver.url).host}`,
  QUEUE_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
  QUEUE_RECONNECT_GRACE_SECONDS: '2',
};

promisesOfQueues(SETTINGS, (queue) => {
  it('carries an answer to its caller as it comes', async () => {
    const id = queue.newQueue();
    const worker = await queue.worker(id);
    const response = queue.ask(id, ENDPOINT, {
      method: 'POST',
      body: JSON.stringify({ ...CHAT, stream: true }),
    });
    const job = await worker.job();
    const stream = job.stream_id!;
    const [first, second] = ['data: {"n":1}\n\n', 'data: [DONE]\n\n'];
    worker.answer({ type: 'head', stream, head: EVENT_STREAM });
    worker.answer({ type: 'bytes', stream, offset: 0, data: bytes(first) });
    const reader = (await response).body!.pipeThrough(new TextDecoderStream()).getReader();
    /** Without the comments that a caller gets where its answer takes long. */
    const next = async (): Promise<string | null> => {
      const { value, done } = await reader.read();
      if (done) return null;
      return withoutComments(value) || (await next());
    };
    expect(await next()).toBe(first);
    worker.answer(
      { type: 'bytes', stream, offset: first.length, data: bytes(second) },
      { type: 'end', stream, size: first.length + second.length },
    );
    expect(await next()).toBe(second);
    expect(await next()).toBe(null);
    worker.result(job);
    expect(await worker.next('ack')).toMatchObject({ job_id: job.job_id });
  });

  it('tells the worker that a caller has left its stream', async () => {
    const id = queue.newQueue();
    const worker = await queue.worker(id);
    const caller = new AbortController();
    const response = queue.ask(id, ENDPOINT, {
      method: 'POST',
      body: JSON.stringify({ ...CHAT, stream: true }),
      signal: caller.signal,
    });
    const { job_id, stream_id } = await worker.job();
    worker.answer({ type: 'head', stream: stream_id!, head: EVENT_STREAM });
    worker.answer({ type: 'bytes', stream: stream_id!, offset: 0, data: bytes('data: {"n":1}\n\n') });
    await response;
    caller.abort();
    await until(
      () =>
        worker.frames.some(({ type, job_id: of }) => type === 'cancel' && of === job_id) ||
        worker.records.some(({ type }) => type === 'cancel'),
      'the worker hears of it',
    );
  });

  it('runs a request again elsewhere when its worker is lost before it answers', async () => {
    const id = queue.newQueue();
    const lost = await queue.worker(id, 'lost');
    const asked = queue.json(id, ENDPOINT, CHAT);
    await lost.job();
    const other = await queue.worker(id, 'other');
    lost.vanish();
    other.answerJson(await other.job(), '{"id":"elsewhere"}');
    expect(await asked).toEqual({ id: 'elsewhere' });
  });

  it('keeps what it acknowledged when it is killed, and the worker goes on', async () => {
    const id = queue.newQueue();
    const first = await queue.worker(id);
    await queue.json(id, '/api/jobs', { ...JOB, id: 'running' });
    const running = await first.job();
    expect(await queue.json(id, '/api/jobs', { ...JOB, id: 'pending' })).toMatchObject({ state: 'pending' });
    await queue.kill();
    await queue.start({ QUEUE_RECONNECT_GRACE_SECONDS: '60' });
    const { job_id, fence_token } = running;
    const back = await queue.worker(id, 'w', { jobs: [{ job_id, fence_token }] });
    expect(await back.next('registered')).toMatchObject({ resumed: ['running'] });
    back.result(running, { status: 'success', text: 'done' });
    expect(await back.next('ack')).toMatchObject({ job_id: 'running', outcome: 'accepted' });
    await queue.kill();
    await queue.start();
    expect(await queue.json(id, '/api/jobs/running')).toMatchObject({
      state: 'succeeded',
      attempts: 1,
      result: { text: 'done' },
    });
    const again = await queue.worker(id);
    expect((await again.job()).job_id).toBe('pending');
  });

  it('lets the lease of a lost worker run out, though nobody asks', async () => {
    const id = queue.newQueue();
    const lost = await queue.worker(id, 'lost');
    await queue.json(id, '/api/jobs', { ...JOB, id: 'orphan' });
    const { fence_token } = await lost.job();
    const other = await queue.worker(id, 'other');
    lost.vanish();
    const job = await other.job();
    expect(job.job_id).toBe('orphan');
    expect(job.fence_token).toBeGreaterThan(fence_token);
  });

  it('keeps a file through a kill, and runs the batch in it', async () => {
    const id = queue.newQueue();
    const lines = ['a', 'b', 'c'].map((custom_id) =>
      JSON.stringify({ custom_id, method: 'POST', url: ENDPOINT, body: { ...CHAT, user: custom_id } }),
    );
    const form = new FormData();
    form.append('purpose', 'batch');
    form.append('file', new Blob([lines.join('\n')]), 'in.jsonl');
    const uploaded = await queue.ask(id, '/v1/files', { method: 'POST', body: form });
    const file = (await uploaded.json()) as { id: string };
    await queue.kill();
    await queue.start();
    expect(await (await queue.ask(id, `/v1/files/${file.id}/content`)).text()).toBe(lines.join('\n'));
    const asked = { input_file_id: file.id, endpoint: ENDPOINT, completion_window: '24h' };
    const batch = await queue.json(id, '/v1/batches', asked);
    const worker = await queue.worker(id, 'w', { capacity: 2 });
    const { stop } = answerLines(worker, (body) => ({ body: { said: body.user } }));
    const done = await until(async () => {
      const { status, output_file_id } = await queue.json(id, `/v1/batches/${batch.id}`);
      return status === 'completed' ? String(output_file_id) : null;
    }, 'the batch is complete');
    stop();
    const written = await (await queue.ask(id, `/v1/files/${done}/content`)).text();
    const said = written
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).response.body.said);
    expect(said.sort()).toEqual(['a', 'b', 'c']);
  });

  it('posts the end of a job, once it is stored', async () => {
    const id = queue.newQueue();
    const worker = await queue.worker(id);
    const webhook = `${receiver.url}/${queue.url.split(':').at(-1)}`;
    await queue.json(id, '/api/jobs', { ...JOB, id: 'told', webhook });
    worker.result(await worker.job());
    const post = await until(
      () => receiver.posts.find(({ path }) => path === new URL(webhook).pathname),
      'the receiver hears of it',
    );
    await queue.kill();
    await queue.start();
    expect(post.body).toMatchObject({ type: 'job.succeeded', data: { id: 'told' } });
    expect(await queue.json(id, '/api/jobs/told')).toMatchObject({ state: 'succeeded' });
  });

  it('shows a fleet to who watches it', async () => {
    const id = queue.newQueue();
    await queue.worker(id, 'seen');
    const address = `${queue.url.replace('http', 'ws')}/api/fleet/live?queue_id=${id}`;
    const socket = new WebSocket(address);
    const heard: string[] = [];
    socket.onmessage = ({ data }) => heard.push(String(data));
    await new Promise((open) => {
      socket.onopen = open;
    });
    socket.send(JSON.stringify({ type: 'watch' }));
    await until(() => heard.join('').includes('"seen"'), 'the worker is shown');
    socket.close();
  });
});
