import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { FakeMachine, FakeProvider, MachineState } from './fake-provider.ts';

/** The part of the body for a new container that the fake reads. */
interface CreateBody {
  Image: string;
  Env?: string[];
  Labels?: Record<string, string>;
  HostConfig?: { DeviceRequests?: { DeviceIDs?: string[] }[] };
}

interface Call {
  query: URLSearchParams;
  body: string;
  /** The container's name or id from the path. */
  key: string;
  response: ServerResponse;
}

const STATUSES: Record<MachineState, string> = {
  starting: 'running',
  running: 'running',
  ended: 'exited',
  stopped: 'created',
  odd: 'frozen',
};
const NEVER = '0001-01-01T00:00:00Z';

/**
 * The Docker Engine's API over a socket, as far as the driver uses it: names are unique, an image must be there first,
 * and what is wrong with GPUs shows when a container is started, which then stays.
 */
export class FakeDockerEngine {
  readonly provider: FakeProvider;
  /** Images that need not be pulled. */
  readonly images = new Set<string>();
  /** What a pull does: it says so within a body of 200. */
  pullError: string | null = null;
  /** No pull ends until this settles. */
  pullTakes: Promise<void> = Promise.resolve();
  /** Containers that were asked to stop, with the seconds they had. */
  readonly stopped: { name: string; seconds: number }[] = [];
  readonly #started = new Set<string>();
  readonly #server: Server;

  /** @param provider with unique names */
  constructor(provider: FakeProvider) {
    this.provider = provider;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  /** @param path of the socket */
  listen(path: string): Promise<void> {
    return new Promise((done) => void this.#server.listen(path, done));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  bodyOf(machine: FakeMachine): CreateBody {
    return machine.request as CreateBody;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = '';
    for await (const piece of request) body += piece;
    const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://docker');
    if (this.provider.accidents.is_down) return void request.socket.destroy();
    const [, key = '', verb = ''] = /^\/containers\/([^/]+)(?:\/(\w+))?$/.exec(pathname) ?? [];
    const call = { query, body, key: decodeURIComponent(key), response };
    const route = `${request.method} ${pathname}`;
    if (route === 'POST /containers/create') return this.#create(call);
    if (route === 'GET /containers/json') return this.#list(call);
    if (route === 'POST /images/create') return await this.#pull(call);
    const machine = this.#find(call.key);
    if (!machine) return fail(response, 404, `No such container: ${call.key}`);
    if (request.method === 'DELETE') return this.#remove(call, machine);
    if (verb === 'start') return this.#start(call, machine);
    if (verb === 'stop') return this.#stop(call, machine);
    if (verb === 'json') return this.#inspect(call, machine);
    if (verb === 'logs') return this.#logs(call, machine);
    fail(response, 404, 'page not found');
  }

  #create({ query, body, response }: Call): void {
    const given: CreateBody = JSON.parse(body);
    if (!this.images.has(given.Image)) return fail(response, 404, `No such image: ${given.Image}`);
    const env = Object.fromEntries((given.Env ?? []).map(pairOf));
    const name = query.get('name') ?? '';
    const created = this.provider.create({ name, instance_type: 'local', env, request: given });
    switch (created.reply) {
      case 'created':
      case 'created_with_error':
        return answer(response, 201, { Id: created.machine.id, Warnings: [] });
      case 'name_taken': {
        const text = `Conflict. The container name "/${name}" is already in use by container "${created.machine.id}".`;
        return fail(response, 409, text);
      }
      default:
        return fail(response, 500, 'server error');
    }
  }

  #start({ response }: Call, machine: FakeMachine): void {
    if (machine.isStopped) {
      const text = 'could not select device driver "nvidia" with capabilities: [[gpu]]';
      return fail(response, 500, text);
    }
    const status = this.#started.has(machine.id) ? 304 : 204;
    this.#started.add(machine.id);
    response.writeHead(status).end();
  }

  #stop({ query, response }: Call, machine: FakeMachine): void {
    if (machine.ended || !this.#started.has(machine.id)) return void response.writeHead(304).end();
    this.stopped.push({ name: machine.name, seconds: Number(query.get('t')) });
    this.provider.end(machine, 0);
    response.writeHead(204).end();
  }

