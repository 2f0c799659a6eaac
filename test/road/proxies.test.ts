import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { until } from '../support/poll.ts';
import {
  FAR_HOST,
  makeCertificate,
  type RunningProxy,
  startNginx,
  startTinyproxy,
  whyNoProxies,
} from '../support/real-proxies.ts';
import {
  cli,
  type QueueProcess,
  readyWorker,
  startQueue,
  startWorker,
  stateFolder,
  tearDown,
} from '../support/road.ts';

/** Programs on a machine from which a proxy is the only way to the queue: they do not even know its address. */
const why = whyNoProxies();
if (why) console.warn(`test/road/proxies.test.ts is skipped: ${why}`);

const TOKEN = 'wv_through_proxies';
const PASSWORD = 'open-sesame';
let queue: QueueProcess;
let proxy: RunningProxy;
let far: string;

beforeAll(async () => {
  if (why) return;
  queue = await startQueue({ env: { QUEUE_TOKENS: `worker+submit+read+launcher+admin:${TOKEN}` } });
  proxy = await startTinyproxy(`me ${PASSWORD}`);
  far = `http://${FAR_HOST}:${queue.port}`;
});
afterAll(tearDown);

const through = (login: string) => ({
  HTTP_PROXY: `http://${login}@127.0.0.1:${proxy.port}`,
  CASOLA_API_TOKEN: TOKEN,
});
const ownWay = () => through(`me:${PASSWORD}`);
const onTheWay = {
  get env() {
    return {
      ...ownWay(),
      CASOLA_API_URL: far,
      CASOLA_LOGS_URL: `${far}/api/logs`,
      CASOLA_METRICS_URL: `${far}/api/metrics`,
      CASOLA_HEARTBEAT_INTERVAL: '1',
      CASOLA_LOG_FLUSH_INTERVAL: '1',
      CASOLA_MAX_JOBS: '4',
    };
  },
};
const asked = () => proxy.process.output();

async function readyThrough(id: string, env: NodeJS.ProcessEnv): Promise<ReturnType<typeof startWorker>> {
  const worker = await startWorker(far, id, { env, engineArgs: '--max-model-len 200000' });
  await worker.process.waitForLine(/taking jobs/);
  return worker;
}

describe.skipIf(why !== null)('through a proxy that asks for a password', () => {
  it('a worker takes jobs and sends heartbeats, log lines and metrics; its engine it asks directly', async () => {
    const worker = await readyThrough('far', onTheWay.env);
    const said = worker.process.output();
    expect(said).toContain(
      `the queue is reached through the proxy http://127.0.0.1:${proxy.port} (HTTP_PROXY)`,
    );
    // Larger than a frame may be: the worker fetches it.
    const file = join(stateFolder(), 'payload.json');
    writeFileSync(file, JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(400_000) }] }));
    const submitted = cli(['submit', '--url', far, '--file', file], ownWay());
    expect([(await submitted.exited).code, submitted.output()]).toEqual([EXIT.ok, expect.anything()]);
    for (const part of ['CONNECT', '/api/heartbeats', '/api/logs', '/api/metrics', '/api/jobs']) {
      await until(() => asked().includes(part), `the proxy is asked for ${part}`);
    }
    expect(asked()).not.toContain(`:${worker.enginePort}`);
    expect(said).not.toContain(PASSWORD);
  });

  it.each([
    ['batch', 'list'],
    ['top', '--json'],
    ['token', 'list'],
    ['fleet', 'status'],
  ])('%s %s asks the queue', async (...command) => {
    const process = cli([...command, '--url', far], ownWay());
    if (command[0] === 'top') await process.waitForLine(/"workers"/);
    else expect([(await process.exited).code, process.output()]).toEqual([EXIT.ok, expect.anything()]);
    await process.stop();
  });

  it('a launcher asks for orders', async () => {
    const launcher = cli(
      ['launcher', '--url', far, '--state', stateFolder(), '--id', 'far-launcher'],
      ownWay(),
    );
    await until(() => asked().includes('/api/launchers/far-launcher/sync'), 'the proxy passes its report on');
    await launcher.waitForLine(/through the proxy/);
    expect(launcher.output()).not.toContain(PASSWORD);
  });

  it('one that refuses is named, with what to do, and without the password', async () => {
    const wrong = through('me:forgotten');
    const worker = await startWorker(far, 'refused', { env: wrong });
    const line = await worker.process.waitForLine(/could not be opened/);
    expect(line).toContain('"level":"warn"');
    expect(line).toMatch(
      /the proxy http:\/\/127.0.0.1:\d+ \(HTTP_PROXY\) opens no way to queue.test:\d+: HTTP 40[17]/,
    );
    const submitted = cli(['submit', 'hello', '--url', far], wrong);
    expect((await submitted.exited).code).not.toBe(EXIT.ok);
    expect(submitted.output()).toMatch(/40[17]|Proxy Authentication/);
    expect(worker.process.output() + submitted.output()).not.toContain('forgotten');
  });
});

describe.skipIf(why !== null)('an encrypted queue whose certificate is its own', () => {
  let address: string;
  let certificate: string;
  beforeAll(async () => {
    const tls = makeCertificate();
    certificate = tls.certificate;
    const nginx = await startNginx(queue.port, tls);
    address = `https://${FAR_HOST}:${nginx.port}`;
  });
  const encrypted = () => ({ CASOLA_API_TOKEN: TOKEN, HTTPS_PROXY: ownWay().HTTP_PROXY, HTTP_PROXY: '' });

  it('is reached through HTTPS_PROXY, trusted by NODE_EXTRA_CA_CERTS', async () => {
    const env = { ...encrypted(), NODE_EXTRA_CA_CERTS: certificate };
    const worker = await startWorker(address, 'trusting', { env: { ...env, CASOLA_CONFIG_ID: 'tls' } });
    await worker.process.waitForLine(/taking jobs/);
    expect(worker.process.output()).toContain('(HTTPS_PROXY)');
    const submitted = cli(['submit', 'hello', '--config-id', 'tls', '--url', address], env);
    expect([(await submitted.exited).code, submitted.output()]).toEqual([EXIT.ok, expect.anything()]);
    await worker.process.stop();
  });

  it('is not reached without, and the advice is that variable', async () => {
    const env = { ...encrypted(), NODE_EXTRA_CA_CERTS: '' };
    const worker = await startWorker(address, 'doubting', { env });
    const line = await worker.process.waitForLine(/could not be opened/);
    const submitted = cli(['submit', 'hello', '--url', address], env);
    expect((await submitted.exited).code).not.toBe(EXIT.ok);
    for (const said of [line, submitted.output()]) {
      expect(said).toContain('self-signed certificate: set NODE_EXTRA_CA_CERTS');
      expect(said).not.toContain('--use-system-ca');
    }
    await worker.process.stop();
  });
});

describe.skipIf(why !== null)('a proxy is passed by', () => {
  it.each([
    ['for this machine', { http_proxy: 'http://127.0.0.1:9' }],
    ['for hosts of NO_PROXY', { http_proxy: 'http://127.0.0.1:9', no_proxy: '127.0.0.0/8,localhost' }],
  ])('%s', async (_what, env) => {
    const open = await startQueue();
    await readyWorker(open.url, 'near', { env: { ...env, CASOLA_API_TOKEN: '' } });
    const submitted = cli(['submit', 'hello', '--url', open.url], env);
    expect([(await submitted.exited).code, submitted.output()]).toEqual([EXIT.ok, expect.anything()]);
  });
});
