import type { CDPSession, Page } from 'playwright-core';

/**
 * The tasks of the page's main thread, by its own processor time: another program that had the core counts for nothing.
 */
export interface Tasks {
  /** The longest, ms. Above 16.7 ms a screen of 60 Hz misses a frame. */
  longestMs: number;
  /** How many were longer than a frame. */
  tooLong: number;
  /** The sum of all tasks, ms. */
  sumMs: number;
}

interface TraceEvent {
  name: string;
  pid: number;
  tid: number;
  ph: string;
  /** Processor time of the thread, µs. */
  tdur?: number;
  args: { name?: string };
}

const FRAME_MS = 1000 / 60;
/** More of them would show what a task is made of, and make it longer. */
const CATEGORIES = ['toplevel'];

/** Traces a page while something is done. */
export async function tasksWhile(page: Page, run: () => Promise<void>): Promise<Tasks> {
  const session = await page.context().newCDPSession(page);
  const events: TraceEvent[] = [];
  session.on('Tracing.dataCollected', ({ value }) => events.push(...(value as unknown as TraceEvent[])));
  await session.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: { includedCategories: CATEGORIES },
  });
  await run();
  await ended(session);
  await session.detach();
  return tasksOf(events);
}

async function ended(session: CDPSession): Promise<void> {
  const complete = new Promise((resolve) => session.once('Tracing.tracingComplete', resolve));
  await session.send('Tracing.end');
  await complete;
}

/** Returns the tasks of the renderer that did most: a browser has others, which do nothing. */
function tasksOf(events: readonly TraceEvent[]): Tasks {
  const main = new Set(
    events
      .filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain')
      .map(({ pid, tid }) => `${pid} ${tid}`),
  );
  const byThread = new Map<string, number[]>();
  for (const { name, pid, tid, tdur } of events) {
    const thread = `${pid} ${tid}`;
    if (name !== 'ThreadControllerImpl::RunTask' || tdur === undefined || !main.has(thread)) continue;
    const tasks = byThread.get(thread) ?? [];
    tasks.push(tdur / 1000);
    byThread.set(thread, tasks);
  }
  const all = [...byThread.values()].map((tasks) => ({ tasks, sumMs: tasks.reduce((a, b) => a + b, 0) }));
  const { tasks, sumMs } = all.toSorted((a, b) => b.sumMs - a.sumMs)[0]!;
  return {
    longestMs: Math.max(...tasks),
    tooLong: tasks.filter((ms) => ms > FRAME_MS).length,
    sumMs,
  };
}

const FRAMES = 120;
/** Ten times as far as a notch of a wheel, a second. */
const PX_A_FRAME = 80;

/** Scrolls down by so much in each frame, and up again from the end of the page: as much work whatever the machine does. */
export async function scroll(page: Page): Promise<void> {
  // The pointer is where it would be: on a row.
  await page.mouse.move(700, 500);
  await page.evaluate(`(async () => {
    let step = ${PX_A_FRAME};
    for (let frame = 0; frame < ${FRAMES}; frame++) {
      await new Promise((drawn) => requestAnimationFrame(drawn));
      const before = scrollY;
      scrollBy(0, step);
      if (scrollY === before) step = -step;
    }
  })()`);
}
