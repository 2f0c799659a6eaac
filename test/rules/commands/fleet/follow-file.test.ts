import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { UnreachableQueue } from '../../../../src/commands/ask-queue.ts';
import { FileFollower, type FollowedFile } from '../../../../src/commands/fleet/run-fleet.ts';
import { until } from '../../../support/poll.ts';

const fleet = (max: number | string) =>
  `providers: { here: { driver: process } }\npools: { a: { model: m, max: ${max}, machines: [{ provider: here }] } }\n`;

let folder: string;
let path: string;
let applied: number[];
let said: string[];
let follower: FileFollower;
let failures: Error[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'worker-vllm-test-'));
  path = join(folder, 'fleet.yaml');
  [applied, said, failures] = [[], [], []];
  writeFileSync(path, fleet(1));
  follower = new FileFollower(followed());
  await follower.start();
});

function followed(): FollowedFile {
  return {
    path,
    env: {},
    say: (text) => said.push(text),
    apply: async ({ spec }) => {
      const failure = failures.shift();
      if (failure) throw failure;
      applied.push(spec.pools.a!.max);
    },
  };
}

afterEach(() => {
  follower.stop();
  rmSync(folder, { recursive: true });
});

const untilApplied = (...wanted: number[]) =>
  until(() => JSON.stringify(applied) === JSON.stringify(wanted), `${wanted} were applied`);

describe('a fleet file that is followed', () => {
  it('is applied at once, when it is written, and when another file takes its place', async () => {
    expect(applied).toEqual([1]);
    writeFileSync(path, fleet(2));
    await untilApplied(1, 2);
    writeFileSync(join(folder, 'new'), fleet(3));
    renameSync(join(folder, 'new'), path);
    await untilApplied(1, 2, 3);
  });

  it('is not applied with faults: it says them, and the one before stays in force until it is mended', async () => {
    writeFileSync(path, fleet('many'));
    await until(() => said.length > 0, 'the fault is told');
    expect(said[0]).toMatch(/fleet.yaml:2:\d+: pools.a.max: expected a number, not "many"\n.*stays in force/);
    writeFileSync(path, fleet(4));
    await untilApplied(1, 4);
  });

  it('is applied again when asked, changed or not', async () => {
    follower.again();
    await untilApplied(1, 1);
  });

  it('waits for a queue that is not there yet, and says so', async () => {
    follower.stop();
    failures = [new UnreachableQueue('The queue cannot be reached.')];
    follower = new FileFollower(followed());
    await follower.start();
    expect(said).toEqual(['The queue cannot be reached. Trying again every 3 s.']);
    await untilApplied(1, 1);
  });

  it('is applied later where the queue is away', async () => {
    failures = [new UnreachableQueue('away')];
    writeFileSync(path, fleet(5));
    await untilApplied(1, 5);
    expect(said).toEqual([]);
  });
});
