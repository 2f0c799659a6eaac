import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../../support/poll.ts';
import { Held } from './held.ts';

const { fdatasync } = fs;

/** Ends the syncs that wait; null: each ends by itself. */
let release: (() => void) | null = null;
let held: Held;

beforeEach(async () => {
  held = await Held.make();
  await held.stub().keeps!();
  await held.stub('other').keeps!();
});
afterEach(async () => {
  release?.();
  fs.fdatasync = fdatasync;
  syncBuiltinESMExports();
  await held.end();
});

/** From now on no sync ends. */
function holdSyncs(): void {
  const waiting: (() => void)[] = [];
  const hold = ((...asked: Parameters<typeof fdatasync>) => {
    if (release) waiting.push(() => fdatasync(...asked));
    else fdatasync(...asked);
  }) as typeof fdatasync;
  release = () => {
    release = null;
    for (const sync of waiting) sync();
  };
  fs.fdatasync = Object.assign(hold, { __promisify__: fdatasync.__promisify__ });
  syncBuiltinESMExports();
}

async function turns(): Promise<void> {
  for (let n = 0; n < 20; n++) await turn();
}

describe('while what an object wrote is on its way to the disk', () => {
  it('nothing leaves it, and then all in order', async () => {
    const peer = await held.dial();
    holdSyncs();
    const left: string[] = [];
    const answered = held.run((object) => {
      object.keep('a');
      object.host.sockets()[0]!.send('first');
      object.host.sockets()[0]!.send('second');
      void object.other('other').run!(() => left.push('call'));
    });
    void answered.then(() => left.push('answer'));
    await turns();
    expect([left, peer.heard]).toEqual([[], []]);
    release!();
    await answered;
    await until(() => peer.heard.length === 2, 'its frames have come');
    expect([left.sort(), peer.heard]).toEqual([
      ['answer', 'call'],
      ['first', 'second'],
    ]);
  });

  it('calls and frames of other objects leave at once', async () => {
    holdSyncs();
    const writes = held.run((object) => object.keep('a'));
    await turns();
    expect(await held.stub('other').keeps!()).toEqual([]);
    release!();
    await writes;
  });

  it('pings are answered', async () => {
    const peer = await held.dial();
    holdSyncs();
    const writes = held.run((object) => object.keep('a'));
    await turns();
    peer.socket.send('ping?');
    await until(() => peer.heard.includes('pong.'), 'the pong has come');
    release!();
    await writes;
  });

  it('what is written is gathered in one group', async () => {
    holdSyncs();
    const group = ['a', 'b', 'c'].map((key) =>
      held.run(async (object) => {
        await object.host.gathered();
        object.keep(key);
      }),
    );
    await turns();
    release!();
    await Promise.all(group);
    expect(await held.stub().keeps!()).toEqual(['a', 'b', 'c']);
  });
});
