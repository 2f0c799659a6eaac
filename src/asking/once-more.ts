import { fieldsOf } from '../protocol/index.ts';

/**
 * Makes a call of an object, and makes it once more if the object restarts in the middle of it. Every call can be made
 * twice, since jobs carry their ids.
 * @throws what the second call threw, or the first one where that was no restart
 */
export async function onceMore<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!isRestart(error)) throw error;
  }
  return await call();
}

/**
 * Says whether the object ended, so that the next call finds a new one. The host marks errors with that cause. It does
 * not mark errors of the object's code, nor those of an object with too much to do, which one more call would only
 * burden. If it marks nothing, the error's message decides.
 */
export function isRestart(error: unknown): boolean {
  const { retryable, durableObjectReset, overloaded, message } = fieldsOf(error);
  if (overloaded === true) return false;
  if (retryable !== undefined || durableObjectReset !== undefined)
    return retryable === true || durableObjectReset === true;
  return typeof message === 'string' && /connection (was )?lost|object .*reset/i.test(message);
}
