import { execFile } from 'node:child_process';
import { appendFile, chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ensureJournalServers } from '../../scripts/journal-servers/setup.ts';
import { until } from './poll.ts';
import { freePort } from './ports.ts';
import { type Child, startProcess } from './processes.ts';

const run = promisify(execFile);

/** PostgreSQL does not run as root: then it runs as the user nobody. */
const NOBODY = 65_534;
const SUPERUSER = 'postgres';

/** Where a server runs, if not on this machine. */
export interface ServerPlace {
  /** The address at which it listens, or `*`. */
  listens: string;
  /** The address at which others find it. */
  address: string;
  /** The words before a command that make it run there. */
  within: string[];
  /** Variables of the environment beside those that it needs. */
  env?: NodeJS.ProcessEnv;
}

const HERE: ServerPlace = { listens: '127.0.0.1', address: '127.0.0.1', within: [] };

/** A PostgreSQL server with its data in a temporary folder. */
export class PostgresServer {
  readonly #folder: string;
  readonly #place: ServerPlace;
  readonly port: number;
  #child: Child | null = null;

  private constructor(folder: string, port: number, place: ServerPlace) {
    this.#folder = folder;
    this.port = port;
    this.#place = place;
  }

  /** Makes a server, and starts it. @param settings lines of postgresql.conf */
  static async make(settings: string[] = [], place = HERE): Promise<PostgresServer> {
    const server = new PostgresServer(await ownFolder(), await freePort(), place);
    await server.#program('initdb', ['-D', server.#data, '-U', SUPERUSER, '--auth=trust', '--no-sync']);
    if (place !== HERE) await server.#letNeighboursIn();
    await server.set(settings);
    await server.start();
    return server;
  }

  /** Copies this server as its standby, and starts it. @param name under which it replicates */
  async makeStandby(name: string, place = HERE): Promise<PostgresServer> {
    const standby = new PostgresServer(
      await ownFolder(),
      place === HERE ? await freePort() : this.port,
      place,
    );
    const from = `host=${this.#place.address} port=${this.port} user=${SUPERUSER} application_name=${name}`;
    await standby.#program('pg_basebackup', [
      '-D',
      standby.#data,
      '-d',
      from,
      '-R',
      '-X',
      'stream',
      '-c',
      'fast',
    ]);
    await standby.start();
    return standby;
  }

  /** The address of its database, as a journal takes it. */
  get address(): string {
    return `postgres://${SUPERUSER}@${this.#place.address}:${this.port}/postgres`;
  }

  /** Adds lines to postgresql.conf, which hold from the next start or reload. */
  async set(settings: string[]): Promise<void> {
    await appendFile(join(this.#data, 'postgresql.conf'), `${settings.join('\n')}\n`);
  }

  async #letNeighboursIn(): Promise<void> {
    const rules = ['all', 'replication'].map((database) => `host ${database} all samenet trust\n`);
    await appendFile(join(this.#data, 'pg_hba.conf'), rules.join(''));
  }

  async start(): Promise<void> {
    const { postgres, postgresEnv } = await ensureJournalServers();
    const where = [
      '-c',
      `listen_addresses=${this.#place.listens}`,
      '-p',
      String(this.port),
      '-k',
      this.#folder,
    ];
    const program = asNobody([join(postgres, 'postgres'), '-D', this.#data, ...where]);
    const [command = '', ...args] = [...this.#place.within, ...program];
    const env = { ...postgresEnv, ...this.#place.env };
    const child = startProcess(command, args, { env, name: 'postgres' });
    this.#child = child;
    await until(() => {
      if (/FATAL: .*(?:lock file|could not (?!connect))/.test(child.output()))
        throw new Error(child.output());
      return child.output().includes('database system is ready to accept');
    }, 'PostgreSQL accepts connections');
  }

  /** Runs statements as the superuser. @returns the rows, a line each, their columns between bars */
  async sql(text: string): Promise<string> {
    const target = ['-h', this.#place.address, '-p', String(this.port), '-U', SUPERUSER, '-d', 'postgres'];
    const { stdout } = await this.#program('psql', [
      '-X',
      '-q',
      '-A',
      '-t',
      '-v',
      'ON_ERROR_STOP=1',
      ...target,
      '-c',
      text,
    ]);
    return stdout.trim();
  }

  /** Makes a standby the primary. */
  async promote(): Promise<void> {
    await this.sql('SELECT pg_promote()');
    await until(
      async () => (await this.sql('SELECT pg_is_in_recovery()')) === 'f',
      'the standby is the primary',
    );
  }

  /** Ends as the machine would: its processes are gone at once. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Stops in order, and disconnects everybody. */
  async stop(): Promise<void> {
    await this.#end('SIGINT');
  }

  /** Holds all of its processes, or lets them go on: connections stay, and nobody is answered. */
  async pause(signal: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    const { stdout } = await run('pgrep', ['-P', String(this.#child!.pid)]);
    for (const pid of [String(this.#child!.pid), ...stdout.trim().split('\n')])
      await run('kill', [`-${signal}`, pid]);
  }

  async remove(): Promise<void> {
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }

  get #data(): string {
    return join(this.#folder, 'data');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (!child) return;
    child.kill(signal);
    await child.exited;
    // The others of its processes end once they see that the first one is gone.
    await child.stop();
  }

  async #program(name: string, args: string[]): Promise<{ stdout: string }> {
    const { postgres, postgresEnv } = await ensureJournalServers();
    const [command = '', ...rest] = [...this.#place.within, ...asNobody([join(postgres, name), ...args])];
    return await run(command, rest, { env: postgresEnv, cwd: this.#folder });
  }
}

async function ownFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'postgres-'));
  if (isRoot()) await chown(folder, NOBODY, NOBODY);
  return folder;
}

function asNobody(command: string[]): string[] {
  if (!isRoot()) return command;
  return ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups', ...command];
}

function isRoot(): boolean {
  return process.getuid?.() === 0;
}
