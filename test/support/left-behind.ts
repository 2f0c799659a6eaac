import type { MemorySpool } from './memory-spool.ts';
import { settled } from './virtual-clock.ts';
import { WorkerBench } from './worker-fakes.ts';

/** A worker whose process ends with a result that the queue never acknowledged. */
export async function leftBehind(spool: MemorySpool): Promise<void> {
  const bench = await new WorkerBench({}, spool).ready();
  await bench.push();
  bench.queue.close();
  bench.engine.last.complete('from before');
  await settled();
  spool.crash();
}

/** The next process: dialled, not yet registered. */
export async function restarted(spool: MemorySpool): Promise<WorkerBench> {
  const bench = new WorkerBench({ capacity: 2, instance: { id: 'w', boot_id: 'b2' } }, spool);
  bench.worker.start();
  await settled();
  bench.queue.open();
  return bench;
}
