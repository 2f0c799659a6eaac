import { describe, expect, it } from 'vitest';
import { Gathering } from '../../../src/host/cloudflare/gathering.ts';

/** @param meanwhile runs in every round trip, with its number */
async function roundTripsOf(meanwhile: (round: number, gathering: Gathering) => void): Promise<number> {
  let round = 0;
  const gathering: Gathering = new Gathering(async () => {
    round += 1;
    meanwhile(round, gathering);
  });
  await gathering.gathered();
  return round;
}

describe('the events on their way to an object', () => {
  it('have come when a round trip brings none', async () => {
    expect(await roundTripsOf(() => {})).toBe(1);
    expect(await roundTripsOf((round, gathering) => round < 3 && gathering.eventCame())).toBe(3);
  });

  it('are not waited for without end', async () => {
    expect(await roundTripsOf((_, gathering) => gathering.eventCame())).toBe(16);
  });

  it('are not waited for where the object cannot be reached by its own call', async () => {
    const broken = () => {
      throw new Error('broken');
    };
    expect(await roundTripsOf(broken)).toBe(1);
  });
});
