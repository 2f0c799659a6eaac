import type { Log } from './log.ts';
import { type ChooseProxy, type HttpProxy, readProxies } from './proxies.ts';

/** How this process reaches other machines: straight, or through the proxies that the environment names. */

let choose: ChooseProxy | null = null;

/**
 * Lets every request of this process go through the proxies of its environment. Engines are asked directly, and this
 * machine always is.
 * @throws UserError when a proxy's address is none
 */
export async function useProxies(env: NodeJS.ProcessEnv): Promise<void> {
  choose = readProxies(env);
  if (choose === null) return;
  const { useForFetch } = await import('./through-proxies.ts');
  useForFetch(choose);
}

/** The proxy through which this process reaches an address; null: it goes there directly. */
export function proxyFor(url: string | URL): HttpProxy | null {
  return choose?.(url) ?? null;
}

/** How this process chooses proxies; null: none is named. */
export function chosenProxies(): ChooseProxy | null {
  return choose;
}

/** Says how the queue is reached, where proxies are named. */
export function logProxies(log: Pick<Log, 'info'>, queueUrl: string): void {
  if (choose === null) return;
  const proxy = choose(queueUrl);
  if (proxy) log.info({}, `the queue is reached through the proxy ${proxy.shown} (${proxy.variable})`);
  else
    log.info(
      {},
      'the queue is reached directly: no proxy is named for it, or NO_PROXY or this machine excludes it',
    );
}
