import { describe, expect, test } from 'vitest';
import { Adapters } from '../../../src/worker/adapters/adapters.ts';
import { FakeEngine } from '../../support/fake-engine.ts';
import { settled, VirtualClock } from '../../support/virtual-clock.ts';

const FOREVER = new AbortController().signal;

/** The worker's adapters over an engine that a test answers for. */
class Bench {
  readonly clock = new VirtualClock();
  readonly engine = new FakeEngine();
  readonly told: string[][] = [];
  missing: string | null = null;
  readonly adapters: Adapters;

  constructor(room: number, names = ['red', 'green', 'blue']) {
    const silent = () => {};
    const log = { debug: silent, info: silent, warn: silent, error: silent };
    const folderOf = async ({ name }: { name: string }) => {
      if (this.missing === name) throw new Error('it is not there');
      return `/adapters/${name}`;
    };
    const list = names.map((name) => ({ name, source: `org/${name}` }));
    this.adapters = new Adapters({ clock: this.clock, engine: this.engine, log, folderOf }, list, room);
    this.adapters.listen(({ loaded }) => this.told.push(loaded));
    this.adapters.engineServes(['tiny'], []);
  }

  /** What the engine was asked for, `load red`. */
  get asked(): string[] {
    return this.engine.exchanges.map(
      ({ call, body }) => `${call.path.split('/')[2]!.split('_')[0]} ${body.lora_name}`,
    );
  }

  async answer(status = 200, body: object | string = 'Success'): Promise<void> {
    this.engine.last.json(status, body);
    await settled();
  }

  /** Loads one that nobody else has asked for. */
  async use(name: string): Promise<() => void> {
    const used = this.adapters.use(name, FOREVER);
    await settled();
    while (this.asked.at(-1) !== `load ${name}`) await this.answer();
    await this.answer();
    return await used;
  }
}

describe('adapters', () => {
  test('are loaded once, from their folder, when they are first needed', async () => {
    const bench = new Bench(2);
    const both = [bench.adapters.use('red', FOREVER), bench.adapters.use('red', FOREVER)];
    await settled();
    expect(bench.engine.last.body).toEqual({ lora_name: 'red', lora_path: '/adapters/red' });
    await bench.answer();
    await Promise.all(both);
    await bench.adapters.use('red', FOREVER);
    expect(bench.asked).toEqual(['load red']);
    expect(bench.told.at(-1)).toEqual(['red']);
  });

  test('give way, the one unused for longest first, and never one that is in use', async () => {
    const bench = new Bench(2);
    (await bench.use('red'))();
    const release = await bench.use('green');
    (await bench.adapters.use('red', FOREVER))();
    await bench.use('blue');
    expect(bench.asked).toEqual(['load red', 'load green', 'unload red', 'load blue']);
    release();
    await bench.use('red');
    expect(bench.asked.slice(4)).toEqual(['unload green', 'load red']);
  });

  test('let one in though those that are loaded are always asked for', async () => {
    const bench = new Bench(1);
    const release = await bench.use('red');
    const green = bench.adapters.use('green', FOREVER);
    const redAgain = bench.adapters.use('red', FOREVER);
    await settled();
    expect(bench.asked).toEqual(['load red']);
    release();
    await settled();
    await bench.answer();
    await bench.answer();
    (await green)();
    await settled();
    await bench.answer();
    await bench.answer();
    await redAgain;
    expect(bench.asked).toEqual(['load red', 'unload red', 'load green', 'unload green', 'load red']);
  });

  test('that are being unloaded are loaded again for who comes for them', async () => {
    const bench = new Bench(1);
    (await bench.use('red'))();
    const hangsUp = new AbortController();
    const green = bench.adapters.use('green', hangsUp.signal);
    await settled();
    hangsUp.abort();
    await expect(green).rejects.toThrow();
    let isGranted = false;
    const red = bench.adapters.use('red', FOREVER).then(() => {
      isGranted = true;
    });
    await settled();
    expect([bench.asked, isGranted]).toEqual([['load red', 'unload red'], false]);
    await bench.answer();
    await bench.answer();
    await red;
    expect(bench.asked).toEqual(['load red', 'unload red', 'load red']);
    expect(bench.told.at(-1)).toEqual(['red']);
  });

  test('that are loaded already are loaded', async () => {
    const bench = new Bench(1);
    const used = bench.adapters.use('red', FOREVER);
    await settled();
    await bench.answer(400, { error: { message: "The lora adapter 'red' has already been loaded." } });
    await used;
    expect(bench.adapters.state.failed).toEqual([]);
  });

  test.each([
    [500, { error: { message: 'LoRA rank 64 is greater than max_lora_rank 16.' } }, /rank 64 is greater/],
    [404, { detail: 'Not Found' }, /VLLM_ALLOW_RUNTIME_LORA_UPDATING/],
  ])('fail by name and reason (%i), and are tried again after a while', async (status, body, reason) => {
    const bench = new Bench(1);
    const used = bench.adapters.use('red', FOREVER);
    await settled();
    bench.engine.last.json(status, body);
    await expect(used).rejects.toMatchObject({
      message: expect.stringMatching(/^the adapter "red" could not be loaded: /),
      failure: { code: 'adapter_failed', retryable: true },
    });
    expect(bench.adapters.state.failed).toMatchObject([
      { name: 'red', reason: expect.stringMatching(reason) },
    ]);
    await expect(bench.adapters.use('red', FOREVER)).rejects.toThrow(reason);
    expect(bench.asked).toEqual(['load red']);
    await bench.clock.advance(30_000);
    await bench.use('red');
    expect(bench.adapters.state.failed).toEqual([]);
  });

  test('that are not on the machine fail without a word to the engine', async () => {
    const bench = new Bench(1);
    bench.missing = 'red';
    await expect(bench.adapters.use('red', FOREVER)).rejects.toThrow('it is not there');
    expect(bench.asked).toEqual([]);
    await bench.use('green');
  });

  test('of an engine that starts anew are loaded again', async () => {
    const bench = new Bench(2);
    (await bench.use('red'))();
    bench.adapters.engineServes(['tiny'], []);
    expect(bench.adapters.state.loaded).toEqual([]);
    await bench.use('red');
    bench.adapters.engineServes(['tiny', 'red'], []);
    expect(bench.adapters.state.loaded).toEqual(['red']);
  });

  test('are told with their parent, and not with their path', () => {
    const bench = new Bench(2, ['red']);
    const cards = [{ id: 'tiny' }, { id: 'red', root: '/adapters/red', parent: 'tiny' }];
    const told = bench.adapters.engineServes(['tiny', 'red'], cards);
    expect(told.names).toEqual(['tiny', 'red']);
    expect(told.cards).toMatchObject([{ id: 'tiny' }, { id: 'red', parent: 'tiny' }]);
    expect(JSON.stringify(told)).not.toContain('/adapters');
  });

  test('keep nobody in line who has gone', async () => {
    const bench = new Bench(1);
    const release = await bench.use('red');
    const gone = new AbortController();
    const green = bench.adapters.use('green', gone.signal);
    gone.abort();
    await expect(green).rejects.toThrow();
    const blue = bench.adapters.use('blue', FOREVER);
    release();
    await settled();
    await bench.answer();
    await bench.answer();
    await blue;
    expect(bench.asked).toEqual(['load red', 'unload red', 'load blue']);
  });
});
