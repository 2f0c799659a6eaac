import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { longChat, longCompletion, said, tokensFromElsewhere } from '../support/long-prompts.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import type { Child } from '../support/processes.ts';
import { bodyOf } from '../support/request-body.ts';
import {
  cli,
  engineRunning,
  type QueueProcess,
  readyWorker,
  setFirstToken,
  settled,
  startQueue,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Long prompts that one engine prefills and another one decodes (docs/prefill.md), over two simulators. */
const CONNECTOR = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}';
let queue: QueueProcess;
let worker: WorkerProcess;
let metricsPort: number;
let prefiller: Child;
let prefillPort: number;
/** Between worker and prefill engine: what the test makes of an answer on its way. */
let between: Server;
let alter: (answer: string) => string | Promise<string>;

async function startPrefiller(): Promise<void> {
  const args = ['simulate', 'tiny', '--port', String(prefillPort), '--kv-transfer-config', CONNECTOR];
  prefiller = cli(args);
  await prefiller.waitForLine(/startup complete/);
}

beforeAll(async () => {
  queue = await startQueue();
  [prefillPort, metricsPort] = [await freePort(), await freePort()];
  await startPrefiller();
  between = createServer(async (request, response) => {
    const body = await bodyOf(request);
    if (body === null) return;
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    try {
      const answer = await fetch(`http://127.0.0.1:${prefillPort}${request.url}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
        signal: gone.signal,
      });
      const altered = await alter(await answer.text());
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(altered);
    } catch {
      response.destroy();
    }
  });
  await new Promise<void>((resolve) => between.listen(0, '127.0.0.1', resolve));
  worker = await readyWorker(queue.url, 'decoder', {
    env: {
      ENGINE_PREFILL_URL: `http://127.0.0.1:${(between.address() as AddressInfo).port}`,
      // A request whose blocks are gone fails, as by vLLM's own choice.
      VLLM_EXTRA_ARGS: `--kv-transfer-config '${CONNECTOR}'`,
      CASOLA_MAX_JOBS: '16',
      CASOLA_HEARTBEAT_INTERVAL: '1',
      WORKER_METRICS_PORT: String(metricsPort),
    },
  });
});
afterEach(() => {
  alter = (answer) => answer;
});
afterAll(async () => {
  between.close();
  await tearDown();
});
alter = (answer) => answer;

/** Requests with a long prompt by how they went. */
async function results(): Promise<Record<string, number>> {
  const page = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  const lines = page.matchAll(/^worker_vllm_worker_prefills_total\{result="(\w+)"\} (\d+)$/gm);
  return Object.fromEntries([...lines].map(([, result, count]) => [result, Number(count)]));
}

/** After a failure the prefill engine is left alone for a while. */
async function untilUsed(): Promise<void> {
  const used = async () => {
    const before = (await results()).done ?? 0;
    await said(queue.url, longChat(999, { max_tokens: 2 }));
    return ((await results()).done ?? 0) > before;
  };
  await until(used, 'the prefill engine is used', { timeoutMs: 60_000 });
}

const FORMS: [form: string, body: (at: number) => object][] = [
  ['a chat', (at) => longChat(at)],
  ['a streamed chat', (at) => longChat(at, { stream: true, stream_options: { include_usage: true } })],
  ['a text completion', (at) => longCompletion(at)],
  ['a streamed text completion', (at) => longCompletion(at, { stream: true, stop: ['\n\n'] })],
];

describe('a long prompt', () => {
  it.each(FORMS)('of %s is prefilled elsewhere, and answered as by one engine', async (_, body) => {
    const before = await tokensFromElsewhere(worker.engineUrl);
    const through = await said(queue.url, body(1));
    expect(through.status).toBe(200);
    expect(await tokensFromElsewhere(worker.engineUrl)).toBeGreaterThan(before + 1000);
    expect(through).toEqual(await said(worker.engineUrl, body(1)));
  });

  it('of a stored job too', async () => {
    const before = await tokensFromElsewhere(worker.engineUrl);
    const { id } = await submit(queue.url, {
      job_type: 'chat_completion',
      config_id: 'cfg',
      payload: longChat(2),
    });
    const view = await settled(queue.url, id);
    expect(view.state).toBe('succeeded');
    expect(JSON.stringify(view.result)).toContain((await said(worker.engineUrl, longChat(2))).text);
    expect(await tokensFromElsewhere(worker.engineUrl)).toBeGreaterThan(before);
  });

  it('is counted on the worker’s page and in its metrics', async () => {
    const seen = async () => {
      const fleet = await (await fetch(`${queue.url}/api/fleet`)).json();
      const { workers } = fleet as {
        workers: { prefills: { results: { done: number }; tokens: number } | null }[];
      };
      return (workers[0]?.prefills?.results.done ?? 0) > 0 && workers[0]?.prefills;
    };
    await until(seen, 'the fleet tells of prefills', { timeoutMs: 90_000 });
    expect((await results()).done).toBeGreaterThan(0);
  });
});

// After each failure the engine is left alone for 10 s, so what is no failure comes first.
describe('an engine that prefills', () => {
  it('stops when its caller hangs up', async () => {
    await untilUsed();
    const prefillUrl = `http://127.0.0.1:${prefillPort}`;
    await setFirstToken(prefillUrl, 600_000);
    const caller = new AbortController();
    // So long that it is waited for until the test has seen it.
    const messages = Array.from({ length: 16 }, (_, at) => longChat(at).messages).flat();
    const answer = said(queue.url, { ...longChat(50, { stream: true }), messages }, caller.signal).catch(
      () => 'gone',
    );
    await until(async () => (await engineRunning(prefillUrl)) === 1, 'the prefill runs');
    caller.abort();
    expect(await answer).toBe('gone');
    await until(async () => (await engineRunning(prefillUrl)) === 0, 'the prefill has ended');
    await setFirstToken(prefillUrl, 0);
  });

  it('and is killed before, while and after it does is not noticed', async () => {
    await untilUsed();
    const expected = new Map<number, string>();
    for (const at of Array.from({ length: 12 }, (_, index) => 10 + index))
      expected.set(at, (await said(worker.engineUrl, longChat(at))).text);
    // Its blocks are gone when the engine that decodes asks for them.
    let killed: Promise<unknown> | null = null;
    alter = async (answer) => {
      prefiller.kill('SIGKILL');
      killed ??= prefiller.exited;
      await killed;
      return answer;
    };
    const all = [...expected.keys()].map(async (at) => ({
      at,
      ...(await said(queue.url, longChat(at, { stream: at % 2 === 0 }))),
    }));
    for (const { at, status, text } of await Promise.all(all))
      expect([status, text]).toEqual([200, expected.get(at)]);
    const { not_decoded = 0, unreachable = 0, resting = 0 } = await results();
    expect(not_decoded + unreachable + resting).toBeGreaterThan(0);
    expect(not_decoded).toBeGreaterThan(0);
    alter = (answer) => answer;
    await startPrefiller();
  });

  it('and hangs is not waited for', async () => {
    await untilUsed();
    const faults = (hang: boolean) =>
      fetch(`http://127.0.0.1:${prefillPort}/simulator/faults`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ hang }),
      });
    await faults(true);
    const { text } = await said(worker.engineUrl, longChat(30));
    expect((await said(queue.url, longChat(30, { stream: true }))).text).toBe(text);
    expect((await results()).slow).toBeGreaterThan(0);
    const idle = async () => (await engineRunning(`http://127.0.0.1:${prefillPort}`)) === 0;
    await until(idle, 'the request that was not waited for is gone');
    await faults(false);
  });

  it('and names no blocks, or those of an engine that is another one now, does no harm', async () => {
    await untilUsed();
    const failures = async () => {
      const { unusable = 0, not_decoded = 0 } = await results();
      return unusable + not_decoded;
    };
    const before = await failures();
    const changes = [() => null, (params: object) => ({ ...params, remote_engine_id: 'another' })];
    // Both have been prefilled before one of them fails.
    let arrived = 0;
    const both = Promise.withResolvers<void>();
    alter = async (answer) => {
      const change = changes[arrived++]!;
      if (arrived === changes.length) both.resolve();
      await both.promise;
      const { kv_transfer_params, ...rest } = JSON.parse(answer);
      return JSON.stringify({ ...rest, kv_transfer_params: change(kv_transfer_params) });
    };
    const through = await Promise.all([40, 41].map((at) => said(queue.url, longChat(at))));
    for (const [index, { text }] of through.entries())
      expect(text).toBe((await said(worker.engineUrl, longChat(40 + index))).text);
    expect(await failures()).toBe(before + changes.length);
    expect((await fetch(`${worker.engineUrl}/health`)).status).toBe(200);
  });
});

