import { execFileSync } from 'node:child_process';
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { connect, createServer, type Server } from 'node:net';
import { CoreV1Api, type KubeConfig, type V1Endpoints, type V1Service } from '@kubernetes/client-node';

/** How often it looks which services there are, ms. */
const EVERY_MS = 500;
const NAME_ERROR = 3;

/**
 * Services of a cluster of ours and their names, without the firewall rules of kube-proxy: each service's address is one
 * of this machine's, on the bridge of the pods, and connections to it are passed on to a pod that is ready. What pods
 * ask of names is answered with these addresses and nothing else.
 */
export class Services {
  readonly #api: CoreV1Api;
  readonly #bridge: string;
  readonly #names: UdpSocket;
  readonly #open = new Map<string, Server>();
  readonly #addresses = new Set<string>();
  #services: V1Service[] = [];
  #endpoints: V1Endpoints[] = [];
  #isClosed = false;
  #round: Promise<void>;

  /** @param address of the bridge, where pods reach this machine */
  constructor(config: KubeConfig, address: string) {
    this.#api = config.makeApiClient(CoreV1Api);
    const line = execFileSync('ip', ['-4', '-o', 'addr', 'show', 'to', `${address}/32`], {
      encoding: 'utf8',
    });
    this.#bridge = line.split(/\s+/)[1]!;
    this.#names = createSocket('udp4', (query, from) => {
      const answer = this.#answer(query);
      if (answer) this.#names.send(answer, from.port, from.address);
    });
    this.#names.bind(53, address);
    this.#round = this.#follow();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#round;
    this.#names.close();
    for (const server of this.#open.values()) server.close();
  }

  async #follow(): Promise<void> {
    while (!this.#isClosed) {
      await this.#look().catch(() => {
        // The API server is not there for a while: everything stays as it is.
      });
      await new Promise((done) => setTimeout(done, EVERY_MS));
    }
  }

  async #look(): Promise<void> {
    const [services, endpoints] = await Promise.all([
      this.#api.listServiceForAllNamespaces(),
      this.#api.listEndpointsForAllNamespaces(),
    ]);
    this.#services = services.items;
    this.#endpoints = endpoints.items;
    const wanted = new Set(this.#services.flatMap(portsOf).map(({ key }) => key));
    for (const [key, server] of this.#open) {
      if (wanted.has(key)) continue;
      server.close();
      this.#open.delete(key);
    }
    for (const { key, ip, port } of this.#services.flatMap(portsOf)) {
      if (!this.#open.has(key)) this.#open.set(key, this.#listen(key, ip, port));
    }
  }

  #listen(key: string, ip: string, port: number): Server {
    if (!this.#addresses.has(ip)) execFileSync('ip', ['addr', 'replace', `${ip}/32`, 'dev', this.#bridge]);
    this.#addresses.add(ip);
    const server = createServer({ allowHalfOpen: true }, (from) => {
      const [host, target] = this.#targetOf(key) ?? [];
      if (!host || !target) return void from.destroy();
      const to = connect({ host, port: target, allowHalfOpen: true });
      for (const [one, other] of [
        [from, to],
        [to, from],
      ] as const) {
        one.pipe(other);
        one.on('error', () => other.destroy());
        one.on('close', () => other.destroySoon());
      }
    });
    server.on('error', (error) => {
      process.stderr.write(`service ${key}: ${error.message}\n`);
      this.#open.delete(key);
    });
    return server.listen(port, ip);
  }

  /** One of the pods that are ready. */
  #targetOf(key: string): [string, number] | null {
    const service = this.#services.find((one) => portsOf(one).some((port) => port.key === key));
    const name = service && portsOf(service).find((port) => port.key === key)?.name;
    const targets = this.#endpoints
      .filter(({ metadata }) => isSame(metadata, service?.metadata))
      .flatMap(({ subsets = [] }) => subsets)
      .flatMap(({ addresses = [], ports = [] }) => {
        const port = ports.find((one) => (one.name ?? '') === name);
        return port ? addresses.map(({ ip }): [string, number] => [ip, port.port]) : [];
      });
    return targets[Math.floor(Math.random() * targets.length)] ?? null;
  }

  /** Returns the address that a name stands for: a service's own, or that of one pod of a headless service. */
  #addressOf(name: string): string | undefined {
    for (const { metadata, spec } of this.#services) {
      const known = `${metadata?.name}.${metadata?.namespace}.svc.cluster.local`;
      if (name === known) return spec?.clusterIP === 'None' ? undefined : spec?.clusterIP;
      if (!name.endsWith(`.${known}`)) continue;
      return this.#endpoints
        .filter((one) => isSame(one.metadata, metadata))
        .flatMap(({ subsets = [] }) => subsets.flatMap(({ addresses = [] }) => addresses))
        .find(({ hostname }) => name === `${hostname}.${known}`)?.ip;
    }
    return undefined;
  }

  /** To one question for an address (RFC 1035); null: it is no question. */
  #answer(query: Buffer): Buffer | null {
    if (query.length < 17) return null;
    const labels: string[] = [];
    let at = 12;
    for (let length = query[at]!; length > 0 && at + length < query.length; length = query[at]!) {
      labels.push(query.toString('latin1', at + 1, at + 1 + length));
      at += length + 1;
    }
    const end = at + 5;
    const isForAddress = query.readUInt16BE(at + 1) === 1;
    const ip = this.#addressOf(labels.join('.'));
    const head = Buffer.alloc(12);
    query.copy(head, 0, 0, 2);
    // A response, with authority and recursion, and its code.
    head.writeUInt16BE(0x8580 | (ip ? 0 : NAME_ERROR), 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(ip && isForAddress ? 1 : 0, 6);
    const question = query.subarray(12, end);
    if (!ip || !isForAddress) return Buffer.concat([head, question]);
    // The name as in the question, type A, class IN, for one second, four bytes.
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...ip.split('.').map(Number)]);
    return Buffer.concat([head, question, record]);
  }
}

function portsOf({ metadata, spec }: V1Service): { key: string; ip: string; port: number; name: string }[] {
  const ip = spec?.clusterIP;
  if (!ip || ip === 'None') return [];
  return (spec?.ports ?? []).map(({ port, name = '' }) => ({
    key: `${metadata?.namespace}/${metadata?.name} ${ip}:${port}`,
    ip,
    port,
    name,
  }));
}

function isSame(one: V1Service['metadata'], other: V1Service['metadata']): boolean {
  return one?.name === other?.name && one?.namespace === other?.namespace;
}
