import { describe, expect, it } from 'vitest';
import type { FleetFrame, FleetView, LaunchRow, PoolRow, WorkerRow } from '../../../src/protocol/index.ts';
import { applyFrame } from '../../../src/show/fleet-feed.ts';

const worker = (worker_id: string, running = 0) => ({ worker_id, running }) as WorkerRow;
const launch = (id: string) => ({ id }) as LaunchRow;
const pool = (config_id: string) => ({ config_id }) as PoolRow;

const VIEW = {
  version: 4,
  epoch: 'e',
  at: 1000,
  queue_id: 'q',
  summary: { text: 'before' },
  attention: [],
  pools: [pool('a')],
  workers: [worker('w-1'), worker('w-2'), worker('w-3')],
  launches: [launch('l-1'), launch('l-2')],
  scaling: null,
} as unknown as FleetView;

function changed(fields: Partial<Extract<FleetFrame, { type: 'changed' }>>): FleetFrame {
  return {
    type: 'changed',
    version: 5,
    at: 2000,
    summary: { text: 'after' },
    attention: [],
    pools: [],
    scaling: null,
    workers: [],
    launches: [],
    gone: { workers: [], pools: [], launches: [] },
    ...fields,
  } as FleetFrame;
}

describe('frames of the live view', () => {
  it('take the whole view, whatever was there', () => {
    const full: FleetFrame = { type: 'full', view: { ...VIEW, version: 9 } };
    expect(applyFrame(null, full)).toBe(full.view);
    expect(applyFrame(VIEW, full)?.version).toBe(9);
  });

  it('change the rows that they name and leave the others as they are', () => {
    const next = applyFrame(VIEW, changed({ workers: [worker('w-2', 7), worker('w-4')] }))!;
    expect(next.workers.map(({ worker_id }) => worker_id)).toEqual(['w-1', 'w-2', 'w-3', 'w-4']);
    expect(next.workers[1]!.running).toBe(7);
    expect(next.workers[0]).toBe(VIEW.workers[0]);
    expect(next.pools).toBe(VIEW.pools);
    expect(next).toMatchObject({ version: 5, at: 2000, epoch: 'e', summary: { text: 'after' } });
  });

  it('take away what is gone, but not what came again since', () => {
    const gone = { workers: ['w-1', 'w-3'], pools: ['a'], launches: ['l-1'] };
    const next = applyFrame(VIEW, changed({ workers: [worker('w-3', 1)], gone }))!;
    expect(next.workers).toEqual([worker('w-2'), worker('w-3', 1)]);
    expect(next.pools).toEqual([]);
    expect(next.launches).toEqual([VIEW.launches[1]]);
  });

  it('mean nothing without the view that they change', () => {
    expect(applyFrame(null, changed({}))).toBeNull();
  });
});
