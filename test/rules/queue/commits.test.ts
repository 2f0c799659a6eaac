import { describe, expect, it, vi } from 'vitest';
import { Commits } from '../../../src/queue/object/commits.ts';

const WRITTEN = 'what goes with it is written';

/** Commits whose pieces of work note what becomes of them. */
class Stage {
  readonly seen: string[] = [];
  roundTrips = 0;
  /** What happens meanwhile. */
  roundTrip: () => void | Promise<void> = () => {};
  readonly commits = new Commits({
    transaction: (work) => {
      this.seen.push('begin');
      work();
      this.seen.push('end');
    },
    beforeCommit: () => this.seen.push(WRITTEN),
    done: () => this.seen.push('done'),
    roundTrip: async () => {
      this.roundTrips += 1;
      await this.roundTrip();
    },
    failed: (error) => this.seen.push(`failed with ${(error as Error).message}`),
  });

  together(name: string, fails = false): void {
    this.#note(name, this.commits.together(this.#work(name, fails)));
  }

  atOnce(name: string, fails = false): void {
    this.#note(name, this.commits.atOnce(this.#work(name, fails)));
  }

  #work = (name: string, fails: boolean) => () => {
    this.commits.defer(() => this.seen.push(`${name} is told`));
    if (fails) throw new Error(name);
  };

  #note(name: string, work: Promise<unknown>): void {
    work.then(
      () => this.seen.push(`${name} is answered`),
      () => this.seen.push(`${name} is refused`),
    );
  }
}

/** What was asked for before this has been done. */
const nextTurn = () => new Promise((done) => setTimeout(done, 1));

describe('work on the queue', () => {
  it('of one turn is done together, and all of it tells the world once it is through', async () => {
    const stage = new Stage();
    stage.together('a');
    stage.together('b');
    expect(stage.seen).toEqual([]);
    await nextTurn();
    expect(stage.seen).toEqual([
      'begin',
      WRITTEN,
      'end',
      'a is told',
      'b is told',
      'done',
      'a is answered',
      'b is answered',
    ]);
  });

  it('is gathered until a round trip brings nothing more, and no timer is waited for', async () => {
    const stage = new Stage();
    vi.useFakeTimers();
    try {
      stage.roundTrip = () => {
        if (stage.roundTrips < 3) stage.together(`more ${stage.roundTrips}`);
      };
      await stage.commits.together(() => stage.seen.push('first'));
    } finally {
      vi.useRealTimers();
    }
    expect(stage.roundTrips).toBe(3);
    expect(stage.seen.filter((step) => step === 'done')).toHaveLength(1);
    expect(stage.seen.filter((step) => step.endsWith('is told'))).toEqual([
      'more 1 is told',
      'more 2 is told',
    ]);
  });

  it('is done at last though more arrives in every round trip', async () => {
    const stage = new Stage();
    stage.roundTrip = () => stage.together('more');
    await stage.commits.together(() => {});
    expect(stage.roundTrips).toBe(16);
  });

  it('is done though the object cannot be reached by its own call', async () => {
    const stage = new Stage();
    stage.roundTrip = () => Promise.reject(new Error('broken'));
    expect(await stage.commits.together(() => 'done')).toBe('done');
  });

  it('that needs no commit is done at once, and tells the world when it is through', async () => {
    const stage = new Stage();
    stage.atOnce('a');
    expect(stage.seen).toEqual(['a is told', 'done']);
    await nextTurn();
    expect(stage.seen).toEqual(['a is told', 'done', 'a is answered']);
  });

  it.each(['together', 'atOnce'] as const)(
    'that throws (%s) is the last that is done, and nothing is told of what was to be committed with it',
    async (way) => {
      const stage = new Stage();
      stage.together('before');
      await nextTurn();
      stage.seen.splice(0);
      if (way === 'together') stage.together('in the same batch');
      stage[way]('broken', true);
      stage.together('beside');
      await nextTurn();
      stage.together('later');
      stage.atOnce('later');
      await nextTurn();
      const ends = stage.seen.filter((step) => !['begin', 'end', 'done', WRITTEN].includes(step));
      expect(ends.toSorted()).toEqual(['broken is refused', 'failed with broken']);
    },
  );
});
