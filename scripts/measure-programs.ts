import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { startQueueProcess } from '../test/support/queue-process.ts';
import { closeRawWorkers, RawWorker } from '../test/support/raw-worker.ts';
import { commandLine, wholeFrom } from './command-line.ts';

/**
 * How long people wait beside programs: many job sockets submit at once, and meanwhile `/health` is asked and chats are
 * streamed, one after another, before and during that.
 */
const given = commandLine(
  'node scripts/measure-programs.ts',
  'measures how long people wait while many job sockets submit',
)
  .option('--sockets <count>', 'job sockets', wholeFrom(1), 200)
  .option('--jobs <count>', 'jobs of each', wholeFrom(1), 1000)
  .option('--load <url>', 'internal: the process that submits to this queue')
  .parse()
  .opts<{ sockets: number; jobs: number; load?: string }>();
const { sockets, jobs } = given;

if (given.load) await submitAll(given.load);
else await measure();

async function measure(): Promise<void> {
  const stateDir = await mkdtemp(join(tmpdir(), 'programs-'));
  const road = await startQueueProcess({ host: '127.0.0.1', port: 0, stateDir, bindings: {} });
  const live = await (await new RawWorker(road.url).connect()).register('live', {
    config_id: 'live',
    capacity: 8,
  });
  let isOver = false;
  const answering = answerChats(live, () => isOver);
  const idle = await watch(road.url, sleep(5000));
  console.log(`idle: ${idle}`);
  const began = performance.now();
  const load = spawn(process.execPath, [...process.argv.slice(1), '--load', road.url], { stdio: 'inherit' });
  const ended = new Promise((done) => load.once('exit', done));
  console.log(`busy: ${await watch(road.url, ended)}`);
  const seconds = (performance.now() - began) / 1000;
  console.log(
    `${sockets} × ${jobs} jobs in ${seconds.toFixed(1)} s, ${Math.round((sockets * jobs) / seconds)}/s`,
  );
  isOver = true;
  await answering;
  closeRawWorkers();
  await road.stop();
  await rm(stateDir, { recursive: true, force: true });
}

/** Asks until the time is over. @returns figures in words */
async function watch(url: string, over: Promise<unknown>): Promise<string> {
  let isOver = false;
  void over.then(() => {
    isOver = true;
  });
  const asking = [() => healthMs(url), () => firstTokenMs(url)].map(async (ask) => {
    const times: number[] = [];
    while (!isOver) {
      times.push(await ask());
      await sleep(100);
    }
    times.sort((a, b) => a - b);
    const at = (share: number) => Math.round(times[Math.floor((times.length - 1) * share)] ?? 0);
    return `${times.length} asked, median ${at(0.5)} ms, 95 of 100 ${at(0.95)} ms, slowest ${at(1)} ms`;
  });
  const [health, chat] = await Promise.all(asking);
  return `/health ${health}; first token ${chat}`;
}

async function healthMs(url: string): Promise<number> {
  const began = performance.now();
  await (await fetch(`${url}/health`)).text();
  return performance.now() - began;
}

async function firstTokenMs(url: string): Promise<number> {
  const began = performance.now();
  const body = { model: 'tiny', stream: true, messages: [{ role: 'user', content: 'Still there?' }] };
  const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(body) });
  let ms = Number.NaN;
  let text = '';
  for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += new TextDecoder().decode(piece);
    if (Number.isNaN(ms) && text.includes('data: {')) ms = performance.now() - began;
  }
  if (Number.isNaN(ms)) throw new Error(`no token: ${response.status} ${text}`);
  return ms;
}

/** A worker that gives each chat one token. */
async function answerChats(worker: RawWorker, isOver: () => boolean): Promise<void> {
  const data = new TextEncoder().encode(
    'data: {"choices":[{"delta":{"content":"yes"}}]}\n\ndata: [DONE]\n\n',
  );
  for (let index = 0; !isOver(); ) {
    const job = worker.frames.filter((frame) => frame.type === 'job')[index];
    if (!job) {
      await sleep(2);
      continue;
    }
    index += 1;
    const stream = job.stream_id as number;
    worker.answer(
      { type: 'head', stream, head: { status: 200, headers: { 'content-type': 'text/event-stream' } } },
      { type: 'bytes', stream, offset: 0, data },
      { type: 'end', stream, size: data.byteLength },
    );
    worker.send({ type: 'job_result', job_id: job.job_id, fence_token: job.fence_token, result: {} });
  }
}

/** Two workers that end each job at once, and the programs. */
async function submitAll(url: string): Promise<void> {
  await Promise.all([startWorker(url, 'a'), startWorker(url, 'b')]);
  await Promise.all(Array.from({ length: sockets }, (_, index) => program(url, index)));
  process.exit(0);
}

function program(url: string, index: number): Promise<void> {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/jobs/socket`, { perMessageDeflate: false });
  const waiting = new Set<string>();
  const payload = { messages: [{ role: 'user', content: 'x'.repeat(20) }] };
  const submission = (id: string) => ({ id, job_type: 'chat_completion', config_id: 'cfg', payload });
  return new Promise((resolve, reject) => {
    const submit = (ids: string[]) =>
      socket.send(JSON.stringify({ type: 'submit', jobs: ids.map(submission) }));
    socket.on('error', reject);
    socket.on('open', () => {
      for (let n = 0; n < jobs; n++) waiting.add(`p${index}.${n}`);
      submit([...waiting]);
    });
    socket.on('message', (data) => {
      const frame = JSON.parse(String(data));
      if (frame.type === 'error') return reject(new Error(JSON.stringify(frame)));
      if (frame.type === 'submitted') {
        const full = frame.answers.filter(({ error }: { error?: object }) => error);
        if (full.length > 0) setTimeout(() => submit(full.map(({ id }: { id: string }) => id)), 1000);
      }
      if (frame.type !== 'settled') return;
      for (const { id } of frame.jobs) waiting.delete(id);
      socket.send('{"type":"ack"}');
      if (waiting.size === 0) {
        socket.close();
        resolve();
      }
    });
  });
}

function startWorker(url: string, id: string): Promise<void> {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/ws?queue_id=vllm-queue`, {
    perMessageDeflate: false,
  });
  return new Promise((resolve) => {
    socket.on('open', () =>
      socket.send(
        JSON.stringify({
          type: 'register',
          worker_id: id,
          config_id: 'cfg',
          capacity: 32,
          protocol: 1,
          instance: { id, models: ['other'], boot_id: id },
        }),
      ),
    );
    socket.on('message', (data) => {
      const frames = [JSON.parse(String(data))].flat() as {
        type: string;
        job_id: string;
        fence_token: number;
      }[];
      if (frames.some(({ type }) => type === 'registered')) resolve();
      const ends = frames
        .filter(({ type }) => type === 'job')
        .map(({ job_id, fence_token }) => ({
          type: 'job_result',
          job_id,
          fence_token,
          result: { status: 'success', text: 'y' },
        }));
      if (ends.length > 0) socket.send(JSON.stringify(ends));
    });
  });
}
