import { expect, it } from 'vitest';
import type { JobEvent } from '../../../src/queue/events/event.ts';
import { emit, type Projection, Projections } from '../../../src/queue/events/projection.ts';
import type { Job } from '../../../src/queue/job.ts';

const JOB = { id: 'j', mode: 'stored' } as Job;

class Noting implements Projection {
  readonly seen: string[];
  dueAt: number | null = null;
  writeAt: number | null = null;

  constructor(seen: string[]) {
    this.seen = seen;
  }

  on({ step, at }: JobEvent): void {
    this.seen.push(`on ${step} at ${at}`);
  }

  after({ step }: JobEvent): void {
    this.seen.push(`after ${step}`);
  }

  whenWritten(fence: number, effect: () => void): void {
    this.seen.push(`written ${fence}`);
    effect();
  }
}

class Silent implements Projection {}

function registered(...added: Projection[]): Projections {
  const projections = new Projections();
  for (const projection of added) projections.add(projection);
  return projections;
}

it('shows an event to projections before the job changes, and tells them when it has changed', () => {
  const seen: string[] = [];
  const projections = registered(new Noting(seen), new Silent());
  emit({ projections, now: () => 7 }, JOB, 'settled', null, {}, () => seen.push('changed'));
  expect(seen).toEqual(['on settled at 7', 'changed', 'after settled']);
});

it('finds a projection by its class', () => {
  const noting = new Noting([]);
  const projections = registered(noting);
  expect(projections.get(Noting)).toBe(noting);
  expect(() => projections.get(Silent)).toThrow('no projection is registered: Silent');
});

it('wants to run when the first of them has something to do or to write', () => {
  const [one, other] = [new Noting([]), new Noting([])];
  const projections = registered(one, new Silent(), other);
  expect(projections.next()).toBeNull();
  one.dueAt = 30;
  other.writeAt = 20;
  expect(projections.next()).toBe(20);
  expect(projections.isWriteDue(19)).toBe(false);
  expect(projections.isWriteDue(20)).toBe(true);
});

it('waits for each projection that writes what it keeps of an attempt', () => {
  const seen: string[] = [];
  const projections = registered(new Noting(seen), new Silent(), new Noting(seen));
  projections.whenWritten(3, () => seen.push('done'));
  expect(seen).toEqual(['written 3', 'written 3', 'done']);
});
