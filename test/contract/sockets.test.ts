import { describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { promisesOfHosts } from './host-under-test.ts';

/** What src/durable/host.ts promises of sockets. */
promisesOfHosts((host) => {
  describe('sockets', () => {
    it('keep what was saved of each', async () => {
      const probe = host.probe();
      const [anna, bert] = [await probe.open('anna'), await probe.open('bert')];
      for (const peer of [anna, bert, anna]) peer.say({ count: true });
      expect(JSON.parse(String(await anna.next(1)))).toEqual({ name: 'anna', messages: 2 });
      expect(JSON.parse(String(await bert.next()))).toEqual({ name: 'bert', messages: 1 });
      expect((await probe.ask('peers')).sort()).toEqual(['anna', 'bert']);
    });

    it('are told in the order in which they were written, with writes between them', async () => {
      const peer = await host.probe().open();
      peer.say({ burst: 500 });
      peer.say({ keep: 'last' });
      await peer.next(500);
      expect(peer.heard).toEqual([...Array.from({ length: 500 }, (_, n) => String(n)), 'last']);
    });

    it('carry bytes and text, empty and large ones too', async () => {
      const peer = await host.probe().open();
      const large = Uint8Array.from({ length: 500_000 }, (_, n) => n % 251);
      for (const bytes of [new Uint8Array(), Uint8Array.of(1, 2, 3), large]) peer.say(bytes);
      await peer.next(2);
      expect(peer.heard.map((bytes) => [...(bytes as Buffer).reverse()].length)).toEqual([0, 3, 500_000]);
      expect((peer.heard[2] as Buffer).equals(large)).toBe(true);
    });

    it('are all reached by their object', async () => {
      const probe = host.probe();
      const peers = await Promise.all(['a', 'b', 'c'].map((name) => probe.open(name)));
      peers[0]!.say({ all: 'for all' });
      for (const peer of peers) expect(await peer.next()).toBe('for all');
    });

    it('are answered a ping by the host, which the object does not hear', async () => {
      const probe = host.probe();
      const peer = await probe.open();
      expect(await probe.ask('pinged')).toEqual([0]);
      const before = Date.now();
      peer.say('ping?');
      expect(await peer.next()).toBe('pong.');
      expect((await probe.ask('pinged'))[0]).toBeGreaterThanOrEqual(before - 1);
      peer.say({ count: true });
      expect(JSON.parse(String(await peer.next(1)))).toMatchObject({ messages: 1 });
    });

    it('are closed by the object with its code and reason', async () => {
      const probe = host.probe();
      const peer = await probe.open();
      peer.say({ close: [4001, 'enough'] });
      await until(() => peer.closed, 'it is closed');
      expect(peer.closed).toEqual({ code: 4001, reason: 'enough' });
      await until(async () => (await probe.ask('peers')).length === 0, 'it is open no more');
    });

    it('tell the object how their peers left', async () => {
      const probe = host.probe();
      const [leaves, vanishes] = [await probe.open('leaves'), await probe.open('vanishes')];
      leaves.leave(4002);
      await until(async () => (await probe.ask('ends')).length === 1, 'one has left');
      vanishes.vanish();
      await until(async () => (await probe.ask('ends')).length === 2, 'both have left');
      expect(await probe.ask('ends')).toEqual([
        ['leaves', 4002],
        ['vanishes', null],
      ]);
      expect(await probe.ask('peers')).toEqual([]);
    });

    it('are refused with 503 and a reason where the object takes no more', async () => {
      const probe = host.probe();
      const peer = await probe.open();
      await probe.ask('takeNoMore', 'There are too many.');
      expect(await probe.refusal()).toEqual([503, 'There are too many.']);
      peer.say({ count: true });
      expect(JSON.parse(String(await peer.next()))).toMatchObject({ messages: 1 });
      await probe.ask('takeNoMore', null);
      await probe.open('another');
    });

    it('end with their object', async () => {
      const probe = host.probe();
      const peer = await probe.open();
      await probe.ask('keepAndRestart', 'lost').catch(() => {});
      await until(() => peer.closed, 'it is closed');
      expect(await probe.ask('peers')).toEqual([]);
    });
  });
});
