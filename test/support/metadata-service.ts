import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A stand-in for the metadata service of a cloud, in the forms of its documentation: IMDSv2 of AWS with tokens, Google
 * Cloud's that answers when a value changes, Azure's scheduled events.
 */
export class MetadataService {
  readonly kind: 'aws' | 'google' | 'azure';
  /** The ids of the events that Azure's machine said may start. */
  readonly started: string[] = [];
  readonly #server: Server;
  #endsAt: number | null = null;
  #recommends = false;
  #tokens = new Set<string>();
  /** Answers that wait for a change, at Google Cloud. */
  #waiting: ServerResponse[] = [];

  static async start(kind: MetadataService['kind']): Promise<MetadataService> {
    const service = new MetadataService(kind);
    await new Promise<void>((listening) => service.#server.listen(0, '127.0.0.1', listening));
    return service;
  }

  private constructor(kind: MetadataService['kind']) {
    this.kind = kind;
    this.#server = createServer((request, response) => {
      if (kind === 'aws') this.#aws(request, response);
      else if (kind === 'google') this.#google(request, response);
      else void this.#azure(request, response);
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  giveNotice(seconds: number): void {
    this.#endsAt = Date.now() + seconds * 1000;
    this.#tellChange();
  }

  takeBack(): void {
    this.#endsAt = null;
    this.#tellChange();
  }

  recommend(): void {
    this.#recommends = true;
  }

  forgetTokens(): void {
    this.#tokens = new Set();
  }

  close(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((closed) => this.#server.close(() => closed()));
  }

  #aws({ method, url, headers }: IncomingMessage, response: ServerResponse): void {
    if (url === '/latest/api/token') {
      if (method !== 'PUT' || !headers['x-aws-ec2-metadata-token-ttl-seconds'])
        return end(response, method === 'PUT' ? 400 : 405);
      const token = randomBytes(24).toString('base64');
      this.#tokens.add(token);
      return end(response, 200, token);
    }
    if (!this.#tokens.has(String(headers['x-aws-ec2-metadata-token']))) return end(response, 401);
    if (url === '/latest/meta-data/spot/instance-action' && this.#endsAt !== null)
      return end(response, 200, JSON.stringify({ action: 'terminate', time: isoSeconds(this.#endsAt) }));
    if (url === '/latest/meta-data/events/recommendations/rebalance' && this.#recommends)
      return end(response, 200, JSON.stringify({ noticeTime: isoSeconds(Date.now()) }));
    return end(response, 404);
  }

  #google({ method, url = '', headers }: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(url, this.url);
    if (headers['metadata-flavor'] !== 'Google') return end(response, 403);
    if (pathname !== '/computeMetadata/v1/instance/preempted') return end(response, 404);
    if (method !== 'GET') return end(response, 405);
    const isNews = searchParams.get('last_etag') !== this.#etag;
    if (searchParams.get('wait_for_change') === 'true' && !isNews) this.#waiting.push(response);
    else this.#answerGoogle(response);
  }

  async #azure(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', this.url);
    if (request.headers.metadata !== 'true' || !searchParams.has('api-version')) return end(response, 400);
    if (pathname === '/metadata/instance/compute/name') return end(response, 200, 'gpu_1');
    if (pathname !== '/metadata/scheduledevents') return end(response, 404);
    if (request.method === 'POST') {
      let body = '';
      for await (const part of request) body += part;
      const { StartRequests: requests } = JSON.parse(body) as { StartRequests: { EventId: string }[] };
      this.started.push(...requests.map(({ EventId }) => EventId));
      return end(response, 200);
    }
    const event = {
      EventId: 'e1',
      EventType: 'Preempt',
      ResourceType: 'VirtualMachine',
      Resources: ['gpu_1'],
      EventStatus: 'Scheduled',
      NotBefore: new Date(this.#endsAt ?? 0).toUTCString(),
    };
    const events = this.#endsAt === null ? [] : [event];
    return end(response, 200, JSON.stringify({ DocumentIncarnation: events.length, Events: events }));
  }

  get #etag(): string {
    return this.#endsAt === null ? 'etag-false' : 'etag-true';
  }

  #answerGoogle(response: ServerResponse): void {
    response.setHeader('Metadata-Flavor', 'Google');
    response.setHeader('ETag', this.#etag);
    end(response, 200, this.#endsAt === null ? 'FALSE' : 'TRUE');
  }

  #tellChange(): void {
    for (const response of this.#waiting.splice(0)) this.#answerGoogle(response);
  }
}

function end(response: ServerResponse, status: number, text = ''): void {
  response.writeHead(status).end(text);
}

/** AWS' times have no fractions of a second. */
function isoSeconds(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}
