/** In `QUEUE_BASE_PATH`: the proxy tells the path in `X-Forwarded-Prefix`. */
export const FORWARDED = 'forwarded';

/** Whether it can stand in an address, and in an attribute, as it is. */
export function isPlainPath(text: string): boolean {
  return /^(?:\/[\w.~-]+)+\/?$/.test(text);
}

/** @throws Error for what is neither a path nor `forwarded` */
export function checkBasePath(text: string): void {
  if (text === FORWARDED || isPlainPath(text)) return;
  throw new Error(`expected a path such as "/fleet", or "${FORWARDED}"; got "${text}"`);
}
