import { describe, expect, it } from 'vitest';
import { Commits } from '../../../src/queue/commits.ts';

/** Commits whose pieces of work note what becomes of them. */
class Stage {
  readonly seen: string[] = [];
  readonly commits = new Commits({
    transaction: (work) => {
      this.seen.push('begin');
      const value = work();
      this.seen.push('end');
      return value;
    },
    done: () => this.seen.push('done'),
    failed: (error) => this.seen.push(`failed with ${(error as Error).message}`),
  });

  together(name: string, fails = false): void {
    this.#note(name, this.commits.together(this.#work(name, fails)));
  }

  atOnce(name: string, fails = false): void {
    this.#note(name, this.commits.atOnce(this.#work(name, fails)));
  }

  #work = (name: string, fails: boolean) => () => {
    this.commits.tell(() => this.seen.push(`${name} is told`));
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
  it('of one turn is done together, and each piece tells the world once it is through', async () => {
    const stage = new Stage();
    stage.together('a');
    stage.together('b');
    expect(stage.seen).toEqual([]);
    await nextTurn();
    const piece = (name: string) => ['begin', 'end', `${name} is told`];
    expect(stage.seen).toEqual([...piece('a'), ...piece('b'), 'done', 'a is answered', 'b is answered']);
  });

  it('that needs no commit is done at once, and tells the world when it is through', async () => {
    const stage = new Stage();
    stage.atOnce('a');
    expect(stage.seen).toEqual(['a is told', 'done']);
    await nextTurn();
    expect(stage.seen).toEqual(['a is told', 'done', 'a is answered']);
  });

  it.each(['together', 'atOnce'] as const)('that throws (%s) is the last that is done', async (way) => {
    const stage = new Stage();
    stage.together('before');
    if (way === 'atOnce') await nextTurn();
    stage[way]('broken', true);
    stage.together('beside');
    await nextTurn();
    stage.together('later');
    stage.atOnce('later');
    await nextTurn();
    const ends = stage.seen.filter((step) => !['begin', 'end', 'done'].includes(step));
    expect(ends.toSorted()).toEqual([
      'before is answered',
      'before is told',
      'broken is refused',
      'failed with broken',
    ]);
  });
});
