import { chmodSync } from 'node:fs';
import { dirname } from 'node:path';
import { buildClockShim, type ClockShim } from '../../test/support/clock-shim.ts';
import { until } from '../../test/support/poll.ts';
import { PostgresServer } from '../../test/support/postgres-server.ts';
import { addressOf, JOURNAL_ADDRESS, moveJournalAddress, on } from './network.ts';

type Host = 'database' | 'standby';

/** PostgreSQL on one machine, and its synchronous standby on another. */
export class JournalServer {
  readonly #clock: ClockShim;
  #host: Host = 'database';
  #primary!: PostgresServer;
  #standby: PostgresServer | null = null;

  private constructor(clock: ClockShim) {
    this.#clock = clock;
  }

  static async start(): Promise<JournalServer> {
    const clock = buildClockShim();
    // PostgreSQL runs as another user.
    chmodSync(dirname(clock.env.CLOCK_OFFSET_FILE!), 0o755);
    const server = new JournalServer(clock);
    server.#primary = await PostgresServer.make([], server.#place('database'));
    moveJournalAddress('database');
    await server.#addStandby();
    return server;
  }

  /** The machine on which the primary is. */
  get host(): Host {
    return this.#host;
  }

  get url(): string {
    return `postgres://postgres@${JOURNAL_ADDRESS}:${this.#primary.port}/postgres`;
  }

  /** Its processes are gone at once, and start again. */
  async restart(): Promise<void> {
    await this.#primary.kill();
    await this.#primary.start();
  }

  /** The primary is gone for good, and its standby takes its place and its address; it gets a standby of its own. */
  async failOver(): Promise<void> {
    await this.#primary.kill();
    const standby = this.#standby!;
    await standby.set(["synchronous_standby_names = ''"]);
    await standby.promote();
    await standby.sql('SELECT pg_reload_conf()');
    await this.#primary.remove();
    this.#primary = standby;
    this.#standby = null;
    this.#host = this.#host === 'database' ? 'standby' : 'database';
    moveJournalAddress(this.#host);
    await this.#addStandby();
  }

  /** Sets the clocks of both servers apart from the machine's. */
  setClock(ms: number): void {
    this.#clock.setOffset(ms);
  }

  async entries(): Promise<{ seq: number; epoch: number }[]> {
    const rows = await this.#primary.sql('SELECT seq, epoch FROM worker_vllm.journal ORDER BY seq');
    return rows
      .split('\n')
      .filter((row) => row !== '')
      .map((row) => row.split('|').map(Number))
      .map(([seq = 0, epoch = 0]) => ({ seq, epoch }));
  }

  async lastEntry(): Promise<number> {
    return Number(await this.#primary.sql('SELECT coalesce(max(seq), 0) FROM worker_vllm.journal'));
  }

  async remove(): Promise<void> {
    await this.#standby?.remove();
    await this.#primary.remove();
    this.#clock.remove();
  }

  async #addStandby(): Promise<void> {
    const host = this.#host === 'database' ? 'standby' : 'database';
    this.#standby = await this.#primary.makeStandby('second', this.#place(host));
    await this.#primary.set(["synchronous_standby_names = 'second'"]);
    await this.#primary.sql('SELECT pg_reload_conf()');
    const state = "SELECT sync_state FROM pg_stat_replication WHERE application_name = 'second'";
    await until(async () => (await this.#primary.sql(state)) === 'sync', 'the standby is synchronous');
  }

  #place(host: Host) {
    return { listens: '*', address: addressOf(host), within: on(host), env: this.#clock.env };
  }
}
