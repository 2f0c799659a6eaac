import { AppsV1Api, AuthorizationV1Api } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FleetView, JobView } from '../../src/protocol/index.ts';
import { isAlive } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import {
  api,
  config,
  giveGpus,
  isOurs,
  newNamespace,
  podsOf,
  removeNamespaces,
  SLOW,
  WORKER_IMAGE,
} from './cluster.ts';
import { Census, call } from './fleet.ts';
import { apply, makeSecret, makeVolume, objectsOf } from './manifests.ts';

const MINUTES = { ...SLOW, timeoutMs: 240_000 };
const APP = 'app.kubernetes.io/name';

/** Names of services lead to them only where somebody sees to that: in a cluster of ours this process does. */
describe.runIf(isOurs)('the manifests of deploy/kubernetes', () => {
  let namespace: string;
  let tokens: Record<string, string>;
  let url: string;
  let removeVolume = async () => {};

  beforeAll(async () => {
    namespace = await newNamespace();
    tokens = await makeSecret(namespace);
    removeVolume = await makeVolume(namespace);
    await giveGpus(1);
    await apply('queue.yaml', namespace);
    const { spec } = await api.readNamespacedService({ name: 'worker-vllm-queue', namespace });
    url = `http://${spec!.clusterIP}:${spec!.ports![0]!.port}`;
    await untilReady('worker-vllm-queue');
  });

  afterAll(async () => {
    await removeNamespaces();
    await removeVolume();
    await giveGpus(null);
  });

  /** A pod of the app passes its own probe. */
  async function untilReady(app: string): Promise<void> {
    await until(
      async () => {
        const { items } = await api.listNamespacedPod({ namespace, labelSelector: `${APP}=${app}` });
        return items.some(({ status }) => status?.containerStatuses?.[0]?.ready);
      },
      `a pod of ${app} is ready`,
      MINUTES,
    );
  }

  async function chat(): Promise<{ status: number; text: string }> {
    const headers = { authorization: `Bearer ${tokens.submit}` };
    const messages = [{ role: 'user', content: 'Say hello.' }];
    const body = JSON.stringify({ model: 'Qwen/Qwen3-0.6B', max_tokens: 20, stream: true, messages });
    const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
    return { status: response.status, text: await response.text() };
  }

  it('serve a request: queue and worker find each other by name, tokens come from the secret', async () => {
    await apply('worker.yaml', namespace);
    await untilReady('worker-vllm');
    await until(async () => (await chat()).status === 200, 'a request is answered', SLOW);
    const { status, text } = await chat();
    expect(status).toBe(200);
    expect(text).toContain('data: [DONE]');
    await expect(call(url, '/api/workers', undefined, tokens.submit)).rejects.toThrow(/^403/);
  }, 300_000);

  it('scale by what keda.yaml reads', async () => {
    const [authentication, scaled] = objectsOf('keda.yaml') as unknown as [
      {
        metadata: { name: string };
        spec: { secretTargetRef: { parameter: string; name: string; key: string }[] };
      },
      {
        spec: {
          scaleTargetRef: { name: string };
          triggers: { metadata: Record<string, string>; authenticationRef: { name: string } }[];
        };
      },
    ];
    const [trigger] = scaled.spec.triggers as [(typeof scaled.spec.triggers)[number]];
    expect(trigger.authenticationRef.name).toBe(authentication.metadata.name);
    // A token of the secret, for a name that leads to the queue; the answer has the number where KEDA looks for it.
    const { name, key } = authentication.spec.secretTargetRef[0]!;
    const secret = await api.readNamespacedSecret({ name, namespace });
    const token = Buffer.from(secret.data![key]!, 'base64').toString();
    const { host, pathname, search } = new URL(trigger.metadata.url!);
    expect(host).toBe('worker-vllm-queue:8788');
    const told = await call<Record<string, unknown>>(url, `${pathname}${search}`, undefined, token);
    expect(told[trigger.metadata.valueLocation!]).toBe(0);
    // What it scales is there, and can be.
    const apps = config.makeApiClient(AppsV1Api);
    const target = { name: scaled.spec.scaleTargetRef.name, namespace };
    expect((await apps.readNamespacedDeploymentScale(target)).spec?.replicas).toBe(1);
    await apps.patchNamespacedDeploymentScale({
      ...target,
      body: [{ op: 'replace', path: '/spec/replicas', value: 0 }],
    });
    await until(
      async () =>
        (await api.listNamespacedPod({ namespace, labelSelector: `${APP}=worker-vllm` })).items.length === 0,
      'the worker has ended',
      MINUTES,
    );
  }, 300_000);

  it('launch workers from inside, with the role of the launcher and no more', async () => {
    await apply('launcher.yaml', namespace);
    const may = async (verb: string, resource: string, inNamespace = namespace, subresource?: string) => {
      const resourceAttributes = {
        verb,
        resource,
        namespace: inNamespace,
        ...(subresource && { subresource }),
      };
      const user = `system:serviceaccount:${namespace}:worker-vllm-launcher`;
      const body = { spec: { user, resourceAttributes } };
      const { status } = await config.makeApiClient(AuthorizationV1Api).createSubjectAccessReview({ body });
      return status?.allowed;
    };
    for (const verb of ['create', 'get', 'list', 'delete']) expect(await may(verb, 'pods')).toBe(true);
    expect(await may('create', 'pods', 'default')).toBe(false);
    expect(await may('create', 'pods', namespace, 'exec')).toBe(false);
    expect(await may('get', 'secrets')).toBe(false);

    const env = {
      CASOLA_HEARTBEAT_INTERVAL: 2,
      CASOLA_SHUTDOWN_GRACE_PERIOD: 1,
      VLLM_EXTRA_ARGS: '--inter-token-latency-ms 20',
    };
    const spec = {
      providers: { pods: { driver: 'kubernetes' } },
      pools: {
        cfg: {
          engine: 'simulator',
          model: 'tiny',
          image: WORKER_IMAGE,
          slots: 2,
          max: 2,
          wanted_wait: 1,
          scale_down_after: '3s',
          keep_warm: '1s',
          env,
          machines: [{ provider: 'pods', gpus: 0 }],
        },
      },
    };
    await call(url, '/api/fleet/spec', { spec }, tokens.admin);
    const launches = async () => (await call<FleetView>(url, '/api/fleet', undefined, tokens.read)).launches;
    const census = new Census({ namespace, launches });
    const messages = [{ role: 'user', content: 'Tell me something.' }];
    const payload = { messages, max_tokens: 100, ignore_eos: true };
    const ids = Array.from({ length: 12 }, () => crypto.randomUUID());
    for (const id of ids) {
      const job = { id, job_type: 'chat_completion', config_id: 'cfg', payload };
      await call(url, '/api/jobs', job, tokens.submit);
    }
    const ready = async () => (await launches()).filter(({ state }) => state === 'ready').length;
    await until(async () => (await ready()) === 2, 'two are ready', MINUTES);
    await until(
      async () => (await launches()).every((launch) => !isAlive(launch)),
      'all have ended',
      MINUTES,
    );
    expect(await podsOf(namespace)).toEqual([]);
    await census.stop();
    expect(census.mostAtOnce).toBe(2);
    expect([...census.takenForGone]).toEqual([]);
    for (const id of ids) {
      const { state } = await call<JobView>(url, `/api/jobs/${id}`, undefined, tokens.submit);
      expect(state).toBe('succeeded');
    }
  }, 400_000);
});
