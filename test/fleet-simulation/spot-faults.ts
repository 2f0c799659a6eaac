import type { Timeline } from '../simulation/timeline.ts';
import type { FakeMachine, FakeProvider } from '../support/fakes/fake-provider.ts';
import type { Machines } from './machines.ts';
import type { Fault } from './plan.ts';
import type { SpotKind } from './spot-plan.ts';

interface SpotWorld {
  timeline: Timeline;
  providers: Record<'cloud' | 'other', FakeProvider>;
  machines: Machines;
  note(line: string): void;
}

/** Between the first and the last machine of a storm, ms. */
const STORM_MS = 10_000;
/** Of notices, by the size of the fault, ms; the first gives none. */
const NOTICES_MS = [0, 5000, 30_000, 120_000];

/** Takes spot machines back, as their providers do. */
export function takeSpotBack(
  world: SpotWorld,
  { kind, provider: name, size, at }: Fault & { kind: SpotKind },
) {
  const { timeline, providers, machines } = world;
  const provider = providers[name];
  const spot = provider.alive.filter(({ request, isTakenBack }) => isSpot(request) && !isTakenBack);
  const isServing = (machine: FakeMachine) => machines.workerOn(machine)?.isConnected === true;
  switch (kind) {
    case 'spot_storm':
      for (const [index, machine] of spot.entries()) {
        const ms = (index * 3700 + at * 1000) % STORM_MS;
        timeline.after(ms, () => takeBack(world, provider, machine, NOTICES_MS[size - 1]!, index % 2 === 0));
      }
      return;
    case 'spot_notice': {
      const machine = spot.find((one) => !isServing(one)) ?? spot[0];
      if (machine) takeBack(world, provider, machine, NOTICES_MS[size - 1]!, false);
      return;
    }
    case 'spot_returns': {
      const machine = spot.find(isServing) ?? spot[0];
      if (!machine) return;
      takeBack(world, provider, machine, 0, true);
      timeline.after(size * 25_000, () => {
        if (machine.gone !== null || machine.leaving !== null) return;
        world.note(`${machine.name} comes back`);
        machine.isTakenBack = false;
        machine.startedAt = timeline.now;
      });
    }
  }
}

function isSpot(request: unknown): boolean {
  return (request as { spot?: boolean } | null)?.spot === true;
}

/** @param stays whether it is listed from then on as one that was taken back; else it is gone */
function takeBack(
  world: SpotWorld,
  provider: FakeProvider,
  machine: FakeMachine,
  noticeMs: number,
  stays: boolean,
): void {
  const { timeline, machines } = world;
  world.note(`${machine.name} is taken back, with a notice of ${noticeMs / 1000} s`);
  if (noticeMs > 0) machines.notice(machine);
  timeline.after(noticeMs, () => {
    if (machine.gone !== null) return;
    if (stays) machine.isTakenBack = true;
    else provider.vanish(machine);
  });
}
