import type { Bug } from './planted-batch-bugs.ts';

/** Faults of adapters: where requests for them go, and what a worker loads and unloads. */
export const ADAPTER_BUGS: readonly Bug[] = [
  {
    name: 'a request for an adapter goes to a worker that lacks it',
    file: 'src/queue/dispatch/dispatch.ts',
    line: 'mayRun(worker, job.model) &&\n    SCORERS.isOpen(',
    becomes: 'SCORERS.isOpen(',
  },
  {
    name: 'an adapter in use is unloaded',
    file: 'src/worker/adapters/adapters.ts',
    line: 'return entry.users > 0 ? null : { unload: victim };',
    becomes: 'return { unload: victim };',
  },
  {
    name: 'a request goes on before its adapter is loaded',
    file: 'src/worker/run/attempt-engine.ts',
    line: 'if (name === null || !this.#adapters.has(name)) return this.#engine.request(call);',
    becomes: 'if (name !== null) return this.#engine.request(call);',
  },
  {
    name: 'more adapters are loaded than there is room for',
    file: 'src/worker/adapters/adapters.ts',
    line: 'if (!loaded && this.#loaded.size < this.#room) return',
    becomes: 'if (!loaded) return',
  },
  {
    name: 'an adapter is given back while its answer still comes',
    file: 'src/worker/run/attempt-engine.ts',
    line: 'this.#held.push(release);',
    becomes: 'release();',
  },
];
