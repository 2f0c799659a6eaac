import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { queueFolder } from '../../../../src/state/folder.ts';
import { until } from '../../../support/poll.ts';
import { Held } from './held.ts';

let held: Held;

beforeEach(async () => {
  held = await Held.make();
});
afterEach(() => held.end());

const setAlarm = (inMs: number) =>
  held.run((object) => {
    object.host.alarm.set(object.host.now() + inMs);
    return object.host.alarm.get()!;
  });

describe('an alarm', () => {
  it('fires once, with the time for which it was set', async () => {
    const at = await setAlarm(20);
    await until(() => held.newest.alarms.length > 0, 'it has fired');
    expect(held.newest.alarms).toEqual([at]);
    expect(Date.now()).toBeGreaterThanOrEqual(at);
    expect(await held.run((object) => object.host.alarm.get())).toBeNull();
  });

  it('that is cleared does not fire', async () => {
    await setAlarm(1000);
    await held.run((object) => object.host.alarm.clear());
    await held.run((object) => new Promise<void>((done) => void object.host.after(1100, done)));
    expect(held.newest.alarms).toEqual([]);
  });

  it('is not fired again while its handler runs', async () => {
    const done = Promise.withResolvers<void>();
    await held.run((object) => {
      object.onAlarm = () => done.promise;
    });
    await setAlarm(0);
    await until(() => held.newest.alarms.length > 0, 'it has fired');
    await setAlarm(0);
    await held.run((object) => new Promise<void>((over) => void object.host.after(50, over)));
    expect(held.newest.alarms).toHaveLength(1);
    done.resolve();
    await until(() => held.newest.alarms.length === 2, 'it has fired again');
  });

  it('fires in the next process, though nobody calls the object', async () => {
    const at = await setAlarm(2000);
    await held.run((object) => object.keep('b'), 'without an alarm');
    await held.objects.stop();
    held.made.length = 0;
    held.start();
    await held.objects.wakeAll();
    await until(() => held.made.length > 0 && held.newest.alarms.length > 0, 'it has fired');
    expect(held.newest.alarms).toEqual([at]);
    expect(held.made.map(([queueId]) => queueId)).toEqual(['queue']);
    // The log goes with the close of its database.
    const files = () => readdir(join(held.dataDir, queueFolder('without an alarm')));
    await until(async () => (await files()).length === 1, 'what need not be made is closed');
  });

  it('wakes an object whose id is no name of a folder', async () => {
    const queueId = `../${'x'.repeat(300)}\ud800`;
    await held.run((object) => object.host.alarm.set(object.host.now() + 1000), queueId);
    await held.objects.stop();
    held.made.length = 0;
    held.start();
    await held.objects.wakeAll();
    await until(() => held.made.length > 0, 'it is made');
    expect(held.made[0]![0]).toBe(queueId);
  });

  it('fires in the next object where its handler has the object restart', async () => {
    await held.run((object) => {
      object.onAlarm = () => object.host.restart('it was asked to');
    });
    const at = await setAlarm(50);
    await until(() => held.made.length === 2, 'the next object is made');
    await until(() => held.newest.alarms.length > 0, 'it has fired');
    expect(held.newest.alarms).toEqual([at]);
  });

  it('that fails is tried again, and fires for the same time', async () => {
    await held.run((object) => {
      object.onAlarm = () => {
        if (object.alarms.length === 1) throw new Error('an alarm that fails');
      };
    });
    const at = await setAlarm(0);
    await until(() => held.newest.alarms.length === 2, 'it has fired again');
    expect(held.newest.alarms).toEqual([at, at]);
    expect(held.made).toHaveLength(1);
    expect(held.lines.some(([, , { error }]) => String(error).includes('an alarm that fails'))).toBe(true);
  });

  it('whose handler throws with half of its work written has the object made anew', async () => {
    await held.run((object) => {
      object.onAlarm = () => {
        object.keep('half');
        throw new Error('the rest is missing');
      };
    });
    // It may fire before this is on disk, and its caller then hears of the end.
    await setAlarm(0).catch(() => {});
    await until(() => held.made.length === 2 && held.newest.alarms.length > 0, 'it has fired again');
    expect(held.newest.alarms).toEqual(held.made[0]![1].alarms);
    expect(await held.stub().keeps!()).toEqual([]);
  });

  it('fires again where its end cannot be written', async () => {
    const done = Promise.withResolvers<void>();
    await held.run((object) => {
      object.onAlarm = () => done.promise;
    });
    const at = await setAlarm(0);
    await until(() => held.newest.alarms.length > 0, 'it has fired');
    const shell = new DatabaseSync(join(held.dataDir, 'queue', 'queue.sqlite'));
    shell.exec('BEGIN IMMEDIATE');
    done.resolve();
    // Whatever comes next waits for the end of the alarm, which waits for the lock.
    await held.stub().keeps!();
    shell.close();
    await until(() => held.newest.alarms.length === 2, 'it has fired again');
    expect(held.newest.alarms).toEqual([at, at]);
  });

  it('fires in the next process, whatever else is in the folder and whoever cannot be made', async () => {
    await held.run((object) => object.host.alarm.set(0), 'a');
    await held.run((object) => object.host.alarm.set(object.host.now() + 2000), 'b');
    await held.objects.stop();
    await writeFile(join(held.dataDir, '.DS_Store'), '');
    held.made.length = 0;
    held.onMake = async (host) => {
      if (host.queueId === 'b') return;
      host.restart('while it is made');
      await new Promise(() => {});
    };
    held.start();
    await held.objects.wakeAll();
    await until(() => held.made.length > 0 && held.newest.alarms.length > 0, 'it has fired');
    expect(held.made.map(([queueId]) => queueId)).toEqual(['b']);
  });
});
