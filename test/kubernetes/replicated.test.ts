import { execFileSync } from 'node:child_process';
import { connect, createServer, type Server } from 'node:net';
import { AppsV1Api, type V1Pod } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import {
  api,
  config,
  giveGpus,
  HOST_ADDRESS,
  isOurs,
  newNamespace,
  removeNamespaces,
  SLOW,
} from './cluster.ts';
import { call } from './fleet.ts';
import { apply, makeSecret, makeVolume } from './manifests.ts';

/** deploy/kubernetes/replicated: two pods of the queue over a journal in Postgres, and gateways before them. */

const MINUTES = { ...SLOW, timeoutMs: 240_000 };
const MODEL = 'Qwen/Qwen3-0.6B';
/** The tokens of an answer that takes 15 s. */
const LONG = 300;

describe.runIf(isOurs)('a queue of two pods, with gateways', () => {
  let namespace: string;
  let tokens: Record<string, string>;
  let url: string;
  let postgres: PostgresServer;
  let door: Server;
  /** The id of what was stored while the queue was one pod. */
  let conversation: string;
  const removals: (() => Promise<void>)[] = [];

  beforeAll(async () => {
    postgres = await PostgresServer.make();
    door = await openDoor(postgres.port);
    const { port } = door.address() as { port: number };
    namespace = await newNamespace();
    tokens = await makeSecret(namespace, { journal: `postgres://postgres@${HOST_ADDRESS}:${port}/postgres` });
    for (const pod of [0, 1]) removals.push(await makeVolume(namespace, `worker-vllm-queue-${pod}`));
    await giveGpus(1);
    conversation = await leaveOnePod();
    await apply('replicated/queue.yaml', namespace);
    await apply('replicated/gateway.yaml', namespace);
    await apply('worker.yaml', namespace, { VLLM_EXTRA_ARGS: '--inter-token-latency-ms 50' });
    url = await addressOf();
    await untilReady('worker-vllm-queue', 2);
    await untilReady('worker-vllm-gateway', 2);
    await untilReady('worker-vllm', 1);
    await until(async () => (await chat(1)).isWhole, 'a request is answered', MINUTES);
  }, 600_000);

  afterAll(async () => {
    await removeNamespaces();
    for (const remove of removals) await remove();
    await giveGpus(null);
    door.close();
    await postgres.remove();
  });

  /** Runs the queue as one pod, stores something, and ends it as the head of replicated/queue.yaml says. */
  async function leaveOnePod(): Promise<string> {
    const name = 'worker-vllm-queue';
    await apply('queue.yaml', namespace);
    await untilReady(name, 1);
    const one = await addressOf();
    // The Service leads to the pod a moment after it is ready.
    const { id } = await until(
      () => call<{ id: string }>(one, '/v1/conversations', {}, tokens.submit).catch(() => null),
      'something is stored',
      SLOW,
    );
    await config.makeApiClient(AppsV1Api).deleteNamespacedStatefulSet({ name, namespace });
    await api.deleteNamespacedService({ name, namespace });
    await until(async () => (await podsOf(name)).length === 0, 'the pod has ended', MINUTES);
    return id;
  }

  /** The address of the Service that callers use. */
  async function addressOf(): Promise<string> {
    const { spec } = await api.readNamespacedService({ name: 'worker-vllm-queue', namespace });
    return `http://${spec!.clusterIP}:${spec!.ports![0]!.port}`;
  }

  async function podsOf(app: string): Promise<V1Pod[]> {
    const labelSelector = `app.kubernetes.io/name=${app}`;
    return (await api.listNamespacedPod({ namespace, labelSelector })).items;
  }

  const isReady = ({ metadata, status }: V1Pod) =>
    metadata?.deletionTimestamp === undefined && status?.containerStatuses?.[0]?.ready === true;

  async function untilReady(app: string, count: number): Promise<void> {
    const ready = async () => (await podsOf(app)).filter(isReady).length === count;
    await until(ready, `${count} pods of ${app} are ready`, MINUTES);
  }

  /** A streamed answer, read to its end. */
  async function chat(tokenCount: number): Promise<{ status: number; isWhole: boolean; tokens: number }> {
    const headers = { authorization: `Bearer ${tokens.submit}` };
    const messages = [{ role: 'user', content: 'Say hello.' }];
    const asked = { model: MODEL, max_tokens: tokenCount, ignore_eos: true, stream: true, messages };
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers,
      body: JSON.stringify(asked),
    });
    const events = (await response.text()).split('\n\n').filter((event) => event.startsWith('data: '));
    const isWhole = events.pop() === 'data: [DONE]';
    const said = events.filter((event) => JSON.parse(event.slice('data: '.length)).choices[0]?.delta.content);
    return { status: response.status, isWhole, tokens: said.length };
  }

  async function submit(count: number): Promise<string[]> {
    const payload = { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2 };
    const job = { job_type: 'chat_completion', config_id: 'default', payload };
    const stored = await Promise.all(
      Array.from({ length: count }, () => call<JobView>(url, '/api/jobs', job, tokens.submit)),
    );
    return stored.map(({ id }) => id);
  }

  async function untilDone(ids: string[]): Promise<void> {
    for (const id of ids) {
      const isDone = async () =>
        (await call<JobView>(url, `/api/jobs/${id}?wait=10`, undefined, tokens.submit)).state === 'succeeded';
      await until(isDone, `job ${id} succeeded`, MINUTES);
    }
  }

  /** The pod of the queue that is the owner: a follower says that it is one. */
  async function owner(): Promise<V1Pod> {
    return await until(
      async () => {
        const pods = (await podsOf('worker-vllm-queue')).filter(isReady);
        const roles = await Promise.all(
          pods.map(async ({ status }) => {
            // One that stands still counts as ready for some seconds more, and answers nobody.
            const signal = AbortSignal.timeout(10_000);
            const response = await fetch(`http://${status!.podIP}:8788/health`, { signal });
            return ((await response.json()) as { role?: string }).role;
          }),
        );
        return pods.find((_, index) => roles[index] !== 'follower');
      },
      'one of the pods is the owner',
      MINUTES,
    );
  }

  /** Does something to the owner while answers are streamed and jobs are stored: callers notice nothing. */
  async function harm(harmed: (pod: V1Pod) => Promise<void>): Promise<void> {
    const pod = await owner();
    const stored = await submit(20);
    const streams = Array.from({ length: 8 }, () => chat(LONG));
    await until(
      async () => (await call<{ running: number }>(url, '/health', undefined, tokens.read)).running >= 8,
      'the streams run',
      SLOW,
    );
    stored.push(...(await submit(20)));
    const asked = harmed(pod).then(() => chat(5));
    for (const stream of streams) expect(await stream).toEqual({ status: 200, tokens: LONG, isWhole: true });
    expect(await asked).toEqual({ status: 200, tokens: 5, isWhole: true });
    await untilDone([...stored, ...(await submit(5))]);
  }

  it('has what was stored while the queue was one pod', async () => {
    const found = await call(url, `/v1/conversations/${conversation}`, undefined, tokens.submit);
    expect(found).toMatchObject({ id: conversation });
  });

  it('loses no stream and no job that was acknowledged when the owner is killed', async () => {
    await harm(async (pod) => signal(pod, 'KILL'));
    await untilReady('worker-vllm-queue', 2);
  }, 600_000);

  it('nor when the owner stands still: the other pod takes over, and it follows when it goes on', async () => {
    let stopped: V1Pod | undefined;
    await harm(async (pod) => {
      signal(pod, 'STOP');
      stopped = pod;
    });
    const { metadata } = await owner();
    expect(metadata!.name).not.toBe(stopped!.metadata!.name);
    try {
      signal(stopped!, 'CONT');
    } catch {
      // A container that stood still for a minute has been ended by its node.
    }
    await until(
      async () => (await podsOf('worker-vllm-queue')).every((pod) => isReady(pod) && !isSame(pod, stopped!)),
      'it has been started again, and follows',
      MINUTES,
    );
    expect((await owner()).metadata!.name).toBe(metadata!.name);
  }, 600_000);

  it('lets streams end, and answers what comes, while all gateways are replaced', async () => {
    const old = (await podsOf('worker-vllm-gateway')).map(({ metadata }) => metadata!.name);
    let areOver = false;
    const streams = Promise.all(Array.from({ length: 8 }, () => chat(3 * LONG))).finally(() => {
      areOver = true;
    });
    const body = [
      { op: 'add', path: '/spec/template/metadata/annotations', value: { 'test/restarted': 'once' } },
    ];
    const apps = config.makeApiClient(AppsV1Api);
    await apps.patchNamespacedDeployment({ name: 'worker-vllm-gateway', namespace, body });
    const statuses = new Set<number>();
    let hasEndedUnderStreams = false;
    await until(
      async () => {
        // As clients do, it asks once more where its connection was just being closed.
        statuses.add((await chat(1).catch(() => chat(1))).status);
        const left = (await podsOf('worker-vllm-gateway')).filter(({ metadata }) =>
          old.includes(metadata!.name),
        );
        const isEnding = left.length < old.length || left.some(({ metadata }) => metadata!.deletionTimestamp);
        hasEndedUnderStreams ||= isEnding && !areOver;
        return left.length === 0;
      },
      'the old gateways have ended',
      MINUTES,
    );
    for (const stream of await streams)
      expect(stream).toEqual({ status: 200, tokens: 3 * LONG, isWhole: true });
    expect([...statuses]).toEqual([200]);
    expect(hasEndedUnderStreams).toBe(true);
  }, 600_000);
});

/** Sends a signal to the process of a pod, as the kernel or an operator of its node might. */
function signal(pod: V1Pod, name: 'KILL' | 'STOP' | 'CONT'): void {
  execFileSync('docker', ['kill', '--signal', name, containerOf(pod)], { stdio: 'ignore' });
}

/** The id of its container, another one after each start. */
function containerOf({ status }: V1Pod): string {
  return status!.containerStatuses![0]!.containerID!.replace(/^.*\/\//, '');
}

function isSame(one: V1Pod, other: V1Pod): boolean {
  return containerOf(one) === containerOf(other);
}

/** Lets pods reach a server that listens at this machine only. */
async function openDoor(port: number): Promise<Server> {
  const server = createServer((from) => {
    const to = connect({ host: '127.0.0.1', port });
    from.on('error', () => to.destroy()).pipe(to);
    to.on('error', () => from.destroy()).pipe(from);
  });
  await new Promise<void>((done) => server.listen(0, HOST_ADDRESS, done));
  return server;
}
