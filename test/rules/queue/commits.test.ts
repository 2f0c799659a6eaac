import { describe, expect, it, vi } from 'vitest';
import { Commits } from '../../../src/queue/object/commits.ts';

const WRITTEN = 'what goes with it is written';

/** Commits whose pieces of work note what becomes of them. */
class Stage {
  readonly seen: string[] = [];
  /** Groups that were gathered. */
  groups = 0;
  /** The call for which the object before had to be reset. */
  failure: string | null = null;
  /** What happens meanwhile. */
  meanwhile: () => void | Promise<void> = () => {};
  readonly commits = new Commits({
    beforeCommit: () => this.seen.push(WRITTEN),
    done: () => this.seen.push('done'),
    gathered: async () => {
      this.groups += 1;
      await this.meanwhile();
    },
    failed: (error, call) => this.seen.push(`${call} failed with ${(error as Error).message}`),
    failureOf: (call) => (call === this.failure ? new Error('told') : null),
  });

  together(name: string, fails = false): void {
    this.#note(name, this.commits.together(this.#work(name, fails), `the call ${name}`));
  }

  atOnce(name: string, fails = false): void {
    this.#note(name, this.commits.atOnce(this.#work(name, fails), `the call ${name}`));
  }

  submission(jobs: number, name: string): void {
    this.#note(name, this.commits.submission(jobs, this.#work(name, false), `the call ${name}`));
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
    expect(stage.seen).toEqual([WRITTEN, 'a is told', 'b is told', 'done', 'a is answered', 'b is answered']);
  });

  it('that arrives while a group gathers goes with it', async () => {
    const stage = new Stage();
    stage.meanwhile = () => stage.together('more');
    await stage.commits.together(() => stage.seen.push('first'));
    expect(stage.groups).toBe(1);
    expect(stage.seen.filter((step) => step === 'done')).toHaveLength(1);
    expect(stage.seen.filter((step) => step.endsWith('is told'))).toEqual(['more is told']);
  });

  it('of programs is taken a bounded part at a time, and what others ask for waits for one part alone', async () => {
    const stage = new Stage();
    for (const name of ['a', 'b', 'c']) stage.submission(600, name);
    stage.submission(5000, 'long');
    stage.submission(100, 'd');
    stage.submission(100, 'e');
    stage.together('live');
    stage.meanwhile = () => {
      if (stage.seen.includes('b is told') && !stage.seen.includes('later is asked')) {
        stage.seen.push('later is asked');
        stage.together('later');
      }
    };
    await vi.waitFor(() => expect(stage.seen).toContain('e is answered'));
    const seen = stage.seen.filter((step) => step.endsWith('told') || step === 'done').join(', ');
    expect(seen.replaceAll(' is told', '').split(', done')).toEqual([
      'live, a',
      ', b',
      ', later, c',
      ', long',
      ', d, e',
      '',
    ]);
  });

  it('is done though nothing can be gathered', async () => {
    const stage = new Stage();
    stage.meanwhile = () => Promise.reject(new Error('broken'));
    expect(await stage.commits.together(() => 'done')).toBe('done');
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
    if (way === 'together') stage.together('before');
    stage[way]('broken', true);
    stage.together('beside');
    await nextTurn();
    stage.together('later');
    stage.atOnce('later');
    await nextTurn();
    const seen = stage.seen.filter((step) => !['done', WRITTEN].includes(step));
    expect(seen).toEqual(['the call broken failed with broken']);
  });

  it('for which the object had to be reset is refused, and nothing beside it', async () => {
    const stage = new Stage();
    stage.failure = 'the call a';
    stage.together('a');
    stage.atOnce('a');
    stage.together('b');
    await nextTurn();
    expect(stage.seen).toEqual([
      'a is refused',
      'a is refused',
      WRITTEN,
      'b is told',
      'done',
      'b is answered',
    ]);
  });
});
