import { afterEach, describe, expect, it } from 'vitest';
import { type Entry, Taken } from '../../src/host/node/journal/journal.ts';
import { PostgresJournal } from '../../src/host/node/journal/postgres.ts';
import { UserError } from '../../src/process/index.ts';
import { until } from '../support/poll.ts';
import { PostgresServer } from '../support/postgres-server.ts';

const servers: PostgresServer[] = [];
const journals: PostgresJournal[] = [];

afterEach(async () => {
  for (const journal of journals.splice(0)) await journal.close();
  for (const server of servers.splice(0)) await server.remove();
});

async function startServer(settings: string[] = []): Promise<PostgresServer> {
  const server = await PostgresServer.make(settings);
  servers.push(server);
  return server;
}

function journalIn(address: string): PostgresJournal {
  const journal = new PostgresJournal(address);
  journals.push(journal);
  return journal;
}

async function openedIn(server: PostgresServer): Promise<PostgresJournal> {
  const journal = journalIn(server.address);
  await journal.open();
  return journal;
}

/** Starts a primary whose commits wait for its standby. */
async function startPair(): Promise<{ primary: PostgresServer; standby: PostgresServer }> {
  const primary = await startServer();
  const standby = await primary.makeStandby('second');
  servers.push(standby);
  await primary.set(["synchronous_standby_names = 'second'"]);
  await primary.sql('SELECT pg_reload_conf()');
  const state = "SELECT sync_state FROM pg_stat_replication WHERE application_name = 'second'";
  await until(async () => (await primary.sql(state)) === 'sync', 'the standby is synchronous');
  return { primary, standby };
}

function entry(seq: number, epoch = 1): Entry {
  return { seq, epoch, body: Buffer.from(`entry ${seq} of ${epoch}`) };
}

describe('a server that is not as a journal needs it', () => {
  it.each(['synchronous_commit', 'fsync'])('is refused if %s is off', async (setting) => {
    const server = await startServer([`${setting} = off`]);
    const opening = journalIn(server.address).open();
    await expect(opening).rejects.toThrow(UserError);
    await expect(opening).rejects.toThrow(`the journal's PostgreSQL server has ${setting} = off`.slice(4));
  });

  it('is refused in words if it does not let the journal in', async () => {
    const server = await startServer();
    await server.sql('CREATE ROLE guest LOGIN');
    const { port } = server;
    const others = [`nobody@127.0.0.1:${port}/postgres`, `postgres@127.0.0.1:${port}/elsewhere`];
    for (const place of [...others, `guest@127.0.0.1:${port}/postgres`]) {
      const opening = journalIn(`postgres://${place}`).open();
      await expect(opening).rejects.toThrow(UserError);
      await expect(opening).rejects.toThrow(/refuses its use: .*(?:nobody|elsewhere|permission denied)/);
    }
  });

  it('serves a role that may not create tables, once another one has made them', async () => {
    const server = await startServer();
    await openedIn(server);
    await server.sql(`CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA worker_vllm TO guest;
      GRANT ALL ON ALL TABLES IN SCHEMA worker_vllm TO guest`);
    const journal = journalIn(`postgres://guest@127.0.0.1:${server.port}/postgres`);
    await journal.open();
    await journal.append(entry(1));
  });

  it('serves although it warns at each connection, as it does once its system sorts texts otherwise', async () => {
    const server = await startServer();
    await server.sql("UPDATE pg_database SET datcollversion = '1' WHERE datname = 'postgres'");
    const journal = await openedIn(server);
    await journal.append(entry(1));
    expect(await journal.last()).toEqual({ seq: 1, epoch: 1 });
  });

  it('is waited for if it is not there yet, or a standby', async () => {
    const { primary, standby } = await startPair();
    const early = journalIn(standby.address);
    await expect(early.open()).rejects.toThrow('is a standby');
    await expect(early.open()).rejects.not.toThrow(UserError);
    await primary.kill();
    await standby.promote();
    await standby.set(["synchronous_standby_names = ''"]);
    await standby.sql('SELECT pg_reload_conf()');
    await early.open();
    await early.append(entry(1));
    await standby.kill();
    await expect(early.open()).rejects.not.toThrow(UserError);
  });
});

describe('an address that cannot be read', () => {
  it('is refused in words without its password', () => {
    const make = () => new PostgresJournal('postgres://user:secret@host:port/db');
    expect(make).toThrow(UserError);
    expect(make).not.toThrow('secret');
  });

  it('is refused if its schema is no name', () => {
    expect(() => new PostgresJournal('postgres://host/db?schema=A;B')).toThrow('lowercase letters');
  });
});

