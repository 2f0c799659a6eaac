import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as z from 'zod';
import { bodyOf } from '../request-body.ts';
import type { FakeMachine, FakeProvider } from './fake-provider.ts';

const NewPod = z.object({
  metadata: z.object({
    name: z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'a lowercase RFC 1123 label'),
    labels: z.record(z.string(), z.string().max(63)).default({}),
  }),
  spec: z.looseObject({
    terminationGracePeriodSeconds: z.number().int().min(0).default(30),
    containers: z
      .array(
        z.looseObject({
          name: z.string(),
          image: z.string().min(1),
          env: z.array(z.object({ name: z.string(), value: z.string() })).default([]),
        }),
      )
      .min(1),
  }),
});
type NewPod = z.output<typeof NewPod>;

const REASONS: Record<number, string> = {
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  409: 'AlreadyExists',
  410: 'Expired',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
};

interface Request {
  method: string;
  url: URL;
  body: unknown;
}

interface Reply {
  status: number;
  body: object;
}

/** Stands in for the API server of Kubernetes and the nodes behind it, as far as pods of one namespace go. */
export class FakeKubernetes {
  /** The scheduler's message about every pod that has not started; null: there is room. */
  unschedulable: string | null = null;
  /** The reason for which every container that has not started waits. */
  waiting = { reason: 'ContainerCreating', message: '' };
  /** The most that a page of a list holds. */
  page = 20;
  /** From a pod's delete until its containers have ended, ms; infinite: its node is lost. */
  endsAfterMs = 1000;
  /** Lists to come whose second page is asked for too late. */
  oldPages = 0;
  readonly #provider: FakeProvider;
  readonly #namespace: string;
  readonly #token: string;
  readonly #server: Server;

