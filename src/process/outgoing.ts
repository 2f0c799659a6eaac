import type { Log } from './log.ts';
import { type ChooseProxy, type HttpProxy, readProxies } from './proxies.ts';

let choose: ChooseProxy | null = null;

/**
 * Sends the requests of this process through the proxies of its environment, except those to engines and to this
 * machine.
 * @throws UserError when the address of a proxy is not valid
 */
export async function useProxies(env: NodeJS.ProcessEnv): Promise<void> {
  choose = readProxies(env);
  if (choose === null) return;
  const { useForFetch } = await import('./through-proxies.ts');
  useForFetch(choose);
}

/** Returns the proxy through which this process reaches an address, or null if it connects directly. */
export function proxyFor(url: string | URL): HttpProxy | null {
  return choose?.(url) ?? null;
}

/** Returns the function by which this process chooses proxies, or null if the environment names none. */
export function chosenProxies(): ChooseProxy | null {
  return choose;
}

/** Logs how this process reaches the queue, if proxies are named. */
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
