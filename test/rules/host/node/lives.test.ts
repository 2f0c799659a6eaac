import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { until } from '../../../support/poll.ts';
import { Held } from './held.ts';

let held: Held;

beforeEach(async () => {
  held = await Held.make();
});
afterEach(() => held.end());

describe('an object', () => {
  it('is made by its first call, once, and has tables of its own', async () => {
    await Promise.all([held.run((object) => object.keep('a')), held.run((object) => object.keep('b'))]);
    await held.run((object) => object.keep('c'), 'other');
    expect(await held.stub().keeps!()).toEqual(['a', 'b']);
    expect(await held.stub('other').keeps!()).toEqual(['c']);
    expect(held.made.map(([queueId]) => queueId)).toEqual(['queue', 'other']);
  });

  it('keeps what it has answered, over an end of the process', async () => {
    await held.run((object) => object.keep('a'));
    await held.objects.stop();
    held.start();
    expect(await held.stub().keeps!()).toEqual(['a']);
  });

  it('gets copies of what it is asked, bytes too, and answers with copies', async () => {
    const mine = { list: ['mine'], bytes: new Uint8Array([1]) };
    const asked = held.stub().runNow!((object: Held['newest'], given: typeof mine) => {
      object.keep(given.list.join());
      return [given, given.bytes[0]];
    }, mine);
    // The object is only being made.
    mine.list.push('changed');
    mine.bytes[0] = 2;
    const [answer, byte] = (await asked) as [typeof mine, number];
    expect([answer.list, byte]).toEqual([['mine'], 1]);
    expect(await held.stub().keeps!()).toEqual(['mine']);
    const theirs = { list: ['theirs'] };
    const lent = (await held.stub().run!(() => theirs)) as typeof theirs;
    expect(lent).toEqual(theirs);
    expect(lent.list).not.toBe(theirs.list);
  });

  it('that cannot be made tells why, is not tried again by each call, and a later one makes it', async () => {
    let tried = 0;
    held.onMake = () => {
      tried += 1;
      throw new Error('written by another version');
    };
    for (let time = 0; time < 20; time += 1) {
      const asked = [held.stub().keeps!(), held.stub().keeps!()];
      for (const { status, reason } of (await Promise.allSettled(asked)) as PromiseRejectedResult[])
        expect([status, String(reason)]).toEqual(['rejected', 'Error: written by another version']);
    }
    // A busy machine may take longer than the pause.
    expect(tried).toBeLessThan(20);
    // The operator may put another database in its place.
    await rm(join(held.dataDir, 'queue', 'queue.sqlite'));
    held.onMake = () => {};
    const kept = await until(
      () => (held.stub().keeps!() as Promise<string[]>).catch(() => null),
      'it is made',
    );
    expect(kept).toEqual([]);
    expect(await readdir(join(held.dataDir, 'queue'))).toContain('queue.sqlite');
  });

  it('that restarts while it is made is made by the next call', async () => {
    held.onMake = (host) => host.restart('not yet');
    await expect(held.stub().keeps!()).rejects.toMatchObject({ message: 'not yet', retryable: true });
    held.onMake = () => {};
    expect(await held.stub().keeps!()).toEqual([]);
  });

  it('answers an error that it throws to its caller alone', async () => {
    await held.run((object) => object.keep('a'));
    const refuse = () => {
      throw new Error('no');
    };
    await expect(held.stub().run!(refuse)).rejects.toThrow('no');
    expect(await held.stub().keeps!()).toEqual(['a']);
    expect(held.made).toHaveLength(1);
  });

  it('is made anew where it throws with half of its work written', async () => {
    await held.run((object) => object.keep('a'));
    const waiting = held.run(() => new Promise(() => {}));
    waiting.catch(() => {});
    const half = held.stub().runNow!((object: Held['newest']) => {
      object.keep('half');
      throw new Error('the rest is missing');
    });
    await expect(half).rejects.toThrow('the rest is missing');
    await expect(waiting).rejects.toMatchObject({ retryable: true });
    expect(await held.stub().keeps!()).toEqual(['a']);
    expect(held.made).toHaveLength(2);
    expect(held.lines.map(([level]) => level)).toContain('error');
  });

  it('is not made anew where what it wrote was undone', async () => {
    const undone = held.stub().runNow!((object: Held['newest']) =>
      object.host.transaction(() => {
        object.keep('half');
        throw new Error('no');
      }),
    );
    await expect(undone).rejects.toThrow('no');
    expect(await held.stub().keeps!()).toEqual([]);
    expect(held.made).toHaveLength(1);
  });
});

