import type { Browser } from 'playwright-core';
import { openPage } from '../../test/support/browser.ts';
import { type Tasks, tasksWhile } from './tasks.ts';

/** How a page came that its browser had never seen before. */
export interface FirstView {
  /** From the address to the frame that shows a worker's row, ms. */
  ms: number;
  /** Until then, over the network: files, answers and the live frames. */
  bytes: number;
  tasks: Tasks;
}

/** Notes when the first frame with a worker's row is on the screen. */
const WATCH_ROWS = `
  const seen = new MutationObserver(() => {
    if (!document.querySelector('tbody tr[data-id]')) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => firstRow(performance.now())));
  });
  seen.observe(document, { childList: true, subtree: true });`;

/** Opens the view of the fleet in a profile of its own. */
export async function firstView(browser: Browser, url: string): Promise<FirstView> {
  const { page, close } = await openPage(browser, { viewport: { width: 1440, height: 900 } });
  await page.addInitScript(WATCH_ROWS);
  const network = await page.context().newCDPSession(page);
  let bytes = 0;
  let isThere = false;
  const add = (length: number) => {
    if (!isThere) bytes += length;
  };
  network.on('Network.loadingFinished', ({ encodedDataLength }) => add(encodedDataLength));
  network.on('Network.webSocketFrameReceived', ({ response }) =>
    add(Buffer.byteLength(response.payloadData)),
  );
  await network.send('Network.enable');
  // The page's own policy forbids to evaluate anything in it.
  const seen = Promise.withResolvers<number>();
  await page.exposeFunction('firstRow', seen.resolve);
  const tasks = await tasksWhile(page, async () => {
    await page.goto(url, { waitUntil: 'commit' });
    await seen.promise;
    isThere = true;
  });
  await close();
  return { ms: await seen.promise, bytes, tasks };
}
