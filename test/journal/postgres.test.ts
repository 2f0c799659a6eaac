import { afterAll, beforeAll } from 'vitest';
import { PostgresJournal } from '../../src/host/node/journal/postgres.ts';
import { journalContract } from '../support/journal-contract.ts';
import { PostgresServer } from '../support/postgres-server.ts';

let server: PostgresServer;
let made = 0;

beforeAll(async () => {
  server = await PostgresServer.make();
});

afterAll(() => server.remove());

journalContract('in PostgreSQL', async () => {
  made += 1;
  const schema = `contract_${made}`;
  return {
    connect: () => new PostgresJournal(`${server.address}?schema=${schema}`),
    remove: async () => void (await server.sql(`DROP SCHEMA ${schema} CASCADE`)),
  };
});
