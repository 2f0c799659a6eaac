import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../test/support/poll.ts';
import { JournalServer } from './journal-server.ts';
import { Kept } from './kept.ts';
import { Member } from './member.ts';
import { addressOf, heal } from './network.ts';
import { MODEL } from './promises/lookups.ts';

const SECRETS = { admin: 'prove-admin', worker: 'prove-worker', gateway: 'prove-gateway' } as const;
const GATEWAY_PORTS = [8801, 8802];
/** The pace of the engines, so that answers last from tenths of a second to many. */
const ENGINE = '--inter-token-latency-ms 10';
const SLOTS = 24;
/** The time within which all is well again after a fault, ms. */
const HEALTHY_WITHIN_MS = 120_000;

/** All processes of a run: two members of a queue, the journal's server, gateways and workers. */
export class Cluster {
  readonly journal: JournalServer;
  readonly members: readonly [Member, Member];
  readonly gateways: readonly Kept[];
  readonly workers: readonly Kept[];
  readonly gatewayUrls: readonly string[];
  readonly #folder: string;

  private constructor(journal: JournalServer, folder: string) {
    this.#folder = folder;
    this.journal = journal;
    const env = {
      QUEUE_TOKENS: Object.entries(SECRETS)
        .map(([scope, secret]) => `${scope}:${secret}`)
        .join(','),
    };
    this.members = [new Member('one', folder, journal.url, env), new Member('two', folder, journal.url, env)];
    const edge = addressOf('edge');
    this.gatewayUrls = GATEWAY_PORTS.map((port) => `http://${edge}:${port}`);
    const queues = this.members.map(({ url }) => url).join(',');
    this.gateways = GATEWAY_PORTS.map((port, at) => {
      const args = ['gateway', '--queue', queues, '--host', edge, '--port', String(port)];
      return new Kept(`gateway ${at + 1}`, 'edge', args, { GATEWAY_TOKEN: SECRETS.gateway });
    });
    this.workers = this.gatewayUrls.map((url, at) => {
      const id = `w${at + 1}`;
      return new Kept(`worker ${id}`, 'edge', ['supervise'], {
        XDG_STATE_HOME: folder,
        ENGINE: 'simulator',
        VLLM_MODEL: MODEL,
        VLLM_PORT: String(8900 + at),
        VLLM_EXTRA_ARGS: ENGINE,
        CASOLA_WS_URL: url.replace('http', 'ws'),
        CASOLA_API_URL: url,
        CASOLA_API_TOKEN: SECRETS.worker,
        CASOLA_CONFIG_ID: 'pool',
        CASOLA_INSTANCE_ID: id,
        CASOLA_MAX_JOBS: String(SLOTS),
      });
    });
  }

  static async start(): Promise<Cluster> {
    const folder = mkdtempSync(join(tmpdir(), 'prove-takeover-'));
    const cluster = new Cluster(await JournalServer.start(), folder);
    for (const member of cluster.members) member.start();
    await cluster.healthy();
    await until(
      async () => {
        const response = await fetch(`${cluster.gatewayUrls[0]}/api/workers`, {
          headers: bearer(SECRETS.admin),
        });
        const { workers } = (await response.json()) as { workers: { state: string }[] };
        return workers.filter(({ state }) => state === 'ready').length === cluster.workers.length;
      },
      'all workers are ready',
      { everyMs: 200 },
    );
    return cluster;
  }

  get adminToken(): string {
    return SECRETS.admin;
  }

  /** Makes a token, and returns its secret. */
  async makeToken(entry: Record<string, unknown>): Promise<string> {
    const { owner } = await this.roles();
    const response = await fetch(`${owner.url}/api/tokens`, {
      method: 'POST',
      headers: { ...bearer(SECRETS.admin), 'content-type': 'application/json' },
      body: JSON.stringify(entry),
    });
    if (!response.ok)
      throw new Error(`a token could not be made: ${response.status} ${await response.text()}`);
    return ((await response.json()) as { token: string }).token;
  }

  /** Returns who owns the journal and who follows. @throws Error unless there is one of each */
  async roles(): Promise<{ owner: Member; follower: Member }> {
    const healths = await Promise.all(this.members.map((member) => member.health()));
    const owner = this.members.find((_, at) => healths[at]?.role === 'owner');
    const follower = this.members.find((_, at) => healths[at]?.role === 'follower');
    if (!owner || !follower) {
      const roles = this.members.map(({ machine }, at) => `${machine}: ${healths[at]?.role ?? 'no answer'}`);
      throw new Error(`there is not one owner and one follower (${roles.join(', ')})`);
    }
    return { owner, follower };
  }

  /** Starts what does not run, and waits until one member owns the journal and the other one has all of it. */
  async healthy(): Promise<{ owner: Member; follower: Member }> {
    return await until(
      async () => {
        for (const member of this.members) member.start();
        const roles = await this.roles();
        const last = await this.journal.lastEntry();
        await until(
          async () => ((await roles.follower.health())?.entry ?? 0) >= last,
          `the follower has entry ${last}`,
          { timeoutMs: 10_000, everyMs: 100 },
        );
        return roles;
      },
      'there are an owner and a follower',
      { timeoutMs: HEALTHY_WITHIN_MS, everyMs: 200 },
    );
  }

  /** Undoes every fault that lasts. */
  async heal(): Promise<void> {
    heal();
    this.journal.setClock(0);
    for (const member of this.members) {
      member.setClock(0);
      member.disk.empty();
      await member.signal('SIGCONT');
    }
  }

  /** Ends gateways and workers, then owner and follower in order. */
  async stop(): Promise<void> {
    await Promise.all([...this.gateways, ...this.workers].map((kept) => kept.stop()));
  }

  writeLogs(folder: string): void {
    mkdirSync(folder, { recursive: true });
    for (const kept of [...this.gateways, ...this.workers])
      writeFileSync(join(folder, `${kept.name.replace(' ', '-')}.log`), kept.output());
    for (const member of this.members)
      writeFileSync(join(folder, `queue-${member.machine}.log`), member.output());
  }

  async remove(): Promise<void> {
    await this.stop();
    for (const member of this.members) {
      await member.signal('SIGKILL');
      member.remove();
    }
    await this.journal.remove();
    // The members' disks are mounted there, and gone with this process.
    rmSync(join(this.#folder, 'worker-vllm'), { recursive: true, force: true });
  }
}

export function bearer(secret: string): { authorization: string } {
  return { authorization: `Bearer ${secret}` };
}
