import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../../support/poll.ts';
import { Held } from './held.ts';

let held: Held;

beforeEach(async () => {
  held = await Held.make();
});
afterEach(() => held.end());

describe('a socket of an object', () => {
  it('brings messages in order, and what the host was told of its peer stays with it', async () => {
    const peer = await held.dial('someone');
    for (const message of ['1', '2', '3']) peer.socket.send(message);
    peer.socket.send(Buffer.from([255, 0]));
    await until(() => held.newest.heard.length === 4, 'all have come');
    expect(held.newest.heard).toEqual([
      ['someone', '1'],
      ['someone', '2'],
      ['someone', '3'],
      ['someone', Buffer.from([255, 0])],
    ]);
  });

  it('answers pings by itself and tells when the last one came', async () => {
    const peer = await held.dial();
    const before = Date.now();
    peer.socket.send('ping?');
    await until(() => peer.heard.length > 0, 'the pong has come');
    expect([peer.heard, held.newest.heard]).toEqual([['pong.'], []]);
    expect(held.newest.host.sockets()[0]!.pingedAt()).toBeGreaterThanOrEqual(before);
  });

  it('sends text and bytes in order', async () => {
    const peer = await held.dial();
    await held.run((object) => {
      const [socket] = object.host.sockets();
      socket!.send('text');
      socket!.send(new Uint8Array([1, 2]));
      object.keep('a');
      socket!.send('later');
    });
    await until(() => peer.heard.length === 3, 'all have come');
    expect(peer.heard).toEqual(['text', '0102', 'later']);
  });

  it('writes the frames of one turn at once', async () => {
    const peer = await held.dial();
    let reads = 0;
    peer.stream.on('data', () => {
      reads += 1;
    });
    const frames = Array.from({ length: 100 }, (_, n) => String(n));
    await held.run((object) => {
      for (const frame of frames) object.host.sockets()[0]!.send(frame);
    });
    await until(() => peer.heard.length === frames.length, 'all have come');
    expect([peer.heard, reads]).toEqual([frames, 1]);
  });

  it('brings nothing after the object has closed it', async () => {
    const peer = await held.dial();
    await held.run((object) => {
      object.onMessage = (socket) => socket.close(4000, 'enough');
    });
    peer.socket.send('1');
    peer.socket.send('2');
    await until(() => peer.closed, 'it is closed');
    expect(peer.closed).toEqual({ code: 4000, reason: 'enough' });
    await until(() => held.newest.left.length > 0, 'the object has heard of it');
    expect(held.newest.heard).toEqual([['peer', '1']]);
    expect(held.newest.host.sockets()).toEqual([]);
  });

  it('tells how its peer has closed it, or that the connection broke', async () => {
    const [closing, breaking] = [await held.dial('closing'), await held.dial('breaking')];
    closing.socket.close(4001, 'bye');
    breaking.socket.terminate();
    await until(() => held.newest.left.length === 2, 'both have ended');
    expect(held.newest.left.sort()).toEqual([
      ['breaking', null],
      ['closing', 4001],
    ]);
  });

  it('closes with 1012 when its object restarts, and the next object may be dialled', async () => {
    const peer = await held.dial();
    await held.run((object) => object.host.restart('it was asked to')).catch(() => {});
    await until(() => peer.closed, 'it is closed');
    expect(peer.closed!.code).toBe(1012);
    const again = await held.dial();
    again.socket.send('1');
    await until(() => held.newest.heard.length === 1, 'its message has come');
    expect(held.made).toHaveLength(2);
  });

  it('closes with 1012 when the process ends, behind what was sent before', async () => {
    const peer = await held.dial();
    await held.run((object) => object.host.sockets()[0]!.send('last'));
    await held.objects.stop();
    await until(() => peer.closed, 'it is closed');
    expect([peer.heard, peer.closed!.code]).toEqual([['last'], 1012]);
  });

  it('closes though its object does not come to an end', async () => {
    const peer = await held.dial();
    await held.run((object) => {
      object.onLeave = () => new Promise(() => {});
    });
    await held.objects.stop();
    await until(() => peer.closed, 'it is closed');
  });

  it('that the object fails to open is closed, and the object hears no more of it', async () => {
    await held.stub().keeps!();
    held.newest.opened = () => {
      throw new Error('a socket that fails');
    };
    const peer = await held.dial();
    await until(() => peer.closed, 'it is closed');
    expect(peer.closed!.code).toBe(1011);
    await until(async () => (await held.run((object) => object.host.sockets().length)) === 0, 'it is gone');
    expect(held.newest.left).toEqual([]);
    expect(held.made).toHaveLength(1);
  });

  it('whose message makes the object fail is closed, and the others go on', async () => {
    const [peer, other] = [await held.dial('peer'), await held.dial('other')];
    await held.run((object) => {
      object.onMessage = (_, message) => {
        if (message === 'bad') throw new Error('a message that fails');
      };
    });
    peer.socket.send('bad');
    await until(() => peer.closed, 'it is closed');
    expect(peer.closed!.code).toBe(1011);
    other.socket.send('good');
    await until(() => held.newest.heard.some(([name]) => name === 'other'), 'the other is heard');
    expect(held.made).toHaveLength(1);
  });
});
