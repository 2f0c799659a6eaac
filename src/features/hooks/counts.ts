import type { FilterFamily } from '../../asking/filters.ts';

export type Stage = 'before' | 'after';

/** How a call of a hook ended. */
export type CallOutcome = 'allow' | 'refuse' | 'replace' | 'failure';

/** The upper bounds of the histogram, s. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const OUTCOMES: readonly CallOutcome[] = ['allow', 'refuse', 'replace', 'failure'];

interface Counted {
  outcomes: Record<CallOutcome, number>;
  /** The calls between each bound and the one before, and last those above all bounds. */
  buckets: number[];
  sum: number;
}

const none = (): Counted => ({
  outcomes: { allow: 0, refuse: 0, replace: 0, failure: 0 },
  buckets: BOUNDS.map(() => 0).concat(0),
  sum: 0,
});

/** Counts the calls of hooks that this process has made, for `/metrics`. */
export class HookCounts {
  readonly #stages: Record<Stage, Counted> = { before: none(), after: none() };

  asked(stage: Stage, ms: number, outcome: CallOutcome): void {
    const counted = this.#stages[stage];
    const seconds = ms / 1000;
    const above = BOUNDS.findIndex((bound) => seconds <= bound);
    counted.outcomes[outcome] += 1;
    counted.buckets[above < 0 ? BOUNDS.length : above]! += 1;
    counted.sum += seconds;
  }

  families(): FilterFamily[] {
    const stages = Object.entries(this.#stages);
    return [
      {
        name: 'hook_calls_total',
        type: 'counter',
        help: 'Calls of hooks that this process made, by how they ended.',
        samples: stages.flatMap(([stage, { outcomes }]) =>
          OUTCOMES.map((outcome) => ({ labels: { stage, outcome }, value: outcomes[outcome] })),
        ),
      },
      {
        name: 'hook_seconds',
        type: 'histogram',
        help: 'Time of a call of a hook.',
        samples: stages.flatMap(([stage, { buckets, sum }]) => histogram({ stage }, buckets, sum)),
      },
    ];
  }
}

function histogram(labels: Record<string, string>, buckets: readonly number[], sum: number) {
  let all = 0;
  const counted = buckets.map((count, at) => {
    all += count;
    const le = at < BOUNDS.length ? String(BOUNDS[at]) : '+Inf';
    return { labels: { ...labels, le }, value: all, suffix: '_bucket' };
  });
  return [...counted, { labels, value: sum, suffix: '_sum' }, { labels, value: all, suffix: '_count' }];
}
