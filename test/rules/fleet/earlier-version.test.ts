import { expect, it } from 'vitest';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { ended } from '../../support/request-records.ts';

it('records of requests from version 27 stay, and newer ones say which alias was asked for', () => {
  const fleet = new FleetHarness();
  const records = () => {
    const rows = fleet.database.prepare(`SELECT id, alias, fallback FROM requests ORDER BY seq`).all();
    return rows.map(({ id, alias, fallback }) => [id, alias, fallback]);
  };
  fleet.rules.record([], undefined, [ended('before')]);
  for (const column of ['alias', 'fallback'])
    fleet.database.exec(`ALTER TABLE requests DROP COLUMN ${column}`);
  // Version 29 drops the table in which earlier ones kept which engine has which response.
  fleet.database.exec(`CREATE TABLE responses (id TEXT)`);
  fleet.database.exec(`ALTER TABLE audit DROP COLUMN subject`);
  // Version 30 made these tables.
  for (const table of ['alert_receivers', 'alert_mutes']) fleet.database.exec(`DROP TABLE ${table}`);
  fleet.database.exec(`UPDATE schema_version SET version = 27`);
  fleet.restart();
  fleet.rules.record([], undefined, [ended('after', { alias: 'gpt-4o', fallback: 'failed' })]);
  expect(records()).toEqual([
    ['before', null, null],
    ['after', 'gpt-4o', 'failed'],
  ]);
});
