import { describe, expect, it } from 'vitest';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

describe('rows of another version', () => {
  it('have the defaults of fields that came later', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const launch = fleet.accepted();
    const stranger = `${launch.name.slice(0, -10)}0000000000`;
    fleet.list([{ external_id: 'x-9', name: stranger }, { name: launch.name }]);
    fleet.database.exec(`UPDATE launches SET launch = json_remove(launch, '$.missed_lists', '$.clear_at')`);
    fleet.database.exec(`UPDATE stray_machines SET stray = json_remove(stray, '$.is_sure', '$.clear_at')`);
    fleet.database.exec(
      `UPDATE scheduler SET value = json_remove(value, '$.spec.providers.here.min_cuda_version', '$.spec.configs.chat.utilization')
       WHERE name = 'spec'`,
    );
    fleet.restart();
    expect(fleet.scheduler.spec()?.spec).toMatchObject({
      providers: { here: { min_cuda_version: '12.8' } },
      configs: { chat: { utilization: 0.7 } },
    });
    const orders = [];
    for (let n = 0; n < 10; n++) {
      fleet.tick(60);
      orders.push(...fleet.list([{ external_id: 'x-9', name: stranger }]).orders);
    }
    // The launch is not listed any more, and the machine that nobody wants is ended.
    expect(fleet.row(launch.id)).toMatchObject({ state: 'failed', cause: 'vanished' });
    expect(orders).toContainEqual(expect.objectContaining({ kind: 'terminate', external_id: 'x-9' }));
  });

  it('keep a spec in force that this version cannot read', () => {
    const fleet = new SchedulerHarness();
    fleet.apply({ min: 1 });
    fleet.ready();
    fleet.database.exec(
      `UPDATE scheduler SET value = json_set(value, '$.spec.configs.chat.engine', 'engine-of-tomorrow') WHERE name = 'spec'`,
    );
    fleet.restart();
    fleet.tick();
    expect(fleet.scheduler.spec()?.spec.configs).toHaveProperty('chat');
    expect(fleet.rows()).toMatchObject([{ state: 'ready' }]);
  });
});
