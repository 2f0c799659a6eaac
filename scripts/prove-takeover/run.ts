import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { JobView, LedgerView } from '../../src/protocol/index.ts';
import { dumpDatabases } from '../../test/support/database-dump.ts';
import { Random } from '../../test/support/random.ts';
import { check, type Verdict } from './check.ts';
import { Clients, seen, usageOf } from './clients.ts';
import { bearer, Cluster } from './cluster.ts';
import type { FinalJob, FinalState, Limits } from './final-state.ts';
import type { Member } from './member.ts';
import { FAULTS, inTurn } from './nemesis.ts';
import { OperationLog } from './operations.ts';

export interface RunOptions {
  seed: number;
  minutes: number;
  /** The names of the faults that are done. */
  faults: readonly string[];
  /** The folder for the operation log and the output of every process. */
  folder: string;
  say(line: string): void;
}

export interface RunReport {
  verdict: Verdict;
  figures: Figures;
}

export interface Figures {
  acknowledged: number;
  operations: number;
  entries: number;
  faults: Record<string, number>;
  /** From a fault to the first job that the next owner acknowledges, ms, by what was done to the owner before. */
  takeovers: Record<string, number[]>;
  /** How long ago the follower had everything, while nothing was wrong, ms. */
  lags: number[];
  /** Jobs acknowledged a second, in seconds in which nothing was wrong. */
  rates: number[];
  chats: { whole: number; broken: number; refused: number };
}

const LIMITS: Limits = { running: 3, tokensPerMinute: 9000 };
const CLIENTS = { jobs: 12, chats: 8, limited: 6 };
const SAY_EVERY_MS = 5000;
/** A pause without faults between two, ms. */
const CALM_MS = { least: 2000, most: 5000 };
/** The limit of one probe of a takeover, ms, and of all of them. */
const PROBE_MS = 1000;
const TAKEOVER_MS = 60_000;

