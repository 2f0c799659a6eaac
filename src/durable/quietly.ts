/** Uses a socket or a response that may be gone: one that is throws, and its close or cancel event tells the same. */
export function quietly(use: () => void): void {
  try {
    use();
  } catch {
    // Told by the event.
  }
}
