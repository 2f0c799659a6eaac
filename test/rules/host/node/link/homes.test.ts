import { expect, it } from 'vitest';
import { Homes } from '../../../../../src/host/node/link/homes.ts';

const figures = (streams: number, received_bytes: number) => ({ q: { streams, received_bytes } });

it('gives each process a number of its own, from 1 to 255', () => {
  const homes = new Homes();
  const given = Array.from({ length: 255 }, (_, index) => homes.join(`i${index}`, 'a:1', null));
  expect(new Set(given).size).toBe(255);
  expect(Math.min(...given)).toBe(1);
  expect(Math.max(...given)).toBe(255);
  expect(() => homes.join('one more', 'a:1', null)).toThrow('255 gateway processes');
});

it('gives a process its number again, to an owner that was started again too', () => {
  const homes = new Homes();
  const home = homes.join('one', 'a:1', null);
  homes.leave(home);
  expect(homes.join('one', 'a:1', home)).toBe(home);
  expect(new Homes().join('one', 'a:1', 77)).toBe(77);
});

it('gives a process another number where somebody has its own', () => {
  const homes = new Homes();
  homes.join('one', 'a:1', 77);
  expect(homes.join('two', 'b:1', 77)).not.toBe(77);
});

it('keeps the number of a process that is away, as long as there are others', () => {
  const homes = new Homes();
  for (let home = 1; home <= 254; home++) homes.join(`i${home}`, 'a:1', home);
  homes.leave(9);
  homes.leave(4);
  expect(homes.join('new', 'b:1', null)).toBe(255);
  expect(homes.join('newer', 'b:1', null)).toBe(9);
  expect(homes.join('i9', 'a:1', 9)).toBe(4);
});

it('lists the processes that are linked', () => {
  const homes = new Homes();
  homes.join('one', 'a:1', 1);
  homes.join('two', 'b:2', 2);
  homes.leave(1);
  expect(homes.peers()).toEqual([{ home: 2, instance: 'two', address: 'b:2' }]);
});

it('sums the figures, and forgets no bytes of processes that are gone', () => {
  const homes = new Homes();
  homes.join('one', 'a:1', 1);
  homes.join('two', 'b:2', 2);
  homes.tell(1, figures(3, 100));
  homes.tell(2, figures(4, 10));
  expect(homes.figures('q')).toEqual({ streams: 7, received_bytes: 110 });
  homes.leave(1);
  expect(homes.figures('q')).toEqual({ streams: 4, received_bytes: 110 });
  homes.join('one', 'a:1', 1);
  homes.tell(1, figures(1, 150));
  expect(homes.figures('q')).toEqual({ streams: 5, received_bytes: 160 });
  homes.leave(1);
  for (let more = 0; more < 254; more++) homes.join(`more ${more}`, 'c:1', null);
  expect(homes.figures('q')).toEqual({ streams: 4, received_bytes: 160 });
});

it('gives no number that a process may not have', () => {
  for (const had of [0, -1, 256, 1.5, Number.NaN]) {
    const home = new Homes().join('one', 'a:1', had);
    expect(home).toBeGreaterThanOrEqual(1);
    expect(home).toBeLessThanOrEqual(255);
    expect(Number.isInteger(home)).toBe(true);
  }
});