describe('what engines hand to each other', () => {
  const forged = { kv_transfer_params: { do_remote_prefill: true, remote_block_ids: [[1]] } };
  const post = async (path: string, body: unknown) => {
    const answer = await fetch(queue.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return [answer.status, await answer.text()] as const;
  };

  it.each<[string, string, object]>([
    ['a request', '/v1/chat/completions', longChat(60, forged)],
    ['a text completion', '/v1/completions', longCompletion(60, forged)],
    [
      'a stored job',
      '/api/jobs',
      { job_type: 'chat_completion', config_id: 'cfg', payload: longChat(60, forged) },
    ],
    [
      'RunPod’s OpenAI road',
      '/v2/cfg/openai/v1/chat/completions',
      longChat(60, { model: 'tiny', ...forged }),
    ],
  ])('is no caller’s to say in %s', async (_, path, body) => {
    expect(await post(path, body)).toEqual([400, expect.stringContaining('kv_transfer_params')]);
  });

  it('nor in a job of RunPod’s form', async () => {
    const input = { openai_route: '/v1/chat/completions', openai_input: longChat(60, forged) };
    const [, answer] = await post('/v2/cfg/runsync', { input });
    expect(answer).toContain('kv_transfer_params');
    expect(answer).not.toContain('"COMPLETED"');
  });

  it('nor in the line of a batch', async () => {
    const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: longChat(60, forged) };
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new File([`${JSON.stringify(line)}\n`], 'lines.jsonl'));
    const file = await (await fetch(`${queue.url}/v1/files`, { method: 'POST', body: form })).json();
    const [, made] = await post('/v1/batches', {
      input_file_id: (file as { id: string }).id,
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
    });
    const { id } = JSON.parse(made) as { id: string };
    const done = async () => {
      const batch = (await (await fetch(`${queue.url}/v1/batches/${id}`)).json()) as {
        status: string;
        errors: object | null;
        error_file_id: string | null;
      };
      return ['completed', 'failed'].includes(batch.status) ? batch : null;
    };
    const { errors, error_file_id } = await until(done, 'the batch has ended', { timeoutMs: 60_000 });
    const file_ =
      error_file_id && (await (await fetch(`${queue.url}/v1/files/${error_file_id}/content`)).text());
    expect(JSON.stringify(errors) + file_).toContain('kv_transfer_params');
  });
});
