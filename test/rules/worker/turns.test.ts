import { describe, expect, test } from 'vitest';
import { SwappedEngine } from '../../../src/worker/turns/swapped-engine.ts';
import { Turns } from '../../../src/worker/turns/turns.ts';
import { FakeEngine } from '../../support/fake-engine.ts';
import { settled, VirtualClock } from '../../support/virtual-clock.ts';

describe('turns at a GPU', () => {
  function turns() {
    const told: string[] = [];
    return { told, turns: new Turns({ tell: (name, word) => told.push(`${name} ${word}`) }) };
  }

  test('go to one at a time, in the order in which they were asked for', () => {
    const { told, turns: all } = turns();
    for (const name of ['a', 'b', 'c', 'b']) all.want(name);
    expect(told).toEqual(['a wake', 'a wanted', 'a wanted']);
    all.asleep('a');
    all.want('a');
    all.asleep('b');
    all.asleep('c');
    expect(told.slice(3)).toEqual(['b wake', 'b wanted', 'b wanted', 'c wake', 'c wanted', 'a wake']);
  });

  test('pass over one that is gone, and go on when it had one', () => {
    const { told, turns: all } = turns();
    for (const name of ['a', 'b', 'c']) all.want(name);
    all.gone('b');
    all.gone('a');
    all.gone('c');
    expect(told).toEqual(['a wake', 'a wanted', 'a wanted', 'c wake']);
  });

  test('end only with the word of the one whose turn it is', () => {
    const { told, turns: all } = turns();
    all.want('a');
    all.want('b');
    all.asleep('b');
    expect(told).toEqual(['a wake', 'a wanted']);
  });
});

class Bench {
  readonly clock = new VirtualClock();
  readonly engine = new FakeEngine();
  readonly told: string[] = [];
  /** How often it said that it turned. */
  turned = 0;
  readonly shared: SwappedEngine;

  constructor() {
    const silent = () => {};
    const log = { debug: silent, info: silent, warn: silent, error: silent };
    const { clock, engine, told } = this;
    this.shared = new SwappedEngine({
      clock,
      engine,
      log,
      awakeMs: 30_000,
      tell: (word) => told.push(word),
      turned: () => {
        this.turned += 1;
      },
    });
  }

  /** Once its engine is up. */
  async up(): Promise<this> {
    const first = this.ask();
    await settled();
    await this.answer();
    await first;
    this.shared.started();
    this.engine.exchanges.length = 0;
    return this;
  }

  get asked(): string[] {
    return this.engine.exchanges.map(({ call }) => call.path);
  }

  /** Reads its answer to the end. */
  async ask(signal = new AbortController().signal): Promise<void> {
    const { body } = await this.shared.request({
      method: 'POST',
      path: '/v1/completions',
      body: '{}',
      signal,
    });
    for await (const _ of body);
  }

  async answer(): Promise<void> {
    this.engine.last.json(200, {});
    await settled();
  }

  async sleep(): Promise<void> {
    this.shared.hear('wanted');
    await settled();
    await this.answer();
  }
}

describe('an engine that shares its GPU', () => {
  test('sleeps at once when another one waits and it is idle', async () => {
    const bench = await new Bench().up();
    await bench.sleep();
    expect([bench.asked, bench.told, bench.shared.state]).toEqual([['/sleep?level=1'], ['asleep'], 'asleep']);
  });

  test('keeps its first turn until its worker has asked all that comes before slots', async () => {
    const bench = new Bench();
    bench.shared.hear('wanted');
    await bench.shared.probe(1000);
    for (let before = 0; before < 2; before++) {
      const asked = bench.ask();
      await settled();
      await bench.answer();
      await asked;
      await bench.clock.advance(60_000);
      expect(bench.shared.state).toBe('awake');
    }
    bench.shared.started();
    expect(bench.shared.state).toBe('asleep');
  });

  test('finishes what runs, and after its time lets nothing new in', async () => {
    const bench = await new Bench().up();
    const first = bench.ask();
    await settled();
    const running = bench.engine.last;
    bench.shared.hear('wanted');
    await bench.clock.advance(29_000);
    const second = bench.ask();
    await settled();
    expect(bench.asked).toEqual(['/v1/completions', '/v1/completions']);
    await bench.answer();
    await second;
    await bench.clock.advance(2000);
    expect([bench.shared.state, bench.shared.awaitsTurn, bench.turned]).toEqual(['yielding', true, 1]);
    const third = bench.ask();
    await settled();
    expect(bench.asked).toHaveLength(2);
    running.json(200, {});
    await first;
    await settled();
    expect(bench.asked.at(-1)).toBe('/sleep?level=1');
    expect(bench.told).toEqual(['want']);
    await bench.answer();
    // The one that waits is told again: before it was its own turn.
    expect(bench.told).toEqual(['want', 'asleep', 'want']);
    bench.shared.hear('wake');
    await settled();
    await bench.answer();
    await settled();
    expect(bench.asked.slice(3)).toEqual(['/wake_up', '/v1/completions']);
    await bench.answer();
    await third;
  });

  test('asks for its turn when a request comes, and forgets one that goes', async () => {
    const bench = await new Bench().up();
    await bench.sleep();
    const gone = new AbortController();
    const request = bench.ask(gone.signal);
    await settled();
    expect(bench.told).toEqual(['asleep', 'want']);
    gone.abort(new Error('gone'));
    await expect(request).rejects.toThrow('gone');
    bench.shared.hear('wake');
    await settled();
    await bench.answer();
    expect(bench.asked).toEqual(['/sleep?level=1', '/wake_up']);
  });

  test('answers what waited for its turn, though another one waits already', async () => {
    const bench = await new Bench().up();
    await bench.sleep();
    const request = bench.ask();
    bench.shared.hear('wake');
    bench.shared.hear('wanted');
    await settled();
    await bench.answer();
    await settled();
    expect(bench.asked).toEqual(['/sleep?level=1', '/wake_up', '/v1/completions']);
    await bench.answer();
    await request;
    await settled();
    expect(bench.asked.at(-1)).toBe('/sleep?level=1');
  });

  test('that does not do it is asked again', async () => {
    const bench = await new Bench().up();
    bench.shared.hear('wanted');
    await settled();
    bench.engine.last.json(500, {});
    await settled();
    expect(bench.told).toEqual([]);
    await bench.clock.advance(1000);
    await settled();
    await bench.answer();
    expect([bench.asked.length, bench.told]).toEqual([2, ['asleep']]);
  });

  test('is not taken for one that hangs while it sleeps', async () => {
    const bench = await new Bench().up();
    await bench.sleep();
    const before = await bench.shared.gauges();
    await bench.clock.advance(1000);
    const after = await bench.shared.gauges();
    expect(after!.progress).not.toBe(before!.progress);
  });
});
