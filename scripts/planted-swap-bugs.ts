import type { Bug } from './planted-batch-bugs.ts';

/** Faults of engines that take turns at a GPU (docs/swapping.md). */
export const SWAP_BUGS: readonly Bug[] = [
  {
    name: 'swap: a turn is given while another engine is awake',
    file: 'src/worker/turns/turns.ts',
    line: 'if (this.#holder === null) this.#next();',
    becomes: 'if (this.#line.length > 0) this.#next();',
  },
  {
    name: 'swap: an engine sleeps while it answers',
    file: 'src/worker/turns/swapped-engine.ts',
    line: "if (this.#state !== 'yielding' || this.#running > 0) return;",
    becomes: "if (this.#state !== 'yielding') return;",
  },
  {
    name: 'swap: a sleep that failed counts',
    file: 'src/worker/turns/swapped-engine.ts',
    line: 'if (status >= 300) throw',
    becomes: 'if (status >= 600) throw',
  },
  {
    name: 'swap: what came while an engine lets go is forgotten',
    file: 'src/worker/turns/swapped-engine.ts',
    line: "if (this.#waiting.length > 0) this.#ports.tell('want');",
    becomes: '',
  },
  {
    name: 'swap: a request does not wait for the turn of its engine',
    file: 'src/worker/turns/swapped-engine.ts',
    line: "if (this.#state === 'awake') this.#running += 1;\n    else await this.#turn(call.signal);",
    becomes: 'this.#running += 1;',
  },
  {
    name: 'swap: an engine that lets go lets in what comes',
    file: 'src/worker/turns/swapped-engine.ts',
    line: "if (this.#state === 'awake') this.#running += 1;",
    becomes: "if (this.#state === 'awake' || this.#state === 'yielding') this.#running += 1;",
  },
  {
    name: 'swap: a turn lasts as long as there is something to do',
    file: 'src/worker/turns/swapped-engine.ts',
    line: 'if (this.#running === 0 || leftMs <= 0)',
    becomes: 'if (this.#running === 0)',
  },
  {
    name: 'swap: what waits is forgotten when its turn comes',
    file: 'src/worker/turns/swapped-engine.ts',
    line: 'for (const go of this.#waiting.splice(0)) go();',
    becomes: 'for (const go of this.#waiting.splice(1)) go();',
  },
];