  /** @param provider with unique names */
  constructor(provider: FakeProvider, { namespace, token }: { namespace: string; token: string }) {
    this.#provider = provider;
    this.#namespace = namespace;
    this.#token = token;
    this.#server = createServer(async (request, response) => {
      const sent = await bodyOf(request);
      if (sent === null) return;
      if (this.#provider.accidents.is_down) return request.socket.destroy();
      const url = new URL(request.url!, 'http://localhost');
      const isKnown = request.headers.authorization === `Bearer ${this.#token}`;
      const { status, body } = isKnown
        ? this.#answer({ method: request.method!, url, body: sent ? JSON.parse(sent) : {} })
        : refusal(401, 'Unauthorized');
      const headers: Record<string, string> = { 'content-type': 'application/json' };
      if (status === 429) headers['retry-after'] = '1';
      response.writeHead(status, headers).end(JSON.stringify(body));
    });
  }

  /** @returns its address */
  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer({ method, url, body }: Request): Reply {
    const [, namespace, name] =
      /^\/api\/v1\/namespaces\/([^/]+)\/pods(?:\/([^/]+))?$/.exec(url.pathname) ?? [];
    const fault = this.#provider.faultOf(`${method} ${name ? 'pod' : 'pods'}`);
    if (fault) return refusal(429, 'Too many requests, please try again later.');
    if (!namespace) return refusal(404, 'the server could not find the requested resource');
    if (method === 'POST') return this.#create(namespace, body);
    if (namespace !== this.#namespace) return name ? notFound(name) : podList([]);
    if (!name) return this.#list(url.searchParams);
    const machine = this.#provider.alive.find((one) => one.name === name);
    if (!machine) return notFound(name);
    return method === 'DELETE' ? this.#delete(machine, body) : { status: 200, body: this.#pod(machine) };
  }

  #create(namespace: string, body: unknown): Reply {
    if (namespace !== this.#namespace) return refusal(404, `namespaces "${namespace}" not found`);
    const pod = NewPod.safeParse(body);
    if (!pod.success)
      return refusal(422, `Pod is invalid: ${pod.error.issues.map(({ message }) => message)}`);
    const { metadata, spec } = pod.data;
    const env = Object.fromEntries(spec.containers[0]!.env.map(({ name, value }) => [name, value]));
    const created = this.#provider.create({
      name: metadata.name,
      instance_type: 'pod',
      env,
      request: pod.data,
    });
    switch (created.reply) {
      case 'created':
        return { status: 201, body: this.#pod(created.machine) };
      case 'name_taken':
        return refusal(409, `pods "${metadata.name}" already exists`);
      case 'no_capacity':
      case 'no_money':
        return refusal(
          403,
          `pods "${metadata.name}" is forbidden: exceeded quota: gpus, used: 8, limited: 8`,
        );
      case 'failed':
      case 'created_with_error':
        return refusal(500, 'etcdserver: request timed out');
    }
  }

  #list(query: URLSearchParams): Reply {
    const [label = '', value] = (query.get('labelSelector') ?? '').split('=');
    const after = Number(query.get('continue') ?? 0);
    if (after > 0 && this.oldPages > 0) {
      this.oldPages--;
      const message = 'The provided continue parameter is too old to display a consistent list result.';
      return refusal(410, message);
    }
    const found = this.#provider
      .list()
      .filter(({ request }) => label === '' || (request as NewPod).metadata.labels[label] === value);
    const end = after + Math.min(this.page, Number(query.get('limit')) || this.page);
    const items = found.slice(after, end).map((machine) => this.#pod(machine));
    return podList(items, end < found.length ? String(end) : undefined);
  }

  #delete(machine: FakeMachine, body: unknown): Reply {
    const wanted = (body as { preconditions?: { uid?: string } }).preconditions?.uid;
    if (wanted !== undefined && wanted !== machine.id) {
      const message = `the UID in the precondition (${wanted}) does not match the UID in record (${machine.id})`;
      return refusal(409, message, 'Conflict');
    }
    // Nothing runs that would have to end first.
    const state = this.#provider.stateOf(machine);
    const isPlaced = state !== 'ended' && !(state === 'starting' && this.unschedulable !== null);
    const reply = this.#provider.destroy(machine.id, isPlaced ? this.endsAfterMs : 0);
    if (reply === 'failed') return refusal(500, 'etcdserver: request timed out');
    return { status: 200, body: this.#pod(machine) };
  }

  #pod(machine: FakeMachine): object {
    const { metadata, spec } = machine.request as NewPod;
    const grace = spec.terminationGracePeriodSeconds;
    const deletion = machine.leaving && {
      deletionTimestamp: this.#time(machine.leaving.since + 1000 * grace),
      deletionGracePeriodSeconds: grace,
    };
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        ...metadata,
        ...deletion,
        namespace: this.#namespace,
        uid: machine.id,
        creationTimestamp: this.#time(machine.createdAt),
      },
      spec,
      status: this.#status(machine),
    };
  }

  #status(machine: FakeMachine): object {
    const [{ name } = { name: '' }, ...beside] = (machine.request as NewPod).spec.containers;
    const container = (state: object) => [{ name, state, ready: false, restartCount: 0 }];
    const startedAt = this.#time(machine.startedAt);
    switch (this.#provider.stateOf(machine)) {
      case 'starting':
      case 'stopped': {
        if (this.unschedulable === null) {
          return { phase: 'Pending', containerStatuses: container({ waiting: this.waiting }) };
        }
        const lastTransitionTime = this.#time(machine.createdAt);
        const condition = {
          type: 'PodScheduled',
          status: 'False',
          reason: 'Unschedulable',
          lastTransitionTime,
        };
        return { phase: 'Pending', conditions: [{ ...condition, message: this.unschedulable }] };
      }
      case 'running':
        return { phase: 'Running', containerStatuses: container({ running: { startedAt } }) };
      case 'ended': {
        const { at, exitCode, detail } = machine.ended!;
        const reason = exitCode === 0 ? 'Completed' : 'Error';
        const terminated = { exitCode, reason, message: detail, startedAt, finishedAt: this.#time(at) };
        // The pod runs as long as another of its containers does.
        const over = exitCode === 0 ? 'Succeeded' : 'Failed';
        const phase = beside.length > 0 ? 'Running' : over;
        return { phase, containerStatuses: container({ terminated }) };
      }
      case 'odd':
        return { phase: 'Hibernating' };
    }
  }

  /** To the second, as the API server has it. */
  #time(at: number): string | undefined {
    if (!Number.isFinite(at)) return undefined;
    return new Date(this.#provider.timeOf(at)).toISOString().replace(/\.\d+Z$/, 'Z');
  }
}

function podList(items: object[], next?: string): Reply {
  const metadata = { resourceVersion: '1', ...(next ? { continue: next } : {}) };
  return { status: 200, body: { apiVersion: 'v1', kind: 'PodList', metadata, items } };
}

function notFound(name: string): Reply {
  return refusal(404, `pods "${name}" not found`);
}

function refusal(code: number, message: string, reason = REASONS[code]): Reply {
  return {
    status: code,
    body: { apiVersion: 'v1', kind: 'Status', metadata: {}, status: 'Failure', message, reason, code },
  };
}
