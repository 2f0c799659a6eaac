/** Calls a socket or a response that may be gone. The error is ignored: a close or cancel event reports the same. */
export function quietly(use: () => void): void {
  try {
    use();
  } catch {
    // A close or cancel event reports the error.
  }
}
