import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { bounds } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** A worker that sends answers which no caller has asked for, and goes on whatever it is told. */
const MIB = 1024 * 1024;
const STREAMS = 12;
const STREAM_MIB = 150;
/** The bound itself, a queue with nothing to do (80), and what is on its way. Measured: 183; 1,254 when no message is freed before it is collected. */
const MOST_RESIDENT_MIB = 80 + bounds.RELAY_UNCLAIMED_MOST_BYTES / MIB + 160;

const road = startTestQueue();

/** The most memory that the queue ever had, MiB. */
async function mostResidentMib(): Promise<number> {
  const status = await readFile(`/proc/${road.pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
}

it(`${STREAMS} answers of ${STREAM_MIB} MiB that nobody asked for take no more memory than is allowed`, async () => {
  const worker = await road.queue().worker();
  const data = new Uint8Array(MIB).fill(120);
  const head = { status: 200, headers: { 'content-type': 'text/event-stream' } };
  for (let stream = 1; stream <= STREAMS; stream++) worker.answer({ type: 'head', stream, head });
  for (let offset = 0; offset < STREAM_MIB * MIB; offset += data.byteLength) {
    for (let stream = 1; stream <= STREAMS; stream++) worker.answer({ type: 'bytes', stream, offset, data });
    await sleep(0);
  }
  const last = STREAMS;
  const end = { type: 'end', stream: last + 1, size: 0 } as const;
  worker.answer(
    { type: 'head', stream: last + 1, head },
    { type: 'bytes', stream: last + 1, offset: 1, data },
    end,
  );
  await until(() => worker.records.some(({ stream }) => stream === last + 1), 'all was read');
  expect(worker.records.some(({ type }) => type === 'cancel')).toBe(true);
  expect(await mostResidentMib()).toBeLessThan(MOST_RESIDENT_MIB);
});
