import { describe, expect, it } from 'vitest';
import { FleetSpec } from '../../../src/scheduler/spec.ts';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

function specWith(providers: object): FleetSpec {
  const chat = { model: 'tiny', slots: 4, max: 3, machines: [{ provider: Object.keys(providers)[0] }] };
  return FleetSpec.parse({ providers, pools: { chat } });
}

describe('a provider that becomes another place under the same name', () => {
  const ELSEWHERE = [
    ['another account', { driver: 'runpod', api_key_variable: 'OTHER_KEY' }],
    ['another driver', { driver: 'process' }],
  ] as const;

  it.each(ELSEWHERE)('is refused while it has machines: %s', (_what, other) => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const { id, name } = fleet.accepted();
    for (const isDryRun of [true, false]) {
      const answer = fleet.scheduler.specs.apply(specWith({ here: other }), isDryRun);
      expect(answer).toEqual({ refused: expect.stringMatching('Provider here has 1 of our machines') });
    }
    expect(fleet.scheduler.specs.current()?.spec.providers.here).toMatchObject({ driver: 'runpod' });
    // Nor by way of a file without it, as long as the machine is not known to have ended.
    fleet.scheduler.specs.remove(false);
    expect(fleet.scheduler.specs.apply(specWith({ here: other }), false)).toHaveProperty('refused');
    // Under another name it is as well, and the machine is ended where it is.
    expect(fleet.scheduler.specs.apply(specWith({ there: other }), false)).toMatchObject({ applied: true });
    fleet.list([{ name }]);
    for (let n = 0; n < 30; n++) {
      fleet.list([{ name }]);
      fleet.reconcile(15);
    }
    expect(fleet.row(id)).toMatchObject({ state: 'terminating', provider: 'here' });
  });

  it('may be where it has none, and may change otherwise', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    expect(fleet.scheduler.specs.apply(specWith({ here: ELSEWHERE[0][1] }), false)).toMatchObject({
      applied: true,
    });
    fleet.accepted();
    const same = { ...ELSEWHERE[0][1], cloud: 'COMMUNITY', max: 7 };
    expect(fleet.scheduler.specs.apply(specWith({ here: same }), false)).toMatchObject({ applied: true });
  });
});
