import type { Log } from './log.ts';
import { type ChooseProxy, type HttpProxy, readProxies } from './proxies.ts';

/** Chooses how this process reaches other machines: directly, or through the proxies that the environment names. */

let choose: ChooseProxy | null = null;

/**
 * Lets the requests of this process go through the proxies of its environment, except those to engines and to this
 * machine.
 * @throws UserError when the address of a proxy is not valid
 */
export async function useProxies(env: NodeJS.ProcessEnv): Promise<void> {
  choose = readProxies(env);
  if (choose === null) return;
  const { useForFetch } = await import('./through-proxies.ts');
  useForFetch(choose);
}

/** Returns the proxy through which this process reaches an address, or null where it goes there directly. */
export function proxyFor(url: string | URL): HttpProxy | null {
  return choose?.(url) ?? null;
}

/** Returns the function by which this process chooses proxies, or null where none is named. */
export function chosenProxies(): ChooseProxy | null {
  return choose;
}

/** Logs how this process reaches the queue, where proxies are named. */
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