describe('a call', () => {
  it('is not run before its caller waits, though that one is called in turn', async () => {
    await Promise.all([held.stub().keeps!(), held.stub('other').keeps!()]);
    const order: string[] = [];
    const again = Promise.withResolvers<void>();
    await held.run((object) => {
      order.push('begins');
      void object.other('other').run!((other: Held['newest']) => {
        order.push('the other');
        void other.other('queue').run!(() => {
          order.push('again');
          again.resolve();
        });
      });
      order.push('waits');
    });
    await again.promise;
    expect(order).toEqual(['begins', 'waits', 'the other', 'again']);
  });

  it('whose write fails leaves the object as it is where nothing else was written', async () => {
    await held.stub().keeps!();
    const shell = new DatabaseSync(join(held.dataDir, 'queue', 'queue.sqlite'));
    shell.exec('BEGIN IMMEDIATE');
    const refused = held.stub().runNow!((object: Held['newest']) => object.keep('a'));
    await expect(refused).rejects.toThrow('SQLITE_BUSY');
    shell.close();
    expect(await held.stub().keeps!()).toEqual([]);
    expect(held.made).toHaveLength(1);
  });

  it('whose answer cannot be copied fails', async () => {
    let deep: unknown = null;
    for (let n = 0; n < 100_000; n++) deep = [deep];
    await expect(held.run(() => deep)).rejects.toThrow('call stack');
  });
});

describe('an object that ends while it is made', () => {
  it('is made by the next call', async () => {
    held.onMake = (host) => host.restart('at once');
    await expect(held.stub().keeps!()).rejects.toMatchObject({ message: 'at once', retryable: true });
    held.onMake = () => {};
    expect(await held.stub().keeps!()).toEqual([]);
  });

  it('again and again waits for one time at which it is made without a call', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      held.onMake = () => {
        throw new Error('written by another version');
      };
      for (let n = 0; n < 5; n++) await expect(held.stub().keeps!()).rejects.toThrow('another version');
      expect(vi.getTimerCount()).toBe(1);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('a restart', () => {
  it('undoes what is not committed, and pending calls may be repeated', async () => {
    await held.run((object) => object.keep('a'));
    const restarted = held.run((object) => {
      object.keep('b');
      object.host.restart('it was asked to');
    });
    await expect(restarted).rejects.toMatchObject({ message: 'it was asked to', retryable: true });
    expect(await held.stub().keeps!()).toEqual(['a']);
    expect(held.made).toHaveLength(2);
  });

  it('ends the timers of the object, and its statements', async () => {
    let fired = false;
    const restarted = held.run((object) => {
      object.host.after(1, () => {
        fired = true;
      });
      object.host.restart('it was asked to');
    });
    await expect(restarted).rejects.toThrow('it was asked to');
    expect(() => held.newest.host.sql.exec('SELECT 1')).toThrow('it was asked to');
    await held.run((object) => new Promise<void>((done) => void object.host.after(20, done)));
    expect(fired).toBe(false);
  });

  it('tells the old object nothing of what it had asked', async () => {
    let heard = false;
    const old = held.run((object) => {
      void (object.other('other').keeps!() as Promise<unknown>).then(() => {
        heard = true;
      });
      object.host.restart('it was asked to');
    });
    await expect(old).rejects.toMatchObject({ retryable: true });
    await held.stub('other').keeps!();
    await held.stub().keeps!();
    expect(heard).toBe(false);
  });

  it('of one object leaves the others alone', async () => {
    const waiting = held.run(
      (object) => new Promise((done) => object.host.after(50, () => done('here'))),
      'other',
    );
    await held.run((object) => object.host.restart('it was asked to')).catch(() => {});
    expect(await waiting).toBe('here');
  });

  it('follows where a timer throws', async () => {
    const failed = held.run((object) => {
      object.host.after(1, () => {
        throw new Error('a timer that fails');
      });
      return new Promise(() => {});
    });
    await expect(failed).rejects.toMatchObject({ retryable: true });
    const failure = () => held.lines.find(([, , { error }]) => String(error).includes('a timer that fails'));
    await until(failure, 'its error is logged');
    await held.stub().keeps!();
    expect(held.made).toHaveLength(2);
  });

  it('does not follow where work in the background fails, which is logged', async () => {
    await held.run((object) => object.host.background(Promise.reject(new Error('in the background'))));
    await until(
      () => held.lines.some(([, , { error }]) => String(error).includes('in the background')),
      'it is logged',
    );
    await held.stub().keeps!();
    expect(held.made).toHaveLength(1);
  });
});