/** One run: a cluster, clients, faults for so many minutes; then peace, and the check. */
export class Run {
  readonly #options: RunOptions;
  readonly #cluster: Cluster;
  readonly #clients: Clients;
  readonly #log: OperationLog;
  readonly #random: Random;
  readonly #startedAt = performance.now();
  readonly #figures: Figures = {
    acknowledged: 0,
    operations: 0,
    entries: 0,
    faults: {},
    takeovers: {},
    lags: [],
    rates: [],
    chats: { whole: 0, broken: 0, refused: 0 },
  };
  /** The fault of the moment; null: there is none. */
  #fault: string | null = 'it starts';
  #isOver = false;

  private constructor(options: RunOptions, cluster: Cluster, clients: Clients, log: OperationLog) {
    this.#options = options;
    this.#cluster = cluster;
    this.#clients = clients;
    this.#log = log;
    this.#random = new Random(options.seed, 'nemesis');
  }

  static async run(options: RunOptions): Promise<RunReport> {
    rmSync(options.folder, { recursive: true, force: true });
    mkdirSync(options.folder, { recursive: true });
    options.say(
      'starting PostgreSQL with its standby, two members of the queue, two gateways and two workers',
    );
    const cluster = await Cluster.start();
    try {
      const submit = ['submit'];
      const tokens = {
        jobs: await cluster.makeToken({ name: 'jobs', scopes: submit }),
        chats: await cluster.makeToken({ name: 'chats', scopes: submit }),
        limited: await cluster.makeToken({
          name: 'limited',
          scopes: submit,
          limits: { running: LIMITS.running, tokens_per_minute: LIMITS.tokensPerMinute },
        }),
        admin: cluster.adminToken,
      };
      // A token that was just made is known everywhere within a second.
      await sleep(2000);
      const log = new OperationLog(join(options.folder, 'operations.jsonl'));
      const clients = new Clients({
        log,
        random: new Random(options.seed, 'clients'),
        gateways: cluster.gatewayUrls,
        queues: cluster.members.map(({ url }) => url),
        tokens,
        mark: `s${options.seed}`,
      });
      return await new Run(options, cluster, clients, log).#run();
    } finally {
      cluster.writeLogs(options.folder);
      await cluster.remove();
    }
  }

  async #run(): Promise<RunReport> {
    const running = this.#clients.run(CLIENTS);
    const watching = Promise.all([this.#tell(), this.#sampleLag(), this.#sampleRate()]);
    await this.#strikeAll();
    this.#fault = 'it ends';
    this.#options.say('the faults are over: every job is read to its end');
    this.#clients.stop();
    await running;
    await this.#clients.readToTheEnd();
    const final = await this.#final();
    this.#isOver = true;
    await watching;
    this.#log.flush();
    const verdict = check(this.#log.lines, final, LIMITS);
    this.#count(final);
    writeFileSync(join(this.#options.folder, 'final.json'), JSON.stringify(final, replacer, 1));
    return { verdict, figures: this.#figures };
  }

  async #strikeAll(): Promise<void> {
    const { minutes, faults, say } = this.#options;
    const until = this.#startedAt + minutes * 60_000;
    for (const name of inTurn(faults, this.#random)) {
      const { owner, follower } = await this.#cluster.healthy();
      this.#fault = null;
      await sleep(this.#random.int(CALM_MS.least, CALM_MS.most));
      if (performance.now() > until) return;
      this.#fault = name;
      say(`${this.#now}: ${name}, the owner is ${owner.machine}`);
      this.#log.note('fault', name);
      await FAULTS[name]!({
        cluster: this.#cluster,
        owner,
        follower,
        random: this.#random,
        takeover: (how) => this.#takeover(how, follower),
      });
      this.#figures.faults[name] = (this.#figures.faults[name] ?? 0) + 1;
      await this.#cluster.heal();
      this.#log.note('healed', name);
    }
  }

  /** Measures until the next owner acknowledges a job. */
  async #takeover(how: string, next: Member): Promise<void> {
    const from = performance.now();
    while (!(await this.#clients.submitAt(next.url, PROBE_MS))) {
      if (performance.now() - from > TAKEOVER_MS)
        throw new Error(`nobody took over within ${TAKEOVER_MS} ms`);
      await sleep(20);
    }
    const took = performance.now() - from;
    this.#figures.takeovers[how] = [...(this.#figures.takeovers[how] ?? []), took];
    this.#options.say(`${this.#now}: ${next.machine} took over after ${Math.round(took)} ms (${how})`);
  }

  async #tell(): Promise<void> {
    for (let next = performance.now() + SAY_EVERY_MS; !this.#isOver; await sleep(200)) {
      if (performance.now() < next) continue;
      next += SAY_EVERY_MS;
      this.#log.flush();
      const { acknowledged } = this.#clients;
      this.#options.say(
        `${this.#now}: ${acknowledged} jobs acknowledged, ${this.#log.lines.length} lines in the log; ${this.#fault ?? 'all is well'}`,
      );
    }
  }

  async #sampleLag(): Promise<void> {
    for (; !this.#isOver; await sleep(250)) {
      if (this.#fault !== null) continue;
      const healths = await Promise.all(this.#cluster.members.map((member) => member.health()));
      const follower = healths.find((health) => health?.role === 'follower');
      if (follower && this.#fault === null) this.#figures.lags.push(follower.behindSeconds * 1000);
    }
  }

  async #sampleRate(): Promise<void> {
    while (!this.#isOver) {
      const before = this.#clients.acknowledged;
      const wasWell = this.#fault === null;
      await sleep(1000);
      if (wasWell && this.#fault === null) this.#figures.rates.push(this.#clients.acknowledged - before);
    }
  }

  /** Reads everything from the owner, ends both members in order, and compares their files. */
  async #final(): Promise<FinalState> {
    const { owner, follower } = await this.#cluster.healthy();
    const jobs = new Map<string, FinalJob | null>();
    const ids = this.#idsOfLog().values();
    const read = async () => {
      for (const id of ids) jobs.set(id, await this.#readJob(owner, id));
    };
    await Promise.all(Array.from({ length: 16 }, read));
    const sums = await usageOf(owner.url, this.#cluster.adminToken);
    const sumOf = (...names: string[]) => {
      const found = names.map((name) => sums.get(name) ?? { requests: 0, output: 0 });
      return {
        requests: found.reduce((sum, { requests }) => sum + requests, 0),
        output: found.reduce((sum, { output }) => sum + output, 0),
      };
    };
    const usage = { jobs: sumOf('jobs'), chats: sumOf('chats', 'limited') };
    await this.#cluster.stop();
    await follower.signal('SIGTERM');
    await owner.signal('SIGTERM');
    return { jobs, usage, journal: await this.#cluster.journal.entries(), differences: this.#differences() };
  }

  #idsOfLog(): Set<string> {
    const ids = new Set<string>();
    for (const line of this.#log.lines) {
      if (line.type === 'invoke' && line.kind === 'submit' && line.id !== null) ids.add(line.id);
      if (line.type === 'ok' && line.id !== undefined) ids.add(line.id);
    }
    return ids;
  }

  async #readJob({ url }: Member, id: string): Promise<FinalJob | null> {
    const headers = bearer(this.#cluster.adminToken);
    const [job, ledger] = await Promise.all(
      ['', '/ledger'].map((path) => fetch(`${url}/api/jobs/${id}${path}`, { headers })),
    );
    const [body, steps] = [await job!.json(), await ledger!.json()];
    if (job!.status === 404) return null;
    if (!job!.ok || !ledger!.ok) throw new Error(`${id} cannot be read: ${JSON.stringify([body, steps])}`);
    const view = seen(body as JobView);
    return {
      ...view,
      steps: (steps as LedgerView).steps.map(({ step, fence_token }) => ({ step, fence: fence_token })),
    };
  }

  #differences(): string[] {
    const [one, two] = this.#cluster.members.map((member) => dumpDatabases(join(member.stateFolder, 'data')));
    return [...new Set([...Object.keys(one!), ...Object.keys(two!)])].filter(
      (name) => !isDeepStrictEqual(one![name], two![name]),
    );
  }

  #count({ journal }: FinalState): void {
    const { lines } = this.#log;
    this.#figures.acknowledged = this.#clients.acknowledged;
    this.#figures.operations = lines.filter(({ type }) => type === 'invoke').length;
    this.#figures.entries = journal.at(-1)?.seq ?? 0;
    const chats = new Set(
      lines.flatMap((line) => (line.type === 'invoke' && line.kind === 'chat' ? [line.op] : [])),
    );
    for (const line of lines) {
      if (!('op' in line) || !chats.has(line.op)) continue;
      if (line.type === 'ok') this.#figures.chats.whole += 1;
      else if (line.type !== 'invoke') this.#figures.chats['chat' in line ? 'broken' : 'refused'] += 1;
    }
  }

  get #now(): string {
    return `${((performance.now() - this.#startedAt) / 1000).toFixed(0)} s`;
  }
}

function replacer(_: string, value: unknown): unknown {
  if (value instanceof Map) return Object.fromEntries(value);
  return typeof value === 'bigint' ? String(value) : value;
}