describe('a server that goes away', () => {
  it('keeps what it acknowledges, even if synchronous_commit is turned off at its back', async () => {
    const server = await startServer(['wal_writer_delay = 10s']);
    const journal = await openedIn(server);
    await journal.append(entry(1));
    await server.sql('ALTER ROLE postgres SET synchronous_commit = off');
    await server.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'worker-vllm'",
    );
    await until(
      () =>
        journal.append(entry(2)).then(
          () => true,
          () => false,
        ),
      'the journal is connected again',
    );
    await server.kill();
    await server.start();
    expect(await server.sql('SELECT max(seq) FROM worker_vllm.journal')).toBe('2');
  });

  it('is found again when it is back, with all that it acknowledged', async () => {
    const server = await startServer();
    const journal = await openedIn(server);
    await journal.append(entry(1));
    await server.kill();
    await expect(journal.append(entry(2))).rejects.not.toThrow(Taken);
    await expect(journal.renewLease({ epoch: 1, address: '' }, 3000)).rejects.toThrow();
    await server.start();
    await journal.append(entry(2));
    expect((await journal.read(0, 10)).map(({ seq }) => seq)).toEqual([1, 2]);
    expect(await journal.renewLease({ epoch: 1, address: '' }, 3000)).toBe(true);
  });

  it('holds no call up when it hangs, and may have carried out what it did not answer', async () => {
    const server = await startServer();
    const journal = await openedIn(server);
    await journal.append(entry(1));
    await server.pause('SIGSTOP');
    const calls = [journal.append(entry(2)), journal.lease(), journal.read(0, 1)];
    for (const call of await Promise.allSettled(calls)) expect(call.status).toBe('rejected');
    await server.pause('SIGCONT');
    await until(async () => {
      await journal.append(entry(2)).catch((error) => {
        if (!(error instanceof Taken)) throw error;
      });
      return true;
    }, 'the server answers again');
    expect(await journal.last()).toEqual({ seq: 2, epoch: 1 });
  });
});

describe('a server with a synchronous standby', () => {
  it('has everything that was acknowledged after a failover', async () => {
    const { primary, standby } = await startPair();
    const journal = await openedIn(primary);
    let acknowledged = 0;
    const writing = (async () => {
      for (let seq = 1; ; seq += 1) {
        await journal.append(entry(seq));
        acknowledged = seq;
      }
    })();
    writing.catch(() => {});
    await until(() => acknowledged > 100, 'some entries are stored');
    await primary.kill();
    await expect(writing).rejects.not.toThrow(Taken);
    await standby.set(["synchronous_standby_names = ''"]);
    await standby.promote();
    const next = await openedIn(standby);
    expect((await next.last()).seq).toBeGreaterThanOrEqual(acknowledged);
  });

  it('acknowledges nothing while the standby is away, and gathers no connections', async () => {
    const { primary, standby } = await startPair();
    const journal = await openedIn(primary);
    await journal.append(entry(1));
    await standby.stop();
    for (let tries = 0; tries < 4; tries += 1) {
      const calls = [journal.append(entry(2)), journal.renewLease({ epoch: 1, address: '' }, 3000)];
      for (const call of await Promise.allSettled(calls)) {
        expect(call.status).toBe('rejected');
        expect((call as PromiseRejectedResult).reason).not.toBeInstanceOf(Taken);
      }
    }
    const backends = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'worker-vllm'";
    // An append and a renewal wait for the standby; the next two have connections of their own.
    expect(Number(await primary.sql(backends))).toBeLessThanOrEqual(4);
    await standby.start();
    await until(async () => (await journal.last()).seq === 2, 'the standby is back');
    await expect(journal.append(entry(2))).rejects.toThrow(Taken);
  });

  it('shows no entry after a restart that the standby may not have', async () => {
    const { primary, standby } = await startPair();
    const journal = await openedIn(primary);
    await journal.append(entry(1));
    await standby.stop();
    await expect(journal.append(entry(2))).rejects.not.toThrow(Taken);
    await primary.kill();
    await primary.start();
    // The server shows it to everybody, although only its own disk has it.
    expect(await primary.sql('SELECT max(seq) FROM worker_vllm.journal')).toBe('2');
    await expect(journal.append(entry(2))).rejects.toThrow(Taken);
    await expect(journal.read(1, 1)).rejects.not.toThrow(Taken);
    await standby.start();
    await until(async () => (await journal.read(1, 1)).length === 1, 'the standby has the entry');
  });

  it('acknowledges nothing when its wait for the standby is cancelled', async () => {
    const { primary, standby } = await startPair();
    const journal = await openedIn(primary);
    await journal.append(entry(1));
    await standby.stop();
    const appending = journal.append(entry(2));
    const cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    void until(async () => (await primary.sql(cancel)) === 't', 'the wait is cancelled');
    await expect(appending).rejects.toThrow('canceling wait for synchronous replication');
    await standby.start();
    await until(async () => (await journal.read(1, 1)).length === 1, 'the standby has the entry');
  });
});