  #remove({ query, response }: Call, machine: FakeMachine): void {
    if (this.#statusOf(machine) === 'running' && !isTrue(query, 'force')) {
      const text = `You cannot remove a running container ${machine.id}. Stop the container before attempting removal or force remove`;
      return fail(response, 409, text);
    }
    if (this.provider.destroy(machine.id) === 'failed') {
      return fail(
        response,
        500,
        `container ${machine.id}: driver "overlay2" failed to remove root filesystem`,
      );
    }
    response.writeHead(204).end();
  }

  #list({ query, response }: Call): void {
    const wanted: string[] = JSON.parse(query.get('filters') ?? '{}').label ?? [];
    const found = this.provider.list().filter((machine) => {
      if (!isTrue(query, 'all') && this.#statusOf(machine) !== 'running') return false;
      const labels = this.bodyOf(machine).Labels ?? {};
      return wanted
        .map(pairOf)
        .every(([name, value]) => name in labels && (value === '' || labels[name] === value));
    });
    answer(
      response,
      200,
      found.map((machine) => ({
        Id: machine.id,
        Names: [`/${machine.name}`],
        Created: Math.floor(this.provider.timeOf(machine.createdAt) / 1000),
        State: this.#statusOf(machine),
        Labels: this.bodyOf(machine).Labels ?? {},
      })),
    );
  }

  #inspect({ response }: Call, machine: FakeMachine): void {
    const timeOf = (at: number) => new Date(this.provider.timeOf(at)).toISOString();
    answer(response, 200, {
      Id: machine.id,
      Name: `/${machine.name}`,
      Config: { Labels: this.bodyOf(machine).Labels ?? {} },
      State: {
        Status: this.#statusOf(machine),
        ExitCode: machine.ended?.exitCode ?? 0,
        OOMKilled: false,
        Error: '',
        StartedAt: this.#started.has(machine.id) ? timeOf(machine.createdAt) : NEVER,
        FinishedAt: machine.ended ? timeOf(machine.ended.at) : NEVER,
      },
    });
  }

  #logs({ query, response }: Call, { ended }: FakeMachine): void {
    if (!isTrue(query, 'stdout') && !isTrue(query, 'stderr')) {
      return fail(response, 400, 'Bad parameters: you must choose at least one stream');
    }
    const text = Buffer.from(`${ended?.detail ?? ''}\n`);
    const head = Buffer.alloc(8);
    head[0] = 1;
    head.writeUInt32BE(text.length, 4);
    response.writeHead(200, { 'content-type': 'application/vnd.docker.multiplexed-stream' });
    response.end(Buffer.concat([head, text]));
  }

  async #pull({ query, response }: Call): Promise<void> {
    response.writeHead(200, { 'content-type': 'application/json' });
    const tell = (step: object) => response.write(`${JSON.stringify(step)}\r\n`);
    const image = `${query.get('fromImage')}:${query.get('tag')}`;
    tell({ status: `Pulling from ${query.get('fromImage')}`, id: query.get('tag') });
    tell({ status: 'Downloading', progress: '[=====>      ]  4.2GB/10GB', id: 'abc' });
    await this.pullTakes;
    if (this.pullError) tell({ errorDetail: { message: this.pullError }, error: this.pullError });
    else {
      this.images.add(image);
      tell({ status: `Status: Downloaded newer image for ${image}` });
    }
    response.end();
  }

  #find(key: string): FakeMachine | undefined {
    return this.provider.alive.find(({ id, name }) => id === key || name === key);
  }

  #statusOf(machine: FakeMachine): string {
    const status = STATUSES[this.provider.stateOf(machine)];
    return status === 'running' && !this.#started.has(machine.id) ? 'created' : status;
  }
}

/** Reads a flag as the daemon does (`httputils.BoolValue`). */
function isTrue(query: URLSearchParams, name: string): boolean {
  return !['', '0', 'no', 'false', 'none'].includes((query.get(name) ?? '').trim().toLowerCase());
}

function pairOf(text: string): [string, string] {
  const at = text.indexOf('=');
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function fail(response: ServerResponse, status: number, message: string): void {
  answer(response, status, { message });
}
